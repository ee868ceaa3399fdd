package pool_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/existing"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/pool"
)

// onExisting asks for reflectors on the nodes that are there.
func onExisting(o *v1alpha1.RouteReflectorPool) {
	o.Spec.Provider.Type = v1alpha1.ProviderExistingNodes
	o.Spec.Provider.ExistingNodes.Promotion = v1alpha1.PromotionDrain
}

// newBusyWorld is a cluster of six nodes in three zones, of no cloud.
func newBusyWorld(t *testing.T, change ...func(*v1alpha1.RouteReflectorPool)) *world {
	t.Helper()
	w := newWorld(t, append([]func(*v1alpha1.RouteReflectorPool){onExisting}, change...)...)
	for i := range w.calico.cluster.Nodes {
		w.calico.cluster.Nodes[i].ProviderID = "kind://x"
	}
	return w
}

// members are the nodes of the pool.
func (w *world) members() []string {
	var out []string
	for _, n := range w.calico.cluster.Nodes {
		if n.Labels[pool.PoolLabel] == pool.ExistingPool {
			out = append(out, n.Name)
		}
	}
	return out
}

func (w *world) lastSeen() rollout.Observed { return w.seen[len(w.seen)-1] }

// aBusyLife is a plan in miniature for existing nodes: it enlists as many as are
// wanted, cordons and empties the first and uncordons it, and goes all the way back.
func aBusyLife(o rollout.Observed, d rollout.Desired) rollout.Step {
	first := o.Nodes[0]
	members := len(slices.DeleteFunc(slices.Clone(o.Nodes), func(n plan.Node) bool { return !n.Pooled }))
	switch {
	case d.Mode == rollout.Mesh:
		return aBusyReturn(o, members)
	case members < d.Pool.SizePerZone*len(d.Pool.Zones):
		return rollout.Step{Name: "EnsurePool", Actions: []plan.Action{plan.EnsurePool{Want: d.Pool}}}
	case !o.BGP.MeshOn() && first.CordonMark:
		return undo(first)
	case !o.BGP.MeshOn():
		return rollout.Step{Name: rollout.Steady}
	case !first.Cordoned:
		return rollout.Step{Name: "CordonNode", Reason: "it costs 2 seconds", Actions: []plan.Action{plan.CordonNode{Node: first.Name}}}
	}
	step := rollout.Step{Name: "DrainNode", Reason: "it costs 2 seconds", Drains: first.Name}
	pods, seen := o.Evictable[first.Name]
	switch {
	case seen && len(pods) == 0:
		return rollout.Step{Name: "DisableMesh", Actions: []plan.Action{plan.DisableMesh{}}}
	case seen:
		step.Actions = []plan.Action{plan.DrainNode{Node: first.Name}}
	}
	return step
}

func aBusyReturn(o rollout.Observed, members int) rollout.Step {
	switch {
	case !o.BGP.MeshOn():
		return rollout.Step{Name: "RestoreMesh", Actions: []plan.Action{plan.RestoreMesh{}}}
	case o.Nodes[0].CordonMark:
		return undo(o.Nodes[0])
	case members > 0:
		return rollout.Step{Name: "ReleasePool", Actions: []plan.Action{plan.ReleasePool{}}}
	}
	return rollout.Step{Name: rollout.Steady}
}

func undo(n plan.Node) rollout.Step {
	return rollout.Step{Name: "UncordonNode", Reason: "it is over", Actions: []plan.Action{plan.UncordonNode{Node: n.Name}}}
}

func TestALifeOnExistingNodes(t *testing.T) {
	w := newBusyWorld(t)
	w.script = aBusyLife
	w.pods.moving["10.0.0.1"] = []string{"default/web", "default/api"}
	w.settle(3)
	w.expect("ProviderReady False WorkersPending")
	w.settle(10)
	require.Equal(t, []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, w.members(), "one in each zone")
	w.expect("Ready True Steady", "ProviderReady True PoolReady")
	require.Equal(t, "3 of 3 nodes are chosen and Ready", w.condition(v1alpha1.ConditionProviderReady).Message)
	require.Equal(t, "existing", w.object().Status.Provider)
	require.Equal(t, "existing-nodes", w.object().Status.Pool)
	require.Equal(t, []string{"10.0.0.1"}, w.pods.evictions)
	require.False(t, w.calico.cluster.Nodes[0].Cordoned)
	require.Contains(t, w.said, "Normal NodeCordoned cordon node 10.0.0.1: it costs 2 seconds")
	require.Contains(t, w.said, "Normal PodsEvicted evicted 2 pods from node 10.0.0.1: it costs 2 seconds")
	require.Contains(t, w.said, "Normal NodeUncordoned uncordon node 10.0.0.1: it is over")
	require.Empty(t, w.cloud.keys, "no cloud is asked")

	writes := w.writes
	w.settle(5)
	require.Equal(t, writes, w.writes, "at rest nothing is written")

	object := w.object()
	object.Spec.Mode = v1alpha1.ModeFullMesh
	require.NoError(t, w.client.Update(t.Context(), object))
	w.restart()
	w.settle(2)
	require.Equal(t, "existing-nodes", w.object().Status.Pool, "until the last has left")
	w.settle(5)
	require.Empty(t, w.members())
	require.Empty(t, w.object().Status.Pool)
	w.expect("Ready True Steady")
}

