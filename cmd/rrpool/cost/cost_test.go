package cost

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/test/cli"
)

// ask calls the command as a user does.
func ask(t *testing.T, args ...string) cli.Answer {
	t.Helper()
	return cli.Ask(t, New, args...)
}

// api is an apiserver as far as the program asks it.
type api struct {
	pool  *v1alpha1.RouteReflectorPool
	nodes []corev1.Node
	asked []string
}

// ServeHTTP implements http.Handler.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.asked = append(a.asked, r.Method+" "+r.URL.Path)
	objects := cli.API{cli.NodesPath: cli.NodeList(a.nodes...), cli.PoolPath: nil}
	if a.pool != nil {
		objects[cli.PoolPath] = a.pool
	}
	objects.ServeHTTP(w, r)
}

func poolObject(edit func(*v1alpha1.RouteReflectorPool)) *v1alpha1.RouteReflectorPool {
	object := crd.Default()
	if edit != nil {
		edit(object)
	}
	return object
}

// nodesOf makes as many nodes in each zone, with labels on top of the zone's.
func nodesOf(perZone int, zones []string, providerID string, labels map[string]string) []corev1.Node {
	var out []corev1.Node
	for _, zone := range zones {
		for i := range perZone {
			node := corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", zone, i), Labels: map[string]string{corev1.LabelTopologyZone: zone}},
				Spec:       corev1.NodeSpec{ProviderID: providerID},
				Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
			}
			for key, value := range labels {
				node.Labels[key] = value
			}
			out = append(out, node)
		}
	}
	return out
}

const ibm = "ibm://account///cluster/worker"

var frankfurt = []string{"eu-de-1", "eu-de-2", "eu-de-3"}

func labelled(flavor, region string, more ...string) map[string]string {
	out := map[string]string{"ibm-cloud.kubernetes.io/machine-type": flavor, "ibm-cloud.kubernetes.io/region": region}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

// migrated is a cluster of 60 nodes in three zones with a pool of six.
func migrated() *api {
	return &api{
		pool: poolObject(nil),
		nodes: append(nodesOf(20, frankfurt, ibm, labelled("bx2.4x16.encrypted", "eu-de")),
			nodesOf(2, frankfurt, ibm, labelled("bx2.2x8", "eu-de", v1alpha1.PoolLabel, "route-reflectors"))...),
	}
}

// scenes are the reports whose tables are kept.
func scenes(t *testing.T) map[string][]string {
	t.Helper()
	cluster := func(a *api) []string { return []string{"--kubeconfig", cli.Serve(t, a)} }
	unknown := migrated()
	for i := range 25 {
		unknown.nodes[i].Labels["ibm-cloud.kubernetes.io/machine-type"] = "mx2.4x32"
	}
	existing := &api{
		pool:  poolObject(nil),
		nodes: append(nodesOf(3, []string{"a", "b"}, "", nil), nodesOf(2, []string{"a", "b"}, "", map[string]string{v1alpha1.PoolLabel: "existing-nodes"})...),
	}
	return map[string][]string{
		"price-without-disk": {"--nodes", "500", "--zones", "3", "--flavor", "bxf.4x16", "--region", "br-sao"},
		"cluster":            cluster(migrated()),
		"some-unknown":       cluster(unknown),
		"existing":           cluster(existing),
		"no-object":          cluster(&api{nodes: nodesOf(40, frankfurt, ibm, labelled("bx2.4x16", "eu-de"))}),
	}
}

func TestTheTable(t *testing.T) {
	for name, args := range scenes(t) {
		t.Run(name, func(t *testing.T) {
			got := ask(t, append([]string{"cost"}, args...)...)
			require.Zero(t, got.Code, got.Err)
			require.Empty(t, got.Err)
			cli.Golden(t, name+".golden", got.Out)
		})
	}
}

func TestWhatTheTableSays(t *testing.T) {
	waiting := migrated()
	waiting.nodes = waiting.nodes[:60]
	unpriced := migrated()
	for i := range unpriced.nodes {
		unpriced.nodes[i].Labels["ibm-cloud.kubernetes.io/region"] = "jp-tok"
	}
	mixed := migrated()
	mixed.nodes[60].Labels["ibm-cloud.kubernetes.io/machine-type"] = "cx2.2x4"
	kept := migrated()
	kept.pool = nil
	returned := migrated()
	returned.pool.Spec.Mode = v1alpha1.ModeFullMesh
	stepping := migrated()
	stepping.pool.Spec.Sizing.Min = 12
	book := cli.File(t, "{version: 1, entries: [{flavor: own.2x4, region: any, price: '0.08', currency: EUR, date: '2026-10-01', source: contract 4711}]}")
	for name, tc := range map[string]struct {
		api  *api
		args []string
		says []string
	}{
		"a price that is old":                {nil, []string{"--reflectors", "6", "--zones", "3", "--region", "us-south"}, []string{"‼ the price of bx2.2x8 in us-south is of 2022-08-30, more than a year old: give --hourly-price"}},
		"a price book in another currency":   {nil, []string{"--reflectors", "3", "--flavor", "own.2x4", "--region", "here", "--price-book", book}, []string{"EUR/MONTH", "172.80", "contract 4711"}},
		"a pool that is not there yet":       {waiting, nil, []string{"the pool of 0 workers", "The pool gets 3 workers, and 3 of them are not nodes yet", "3 workers 335.99"}},
		"a pool without any price":           {unpriced, nil, []string{"unknown", "Next: rrpool cost --hourly-price <price of one worker> --context rrpool"}},
		"a pool with two flavors":            {mixed, nil, []string{"≥", "‼ no price is known of cx2.2x4 in eu-de"}},
		"a rollback that kept the pool":      {returned, nil, []string{"The pool still exists, and costs until it is deleted."}},
		"a deletion that kept the pool":      {kept, nil, []string{"The cluster has no RouteReflectorPool. The pool still exists, and costs until it is deleted.", "671.99"}},
		"classic infrastructure":             {&api{pool: poolObject(nil), nodes: nodesOf(5, []string{"dal10", "dal12"}, ibm, labelled("u3c.2x4.encrypted", "us-south"))}, nil, []string{"u3c.2x4"}},
		"a cluster with another size":        {migrated(), []string{"--reflectors", "9"}, []string{"a pool of 9 workers, cluster rrpool", "Share of the bill for all workers of the cluster: 6.", "eu-de-3"}},
		"a cluster with more nodes":          {migrated(), []string{"--nodes", "300"}, []string{"a pool of 6 workers, for 300 nodes that run workloads, cluster rrpool"}},
		"a cluster with a sizing of its own": {stepping, []string{"--nodes", "50"}, []string{"a pool of 12 workers, for 50 nodes"}},
		"a cluster with another price":       {migrated(), []string{"--hourly-price", "0.11"}, []string{"475.20", "--hourly-price"}},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"cost"}, tc.args...)
			if tc.api != nil {
				args = append(args, "--kubeconfig", cli.Serve(t, tc.api))
			}
			got := ask(t, args...)
			require.Zero(t, got.Code, got.Err)
			for _, words := range tc.says {
				require.Contains(t, got.Out, words)
			}
		})
	}
}

