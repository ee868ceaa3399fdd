package topology

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/test/cli"
)

// Bad input gets one sentence that names the field, the value and the remedy.
func TestBadInput(t *testing.T) {
	calicoless := cli.API{cli.PoolPath: crd.Default(), cli.NodesPath: cli.NodeList(corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})}
	for name, tc := range map[string]struct{ flags, says string }{
		"zones without nodes":               {"--zones 3", "--nodes: missing|--zones|such as --nodes 500"},
		"a file without nodes":              {"-f x", "--nodes: missing|--filename|such as --nodes 500"},
		"a topology without nodes":          {"--topology quorum", "--nodes: missing|--topology|such as --nodes 500"},
		"a cluster and a planned one":       {"--nodes 9 --context x", "[context nodes] were all set"},
		"a topology with too many paths":    {"--nodes 500 --zones 3 --topology multicluster", "MultiCluster|maxPathsPerPrefix|64|set spec.topology.type to"},
		"more racks than the sizing allows": {"--nodes 5000 --zones 3 --topology hierarchy --racks 10", "spec.sizing.max|33"},
		"too few reflectors for the racks":  {"--nodes 5000 --zones 3 --topology hierarchy --racks 10 --reflectors 9", "--reflectors: 9|takes 33|give"},
		"reflectors on the mesh":            {"--nodes 9 --reflectors 3 -f " + cli.PoolFile(t, "{mode: FullMesh}"), "--reflectors: 3|spec.mode is FullMesh|leave out one of them"},
		"a cluster without Calico":          {"--kubeconfig " + cli.Serve(t, calicoless), `nothing to draw in the cluster of context "rrpool"|the API has no BGPPeer|install Calico`},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, append([]string{"topology"}, strings.Fields(tc.flags)...)...)
			cli.RequireRefused(t, got, strings.Split(tc.says, "|")...)
		})
	}
}

// --nodes are the nodes that run workloads, --reflectors the size of the pool.
func TestPlannedClusters(t *testing.T) {
	existing := cli.PoolFile(t, "{provider: {type: ExistingNodes}}")
	zoned := cli.PoolFile(t, "{provider: {type: IKS, iks: {zones: [eu-de-2, eu-de-1]}}, sizing: {min: 4}, topology: {clusterID: 10.0.0.1}}")
	for name, tc := range map[string]struct{ flags, in, says string }{
		"one zone by default":              {"--nodes 1", "", "BGP topology for 1 node in 1 zone|3 reflectors, 1 client,"},
		"reflectors among existing nodes":  {"--nodes 50 -f " + existing, "", "3 reflectors, 47 clients"},
		"the sizing and zones of a file":   {"--nodes 50 -f " + zoned, "", "in 2 zones|eu-de-1|4 reflectors, 50 clients, cluster ID 10.0.0.1"},
		"--zones instead of the file's":    {"--nodes 50 --zones 1 -f " + zoned, "", "in 1 zone|zone-1|4 reflectors"},
		"the topology of a file":           {"--nodes 500 -f - --zones 3", "{topology: {type: Quorum}}", "topology Quorum|with 6 of 9 reflectors"},
		"--topology instead of the file's": {"--nodes 500 -f - --topology single", "{topology: {type: Quorum}}", "8 reflectors, 500 clients, cluster ID 244.0.0.1"},
		"what Auto takes":                  {"--nodes 5000 --zones 3 --topology auto", "", "topology Hierarchy"},
		"Auto on existing nodes":           {"--nodes 50 --topology auto -f " + existing, "", "3 reflectors, 47 clients"},
		"a rack for each label":            {"--nodes 5000 --zones 3 --topology hierarchy --racks 10 --reflectors 33", "", "33 reflectors, 5000 clients|rack r10|500 × 3 sessions"},
	} {
		t.Run(name, func(t *testing.T) {
			got := cli.AskIn(t, iostreams.Streams{In: strings.NewReader(cli.Pool + "spec: " + tc.in)}, New, append([]string{"topology"}, strings.Fields(tc.flags)...)...)
			require.Zero(t, got.Code, got.Err)
			for words := range strings.SplitSeq(tc.says, "|") {
				require.Contains(t, got.Out, words)
			}
		})
	}
}