// The manager dies after any one of its writes to nodes and pods, and its successor
// finishes, forth and back.
func TestKilledOnExistingNodesItsSuccessorFinishes(t *testing.T) {
	survived := false
	for kill := 1; !survived; kill++ {
		require.Less(t, kill, 100, "there is no end of writes")
		w := newBusyWorld(t)
		w.script = aBusyLife
		w.pods.moving["10.0.0.1"] = []string{"default/web"}
		death := &killer{left: kill}
		renew := func() {
			w.restart()
			w.reconciler.Client = mortalClient{w.client, death}
			w.reconciler.Datastore = mortalCalico{w.calico, death}
			w.reconciler.Workload = mortalPods{w.pods, death}
			w.reconciler.Providers = func(cfg pool.ProviderConfig) (cloud.Provider, error) {
				return existing.New(existing.Config{PoolName: cfg.PoolName, Nodes: mortalCalico{w.calico, death}, Now: w.reconciler.Now})
			}
		}
		renew()
		live := func(until func() bool) {
			for range 60 {
				_ = w.reconcile()
				if death.dead {
					death.dead = false
					renew()
				}
				if until() {
					return
				}
				w.clock = w.clock.Add(time.Minute)
			}
			require.Fail(t, "it does not get there", "killed after write %d: %+v", kill, w.object().Status)
		}
		live(func() bool { return w.object().Status.Step.Name == rollout.Steady })
		require.Len(t, w.members(), 3)
		require.False(t, w.calico.cluster.BGP.MeshOn())
		w.delete()
		live(w.gone)
		require.Empty(t, w.members())
		require.True(t, w.calico.cluster.BGP.MeshOn())
		require.False(t, w.calico.cluster.Nodes[0].Cordoned)
		survived = death.left > 0
	}
}

func TestADeletionLeavesNoNodeInThePool(t *testing.T) {
	w := newBusyWorld(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Provider.IKS.DeletionPolicy = v1alpha1.DeletionDelete })
	w.script = aBusyLife
	w.settle(12)
	require.Len(t, w.members(), 3)
	w.delete()
	w.settle(2)
	require.False(t, w.gone())
	for range 10 {
		if w.gone() {
			break
		}
		w.settle(1)
	}
	require.True(t, w.gone())
	require.Empty(t, w.members())
	require.Contains(t, w.said, "Normal Released the node-to-node mesh carries the cluster; no node is in the pool any more")
	require.Zero(t, w.cloud.deleted)
}

func TestADeletionThatIsRefusedWaitsForWhatIsOursOnNodes(t *testing.T) {
	refused := rollout.Step{Name: rollout.UnsupportedCluster, Problem: &plan.Problem{Reason: "BGPDisabled", Message: "m"}}
	for name, tc := range map[string]struct {
		arrange func(*plan.Node)
		gone    bool
	}{
		"nothing is":                        {func(*plan.Node) {}, true},
		"a node is in the pool":             {func(n *plan.Node) { n.Labels = map[string]string{pool.PoolLabel: pool.ExistingPool} }, false},
		"a node is in somebody else's pool": {func(n *plan.Node) { n.Labels = map[string]string{pool.PoolLabel: "x"} }, true},
		"a node is cordoned by us":          {func(n *plan.Node) { n.Cordoned, n.CordonedByUs, n.CordonMark = true, true, true }, false},
		"a node is cordoned by a person":    {func(n *plan.Node) { n.Cordoned = true }, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newBusyWorld(t)
			tc.arrange(&w.calico.cluster.Nodes[0])
			w.script = always(refused)
			w.delete()
			require.NoError(t, w.reconcile())
			require.Equal(t, tc.gone, w.gone())
		})
	}
}

