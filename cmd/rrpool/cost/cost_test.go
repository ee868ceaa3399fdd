package cost

import (
	"fmt"
	"maps"
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

// world is what an apiserver has, as far as the program asks it.
type world struct {
	pool  *v1alpha1.RouteReflectorPool
	nodes []corev1.Node
}

// ask calls the command about a cluster.
func ask(t *testing.T, s iostreams.Streams, c *world, args ...string) cli.Answer {
	t.Helper()
	objects := cli.API{cli.NodesPath: cli.NodeList(c.nodes...), cli.PoolPath: nil}
	if c.pool != nil {
		objects[cli.PoolPath] = c.pool
	}
	return cli.AskIn(t, s, New, append([]string{"cost", "--kubeconfig", cli.Serve(t, objects)}, args...)...)
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
			maps.Copy(node.Labels, labels)
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
func migrated() *world { return pooled("bx2.2x8", "eu-de") }

// pooled is the same with a pool of that flavor, in that region.
func pooled(flavor, region string) *world {
	return &world{crd.Default(), append(nodesOf(20, frankfurt, ibm, labelled("bx2.4x16.encrypted", region)),
		nodesOf(2, frankfurt, ibm, labelled(flavor, region, v1alpha1.PoolLabel, "route-reflectors"))...)}
}

// scenes are the reports whose tables are kept. docs/cost.md has another one.
func scenes() map[string]*world {
	unknown := migrated()
	for i := range 25 {
		unknown.nodes[i].Labels["ibm-cloud.kubernetes.io/machine-type"] = "mx2.4x32"
	}
	return map[string]*world{
		"price-without-disk": pooled("bxf.4x16", "br-sao"),
		"some-unknown":       unknown,
		"existing": {crd.Default(), append(nodesOf(3, []string{"a", "b"}, "", nil),
			nodesOf(2, []string{"a", "b"}, "", map[string]string{v1alpha1.PoolLabel: "existing-nodes"})...)},
		"no-object": {nil, nodesOf(40, frankfurt, ibm, labelled("bx2.4x16", "eu-de"))},
	}
}

// Lines fit the terminal.
func TestTheTable(t *testing.T) {
	for name, c := range scenes() {
		t.Run(name, func(t *testing.T) {
			got := ask(t, iostreams.Streams{}, c)
			require.Zero(t, got.Code, got.Err)
			require.Empty(t, got.Err)
			cli.Golden(t, name+".golden", got.Out)
			narrow := ask(t, iostreams.Streams{Terminal: true, Width: 60, Getenv: cli.Environment("NO_COLOR", "1")}, c)
			require.Zero(t, narrow.Code, narrow.Err)
			cli.RequireWidth(t, narrow.Out, 60)
		})
	}
	cli.Golden(t, "price-without-disk.json.golden", ask(t, iostreams.Streams{}, scenes()["price-without-disk"], "-o", "json").Out)
}

func TestWhatTheTableSays(t *testing.T) {
	waiting := migrated()
	waiting.nodes = waiting.nodes[:60]
	mixed := migrated()
	mixed.nodes[60].Labels["ibm-cloud.kubernetes.io/machine-type"] = "cx2.2x4"
	kept := migrated()
	kept.pool = nil
	returned := migrated()
	returned.pool.Spec.Mode = v1alpha1.ModeFullMesh
	classic := nodesOf(5, []string{"dal10", "dal12"}, ibm, labelled("u3c.2x4.encrypted", "us-south"))
	book := cli.File(t, "{version: 1, entries: [{flavor: own.2x4, region: any, price: '0.08', currency: EUR, date: '2026-10-01', source: contract 4711}]}")
	for name, tc := range map[string]struct {
		cluster *world
		args    []string
		says    []string
	}{
		"a price that is old":              {pooled("bx2.2x8", "us-south"), nil, []string{"‼ the price of bx2.2x8 in us-south is of 2022-08-30, more than a year old: give --hourly-price"}},
		"a price book in another currency": {pooled("own.2x4", "here"), []string{"--price-book", book}, []string{"EUR/MONTH", "345.60", "contract 4711"}},
		"a pool that is not there yet":     {waiting, nil, []string{"the pool of 0 workers", "The pool gets 3 workers of flavor bx2.2x8, and 3 of them are not nodes yet", "3 workers 335.99"}},
		"a pool without any price":         {pooled("bx2.2x8", "jp-tok"), nil, []string{"unknown", "Next: rrpool cost --hourly-price <price of one worker> --context rrpool"}},
		"a pool with two flavors":          {mixed, nil, []string{"≥", "‼ no price is known of cx2.2x4 in eu-de"}},
		"a rollback that kept the pool":    {returned, nil, []string{"The pool still exists, and costs until it is deleted."}},
		"a deletion that kept the pool":    {kept, nil, []string{"The cluster has no RouteReflectorPool. The pool still exists, and costs until it is deleted.", "671.99"}},
		"machines of the third generation": {&world{crd.Default(), nodesOf(5, frankfurt, ibm, labelled("bx3d.8x40", "eu-de"))}, nil, []string{"The pool gets 3 workers of flavor bx3d.4x20"}},
		"classic infrastructure":           {&world{crd.Default(), classic}, nil, []string{"u3c.2x4"}},
		"a cluster with another price":     {migrated(), []string{"--hourly-price", "0.11"}, []string{"475.20", "--hourly-price"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, iostreams.Streams{}, tc.cluster, tc.args...)
			require.Zero(t, got.Code, got.Err)
			for _, words := range tc.says {
				require.Contains(t, got.Out, words)
			}
		})
	}
}

// Colours are only where the terminal shows them.
func TestColours(t *testing.T) {
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
		got := ask(t, tc.s, migrated())
		require.Zero(t, got.Code, got.Err)
		require.Equal(t, tc.want, strings.Contains(got.Out, "\x1b"), name)
	}
}

