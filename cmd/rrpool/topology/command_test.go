package topology

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/test/cli"
)

func pool(spec string) string {
	return "apiVersion: rrpool.io/v1alpha1\nkind: RouteReflectorPool\nmetadata: {name: default}\nspec: " + spec + "\n"
}

// Bad input gets one sentence that names the field, the value and the remedy.
func TestBadInput(t *testing.T) {
	for name, tc := range map[string]struct{ flags, says string }{
		"no nodes":                          {"--nodes 0", `--nodes|"0"|use a whole number from 1 to 100000`},
		"too many reflectors":               {"--nodes 9 --reflectors 99999", `--reflectors|"99999"|use a whole number from 1 to 1000`},
		"zones without nodes":               {"--zones 3", "--nodes: missing|--zones|such as --nodes 500"},
		"a file without nodes":              {"-f x", "--nodes: missing|--filename|such as --nodes 500"},
		"a topology without nodes":          {"--topology quorum", "--nodes: missing|--topology|such as --nodes 500"},
		"a cluster and a planned one":       {"--nodes 9 --context x", "--nodes 9 and --context|leave out one of them"},
		"an unknown format":                 {"-o html", `--output|"html"|use svg, dot, json, yaml`},
		"an unknown topology":               {"--nodes 9 --topology star", `--topology|"star"|use single, quorum, hierarchy, multicluster, auto`},
		"a topology with too many paths":    {"--nodes 500 --zones 3 --topology multicluster", "MultiCluster|maxPathsPerPrefix|64|set spec.topology.type to"},
		"more racks than the sizing allows": {"--nodes 5000 --zones 3 --topology hierarchy --racks 10", "spec.sizing.max|33"},
		"too few reflectors for the racks":  {"--nodes 5000 --zones 3 --topology hierarchy --racks 10 --reflectors 9", "--reflectors: 9|takes 33|give"},
		"reflectors on the mesh":            {"--nodes 9 --reflectors 3 -f " + cli.File(t, pool("{mode: FullMesh}")), "--reflectors: 3|spec.mode is FullMesh|leave out one of them"},
		"an output file in no folder":       {"--nodes 9 --output-file /nonexistent/x", `--output-file|"/nonexistent/x"|give a folder that is there`},
		"an apiserver that is not there":    {"--kubeconfig " + cli.Serve(t, http.NotFoundHandler()), "does not know routereflectorpools.rrpool.io|without a cluster: rrpool topology --nodes 500 --zones 3"},
		"a cluster without Calico":          {"--kubeconfig " + cli.Serve(t, calicoless()), `nothing to draw in the cluster of context "rrpool"|the API has no BGPPeer|install Calico`},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, append([]string{"topology"}, strings.Fields(tc.flags)...)...)
			require.Equal(t, 1, got.Code)
			require.Empty(t, got.Out)
			cli.RequireSentence(t, got.Err, strings.Split(tc.says, "|")...)
		})
	}
}

// calicoless is an apiserver without Calico, and with a node.
func calicoless() http.Handler {
	answer := func(object any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(object)
		}
	}
	object, _ := crd.Default()
	mux := http.NewServeMux()
	mux.HandleFunc("/apis/rrpool.io/v1alpha1/routereflectorpools/default", answer(object))
	mux.HandleFunc("/api/v1/nodes", answer(corev1.NodeList{
		TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}, Items: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}},
	}))
	return mux
}

func TestAPlannedClusterNeedsNone(t *testing.T) {
	var asked atomic.Bool
	t.Setenv("KUBECONFIG", cli.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(true)
		http.NotFound(w, r)
	})))
	require.Zero(t, ask(t, "topology", "--nodes", "3").Code)
	require.False(t, asked.Load())
	require.Equal(t, 1, ask(t, "topology").Code)
	require.True(t, asked.Load(), "without --nodes it reads the cluster")
}