func TestWhatIsWantedOfExistingNodes(t *testing.T) {
	w := newBusyWorld(t, func(o *v1alpha1.RouteReflectorPool) {
		o.Spec.Provider.ExistingNodes.Preferred.MatchLabels = map[string]string{"infra": "yes"}
		o.Spec.Provider.ExistingNodes.Excluded.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "spot", Operator: "Exists"}}
		o.Spec.Rollout.NotReadyGrace.Duration = time.Minute
	})
	nodes := w.calico.cluster.Nodes
	nodes[0].Labels = map[string]string{pool.PoolLabel: pool.ExistingPool}
	nodes[1].Labels = map[string]string{pool.PoolLabel: "route-reflectors"}
	nodes[5].Zone = ""
	w.script = always(rollout.Step{Name: "AwaitNodes"})
	w.settle(1)
	d := w.wanted
	require.False(t, d.Dedicated)
	require.Equal(t, []string{"", "z1", "z2", "z3"}, d.Pool.Zones)
	require.Equal(t, 1, d.Pool.SizePerZone)
	require.Equal(t, v1alpha1.PromotionDrain, d.Promotion)
	require.True(t, d.Preferred.Matches(labels.Set{"infra": "yes"}))
	require.True(t, d.Excluded.Matches(labels.Set{"spot": "x"}))
	require.False(t, d.Excluded.Matches(labels.Set{}))
	seen := w.lastSeen()
	require.True(t, seen.Nodes[0].Pooled)
	require.Equal(t, "10.0.0.1", seen.Nodes[0].WorkerID)
	require.False(t, seen.Nodes[1].Pooled)
	require.Equal(t, "10.0.0.1", seen.Pool.Workers[0].Node)
	require.Empty(t, seen.Pool.Drifted, "existing nodes are never tainted")
	require.EqualValues(t, 6, w.object().Status.Nodes, "a busy reflector is a client too")
	require.Equal(t, []pool.ProviderConfig{{
		Type: v1alpha1.ProviderExistingNodes, PoolName: "existing-nodes", Preferred: "infra=yes", Excluded: "spot", NotReadyGrace: time.Minute,
		Scope: plan.Scope{RoleLabel: "rrpool.io/route-reflector", ZoneLabel: "topology.kubernetes.io/zone"},
	}}, w.configs)

	object := w.object()
	object.Spec.Provider.ExistingNodes.Excluded = metav1.LabelSelector{}
	require.NoError(t, w.client.Update(t.Context(), object))
	w.settle(2)
	require.Len(t, w.configs, 2, "another rule is another provider")
	require.Empty(t, w.configs[1].Excluded)
}

func TestASelectorThatIsNoneIsNamed(t *testing.T) {
	wrong := func(o *v1alpha1.RouteReflectorPool) {
		o.Spec.Provider.ExistingNodes.Excluded.MatchLabels = map[string]string{"not a key": "x"}
	}
	w := newBusyWorld(t, wrong)
	w.settle(3)
	w.expect("Ready False SelectorInvalid", "Degraded True SelectorInvalid")
	message := w.condition(v1alpha1.ConditionDegraded).Message
	require.Contains(t, message, "spec.provider.existingNodes.excluded")
	require.Contains(t, message, "not a key")
	require.Empty(t, w.calico.applied)
	require.Empty(t, w.members())

	back := newBusyWorld(t, wrong, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Mode = v1alpha1.ModeFullMesh })
	back.calico.cluster.Nodes[0].Labels = map[string]string{pool.PoolLabel: pool.ExistingPool}
	back.script = aBusyLife
	back.settle(3)
	require.Empty(t, back.members(), "the way back needs no selector")
	back.expect("Ready True Steady")

	ibm := newWorld(t, wrong)
	ibm.script = always(steady)
	ibm.settle(1)
	ibm.expect("Degraded False AsExpected")
}

// Existing nodes and a worker pool have nothing to do with each other.
func TestAnotherTypeOfProviderBeginsAnew(t *testing.T) {
	w := newWorld(t)
	w.script = always(rollout.Step{Name: "AwaitNodes"})
	w.cloud.pool.SizePerZone = 7
	w.settle(1)
	require.Equal(t, []string{"z1", "z2", "z3"}, w.wanted.Pool.Zones)
	become := func(kind v1alpha1.ProviderType) {
		object := w.object()
		object.Spec.Provider.Type = kind
		require.NoError(t, w.client.Update(t.Context(), object))
		w.settle(1)
	}
	observed := w.cloud.observed
	become(v1alpha1.ProviderExistingNodes)
	require.Equal(t, observed, w.cloud.observed)
	require.False(t, w.wanted.Dedicated)
	require.Zero(t, w.lastSeen().Pool.SizePerZone)
	require.Equal(t, "existing", w.object().Status.Provider)
	become(v1alpha1.ProviderIKS)
	require.True(t, w.wanted.Dedicated)
	require.Equal(t, 7, w.lastSeen().Pool.SizePerZone)
	require.Equal(t, "iks", w.object().Status.Provider)
	require.Len(t, w.cloud.keys, 2, "connected anew")
}

