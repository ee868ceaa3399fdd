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
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/pool"
)

func onExisting(o *v1alpha1.RouteReflectorPool) {
	o.Spec.Provider.Type = v1alpha1.ProviderExistingNodes
	o.Spec.Provider.ExistingNodes.Promotion = v1alpha1.PromotionDrain
}

// newInPlaceEnvironment is a cluster of six nodes in three zones, of no cloud.
func newInPlaceEnvironment(t *testing.T, change ...func(*v1alpha1.RouteReflectorPool)) *environment {
	t.Helper()
	e := newEnvironment(t, append([]func(*v1alpha1.RouteReflectorPool){onExisting}, change...)...)
	for i := range e.calico.cluster.Nodes {
		e.calico.cluster.Nodes[i].ProviderID = "kind://x"
	}
	return e
}

func (e *environment) members() []string {
	var out []string
	for _, n := range e.calico.cluster.Nodes {
		if n.Labels[v1alpha1.PoolLabel] == pool.ExistingPool {
			out = append(out, n.Name)
		}
	}
	return out
}

func (e *environment) lastSeen() rollout.Observed { return e.seen[len(e.seen)-1] }

// aBusyLife is a plan in miniature for existing nodes: it enlists as many as are
// wanted, cordons and empties the first and uncordons it, and goes all the way back.
func aBusyLife(o rollout.Observed, d rollout.Desired) rollout.Step {
	first := o.Nodes[0]
	members := len(slices.DeleteFunc(slices.Clone(o.Nodes), func(n plan.Node) bool { return !n.Pooled }))
	switch {
	case d.Mode == v1alpha1.ModeFullMesh:
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

func TestExistingNodesThereAndBack(t *testing.T) {
	e := newInPlaceEnvironment(t)
	e.script = aBusyLife
	e.pods.moving["10.0.0.1"] = []string{"default/web", "default/api"}
	e.settle(3)
	e.expect("ProviderReady False WorkersPending")
	e.settle(10)
	require.Equal(t, []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, e.members(), "one in each zone")
	e.expect("Ready True Steady", "ProviderReady True PoolReady")
	require.Equal(t, "3 of 3 nodes are chosen and Ready", e.condition(v1alpha1.ConditionProviderReady).Message)
	require.Equal(t, "existing", e.object().Status.Provider)
	require.Equal(t, "existing-nodes", e.object().Status.Pool)
	require.Equal(t, []string{"10.0.0.1"}, e.pods.evictions)
	require.False(t, e.calico.cluster.Nodes[0].Cordoned)
	require.Contains(t, e.emitted, "Normal NodeCordoned cordon node 10.0.0.1: it costs 2 seconds")
	require.Contains(t, e.emitted, "Normal PodsEvicted evicted 2 pods from node 10.0.0.1: it costs 2 seconds")
	require.Contains(t, e.emitted, "Normal NodeUncordoned uncordon node 10.0.0.1: it is over")
	require.Empty(t, e.cloud.keys, "no cloud is asked")

	writes := e.writes
	e.settle(5)
	require.Equal(t, writes, e.writes, "at rest nothing is written")

	e.edit(inMode(v1alpha1.ModeFullMesh))
	e.restart()
	e.settle(2)
	require.Equal(t, "existing-nodes", e.object().Status.Pool, "until the last has left")
	e.settle(5)
	require.Empty(t, e.members())
	require.Empty(t, e.object().Status.Pool)
	e.expect("Ready True Steady")
	e.delete()
	e.settle(1)
	require.True(t, e.gone())
	require.Contains(t, e.emitted, "Normal Released the node-to-node mesh carries the cluster; no node is in the pool any more")
}

func TestWhatIsWantedOfExistingNodes(t *testing.T) {
	e := newInPlaceEnvironment(t, func(o *v1alpha1.RouteReflectorPool) {
		o.Spec.Provider.ExistingNodes.Preferred.MatchLabels = map[string]string{"infra": "yes"}
		o.Spec.Provider.ExistingNodes.Excluded.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "spot", Operator: "Exists"}}
		o.Spec.Rollout.NotReadyGrace.Duration = time.Minute
	})
	nodes := e.calico.cluster.Nodes
	nodes[0].Labels = map[string]string{v1alpha1.PoolLabel: pool.ExistingPool}
	nodes[1].Labels = map[string]string{v1alpha1.PoolLabel: "route-reflectors"}
	nodes[5].Zone = ""
	e.script = always(rollout.Step{Name: "AwaitNodes"})
	e.settle(1)
	d := e.wanted
	require.False(t, d.Dedicated)
	require.Equal(t, []string{"", "z1", "z2", "z3"}, d.Pool.Zones)
	require.Equal(t, 1, d.Pool.SizePerZone)
	require.Equal(t, v1alpha1.PromotionDrain, d.Promotion)
	require.True(t, d.Preferred.Matches(labels.Set{"infra": "yes"}))
	require.True(t, d.Excluded.Matches(labels.Set{"spot": "x"}))
	require.False(t, d.Excluded.Matches(labels.Set{}))
	seen := e.lastSeen()
	require.True(t, seen.Nodes[0].Pooled)
	require.Equal(t, "10.0.0.1", seen.Nodes[0].WorkerID)
	require.False(t, seen.Nodes[1].Pooled)
	require.Equal(t, "10.0.0.1", seen.Pool.Workers[0].Node)
	require.Empty(t, seen.Pool.Drifted, "existing nodes are never tainted")
	require.EqualValues(t, 6, e.object().Status.Nodes, "a busy reflector is a client too")
	require.Equal(t, []pool.ProviderConfig{{
		Type: v1alpha1.ProviderExistingNodes, PoolName: "existing-nodes", Preferred: d.Preferred, Excluded: d.Excluded, NotReadyGrace: time.Minute,
		Scope: plan.DatastoreOptions{RoleLabel: "rrpool.io/route-reflector", ZoneLabel: "topology.kubernetes.io/zone"},
	}}, e.configs)

	e.edit(func(o *v1alpha1.RouteReflectorPool) { o.Spec.Provider.ExistingNodes.Excluded = metav1.LabelSelector{} })
	e.settle(2)
	require.Len(t, e.configs, 2, "another rule is another provider")
	require.True(t, e.configs[1].Excluded.Empty())
}