// In all formats --nodes are the nodes that run workloads, --reflectors the size of the pool.
func TestPlannedClusters(t *testing.T) {
	existing := cli.File(t, pool("{provider: {type: ExistingNodes}}"))
	zoned := cli.File(t, pool("{provider: {type: IKS, iks: {zones: [eu-de-2, eu-de-1]}}, sizing: {min: 4}, topology: {clusterID: 10.0.0.1}}"))
	for name, tc := range map[string]struct{ flags, in, says string }{
		"the default sizing":               {"--nodes 500 --zones 3", "", "BGP topology for 500 nodes in 3 zones|9 reflectors, 500 clients, cluster ID 244.0.0.1"},
		"one zone by default":              {"--nodes 1", "", "BGP topology for 1 node in 1 zone|3 reflectors, 1 client,"},
		"as many reflectors as given":      {"--nodes 500 --zones 3 --reflectors 33", "", "33 reflectors, 500 clients|528 sessions"},
		"reflectors among existing nodes":  {"--nodes 50 -f " + existing, "", "3 reflectors, 47 clients"},
		"the sizing and zones of a file":   {"--nodes 50 -f " + zoned, "", "in 2 zones|eu-de-1|4 reflectors, 50 clients, cluster ID 10.0.0.1"},
		"--zones instead of the file's":    {"--nodes 50 --zones 1 -f " + zoned, "", "in 1 zone|zone-1|4 reflectors"},
		"a topology by flag":               {"--nodes 500 --zones 3 --topology hierarchy", "", "12 reflectors, 500 clients, topology Hierarchy|rack zone-1|3 spines|167 × 3 sessions"},
		"the topology of a file":           {"--nodes 500 -f - --zones 3", "{topology: {type: Quorum}}", "topology Quorum|with 6 of 9 reflectors"},
		"--topology instead of the file's": {"--nodes 500 -f - --topology single", "{topology: {type: Quorum}}", "8 reflectors, 500 clients, cluster ID 244.0.0.1"},
		"what Auto takes":                  {"--nodes 5000 --zones 3 --topology auto", "", "topology Hierarchy"},
		"Auto on existing nodes":           {"--nodes 50 --topology auto -f " + existing, "", "3 reflectors, 47 clients"},
		"a rack for each label":            {"--nodes 5000 --zones 3 --topology hierarchy --racks 10 --reflectors 33", "", "33 reflectors, 5000 clients|rack r10|500 × 3 sessions"},
		"the mesh":                         {"--nodes 500 -f -", "{mode: FullMesh}", "no reflectors, 500 nodes|500 nodes each with each, 124750 sessions"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, format := range []string{"svg", "dot"} {
				got := askIn(t, iostreams.Streams{In: strings.NewReader(pool(tc.in))}, append([]string{"topology", "-o", format}, strings.Fields(tc.flags)...)...)
				require.Zero(t, got.Code, got.Err)
				for words := range strings.SplitSeq(tc.says, "|") {
					require.Contains(t, got.Out, words)
				}
			}
		})
	}
}

// A planned cluster has the sessions that a live one of that topology has.
func TestAPlannedClusterIsWhatALiveOneBecomes(t *testing.T) {
	for kind, reflectors := range map[v1alpha1.TopologyType]int{
		v1alpha1.TopologySingle: 0, v1alpha1.TopologyQuorum: 9, v1alpha1.TopologyHierarchy: 0, v1alpha1.TopologyMultiCluster: 3,
	} {
		there := networkOf(arranged(t, kind, 90, 3, 0, reflectors))
		n, err := plannedNetwork(ofKind(t, kind, 90, 3, 0, reflectors))
		require.NoError(t, err)
		require.Len(t, n.Links, len(there.Links))
		require.Len(t, n.Zones, len(there.Zones))
		for i, frame := range there.Zones {
			require.Equal(t, frame.title(), n.Zones[i].title())
			require.Len(t, n.Zones[i].Groups, len(frame.Groups))
			require.Len(t, n.Zones[i].Reflectors, len(frame.Reflectors))
			for j, r := range frame.Reflectors {
				require.Equal(t, Sessions{Expected: r.Expected}, n.Zones[i].Reflectors[j].Sessions)
			}
		}
	}
}

func TestTheFormats(t *testing.T) {
	cli.Golden(t, "failing.json", rendered(t, networkOf(failing()), "json"))
	cli.Golden(t, "failing.dot", rendered(t, networkOf(failing()), "dot"))
	planned := ask(t, "topology", "--nodes", "500", "--zones", "3", "--topology", "hierarchy", "-o", "json")
	require.Zero(t, planned.Code, planned.Err)
	cli.Golden(t, "planned.json", planned.Out)
	require.Equal(t, ask(t, "topology", "--nodes", "9", "-o", "svg"), ask(t, "topology", "--nodes", "9"), "svg is the default")
}