// spec.provider.type cannot be changed while a pool exists, and a node that joins
// the cluster must not do what its owner may not.
func TestANodeThatJoinsDoesNotChangeWhatAutoMeans(t *testing.T) {
	w := newBusyWorld(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Provider.Type = v1alpha1.ProviderAuto })
	w.script = aBusyLife
	w.settle(12)
	w.expect("Ready True Steady")
	w.calico.cluster.Nodes = append(w.calico.cluster.Nodes, node("10.0.0.99", "w99", "z1"))
	w.settle(2)
	require.False(t, w.wanted.Dedicated)
	require.Equal(t, "existing", w.object().Status.Provider)
	require.Empty(t, w.cloud.keys, "nobody wants to buy machines")

	ibm := newWorld(t)
	ibm.calico.cluster.Nodes[0].Labels = map[string]string{pool.PoolLabel: pool.ExistingPool}
	ibm.settle(1)
	require.True(t, ibm.wanted.Dedicated, "a label on a node of IBM Cloud does not lead to busy nodes")
}

// Nobody is sent to a cloud that there is none of.
func TestNodesThatAreNotTakenForAnHourAreNoCloudsFault(t *testing.T) {
	w := newBusyWorld(t)
	w.script = always(rollout.Step{Name: "EnsurePool", WaitingFor: []string{"node 10.0.0.1"}})
	require.NoError(t, w.reconcile())
	w.clock = w.clock.Add(time.Hour + time.Second)
	require.NoError(t, w.reconcile())
	w.expect("Degraded True WorkersLate")
	message := w.condition(v1alpha1.ConditionDegraded).Message
	require.NotContains(t, message, "IBM Cloud")
	require.Contains(t, message, "kubectl get nodes --label-columns rrpool.io/pool")
}

// What is remembered of existing nodes is no worker pool, not even while there is no
// way to the cloud.
func TestWithoutAccessToTheCloudNothingIsTakenOverFromExistingNodes(t *testing.T) {
	w := newBusyWorld(t)
	for i := range w.calico.cluster.Nodes {
		w.calico.cluster.Nodes[i].Zone = ""
	}
	w.script = always(rollout.Step{Name: "AwaitNodes"})
	w.settle(1)
	require.Equal(t, []string{""}, w.wanted.Pool.Zones)
	require.NoError(t, w.client.Delete(t.Context(), secret(apiKey)))
	object := w.object()
	object.Spec.Provider.Type = v1alpha1.ProviderIKS
	require.NoError(t, w.client.Update(t.Context(), object))
	w.script = always(rollout.Step{Name: "AwaitProvider"})
	w.settle(1)
	w.expect("ProviderReady False CredentialsMissing")
	require.Empty(t, w.wanted.Pool.Zones, "a cloud has no zone without a name")
}

func TestStrayPeersAreRememberedWhileTheyLast(t *testing.T) {
	w := newBusyWorld(t)
	w.script = always(rollout.Step{Name: "DeletePeers", Stray: true})
	w.settle(1)
	require.Zero(t, w.lastSeen().StraySince)
	began := w.clock
	w.settle(2)
	require.Less(t, w.lastSeen().StraySince, began)
	require.NotZero(t, w.lastSeen().StraySince)
	since := w.lastSeen().StraySince
	w.settle(2)
	require.Equal(t, since, w.lastSeen().StraySince)
	w.script = always(steady)
	w.settle(2)
	require.Zero(t, w.lastSeen().StraySince)
}

// A label that cannot be written is the provider's trouble, and said in either mode.
func TestALabelThatCannotBeWrittenIsSaid(t *testing.T) {
	for _, mode := range []v1alpha1.Mode{v1alpha1.ModeRouteReflector, v1alpha1.ModeFullMesh} {
		t.Run(string(mode), func(t *testing.T) {
			w := newBusyWorld(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Mode = mode })
			w.calico.cluster.Nodes[0].Labels = map[string]string{pool.PoolLabel: pool.ExistingPool}
			w.script = aBusyLife
			w.reconciler.Providers = func(pool.ProviderConfig) (cloud.Provider, error) {
				return &supplier{ensureErr: denied, deleteErr: denied}, nil
			}
			w.settle(1)
			w.expect("ProviderReady False CloudUnauthorized", "Degraded True CloudUnauthorized")
		})
	}
}

var denied = &cloud.Error{Kind: cloud.Unauthorized, Op: "labelling", Err: errors.New("forbidden")}
