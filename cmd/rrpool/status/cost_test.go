package status

import (
	"context"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/pool"
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
	scope, err := r.Look(t.Context(), object)
	require.NoError(t, err)
	return scope.Status
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
	said := map[string]bool{}
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
			reported := managed(t, o, nodes)
			(&Status{Object: o}).describe(nodes)
			require.Equal(t, reported.Cost, o.Status.Cost)
			said[costText(o.Status.Cost)] = true
			switch {
			case !tc.reported:
				require.Nil(t, reported.Cost)
			case tc.certain == cost.Unknown:
				require.Empty(t, reported.Cost.Monthly)
			default:
				require.NotEmpty(t, reported.Cost.Monthly)
			}
		})
	}
	require.Greater(t, len(said), 7, "not always the same")
}

// What is reported counts, whatever this version would say.
func TestTheManagersCostCounts(t *testing.T) {
	o := object(func(o *v1alpha1.RouteReflectorPool) {
		o.Status.Cost = &v1alpha1.CostStatus{Currency: "EUR", Hourly: "1", Monthly: "720.00", Source: "a contract"}
	})
	(&Status{Object: o}).describe(clusterOf(2))
	require.Equal(t, "720.00 EUR/month (a contract)", costText(o.Status.Cost))
	require.Equal(t, "unknown: the manager does not know it", costText(&v1alpha1.CostStatus{}))
}

// brazil moves the pool where the prices leave the disk out.
func brazil(nodes []corev1.Node) {
	for i := range nodes {
		metav1.SetMetaDataLabel(&nodes[i].ObjectMeta, "ibm-cloud.kubernetes.io/region", "br-sao")
		metav1.SetMetaDataLabel(&nodes[i].ObjectMeta, "ibm-cloud.kubernetes.io/machine-type", "bxf.4x16")
	}
}
