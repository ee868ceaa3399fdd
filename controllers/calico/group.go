package calico

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/apiconfig"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	kubediscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/rrpool/rrpool/controllers/calico/etcd"
)

// The API groups of the CRDs in which Calico keeps its objects. New installations of Calico 3.33 use GroupV3, and others can be migrated to it.
// Where Calico uses GroupV1, its API server also serves GroupV3, and translates it into GroupV1.
var (
	GroupV1 = schema.GroupVersion{Group: "crd.projectcalico.org", Version: "v1"}
	GroupV3 = apiv3.SchemeGroupVersion
)

// GroupChoice is the group in which Calico keeps its objects now.
type GroupChoice struct {
	Group schema.GroupVersion
	// Unfinished is why nothing may be written in either group, "" if writes are allowed.
	Unfinished string
}

// discovery reads from an apiserver by path, until the first error.
type discovery struct {
	ctx context.Context //nolint:containedctx // of one choice
	api rest.Interface
	err error
}

// ChooseGroup chooses as Calico's operator does: GroupV3 if a migration has converged, else GroupV1 if it exists, else GroupV3. A group that is
// being deleted does not count as existing. If neither group exists, it chooses GroupV1.
func ChooseGroup(ctx context.Context, cfg *rest.Config) (GroupChoice, error) {
	d, err := kubediscovery.NewDiscoveryClientForConfig(cfg)
	return (&discovery{ctx: ctx, api: d.RESTClient(), err: err}).chooseGroup()
}

func (s *discovery) chooseGroup() (GroupChoice, error) {
	out := s.migration()
	// Calico's API server serves GroupV3 too: only a CRD proves that the objects are stored in GroupV3.
	if out.Group == GroupV1 && !s.writable(GroupV1) && s.writable(GroupV3) &&
		s.getPath(&struct{}{}, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "bgppeers."+GroupV3.Group) {
		out.Group = GroupV3
	}
	if s.err != nil {
		return GroupChoice{}, fmt.Errorf("choosing Calico's API group: %w", s.err)
	}
	return out, nil
}

// migrations is the API group of Calico's DatastoreMigration.
const migrations = "migration.projectcalico.org"

// migration chooses by the phase of a DatastoreMigration. While the phase is Converged, calico-node is replaced node by node. Nodes with the old
// calico-node still read GroupV1, which stays locked, and report there.
func (s *discovery) migration() GroupChoice {
	out := GroupChoice{Group: GroupV1}
	var group struct{ PreferredVersion struct{ GroupVersion string } }
	var found struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct{ Phase string }
		}
	}
	if !s.getPath(&group, "/apis", migrations) || !s.getPath(&found, "/apis", group.PreferredVersion.GroupVersion, "datastoremigrations") {
		return out
	}
	for _, m := range found.Items {
		phase := m.Status.Phase
		switch phase {
		case "Complete":
			out.Group = GroupV3
			continue
		case "Converged":
			out.Group = GroupV3
		case "Failed":
			phase += ": delete it, which takes it back"
		}
		out.Unfinished = fmt.Sprintf("a migration of Calico's datastore from %s to %s is not finished (DatastoreMigration %s is %s)",
			GroupV1, GroupV3, m.Metadata.Name, cmp.Or(phase, "Pending"))
	}
	return out
}

// getPath decodes what is at a path, and reports whether it exists. Other errors go to s.err.
func (s *discovery) getPath(into any, elements ...string) bool {
	return s.err == nil && s.get(into, path.Join(elements...), s.api.Get().AbsPath(elements...))
}

// get decodes the answer to a request, and reports whether there is one. Other errors go to s.err.
func (s *discovery) get(into any, what string, request *rest.Request) bool {
	result := request.Do(s.ctx)
	body, err := result.Raw()
	if err != nil {
		err = result.Error() // in the apiserver's own words
	}
	if apierrors.IsNotFound(err) {
		return false
	}
	if err == nil && string(bytes.TrimSpace(body[:min(len(body), 16)])) == "null" {
		err = errors.New("the answer is null")
	}
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		s.err = fmt.Errorf("reading %s: %w", what, err)
	}
	return err == nil
}

// writable reports whether BGPPeers of the group can be created. While their CRD is being deleted, they cannot be.
func (s *discovery) writable(group schema.GroupVersion) bool {
	type resource struct {
		Name  string
		Verbs []string
	}
	var found struct{ Resources []resource }
	return s.getPath(&found, "/apis", group.Group, group.Version) && slices.ContainsFunc(found.Resources, func(r resource) bool {
		return r.Name == "bgppeers" && slices.Contains(r.Verbs, "create")
	})
}

// groupCheckPeriod is how often the group is chosen again. It need not be shorter than the 10 s that a migration waits between locking the
// datastore and copying the first object, because the lock is watched.
const groupCheckPeriod = 15 * time.Second

// chooseGroup waits until the group is known, and connects to it.
func (a *Adapter) chooseGroup(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) { //nolint:wrapcheck // for Start only
		choice, err := a.findGroup(ctx)
		if err == nil {
			err = a.useGroup(choice.Group)
		}
		if err == nil {
			a.cfg.Log.Info("Calico's objects are in " + a.calicoAPI())
			a.store.freeze(choice.Unfinished)
		}
		a.store.setLocationErr(err)
		if errors.Is(err, etcd.ErrNewCA) {
			return false, err
		}
		return err == nil, nil
	})
}

// EtcdAPI is the value of status.calicoAPI where Calico keeps its objects in an etcd of its own. They have the shape of GroupV3 there.
const EtcdAPI = string(apiconfig.EtcdV3)

// calicoAPI returns where Calico's objects are.
func (a *Adapter) calicoAPI() string {
	if a.etcd != nil {
		return EtcdAPI
	}
	return a.group.String()
}

// followGroup runs until ctx ends or the objects have moved to another group. A move is an error: what was observed in the former group proves
// nothing about the new one. Two checks in a row have to find the same move.
func (a *Adapter) followGroup(ctx context.Context) error {
	for moved := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(a.checkPeriod):
		}
		choice, err := a.findGroup(ctx)
		if err == nil || a.etcd == nil {
			a.readRoutes(ctx)
		}
		switch {
		case errors.Is(err, etcd.ErrNewCA):
			return err
		case err != nil:
			if a.etcd != nil {
				a.store.setLocationErr(err) // while etcd fails, nothing is known
			} else { // a migration leaves the former group locked, and that lock is watched
				a.cfg.Log.V(1).Info("whether Calico's objects are being moved is not known", "error", err.Error())
			}
			continue
		case choice.Group == a.group:
			a.store.setLocationErr(nil)
			a.store.freeze(choice.Unfinished)
		case moved:
			return fmt.Errorf("the objects of Calico have moved from API group %s to %s: the process ends, to begin anew there", a.group, choice.Group)
		default:
			a.store.freeze(fmt.Sprintf("Calico's objects have moved from API group %s to %s", a.group, choice.Group))
		}
		moved = choice.Group != a.group
	}
}
