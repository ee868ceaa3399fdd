package topology

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
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

	"github.com/rrpool/rrpool/cmd/rrpool/invent"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/topology"
	"github.com/rrpool/rrpool/test/cli"
)

// Bad input gets one sentence that names the field, the value and the remedy.
func TestBadInput(t *testing.T) {
	existing := cli.PoolFile(t, "{provider: {type: ExistingNodes}}")
	calicoless := cli.API{cli.PoolPath: crd.Default(), cli.NodesPath: cli.NodeList(corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})}
	for name, tc := range map[string]struct{ flags, says string }{
		"zones without nodes":               {"--zones 3", "--nodes: missing|--zones|such as --nodes 500"},
		"a file without nodes":              {"-f x", "--nodes: missing|--filename|such as --nodes 500"},
		"a topology without nodes":          {"--topology quorum", "--nodes: missing|--topology|such as --nodes 500"},
		"figures without nodes":             {"-o json", "--nodes: missing|a json is of an invented cluster|such as --nodes 500"},
		"a drawing of all topologies":       {"--nodes 9 --compare", "--compare: a drawing shows one topology|--output table"},
		"a cluster and an invented one":     {"--nodes 9 --context x", "[context nodes] were all set"},
		"one of all topologies":             {"--nodes 90 --compare --topology quorum -o table", "[compare topology] were all set"},
		"too many nodes":                    {"--nodes 50001", `--nodes|"50001"|from 1 to 50000`},
		"more zones than nodes":             {"--nodes 3 --zones 4", "--zones: 4 zones for --nodes 3|at most as many"},
		"more racks than nodes":             {"--nodes 3 --racks 4", "--racks: 4 racks for --nodes 3|at most as many"},
		"fewer racks than zones":            {"--nodes 90 --zones 3 --racks 2", "--racks|2 racks in 3 zones|give at least 3"},
		"reflectors that zones cannot have": {"--nodes 90 --zones 3 --reflectors 13", "--reflectors|13 reflectors|3 zones|use 12 or 15"},
		"fewer reflectors than zones":       {"--nodes 90 --zones 3 --reflectors 2", "--reflectors|use 3, or other --zones"},
		"too many zones to size for":        {"--nodes 90 --zones 30 -o table", "spec.sizing.max: 25|30 zones|or give --reflectors"},
		"an unknown topology":               {"--nodes 90 --topology ring", `--topology|"ring"|Auto, Single, Quorum, Hierarchy, MultiCluster`},
		"a quorum on existing nodes":        {"--nodes 90 --topology quorum -o table -f " + existing, "spec.topology.type: Quorum|ExistingNodes|use Single"},
		"no client on existing nodes":       {"--nodes 3 -o table -f " + existing, "--nodes: 3 nodes would be 3 reflectors and no client|give more"},
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
func TestInventedClusters(t *testing.T) {
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
			n := drawingOf(o)
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
		want, random := drawn(t, drawingOf(o)), rand.New(rand.NewPCG(1, 2))
		for range 3 {
			random.Shuffle(len(o.Nodes), func(i, j int) { o.Nodes[i], o.Nodes[j] = o.Nodes[j], o.Nodes[i] })
			random.Shuffle(len(o.Peers), func(i, j int) { o.Peers[i], o.Peers[j] = o.Peers[j], o.Peers[i] })
			require.Equal(t, want, drawn(t, drawingOf(o)), name)
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
	require.Regexp(t, grammar, quoted.ReplaceAllString(drawn(t, drawingOf(o)), ""))
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
				drawing = drawn(t, drawingOf(clusters(t)[strings.TrimPrefix(name, "topology-")]))
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

const role = "rrpool.io/route-reflector"

// ask calls the command as a user does.
func ask(t *testing.T, args ...string) cli.Answer {
	t.Helper()
	return cli.Ask(t, New, args...)
}

// drawn is a network as the command draws it.
func drawn(t require.TestingT, n Drawing) string {
	var out strings.Builder
	require.NoError(t, iostreams.Streams{Out: &out}.Print("drawing", "dot", nil, n.print))
	return out.String()
}

// inZones makes a cluster with as many reflectors and clients in each zone, all sessions Established, the mesh off.
func inZones(zones []string, reflectors, clients int) observed {
	off := false
	o := observed{name: "prod", step: "Steady", roleLabel: role, wanted: true}
	o.BGP.Mesh.Enabled = &off
	o.Peers = topology.Single(role, topology.Session{})
	for z, zone := range zones {
		for i := range reflectors {
			o.Nodes = append(o.Nodes, node(fmt.Sprintf("10.240.%d.%d", z, 200+i), zone, z*100+i, func(n *plan.Node) {
				n.HasRoleLabel, n.ClusterID, n.Pooled = true, "244.0.0.1", true
				n.Labels = map[string]string{role: ""}
			}))
		}
		for i := range clients {
			o.Nodes = append(o.Nodes, node(fmt.Sprintf("10.24%d.%d.%d", z+1, i/200, i%200), zone, 10000+z*5000+i))
		}
	}
	o.report()
	return o
}

func node(name, zone string, number int, edits ...func(*plan.Node)) plan.Node {
	n := plan.Node{
		Name: name, Zone: zone, Ready: true,
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{172, 16, byte(number / 250), byte(number%250 + 1)})},
	}
	for _, edit := range edits {
		edit(&n)
	}
	return n
}

// report has every reflector say that all its sessions are Established.
func (o *observed) report() {
	o.Statuses = map[string]plan.Status{}
	for _, n := range o.Nodes {
		if n.ClusterID == "" {
			continue
		}
		st := plan.Status{Node: n.Name}
		for _, other := range o.Nodes {
			for _, addr := range other.Addresses {
				if other.Name != n.Name {
					st.Sessions = append(st.Sessions, plan.Session{Peer: addr, Kind: plan.SessionNode, Established: true})
				}
			}
		}
		slices.SortFunc(st.Sessions, func(a, b plan.Session) int { return a.Peer.Compare(b.Peer) })
		o.Statuses[n.Name] = st
	}
}

// cut ends the sessions between two nodes, as both report them.
func (o *observed) cut(a, b string) {
	byName := map[string]plan.Node{}
	for _, n := range o.Nodes {
		byName[n.Name] = n
	}
	for _, ends := range [][2]string{{a, b}, {b, a}} {
		st := o.Statuses[ends[0]]
		for i := range st.Sessions {
			if slices.Contains(byName[ends[1]].Addresses, st.Sessions[i].Peer) {
				st.Sessions[i].Established = false
			}
		}
	}
}

// change edits a node.
func (o *observed) change(name string, edit func(*plan.Node)) {
	for i := range o.Nodes {
		if o.Nodes[i].Name == name {
			edit(&o.Nodes[i])
		}
	}
}

var frankfurt = []string{"eu-de-1", "eu-de-2", "eu-de-3"}

func failing() observed {
	o := inZones(frankfurt, 2, 10)
	o.step = "AwaitSessions"
	for i := range 10 {
		o.cut("10.240.0.200", fmt.Sprintf("10.243.0.%d", i))
		o.cut("10.240.0.201", fmt.Sprintf("10.243.0.%d", i))
	}
	for _, r := range []string{"10.240.0.200", "10.240.0.201", "10.240.1.200", "10.240.1.201", "10.240.2.200", "10.240.2.201"} {
		o.cut(r, "10.241.0.7")
	}
	o.change("10.241.0.7", func(n *plan.Node) { n.Ready = false })
	o.cut("10.240.1.200", "10.241.0.3")
	o.cut("10.240.1.200", "10.240.2.200")
	o.change("10.240.2.201", func(n *plan.Node) { n.Ready = false })
	delete(o.Statuses, "10.240.2.201")
	return o
}

// migrating has its reflectors, and one that is still without its role; the mesh is on.
func migrating() observed {
	o := inZones(frankfurt, 1, 40)
	o.BGP, o.step = plan.BGPConfig{ASN: 64512}, "AwaitSessions"
	o.change("10.240.2.200", func(n *plan.Node) { n.HasRoleLabel, n.ClusterID, n.Labels = false, "", nil })
	o.report()
	for i := range 15 {
		o.cut("10.240.1.200", fmt.Sprintf("10.242.0.%d", i))
	}
	return o
}

// arranged is a cluster of a topology as rrpool leaves it, all sessions Established. The
// nodes are called as in inZones.
func arranged(t require.TestingT, kind v1alpha1.TopologyType, nodes, zones, racks, reflectors int) observed {
	o := observed{name: "prod", step: "Steady", roleLabel: role, wanted: true}
	c := ofKind(kind, nodes, zones, racks, reflectors)
	_, err := o.arrange(c)
	require.NoError(t, err)
	for i := range o.Nodes {
		if n := &o.Nodes[i]; n.Pooled {
			n.Name = fmt.Sprintf("10.240.%d.%d", i%zones, 200+i)
		} else {
			n.Name = fmt.Sprintf("10.241.%d.%d", i/200, i%200)
		}
	}
	o.report()
	return o
}

func ofKind(kind v1alpha1.TopologyType, nodes, zones, racks, reflectors int) invent.Cluster {
	object := crd.Default()
	object.Spec.Topology.Type = kind
	return invent.Cluster{Spec: object.Spec, Nodes: nodes, Zones: invent.Names("zone-", zones), Racks: racks, Reflectors: reflectors}
}

// changing is a cluster on the way from Single to a Hierarchy: the third reflectors do
// not have their slots yet, and clients still peer with them all.
func changing(t require.TestingT) observed {
	o := arranged(t, v1alpha1.TopologyHierarchy, 30, 3, 0, 0)
	for i := range o.Nodes {
		if n := &o.Nodes[i]; strings.HasSuffix(n.Slot, "-3") {
			n.Slot, n.ClusterID, n.Labels[role] = topology.SlotSingle, "244.0.0.1", topology.SlotSingle
		}
	}
	o.Peers = append(o.Peers, topology.Scoped(role, topology.Session{})...)
	o.step = "AwaitSessions"
	return o
}

// dual has two address families, and BGPPeers that lead elsewhere.
func dual() observed {
	o := inZones([]string{"a", "b"}, 2, 5)
	for i := range o.Nodes {
		v4 := o.Nodes[i].Addresses[0].As4()
		o.Nodes[i].Addresses = append(o.Nodes[i].Addresses, netip.AddrFrom16([16]byte{0xfd, 14: v4[2], 15: v4[3]}))
	}
	o.Peers = append(o.Peers, plan.Peer{Name: "tor-b", PeerIP: "192.0.2.2"}, plan.Peer{Name: "tor-a", PeerIP: "192.0.2.1"})
	o.Nodes = append(o.Nodes, plan.Node{Name: "silent", Ready: true})
	o.report()
	return o
}

// clusters are those that are drawn in the tests, by name.
func clusters(t require.TestingT) map[string]observed {
	// Before its migration no node reflects.
	meshed := inZones(frankfurt, 0, 40)
	meshed.BGP, meshed.Peers, meshed.step, meshed.wanted = plan.BGPConfig{ASN: 64512}, nil, "", false
	return map[string]observed{
		"failing": failing(), "mesh": meshed, "migrating": migrating(),
		"33 reflectors": inZones(frankfurt, 11, 1667), "one zone": inZones([]string{"only"}, 3, 50),
		"dual stack": dual(), "no nodes": {name: "empty"}, "changing": changing(t),
		"quorum":       arranged(t, v1alpha1.TopologyQuorum, 300, 3, 30, 15),
		"multicluster": arranged(t, v1alpha1.TopologyMultiCluster, 90, 3, 0, 3),
		"racks":        arranged(t, v1alpha1.TopologyHierarchy, 5000, 3, 10, 33),
	}
}