// The numbers of a network fit each other, and each node is counted once.
func TestTheNumbers(t *testing.T) {
	for name, o := range clusters(t) {
		t.Run(name, func(t *testing.T) {
			n := networkOf(o)
			groups, clients, members, sums := map[string]bool{}, 0, 0, map[string]int{}
			for _, zone := range n.Zones {
				members += len(zone.Reflectors)
				for _, g := range zone.Groups {
					require.False(t, groups[g.ID])
					groups[g.ID] = true
					clients += g.Clients
					require.LessOrEqual(t, g.All+g.Some+g.None+g.NotKnown, g.Clients)
				}
			}
			for _, l := range n.Links {
				require.NotEqual(t, l.Group == "", l.Reflector == "", "one beginning")
				require.True(t, l.Group == "" || groups[l.Group])
				require.LessOrEqual(t, l.Established+l.Unknown, l.Expected)
				sums[l.To] += l.Expected
				sums[l.Reflector] += l.Expected
			}
			for _, zone := range n.Zones {
				for _, r := range zone.Reflectors {
					require.Equal(t, r.Expected, sums[r.Name], r.Name)
				}
			}
			speaking := slices.DeleteFunc(slices.Clone(o.Nodes), func(n plan.Node) bool { return !n.SpeaksBGP() })
			require.Len(t, speaking, clients+members)
		})
	}
}

// The same cluster gives the same bytes, in whatever order its parts are read.
func TestTheOrderDoesNotMatter(t *testing.T) {
	for name, o := range clusters(t) {
		if len(o.Nodes) > 1000 {
			continue
		}
		want, random := drawn(t, networkOf(o)), rand.New(rand.NewPCG(1, 2))
		for range 3 {
			random.Shuffle(len(o.Nodes), func(i, j int) { o.Nodes[i], o.Nodes[j] = o.Nodes[j], o.Nodes[i] })
			random.Shuffle(len(o.Peers), func(i, j int) { o.Peers[i], o.Peers[j] = o.Peers[j], o.Peers[i] })
			require.Equal(t, want, drawn(t, networkOf(o)), name)
		}
	}
}

// Whatever zones and nodes are called, DOT takes no name for something of its own: it stays in quotes.
func TestNamesStayInQuotes(t *testing.T) {
	quoted, grammar := regexp.MustCompile(`"(?:[^"\\\n]|\\[^\n])*"`), regexp.MustCompile(`^[\w\s\[\]{}=,;.#-]*$`)
	require.NotRegexp(t, grammar, quoted.ReplaceAllString(`a [label="b"]; evil "`, ""), "the check finds a name outside of quotes")
	o := inZones([]string{`<b>"1"</b> & 'co'`, "", "東京 \x00\u202e\n#;|`\\"}, 2, 3)
	o.name = `kind "];evil--evil[label="`
	o.change("10.240.1.201", func(n *plan.Node) { n.Name, n.ClusterID = `]]>"\n<!--`, "244.0.0.2" })
	require.Regexp(t, grammar, quoted.ReplaceAllString(drawn(t, networkOf(o)), ""))
}

// The pictures of the docs are what Graphviz makes of the command's drawings: each ends with the hash of the one that it is of.
// -update makes them anew, with Graphviz.
func TestThePicturesOfTheDocs(t *testing.T) {
	for name, tc := range map[string]struct{ page, flags, spec string }{
		"topology-single":       {"topology", "--nodes 500 --zones 3 --reflectors 3", ""},
		"topology-quorum":       {"topology", "--nodes 2000 --zones 3 --topology quorum --reflectors 9", ""},
		"topology-hierarchy":    {"topology", "--nodes 5000 --zones 3 --topology hierarchy", ""},
		"topology-multicluster": {"topology", "--nodes 500 --zones 3 --topology multicluster --reflectors 3", ""},
		"concepts-mesh":         {"concepts", "--nodes 90 --zones 3 -f -", "{mode: FullMesh}"},
		"concepts-reflectors":   {"concepts", "--nodes 90 --zones 3 -f -", "{mode: RouteReflector}"},
		"topology-migrating":    {"topology", "", ""},
		"topology-failing":      {"topology", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var drawing string
			if tc.flags == "" {
				drawing = drawn(t, networkOf(clusters(t)[strings.TrimPrefix(name, "topology-")]))
			} else {
				got := cli.AskIn(t, iostreams.Streams{In: strings.NewReader(cli.Pool + "spec: " + tc.spec)}, New, append([]string{"topology"}, strings.Fields(tc.flags)...)...)
				require.Zero(t, got.Code, got.Err)
				drawing = got.Out
			}
			hash := fmt.Sprintf("<!-- %x -->\n", sha256.Sum256([]byte(drawing)))
			path := filepath.Join("..", "..", "..", "docs", "pictures", name+".svg")
			if flag.Lookup("update").Value.String() == "true" {
				graphviz := exec.CommandContext(t.Context(), "dot", "-Tsvg")
				graphviz.Stdin = strings.NewReader(drawing)
				picture, err := graphviz.Output()
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(path, append(picture, hash...), 0o600))
			}
			picture, err := os.ReadFile(path)
			require.NoError(t, err)
			require.True(t, strings.HasSuffix(string(picture), hash), "go test -update makes it, with Graphviz")
			page := cli.Page(t, tc.page)
			require.Contains(t, page, "(pictures/"+name+".svg)")
			if tc.spec == "" && tc.flags != "" {
				require.Contains(t, page, "`rrpool topology "+tc.flags+"`")
			}
		})
	}
}