// What -o json gives has the fields of the type and no others, and its numbers fit each other.
func TestTheSchema(t *testing.T) {
	for name, o := range clusters(t) {
		t.Run(name, func(t *testing.T) {
			var read Network
			decoder := json.NewDecoder(strings.NewReader(rendered(t, networkOf(o), "json")))
			decoder.DisallowUnknownFields()
			require.NoError(t, decoder.Decode(&read))
			require.Equal(t, schema, read.SchemaVersion)
			groups, clients, members, sums := map[string]bool{}, 0, 0, map[string]int{}
			for _, zone := range read.Zones {
				members += len(zone.Reflectors)
				for _, g := range zone.Groups {
					require.False(t, groups[g.ID])
					groups[g.ID] = true
					clients += g.Clients
					require.LessOrEqual(t, g.All+g.Some+g.None+g.NotKnown, g.Clients)
				}
			}
			for _, l := range read.Links {
				require.NotEqual(t, l.Group == "", l.Reflector == "", "one beginning")
				require.True(t, l.Group == "" || groups[l.Group])
				require.LessOrEqual(t, l.Established+l.Unknown, l.Expected)
				sums[l.To] += l.Expected
				sums[l.Reflector] += l.Expected
			}
			for _, zone := range read.Zones {
				for _, r := range zone.Reflectors {
					require.Equal(t, r.Expected, sums[r.Name], r.Name)
				}
			}
			silent := 0
			for _, n := range o.Nodes {
				if !n.SpeaksBGP() {
					silent++
				}
			}
			require.Equal(t, len(o.Nodes)-silent, clients+members, "each node is counted once")
		})
	}
}

// The same cluster gives the same bytes, in whatever order its parts are read.
func TestTheOrderDoesNotMatter(t *testing.T) {
	for name, o := range clusters(t) {
		if len(o.Nodes) > 1000 {
			continue
		}
		want, random := map[string]string{}, rand.New(rand.NewPCG(1, 2))
		for _, format := range formats {
			want[format] = rendered(t, networkOf(o), format)
		}
		for range 3 {
			random.Shuffle(len(o.Nodes), func(i, j int) { o.Nodes[i], o.Nodes[j] = o.Nodes[j], o.Nodes[i] })
			random.Shuffle(len(o.Peers), func(i, j int) { o.Peers[i], o.Peers[j] = o.Peers[j], o.Peers[i] })
			for _, format := range formats {
				require.Equal(t, want[format], rendered(t, networkOf(o), format), name)
			}
		}
	}
}

// The terminal changes nothing, and an output file is replaced as a whole or stays as it was.
func TestOutput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "topology.svg")
	args := []string{"topology", "--nodes", "50"}
	want := ask(t, args...)
	require.Equal(t, want, askIn(t, iostreams.Streams{Terminal: true, Width: 60}, args...))
	require.Equal(t, cli.Answer{}, ask(t, append(args, "--output-file", path)...))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want.Out, string(content))
	require.Equal(t, 1, ask(t, "topology", "--nodes", "9", "--zones", "3", "--reflectors", "7", "--output-file", path).Code)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, content, after)
}

// What the formats are made of, besides quoted words.
var (
	quotedWords = regexp.MustCompile(`"(?:[^"\\\n]|\\[^\n])*"`)
	dotGrammar  = regexp.MustCompile(`^[\w\s\[\]{}=,;.#-]*$`)
	svgElements = []string{"svg", "title", "desc", "style", "rect", "path", "circle", "text"}
)

// Whatever nodes, zones and racks are called, no format takes a name for something of its
// own: it stays in quotes, or is text.
func FuzzNames(f *testing.F) {
	f.Add([]byte(`a"];evil--evil[label="b`))
	f.Add([]byte("<script>alert(1)</script>\x00\x1b[2J\n\"]:::evil\nclick a \"javascript:x\""))
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		n := anyNetwork(t)
		require.Regexp(t, dotGrammar, quotedWords.ReplaceAllString(rendered(t, n, "dot"), ""))
		require.True(t, json.Valid([]byte(rendered(t, n, "json"))))
		requireElements(t, rendered(t, n, "svg"))
	}))
}

// requireElements: an SVG can be opened anywhere. It loads and runs nothing.
func requireElements(t require.TestingT, drawing string) {
	for decoder := xml.NewDecoder(bytes.NewBufferString(drawing)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		if element, ok := token.(xml.StartElement); ok {
			require.True(t, slices.Contains(svgElements, element.Name.Local), element.Name.Local)
			for _, attribute := range element.Attr {
				require.False(t, strings.HasPrefix(attribute.Name.Local, "on") || attribute.Name.Local == "href", attribute.Name.Local)
			}
		}
	}
}

// The check finds a name that is not quoted.
func TestANameOutsideOfQuotesIsFound(t *testing.T) {
	require.NotRegexp(t, dotGrammar, quotedWords.ReplaceAllString(`a [label="b"]; evil "`, ""))
	require.Contains(t, rendered(t, networkOf(weird()), "svg"), "&lt;script&gt;")
	require.NotContains(t, style(), "url(")
}