// Which nodes are paid for as the pool, and as what; `rrpool status` asks the same.
func TestPoolOf(t *testing.T) {
	ours := nodesOf(1, frankfurt[:1], ibm, labelled("bx2.2x8.encrypted", "eu-de", v1alpha1.PoolLabel, "route-reflectors", "example.com/room", "7"))
	others := nodesOf(2, frankfurt, ibm, labelled("bx2.4x16", "eu-de", v1alpha1.PoolLabel, "another-pool"))
	bare := nodesOf(2, frankfurt[:1], "", map[string]string{v1alpha1.PoolLabel: "existing-nodes"})
	for name, tc := range map[string]struct {
		edit     func(*v1alpha1.RouteReflectorPool)
		nodes    []corev1.Node
		workers  []cost.Machine
		existing bool
	}{
		"workers of IBM Cloud": {nil, slices.Concat(ours, others), []cost.Machine{{Zone: "eu-de-1", Region: "eu-de", Flavor: "bx2.2x8"}}, false},
		"zones by another label": {func(o *v1alpha1.RouteReflectorPool) { o.Spec.Topology.ZoneLabel = "example.com/room" }, ours, []cost.Machine{{
			Zone: "7", Region: "eu-de", Flavor: "bx2.2x8",
		}}, false},
		"nodes without a cloud": {nil, bare, []cost.Machine{{Zone: "eu-de-1"}, {Zone: "eu-de-1"}}, true},
		"by the spec":           {func(o *v1alpha1.RouteReflectorPool) { o.Spec.Provider.Type = v1alpha1.ProviderIKS }, bare, nil, false},
		"by the status":         {func(o *v1alpha1.RouteReflectorPool) { o.Status.Provider = "existing" }, others[:1], []cost.Machine{{Zone: "eu-de-1", Region: "eu-de", Flavor: "bx2.4x16"}}, true},
		"a pool without node":   {nil, others, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			object := crd.Default()
			if tc.edit != nil {
				tc.edit(object)
			}
			workers, existing := PoolOf(object, tc.nodes)
			require.Equal(t, tc.workers, workers)
			require.Equal(t, tc.existing, existing)
		})
	}
}

// Bad input gets one sentence that names the field, the value and the remedy.
func TestBadInput(t *testing.T) {
	negative := cli.File(t, "version: 1\nentries: [{flavor: a, region: any, price: -1, currency: USD, date: '2026-01-01', source: me}]")
	cli.RequireBad(t, New, "cost", map[string]cli.Bad{
		"a negative price":               {[]string{"--hourly-price", "-0.11"}, []string{"--hourly-price", `"-0.11"`, "write a decimal of 0 or more, such as 0.11"}},
		"a price that takes for ever":    {[]string{"--hourly-price", "1e999999999"}, []string{"--hourly-price", "write a decimal"}},
		"a price book that is not there": {[]string{"--price-book", "/nonexistent"}, []string{"--price-book", `"/nonexistent"`, "no such file", "give the name of a file"}},
		"a negative price in the book":   {[]string{"--price-book", negative}, []string{"--price-book", "entries[0].price", `"-1"`, "write a decimal of 0 or more"}},
	})
}

func TestTheExampleOfTheDocs(t *testing.T) {
	cli.RequireExamples(t, "cost", func(args ...string) cli.Answer { return ask(t, iostreams.Streams{}, migrated(), args[1:]...) })
}

func TestThePriceBookOfTheDocs(t *testing.T) {
	got := ask(t, iostreams.Streams{}, pooled("u3c.2x4", "us-south"), "--price-book", cli.File(t, cli.Blocks(t, "cost", "yaml")[0]))
	require.Zero(t, got.Code, got.Err)
	require.Contains(t, got.Out, "u3c.2x4 in any: 0.08 EUR/hour, 2026-10-01, contract 4711")
	require.Contains(t, got.Out, "leaves out: disks")
}

// The figures of what the manager reports are those of its own code.
func TestWhatTheDocsSayTheManagerReports(t *testing.T) {
	page := cli.Page(t, "cost")
	worker := cost.Machine{Region: "us-south", Flavor: "bx2.2x8"}
	reported := cost.Builtin().Status([]cost.Machine{worker, worker, worker})
	for field, value := range map[string]string{
		"`currency`": reported.Currency, "`hourly`": reported.Hourly, "`monthly`, of 720 hours": reported.Monthly, "`source`": reported.Source,
	} {
		require.Contains(t, page, "| "+field+" | `"+value+"` |")
	}
	partly, _, _ := strings.Cut(cost.Builtin().Status([]cost.Machine{worker, {Flavor: "odd.1x1"}}).Source, " the ")
	require.Contains(t, page, "`"+partly+" …`")
}

// The docs name each flavor and region of the built-in book.
func TestWhatTheDocsName(t *testing.T) {
	page := cli.Page(t, "cost")
	for _, entry := range cost.Builtin() {
		require.Contains(t, page, "`"+entry.Flavor+"`")
		require.Contains(t, page, "`"+entry.Region+"`")
	}
}