func TestASelectorThatIsNoneIsNamed(t *testing.T) {
	wrong := func(o *v1alpha1.RouteReflectorPool) {
		o.Spec.Provider.ExistingNodes.Excluded.MatchLabels = map[string]string{"not a key": "x"}
	}
	e := newInPlaceEnvironment(t, wrong)
	e.settle(3)
	e.expect("Ready False SelectorInvalid", "Degraded True SelectorInvalid")
	message := e.condition(v1alpha1.ConditionDegraded).Message
	require.Contains(t, message, "spec.provider.existingNodes.excluded")
	require.Contains(t, message, "not a key")
	require.Empty(t, e.calico.applied)
	require.Empty(t, e.members())

	back := newInPlaceEnvironment(t, wrong, inMode(v1alpha1.ModeFullMesh))
	back.calico.cluster.Nodes[0].Labels = map[string]string{v1alpha1.PoolLabel: pool.ExistingPool}
	back.script = aBusyLife
	back.settle(3)
	require.Empty(t, back.members(), "the way back needs no selector")
	back.expect("Ready True Steady")

	ibm := newEnvironment(t, wrong)
	ibm.script = always(steady)
	ibm.settle(1)
	ibm.expect("Degraded False AsExpected")
}

// spec.provider.type cannot be changed while a pool exists, and a node that joins
// the cluster must not do what its owner may not.
func TestANodeThatJoinsDoesNotChangeWhatAutoMeans(t *testing.T) {
	e := newInPlaceEnvironment(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Provider.Type = v1alpha1.ProviderAuto })
	e.script = aBusyLife
	e.settle(12)
	e.expect("Ready True Steady")
	e.calico.cluster.Nodes = append(e.calico.cluster.Nodes, node("10.0.0.99", "w99", "z1"))
	e.settle(2)
	require.False(t, e.wanted.Dedicated)
	require.Equal(t, "existing", e.object().Status.Provider)
	require.Empty(t, e.cloud.keys, "no machines are to be bought")

	ibm := newEnvironment(t)
	ibm.calico.cluster.Nodes[0].Labels = map[string]string{v1alpha1.PoolLabel: pool.ExistingPool}
	ibm.settle(1)
	require.True(t, ibm.wanted.Dedicated, "a label on a node of IBM Cloud does not lead to busy nodes")
}

// No message sends a user to a cloud that there is none of.
func TestNodesThatAreNotTakenForAnHourAreNoCloudsFault(t *testing.T) {
	e := newInPlaceEnvironment(t)
	e.script = always(rollout.Step{Name: "EnsurePool", WaitingFor: []string{"node 10.0.0.1"}, Awaits: rollout.AwaitsWorkers, Timeout: time.Hour})
	require.NoError(t, e.reconcile())
	e.after(time.Hour + time.Second)
	e.expect("Degraded True WorkersLate")
	message := e.condition(v1alpha1.ConditionDegraded).Message
	require.NotContains(t, message, "IBM Cloud")
	require.Contains(t, message, "kubectl get nodes --label-columns rrpool.io/pool")
}

// What is remembered of existing nodes is no worker pool, not even while there is no way to the cloud.
func TestWithoutAccessToTheCloudNothingIsTakenOverFromExistingNodes(t *testing.T) {
	e := newInPlaceEnvironment(t)
	for i := range e.calico.cluster.Nodes {
		e.calico.cluster.Nodes[i].Zone = ""
	}
	e.script = always(rollout.Step{Name: "AwaitNodes"})
	e.settle(1)
	require.Equal(t, []string{""}, e.wanted.Pool.Zones)
	require.NoError(t, e.client.Delete(t.Context(), secret(apiKey)))
	e.edit(func(o *v1alpha1.RouteReflectorPool) { o.Spec.Provider.Type = v1alpha1.ProviderIKS })
	e.script = always(rollout.Step{Name: "AwaitProvider"})
	e.settle(1)
	e.expect("ProviderReady False CredentialsMissing")
	require.Empty(t, e.wanted.Pool.Zones, "a cloud has no zone without a name")
}

// A label that cannot be written is the provider's problem, and reported in either mode.
func TestALabelThatCannotBeWrittenIsSaid(t *testing.T) {
	for _, mode := range []v1alpha1.Mode{v1alpha1.ModeRouteReflector, v1alpha1.ModeFullMesh} {
		t.Run(string(mode), func(t *testing.T) {
			e := newInPlaceEnvironment(t, inMode(mode))
			e.calico.cluster.Nodes[0].Labels = map[string]string{v1alpha1.PoolLabel: pool.ExistingPool}
			e.script = aBusyLife
			e.provider = func(pool.ProviderConfig) (cloud.Provider, error) {
				return &fakeProvider{ensureErr: denied, deleteErr: denied}, nil
			}
			e.settle(1)
			e.expect("ProviderReady False CloudUnauthorized", "Degraded True CloudUnauthorized")
		})
	}
}

var denied = &cloud.Error{Kind: cloud.Unauthorized, Op: "labelling", Err: errors.New("forbidden")}
