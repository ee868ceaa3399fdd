package status

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/pool"
	"github.com/rrpool/rrpool/test/cli"
)

// nodesOnly is a datastore that knows the nodes of an apiserver, and nothing else.
type nodesOnly []corev1.Node

func (n nodesOnly) Observe(_ context.Context, scope plan.Scope) (plan.Cluster, error) {
	var out plan.Cluster
	for _, node := range n {
		out.Nodes = append(out.Nodes, plan.Node{
			Name: node.Name, Labels: node.Labels, ProviderID: node.Spec.ProviderID, Zone: node.Labels[scope.ZoneLabel], Ready: true,
			Addresses: []netip.Addr{netip.MustParseAddr(node.Name)},
		})
	}
	return out, nil
}

func (nodesOnly) Apply(context.Context, plan.Scope, plan.Action) (bool, error) { return false, nil }
func (nodesOnly) Watch(context.Context, []plan.StatusRequest) (bool, error)    { return false, nil }

// noPods are the pods of a cluster without any.
type noPods struct{ pool.Workload }

func (noPods) Count(context.Context, []string) (map[string]int, error) { return nil, nil }

// managed is what the manager's own code reports of the object and its nodes.
func managed(t *testing.T, object *v1alpha1.RouteReflectorPool, nodes []corev1.Node) v1alpha1.RouteReflectorPoolStatus {
	t.Helper()
	nothing := fake.NewClientBuilder().Build()
	r := &pool.Reconciler{
		Client: nothing, Live: nothing, Datastore: nodesOnly(nodes), Workload: noPods{},
		Providers: func(pool.ProviderConfig) (cloud.Provider, error) { return nil, &cloud.Error{Kind: cloud.Unavailable} },
	}
	turn, err := r.Look(t.Context(), object)
	require.NoError(t, err)
	return turn.Status
}

// With a manager's report and without one, the same is said of the same cluster.
func TestTheCostIsThatOfTheManager(t *testing.T) {
	label := func(key, value string) func([]corev1.Node, *v1alpha1.RouteReflectorPool) {
		return func(nodes []corev1.Node, _ *v1alpha1.RouteReflectorPool) { nodes[20].Labels[key] = value }
	}
	const flavor, region = "ibm-cloud.kubernetes.io/machine-type", "ibm-cloud.kubernetes.io/region"
	spec := func(edit func(*v1alpha1.RouteReflectorPoolSpec)) func([]corev1.Node, *v1alpha1.RouteReflectorPool) {
		return func(_ []corev1.Node, o *v1alpha1.RouteReflectorPool) { edit(&o.Spec) }
	}
	said := map[priceView]bool{}
	for name, tc := range map[string]struct {
		workers  int
		edit     func([]corev1.Node, *v1alpha1.RouteReflectorPool)
		certain  cost.Certainty
		reported bool
	}{
		"a pool":                       {2, nil, cost.Exact, true},
		"a larger pool":                {3, nil, cost.Exact, true},
		"an encrypted flavor":          {1, label(flavor, "bx2.2x8.encrypted"), cost.Exact, true},
		"two flavors":                  {2, label(flavor, "bx2.4x16"), cost.Exact, true},
		"a flavor without a price":     {2, label(flavor, "odd.1x1"), cost.Unknown, true},
		"a price for a part":           {2, func(nodes []corev1.Node, _ *v1alpha1.RouteReflectorPool) { brazil(nodes) }, cost.Unknown, true},
		"a region without a price":     {2, label(region, "jp-tok"), cost.Unknown, true},
		"a node without a flavor":      {2, label(flavor, ""), cost.Unknown, true},
		"a node that has left":         {2, label(v1alpha1.PoolLabel, "another-pool"), cost.Exact, true},
		"another pool":                 {2, spec(func(s *v1alpha1.RouteReflectorPoolSpec) { s.Provider.IKS.PoolName = "mine" }), cost.Exact, false},
		"no worker":                    {0, nil, cost.Exact, false},
		"a pool kept on the full mesh": {2, spec(func(s *v1alpha1.RouteReflectorPoolSpec) { s.Mode = v1alpha1.ModeFullMesh }), cost.Exact, true},
		"a pause":                      {2, spec(func(s *v1alpha1.RouteReflectorPoolSpec) { s.Mode = v1alpha1.ModePaused }), cost.Exact, true},
		"existing nodes": {
			2, spec(func(s *v1alpha1.RouteReflectorPoolSpec) { s.Provider.Type = v1alpha1.ProviderExistingNodes }), cost.Exact, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			nodes, o := clusterOf(tc.workers), object(nil)
			o.Status = v1alpha1.RouteReflectorPoolStatus{}
			if tc.edit != nil {
				tc.edit(nodes, o)
			}
			facts := Facts{Now: cli.Now, Object: o, Nodes: nodes}
			alone := priceOf(facts)
			require.Equal(t, tc.certain, alone.Certainty)
			require.Equal(t, tc.certain == cost.Unknown, alone.Monthly == "")

			o.Status = managed(t, o, nodes)
			require.Equal(t, tc.reported, o.Status.Cost != nil)
			require.Equal(t, alone, priceOf(facts))
			if tc.reported {
				facts.Nodes = nil // they may not be listed
				require.Equal(t, alone, priceOf(facts))
			}
			said[alone] = true
		})
	}
	require.Greater(t, len(said), 8, "not always the same")
}