func TestFormats(t *testing.T) {
	all := scenes(t)
	cli.Golden(t, "price-without-disk.json.golden", ask(t, append([]string{"cost", "-o", "json"}, all["price-without-disk"]...)...).Out)
}

// Lines fit the terminal, and colours are only where the terminal shows them.
func TestTerminals(t *testing.T) {
	for _, args := range scenes(t) {
		args = append([]string{"cost"}, args...)
		plain := cli.AskIn(t, iostreams.Streams{Terminal: true, Width: 60, Getenv: cli.Environment("NO_COLOR", "1")}, New, args...)
		require.Zero(t, plain.Code, plain.Err)
		require.NotContains(t, plain.Out, "\x1b")
		cli.RequireWidth(t, plain.Out, 60)
	}
	args := []string{"cost", "--reflectors", "3", "--region", "us-south"}
	for name, tc := range map[string]struct {
		s    iostreams.Streams
		want bool
	}{
		"a terminal":        {iostreams.Streams{Terminal: true, Width: 60}, true},
		"NO_COLOR":          {iostreams.Streams{Terminal: true, Width: 60, Getenv: cli.Environment("NO_COLOR", "1")}, false},
		"an empty NO_COLOR": {iostreams.Streams{Terminal: true, Width: 60, Getenv: cli.Environment("NO_COLOR", "")}, true},
		"a dumb terminal":   {iostreams.Streams{Terminal: true, Width: 60, Getenv: cli.Environment("TERM", "dumb")}, false},
		"a pipe":            {iostreams.Streams{}, false},
	} {
		got := cli.AskIn(t, tc.s, New, args...)
		require.Zero(t, got.Code, got.Err)
		require.Equal(t, tc.want, strings.Contains(got.Out, "\x1b"), name)
	}
	narrow := cli.AskIn(t, iostreams.Streams{Terminal: true, Width: 200, Getenv: cli.Environment("COLUMNS", "60", "NO_COLOR", "1")}, New, args...)
	require.Equal(t, cli.AskIn(t, iostreams.Streams{Terminal: true, Width: 60, Getenv: cli.Environment("NO_COLOR", "1")}, New, args...), narrow, "COLUMNS")
}

// Which nodes are paid for as the pool, and as what; `rrpool status` asks the same.
func TestPoolOf(t *testing.T) {
	ours := nodesOf(1, frankfurt[:1], ibm, labelled("bx2.2x8.encrypted", "eu-de", v1alpha1.PoolLabel, "route-reflectors", "example.com/room", "7"))
	others := nodesOf(2, frankfurt, ibm, labelled("bx2.4x16", "eu-de", v1alpha1.PoolLabel, "another-pool"))
	bare := nodesOf(2, frankfurt[:1], "", map[string]string{v1alpha1.PoolLabel: "existing-nodes"})
	for name, tc := range map[string]struct {
		edit     func(*v1alpha1.RouteReflectorPool)
		nodes    []corev1.Node
		workers  []cost.Worker
		existing bool
	}{
		"workers of IBM Cloud": {nil, slices.Concat(ours, others), []cost.Worker{{Zone: "eu-de-1", Region: "eu-de", Flavor: "bx2.2x8"}}, false},
		"zones by another label": {func(o *v1alpha1.RouteReflectorPool) { o.Spec.Topology.ZoneLabel = "example.com/room" }, ours, []cost.Worker{{
			Zone: "7", Region: "eu-de", Flavor: "bx2.2x8",
		}}, false},
		"nodes without a cloud": {nil, bare, []cost.Worker{{Zone: "eu-de-1"}, {Zone: "eu-de-1"}}, true},
		"by the spec":           {func(o *v1alpha1.RouteReflectorPool) { o.Spec.Provider.Type = v1alpha1.ProviderIKS }, bare, nil, false},
		"by the status":         {func(o *v1alpha1.RouteReflectorPool) { o.Status.Provider = "existing" }, others[:1], []cost.Worker{{Zone: "eu-de-1", Region: "eu-de", Flavor: "bx2.4x16"}}, true},
		"a pool without node":   {nil, others, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			workers, existing := PoolOf(poolObject(tc.edit), tc.nodes)
			require.Equal(t, tc.workers, workers)
			require.Equal(t, tc.existing, existing)
		})
	}
}
