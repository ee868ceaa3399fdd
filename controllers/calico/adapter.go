// Package calico is the datastore adapter: it observes a cluster's BGP as
// Calico stores it and makes the changes that a plan asks for.
//
// Calico's objects are CRDs of one of two API groups, as libcalico-go writes them, or are in an etcd of its own. Nodes are
// Kubernetes Nodes: but with that etcd they are Calico's nodes as well.
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

const (
	managedByLabel = v1alpha1.ManagedByLabel
	managedByValue = v1alpha1.ManagedByValue
)

// Config is what an Adapter needs.
type Config struct {
	// RestConfig is the cluster.
	RestConfig *rest.Config
	// Nodes reads Nodes, from a cache.
	Nodes client.Reader
	// Live reads Nodes past that cache, nil where Nodes is none.
	Live client.Reader
	// Writer patches Nodes.
	Writer client.Writer
	Log    logr.Logger
	// Now is the clock of receipt times and marks, time.Now when nil.
	Now func() time.Time
	// Permit is asked before each of what may be many writes in a row, and gives the
	// reason not to make it; nil permits all.
	Permit func(context.Context) error
}

// Adapter observes and changes a cluster's BGP. It is safe for concurrent use.
type Adapter struct {
	cfg Config

	// calico is Calico's objects in group, which look chooses every groupCheck.
	calico *datastore
	group  schema.GroupVersion
	// etcd is where Calico's own etcd is, nil where the objects are in the apiserver, and etcdClient the client for it, once there is one.
	etcd       *apiconfig.EtcdConfig
	etcdClient *etcd.Client
	look       func(context.Context) (GroupChoice, error)
	groupCheck time.Duration
	// routesRead is when it was last read who programs routes.
	routesRead time.Time
	// statusSubresource: the status of a CalicoNodeStatus is written apart from the rest, as far as we know.
	statusSubresource atomic.Bool

	store  *store
	pods   *calicoPods
	recent recentNodes

	nodeCheck nodeCheck
}

// watched are the kinds that are kept in memory.
var watched = []string{
	apiv3.KindBGPPeer, apiv3.KindBGPConfiguration, apiv3.KindCalicoNodeStatus, libapiv3.KindBlockAffinity, apiv3.KindClusterInformation,
}

// New makes an Adapter. It makes no request until Start.
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
	a := &Adapter{cfg: cfg, etcd: config, groupCheck: groupCheckEvery, store: newStore(cfg.Now)}
	a.look = func(ctx context.Context) (GroupChoice, error) { return ChooseGroup(ctx, cfg.RestConfig) }
	if config != nil {
		a.look, a.groupCheck = a.lookInEtcd, etcd.CheckPeriod
	}
	a.store.fail(errors.New("choosing Calico's API group: not done yet"))
	if a.pods, err = newCalicoPods(cfg.RestConfig, cfg.Now, a.store.signal); err != nil {
		return nil, fmt.Errorf("creating the client for calico-node's pods: %w", err)
	}
	return a, nil
}

// use takes the objects of a group for Calico's.
func (a *Adapter) use(group schema.GroupVersion) error {
	if a.calico != nil && a.group == group {
		return nil
	}
	calico, err := a.connect(group)
	if err == nil {
		a.calico, a.group = calico, group
		a.statusSubresource.Store(group == GroupV3 && a.etcd == nil)
	}
	a.store.fail(err)
	return err
}

func (a *Adapter) connect(group schema.GroupVersion) (*datastore, error) {
	if a.etcd == nil {
		return connect(a.cfg.RestConfig, group)
	}
	c, err := etcd.New(*a.etcd, a.store.doubt)
	if err != nil {
		return nil, err
	}
	a.etcdClient = c
	return objectsOf(c, group), nil
}

// close ends the connection to Calico's etcd, if there is one.
func (a *Adapter) close() {
	if a.etcdClient != nil {
		_ = a.etcdClient.Close()
	}
}

// lookInEtcd finds whether Calico's etcd answers.
func (a *Adapter) lookInEtcd(ctx context.Context) (GroupChoice, error) {
	err := a.use(GroupV3)
	if err == nil {
		err = a.etcdClient.Alive(ctx)
	}
	return GroupChoice{Group: GroupV3}, err
}

// Start watches until ctx ends, or Calico's objects have moved to another group, which is an error. It implements
// manager.Runnable and is called once.
func (a *Adapter) Start(ctx context.Context) error {
	defer a.close()
	if err := a.choose(ctx); errors.Is(err, etcd.ErrNewCA) {
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
	// Stopping reports every object as deleted, which is not true.
	a.store.stop()
	stop()
	pods.Wait()
	syncer.Stop()
	return moved
}

// NeedLeaderElection lets a follower watch too: it takes over with sessions whose age it has seen for itself.
func (a *Adapter) NeedLeaderElection() bool { return false }

// Changes carries a value after something observed has changed, Nodes, blocks and
// calico-node's pods on other nodes than reflectors excepted. Values not taken yet are merged into one.
func (a *Adapter) Changes() <-chan struct{} { return a.store.changes }

// Synced reports whether everything has been listed once.
func (a *Adapter) Synced() bool { return a.store.ready() == nil }

// WaitSynced waits until Synced, and until calico-node's pods are listed or known not to
// be listable, or for the end of ctx.
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

// Failing gives the reasons why objects cannot be listed or watched at the moment, nil
// for none. It is for callers that cannot wait until that is over.
func (a *Adapter) Failing() error {
	a.store.mu.Lock()
	defer a.store.mu.Unlock()
	return a.store.failures()
}

// Apply makes one change and reports whether there was anything to change. IsConflict(err) means that the object is no longer as it was observed; an object
// that is not ours is a NameTakenError. Nothing is written while the datastore is locked.
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

// RedirectLogs sends what libcalico-go logs, from warnings up, to log at
// verbosity 1. Its logger belongs to the whole process: call it once, early.
func RedirectLogs(log logr.Logger) {
	logrus.SetOutput(io.Discard)
	logrus.SetLevel(logrus.WarnLevel)
	logrus.AddHook(logHook{log: log})
}

// logHook is the logrus.Hook that passes messages on. Fields may be whole objects and are left out, save for the error.
type logHook struct{ log logr.Logger }

func (logHook) Levels() []logrus.Level { return logrus.AllLevels }

func (h logHook) Fire(e *logrus.Entry) error {
	h.log.V(1).Info(e.Message, "level", e.Level.String(), "error", e.Data[logrus.ErrorKey])
	return nil
}

// NameTakenError says that an object which rrpool wants to write exists already
// and was not made by rrpool. It is left alone.
type NameTakenError struct {
	Kind, Name string
}

// Error implements error.
func (e *NameTakenError) Error() string {
	return fmt.Sprintf("%s %q exists but was not made by rrpool (it lacks the label %s=%s): rename or delete it",
		e.Kind, e.Name, managedByLabel, managedByValue)
}

// IsConflict reports whether err means that the object is no longer what the
// decision was made on. Nothing was written: observe again and decide again.
func IsConflict(err error) bool {
	cause, _ := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
	replaced := cause.Field == "metadata.uid" // the answer to a patch for an earlier object of the same name
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || replaced
}

// changed is the conflict of an object whose content, not only whose version,
// is no longer what the decision was made on.
func changed(kind, name, why string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: kind}, name, errors.New(why)) //nolint:wrapcheck // it is made here
}
