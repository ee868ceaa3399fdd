// Package calico is the datastore adapter: it observes a cluster's BGP as Calico stores it and makes the changes that a plan asks for.
//
// Calico's objects are custom resources of one of two API groups, in the form that libcalico-go writes, or are in Calico's own etcd. With an
// etcd, each Kubernetes Node has a separate Calico Node. Otherwise the Kubernetes Node serves as both.
package calico

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/apiconfig"
	libapiv3 "github.com/projectcalico/calico/libcalico-go/lib/apis/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/model"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/watchersyncer"
	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/calico/etcd"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/peering"
)

// Config configures an Adapter.
type Config struct {
	// RestConfig connects to the cluster.
	RestConfig *rest.Config
	// Nodes reads Nodes from a cache.
	Nodes client.Reader
	// Live reads Nodes from the apiserver. It is nil if Nodes is not a cache.
	Live client.Reader
	// Writer patches Nodes.
	Writer client.Writer
	Log    logr.Logger
	// Now is the clock, time.Now when nil.
	Now func() time.Time
	// Permit is called before each write of a series that may be long, and returns why it must not be made. nil permits all.
	Permit func(context.Context) error
}

// Adapter observes and changes a cluster's BGP. It is safe for concurrent use.
type Adapter struct {
	cfg Config

	// calico gives access to Calico's objects, and group is their API group. findGroup determines the group again every checkPeriod.
	calico *datastore
	group  schema.GroupVersion
	// etcd configures the client for Calico's own etcd, nil where the objects are in the apiserver. etcdClient is nil until useGroup succeeds.
	etcd        *apiconfig.EtcdConfig
	etcdClient  *etcd.Client
	findGroup   func(context.Context) (GroupChoice, error)
	checkPeriod time.Duration
	// routesRead is when readRoutes succeeded last.
	routesRead time.Time
	// statusSubresource is true where the CRD of CalicoNodeStatus is known to have a status subresource.
	statusSubresource atomic.Bool

	store  *store
	pods   *calicoPods
	recent recentNodes

	nodeCheck nodeCheck
}

// watched are the kinds that the store keeps.
var watched = []string{
	apiv3.KindBGPPeer, apiv3.KindBGPConfiguration, apiv3.KindCalicoNodeStatus, libapiv3.KindBlockAffinity, apiv3.KindClusterInformation,
}

// New makes an Adapter. The Adapter makes no request before Start.
func New(cfg Config) (*Adapter, error) {
	config, err := etcd.ConfigFromEnvironment()
	if err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Permit == nil {
		cfg.Permit = func(context.Context) error { return nil }
	}
	a := &Adapter{cfg: cfg, etcd: config, checkPeriod: groupCheckPeriod, store: newStore(cfg.Now)}
	a.findGroup = func(ctx context.Context) (GroupChoice, error) { return ChooseGroup(ctx, cfg.RestConfig) }
	if config != nil {
		a.findGroup, a.checkPeriod = a.checkEtcd, etcd.CheckPeriod
	}
	a.store.setLocationErr(errors.New("choosing Calico's API group: not done yet"))
	if a.pods, err = newCalicoPods(cfg.RestConfig, cfg.Now, a.store.signal); err != nil {
		return nil, fmt.Errorf("creating the client for calico-node's pods: %w", err)
	}
	return a, nil
}

// useGroup connects to Calico's objects in a group, if not yet connected to that group.
func (a *Adapter) useGroup(group schema.GroupVersion) error {
	if a.calico != nil && a.group == group {
		return nil
	}
	calico, err := a.connect(group)
	if err == nil {
		a.calico, a.group = calico, group
		a.statusSubresource.Store(group == GroupV3 && a.etcd == nil)
	}
	a.store.setLocationErr(err)
	return err
}

func (a *Adapter) connect(group schema.GroupVersion) (*datastore, error) {
	if a.etcd == nil {
		return connect(a.cfg.RestConfig, group)
	}
	c, err := etcd.New(*a.etcd, a.store.requireLists)
	if err != nil {
		return nil, err
	}
	a.etcdClient = c
	return objectsOf(c, group), nil
}

// close closes the connection to Calico's etcd, if there is one.
func (a *Adapter) close() {
	if a.etcdClient != nil {
		_ = a.etcdClient.Close()
	}
}

// checkEtcd connects to Calico's etcd and checks that it answers.
func (a *Adapter) checkEtcd(ctx context.Context) (GroupChoice, error) {
	err := a.useGroup(GroupV3)
	if err == nil {
		err = a.etcdClient.Alive(ctx)
	}
	return GroupChoice{Group: GroupV3}, err
}