// What is reported counts, whatever this version would say.
func TestTheManagersCostCounts(t *testing.T) {
	facts := Facts{Now: cli.Now, Nodes: clusterOf(2), Object: object(func(o *v1alpha1.RouteReflectorPool) {
		o.Status.Cost = &v1alpha1.CostStatus{Currency: "EUR", Hourly: "1", Monthly: "720.00", Source: "a contract"}
	})}
	require.Equal(t, "720.00 EUR/month (a contract)", priceOf(facts).text())
	facts.Object.Status.Cost = &v1alpha1.CostStatus{}
	require.Equal(t, "unknown: the manager does not know it", priceOf(facts).text())
}

// brazil moves the pool where the prices leave the disk out.
func brazil(nodes []corev1.Node) {
	for i := range nodes {
		metav1.SetMetaDataLabel(&nodes[i].ObjectMeta, "ibm-cloud.kubernetes.io/region", "br-sao")
		metav1.SetMetaDataLabel(&nodes[i].ObjectMeta, "ibm-cloud.kubernetes.io/machine-type", "bxf.4x16")
	}
}

// anyTurn is what the manager sees of some cluster, with some of the sessions up.
func anyTurn(t *rapid.T) pool.Scope {
	dedicated := rapid.Bool().Draw(t, "dedicated")
	var nodes []plan.Node
	for i := range rapid.IntRange(0, 8).Draw(t, "nodes") {
		n := plan.Node{
			Name: fmt.Sprintf("n%d", i), WorkerID: fmt.Sprintf("w%d", i), Zone: fmt.Sprintf("z%d", i%2),
			Ready: rapid.Bool().Draw(t, "ready"), Deleting: rapid.IntRange(0, 9).Draw(t, "deleting") == 0, Labels: map[string]string{},
		}
		if rapid.Bool().Draw(t, "v4") {
			n.Addresses = append(n.Addresses, netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}))
		}
		if rapid.Bool().Draw(t, "v6") {
			n.Addresses = append(n.Addresses, netip.MustParseAddr(fmt.Sprintf("fd00::%d", i+1)))
		}
		n.Pooled = rapid.Bool().Draw(t, "pooled")
		if n.Pooled && rapid.Bool().Draw(t, "reflects") {
			n.RoleLabel, n.ClusterID, n.Marked = true, "224.0.0.1", true
		}
		nodes = append(nodes, n)
	}
	statuses := map[string]plan.Status{}
	for _, n := range nodes {
		if rapid.IntRange(0, 4).Draw(t, "silent") == 0 {
			continue
		}
		st := plan.Status{Node: n.Name, Agent: true, Updated: cli.Now}
		for _, p := range nodes {
			for _, a := range p.Addresses {
				kind := rapid.SampledFrom([]plan.SessionKind{plan.SessionMesh, plan.SessionNode, plan.SessionGlobal}).Draw(t, "kind")
				st.Sessions = append(st.Sessions, plan.Session{Peer: a, Kind: kind, Established: rapid.Bool().Draw(t, "up"), Since: cli.Now.Add(-time.Hour)})
			}
		}
		statuses[n.Name] = st
	}
	provider := v1alpha1.ProviderExistingNodes
	if dedicated {
		provider = v1alpha1.ProviderIKS
	}
	out := pool.Scope{
		Cluster: plan.Cluster{Nodes: nodes, Statuses: statuses, BGP: plan.BGPConfig{ASN: 64512}}, Provider: provider,
		Desired: rollout.Desired{
			Mode: rollout.Reflect, Dedicated: dedicated, ClusterID: "224.0.0.1", RoleLabel: "rr",
			Pool: plan.PoolSpec{SizePerZone: 1, Zones: []string{"z0", "z1"}}, SessionTimeout: time.Minute, NotReadyGrace: time.Minute, MinServing: 1,
		},
	}
	out.Step = rollout.Next(rollout.Observed{Cluster: out.Cluster}, out.Desired, cli.Now)
	return out
}

// The nodes that are named lack exactly the sessions that the manager counts as missing.
func TestTheNodesThatAreShort(t *testing.T) {
	seen := 0
	rapid.Check(t, func(t *rapid.T) {
		turn := anyTurn(t)
		missing, named := 0, 0
		for _, r := range turn.Step.Reflectors {
			missing += r.Expected - r.Established
		}
		for _, short := range shortClients(turn) {
			named += short.Sessions
			require.NotEmpty(t, short.Lacks)
		}
		require.Equal(t, missing, named)
		seen += missing
	})
	require.Positive(t, seen, "some were missing")
}

func TestNoNodeIsShortOfWhatIsNotObserved(t *testing.T) {
	turn := pool.Scope{
		Cluster: plan.Cluster{Nodes: []plan.Node{
			{Name: "a", Ready: true, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}},
			{Name: "rr", Ready: true, Pooled: true, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.2")}},
		}},
		Step: rollout.Step{Reflectors: []rollout.Reflector{{Node: "rr", Expected: 1}}},
	}
	require.Equal(t, []shortClient{{Node: "a", Lacks: []string{"rr"}, Sessions: 1}}, shortClients(turn))
	turn.Desired.Timer = true
	require.Empty(t, shortClients(turn))
}