// Start implements manager.Runnable. It watches until ctx ends. If Calico's objects move
// to another group, or etcd's CA file changes, it returns an error. It is called once.
func (a *Adapter) Start(ctx context.Context) error {
	defer a.close()
	if err := a.chooseGroup(ctx); errors.Is(err, etcd.ErrNewCA) {
		return err
	} else if err != nil {
		return nil
	}
	a.readRoutes(ctx)
	var types []watchersyncer.ResourceType
	if a.etcd != nil {
		types = append(types, watchersyncer.ResourceType{ListInterface: model.ResourceListOptions{Kind: libapiv3.KindNode}})
	}
	for _, kind := range watched {
		types = append(types, watchersyncer.ResourceType{ListInterface: model.ResourceListOptions{Kind: kind}})
	}
	syncer := watchersyncer.New(&source{Client: backend{client: a.calico.client, group: a.group}, store: a.store}, types, a.store)
	syncer.Start()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var pods sync.WaitGroup
	pods.Go(func() { a.pods.run(watching, a.cfg.Log) })
	moved := a.followGroup(ctx)
	// A syncer that stops reports every object as deleted, so the store is stopped first.
	a.store.stop()
	stop()
	pods.Wait()
	syncer.Stop()
	return moved
}

// NeedLeaderElection implements manager.LeaderElectionRunnable. A manager that is not
// the leader watches too: when it becomes the leader, it knows how old sessions are.
func (a *Adapter) NeedLeaderElection() bool { return false }

// Changes delivers a value after anything observed has changed, except Nodes, blocks, and calico-node's pods on nodes that are not reflectors.
// Several changes that happen before the value is received make one value.
func (a *Adapter) Changes() <-chan struct{} { return a.store.changes }

// Synced reports whether all kinds have been listed and can be watched.
func (a *Adapter) Synced() bool { return a.store.ready() == nil }

// WaitSynced waits until all kinds have been listed once, and calico-node's pods have been listed or cannot be. If ctx ends before all kinds have
// been listed, that is an error.
func (a *Adapter) WaitSynced(ctx context.Context) error {
	select {
	case <-a.store.synced:
		select {
		case <-a.pods.settled:
		case <-ctx.Done():
		}
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("waiting for Calico's objects: %w", ctx.Err()), a.store.ready())
	}
}

// Failing returns why objects cannot be listed or watched at the moment, nil where they can. It is for callers that do not want to wait.
func (a *Adapter) Failing() error {
	a.store.mu.Lock()
	defer a.store.mu.Unlock()
	return a.store.failures()
}

// Apply makes one change and reports whether there was anything to change. If the object has changed since it was observed, IsConflict(err) is
// true. If rrpool did not make the object, the error is a NameTakenError. While the datastore is locked, nothing is written.
func (a *Adapter) Apply(ctx context.Context, scope plan.DatastoreOptions, action plan.Action) (bool, error) {
	if err := a.store.writable(); err != nil {
		return false, err
	}
	switch act := action.(type) {
	case plan.PutPeer:
		return a.putPeer(ctx, act.Peer)
	case plan.DeletePeer:
		return a.deletePeer(ctx, act.Name)
	case plan.DisableMesh, plan.RestoreMesh, plan.NoteMesh, plan.ForgetMesh:
		return a.applyToMesh(ctx, act)
	case plan.RefreshStatus:
		node, err := a.calicoName(ctx, act.Node)
		if err != nil {
			return false, err
		}
		return a.refreshStatus(ctx, node)
	case plan.PutFilter:
		return a.putFilter(ctx, act)
	case plan.PutIPPool:
		return a.putObject(ctx, peering.KindIPPool, act.Name, act.Peering, ptr.To(poolSpec(act.CIDR)), nil)
	case plan.DeletePeeringObject:
		return a.deleteObject(ctx, act)
	case plan.AnnounceServices:
		return a.announceServices(ctx, act.CIDRs)
	default:
		return a.applyToNode(ctx, scope, act)
	}
}

// RedirectLogs sends warnings and errors of libcalico-go to log, at verbosity 1. It sets the logger of the whole process: call it once, early.
func RedirectLogs(log logr.Logger) {
	logrus.SetOutput(io.Discard)
	logrus.SetLevel(logrus.WarnLevel)
	logrus.AddHook(logHook{log: log})
}

// logHook is a logrus.Hook that passes messages on. It leaves out all fields except the error: they may be whole objects.
type logHook struct{ log logr.Logger }

func (logHook) Levels() []logrus.Level { return logrus.AllLevels }

func (h logHook) Fire(e *logrus.Entry) error {
	h.log.V(1).Info(e.Message, "level", e.Level.String(), "error", e.Data[logrus.ErrorKey])
	return nil
}

// NameTakenError means that rrpool cannot write an object, because it did not
// make the existing object of that name. The existing object is left unchanged.
type NameTakenError struct {
	Kind, Name string
}

// Error implements error.
func (e *NameTakenError) Error() string {
	return fmt.Sprintf("%s %q exists but was not made by rrpool (it lacks the label %s=%s): rename or delete it",
		e.Kind, e.Name, v1alpha1.ManagedByLabel, v1alpha1.ManagedByValue)
}

// IsConflict reports whether err means that the object has changed since it was observed. Nothing was written: observe and decide again.
func IsConflict(err error) bool {
	cause, _ := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
	replaced := cause.Field == "metadata.uid" // the answer to a patch for an earlier object of the same name
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || replaced
}

// changed returns the conflict error of a write: the object has changed since the write was decided.
func changed(kind, name, why string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: kind}, name, errors.New(why)) //nolint:wrapcheck // it is made here
}
