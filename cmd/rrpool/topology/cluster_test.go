package topology

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/topology"
	"github.com/rrpool/rrpool/test/cli"
)

func TestMain(m *testing.M) { cli.Main(m) }

// described is a network in a few words: its groups, its reflectors, and what is between them.
func described(n Drawing) string {
	var out []string
	for _, zone := range n.Zones {
		for _, g := range zone.Groups {
			text := strings.Join(append([]string{g.ID + ": " + n.howMany(g.Clients)}, n.details(zone, g)...), ", ")
			for _, l := range n.lines(g) {
				text += "; " + n.lineWords(l)
			}
			out = append(out, text)
		}
		for _, r := range zone.Reflectors {
			out = append(out, joined(r.Name+": "+n.reflectorWords(r), n.reflectorDetail(r)))
		}
	}
	if total := n.mutual(); total.Expected > 0 {
		out = append(out, "between reflectors: "+n.sessionWords(total))
	}
	return strings.Join(append(out, n.Subtitle), "\n")
}

func TestWhatALiveClusterShows(t *testing.T) {
	const r1, r2, c1 = "10.240.0.200", "10.240.0.201", "10.241.0.0"
	const subtitle = "2 reflectors, 4 clients, cluster ID 244.0.0.1, step Steady"
	for name, tc := range map[string]struct {
		edit func(*observed)
		want string
	}{
		"a client short of one session": {
			func(o *observed) { o.cut(r1, c1) },
			"a/1: 4 clients, 3 with all sessions up, 1 with some sessions up; 4 × 2 sessions, 7 up\n" +
				"10.240.0.200: 4/5 up\n10.240.0.201: 5/5 up\nbetween reflectors: 1 session, all up\n" + subtitle,
		},
		"a session of the mesh is none with a reflector": {
			func(o *observed) {
				for i := range o.Statuses[r1].Sessions {
					o.Statuses[r1].Sessions[i].Kind = plan.SessionMesh
				}
			},
			"a/1: 4 clients, 4 with some sessions up; 4 × 2 sessions, 4 up\n" +
				"10.240.0.200: 0/5 up\n10.240.0.201: 4/5 up\nbetween reflectors: 1 session, none up\n" + subtitle,
		},
		"a reflector without a report": {
			func(o *observed) { delete(o.Statuses, r2) },
			"a/1: 4 clients, 4 not known; 4 × 2 sessions, 4 up, 4 not known\n" +
				"10.240.0.200: 5/5 up\n10.240.0.201: not known\nbetween reflectors: 1 session, all up\n" + subtitle,
		},
		"the last report of a reflector that is not Ready": {
			func(o *observed) { o.change(r2, func(n *plan.Node) { n.Ready = false }); o.cut(r1, r2) },
			"a/1: 4 clients, 4 not known; 4 × 2 sessions, 4 up, 4 not known\n" +
				"10.240.0.200: 4/5 up\n10.240.0.201: 0/5 up, not Ready\nbetween reflectors: 1 session, none up\n" + subtitle,
		},
		"what one reflector denies is not up": {
			func(o *observed) {
				st := o.Statuses[r2]
				for i := range st.Sessions {
					st.Sessions[i].Established = st.Sessions[i].Peer != o.Nodes[0].Addresses[0]
				}
			},
			"a/1: 4 clients, 4 with all sessions up; 4 × 2 sessions, all up\n" +
				"10.240.0.200: 4/5 up\n10.240.0.201: 4/5 up\nbetween reflectors: 1 session, none up\n" + subtitle,
		},
		"no BGPPeers, and no mesh either": {
			func(o *observed) { o.Peers = nil },
			"a/1: 4 clients, 4 with no session up\n10.240.0.200: no sessions\n10.240.0.201: no sessions\n" + subtitle,
		},
		"reflectors that rrpool has not made": {
			func(o *observed) {
				for _, r := range []string{r1, r2} {
					o.change(r, func(n *plan.Node) {
						n.HasRoleLabel, n.Pooled, n.Labels = false, false, map[string]string{"their": "label"}
					})
				}
				o.step = ""
				o.Peers = []plan.Peer{{Name: "theirs", NodeSelector: "all()", PeerSelector: "their == 'label'"}}
			},
			"a/1: 4 clients, 4 with all sessions up; 4 × 2 sessions, all up\n" +
				"10.240.0.200: 5/5 up, without rrpool's label\n10.240.0.201: 5/5 up, without rrpool's label\n" +
				"between reflectors: 1 session, all up\n" +
				"2 reflectors, 4 clients, cluster ID 244.0.0.1",
		},
		"a worker of the pool without its role": {
			func(o *observed) {
				o.change(r2, func(n *plan.Node) { n.HasRoleLabel, n.ClusterID, n.Labels = false, "", nil })
				delete(o.Statuses, r2)
			},
			"a/1: 4 clients, 4 with all sessions up; 4 × 1 sessions, all up\n" +
				"10.240.0.200: 5/5 up\n10.240.0.201: 1/1 up, no role yet\nbetween reflectors: 1 session, all up\n" +
				"1 reflector, 4 clients, 1 node without the role, cluster ID 244.0.0.1, step Steady",
		},
		"a worker whose label alone is left": {
			func(o *observed) {
				o.wanted = false
				o.change(r2, func(n *plan.Node) { n.ClusterID = "" })
				delete(o.Statuses, r2)
			},
			"a/1: 4 clients, 4 not known; 4 × 2 sessions, 4 up, 4 not known\n" +
				"10.240.0.200: 5/5 up\n10.240.0.201: not known, no cluster ID\nbetween reflectors: 1 session, all up\n" +
				"1 reflector, 4 clients, 1 node without the role, cluster ID 244.0.0.1, step Steady",
		},
		"reflectors in pairs, as on existing nodes": {
			func(o *observed) {
				o.Peers = topology.InPlace(role, topology.Session{}, topology.Peerings(o.Nodes[0], o.Nodes[1], 64512, topology.Session{}), false)
			},
			"a/1: 4 clients, 4 with all sessions up; 4 × 2 sessions, all up\n" +
				"10.240.0.200: 5/5 up\n10.240.0.201: 5/5 up\nbetween reflectors: 1 session, all up\n" + subtitle,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := inZones([]string{"a"}, 2, 4)
			tc.edit(&o)
			n := drawingOf(o)
			require.Equal(t, tc.want, described(n))
			require.Empty(t, n.Warnings)
		})
	}
}

// In a Hierarchy the frames are racks, given by the slots of reflectors.
func TestFrames(t *testing.T) {
	for name, tc := range map[string]struct {
		o    observed
		want string
	}{
		"racks by label, which are in one zone each": {
			arranged(t, v1alpha1.TopologyHierarchy, 40, 2, 4, 16),
			"spines: 4 spines\nrack r1: 3 reflectors; 10 clients\nrack r2: 3 reflectors; 10 clients\n" +
				"rack r3: 3 reflectors; 10 clients\nrack r4: 3 reflectors; 10 clients\n" +
				"16 reflectors, 40 clients, topology Hierarchy, step Steady",
		},
		"zones are the groups of a Quorum": {
			arranged(t, v1alpha1.TopologyQuorum, 30, 3, 0, 9),
			"zone-1: 3 reflectors; 10 clients, with 6 of 9 reflectors\nzone-2: 3 reflectors; 10 clients, with 6 of 9 reflectors\n" +
				"zone-3: 3 reflectors; 10 clients, with 6 of 9 reflectors\n9 reflectors, 30 clients, topology Quorum, cluster ID 244.0.0.1, step Steady",
		},
		"on the way from Single to a Hierarchy": {
			changing(t),
			"spines: 2 spines\nrack zone-1: 2 reflectors; 10 clients, with 6 of 12 reflectors\n" +
				"rack zone-2: 2 reflectors; 10 clients, with 6 of 12 reflectors\n" +
				"rack zone-3: 2 reflectors; 10 clients, with 6 of 12 reflectors\n" +
				"zone-1: 1 reflector\nzone-2: 1 reflector\nzone-3: 2 reflectors\n12 reflectors, 30 clients, topology Hierarchy and Single, step AwaitSessions",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := drawingOf(tc.o)
			var out []string
			for _, frame := range n.Zones {
				text := frame.title() + ": " + frame.zoneWords()
				for _, g := range frame.Groups {
					text += fmt.Sprintf("; %d clients", g.Clients)
					for _, d := range n.details(frame, g) {
						if strings.HasPrefix(d, "with ") {
							text += ", " + d
						}
					}
				}
				out = append(out, text)
			}
			require.Equal(t, tc.want, strings.Join(append(out, n.Subtitle), "\n"))
			require.Empty(t, n.Warnings)
		})
	}
}

// The mesh has a session for each two of its nodes and each family that both have; reflectors are not in it.
func TestTheMesh(t *testing.T) {
	o := inZones([]string{"a"}, 3, 100)
	o.BGP = plan.BGPConfig{}
	require.Equal(t, Mesh{On: true, Nodes: 100, Sessions: 4950}, drawingOf(o).Mesh)
	for i := range 10 {
		o.change(fmt.Sprintf("10.241.0.%d", i), func(n *plan.Node) { n.Addresses = append(n.Addresses, netip.MustParseAddr(fmt.Sprint("fd00::", i))) })
	}
	n := drawingOf(o)
	require.Equal(t, "node-to-node mesh: on, 100 nodes each with each, 4995 sessions", n.meshWords())
	n = drawingOf(migrating())
	require.Equal(t, "2 reflectors, 120 clients, 1 node without the role, cluster ID 244.0.0.1, step AwaitSessions", n.Subtitle)
	require.Equal(t, 121, n.Mesh.Nodes)
}

func TestBGPPeersOfOthers(t *testing.T) {
	o := inZones([]string{"a"}, 1, 2)
	o.Peers = append(o.Peers,
		plan.Peer{Name: "broken", NodeSelector: "has(", PeerSelector: "all()"}, plan.Peer{Name: "nowhere", PeerIP: "here"},
		plan.Peer{Name: "no-node", NodeSelector: "all()", PeerSelector: "has(nothing)"}, plan.Peer{Name: "tor", PeerIP: "192.0.2.1:179"},
	)
	n := drawingOf(o)
	o.Problems = []plan.Problem{{Reason: "NodeStatusCRDMissing", Message: "no reports"}}
	require.Equal(t, []string{"no reports"}, drawingOf(o).Warnings)
	require.Equal(t, []string{"4 BGPPeers without nodes of the cluster on both sides: not drawn (broken, no-node, nowhere and 1 more)"}, n.Notes)
	require.Contains(t, described(n), "a/1: 2 clients, 2 with all sessions up; 2 × 1 sessions, all up")

	o.Peers = []plan.Peer{{Name: "by-address", Node: "10.241.0.0", PeerIP: o.Nodes[0].Addresses[0].String() + ":179"}}
	require.Contains(t, described(drawingOf(o)), "a/1: 1 client, 1 with all sessions up; 1 × 1 sessions, all up\na/2: 1 client, 1 with no session up")
	d := dual()
	d.Peers = []plan.Peer{{Name: "one-family", NodeSelector: "!has(" + role + ")", PeerIP: d.Nodes[0].Addresses[0].String()}}
	require.Contains(t, described(drawingOf(d)), "a/1: 5 clients, 5 with all sessions up, with 1 of 4 reflectors; 5 × 1 sessions, all up")
}

// The sessions of a ClusterPeering are drawn, with their states, where a reflector here has them.
func TestAClusterPeering(t *testing.T) {
	o := inZones([]string{"a"}, 2, 2)
	on := func(node, there string) plan.Peer {
		return plan.Peer{Name: "rrpool-peering-b-" + node + there, Peering: "b", Node: node, PeerIP: there, ASN: 64513}
	}
	o.Peers = append(o.Peers, on("10.240.0.201", "192.0.2.8"), on("10.240.0.200", "192.0.2.7"), on("10.241.0.0", "192.0.2.7"))
	st := o.Statuses["10.240.0.200"]
	st.Sessions = append(st.Sessions, plan.Session{Peer: netip.MustParseAddr("192.0.2.7"), Kind: plan.SessionNode, Established: true})
	o.Statuses["10.240.0.200"] = st
	n := drawingOf(o)
	require.Equal(t, []Remote{{"10.240.0.200", "b", "192.0.2.7", Sessions{1, 1, 0}}, {"10.240.0.201", "b", "192.0.2.8", Sessions{1, 0, 0}}}, n.Remotes)
	require.Equal(t, []string{"1 BGPPeer without nodes of the cluster on both sides: not drawn (rrpool-peering-b-10.241.0.0192.0.2.7)"}, n.Notes)
	drawing := drawn(t, n)
	require.Regexp(t, `fillcolor="#eaeef2".*label="192\.0\.2\.7\\nClusterPeering b"`, drawing)
	require.Equal(t, 1, strings.Count(drawing, `color="#c22f0a",fontname="Helvetica",fontsize="10",label="",penwidth="3.5",style="dotted"`), drawing)
	o.Peers = o.Peers[:2]
	require.NotContains(t, drawn(t, drawingOf(o)), "ClusterPeering")
}

// docs/topology.md names every look of a line.
func TestWhatTheDocsName(t *testing.T) {
	for _, l := range looks {
		require.Contains(t, cli.Page(t, "topology"), l.style)
	}
}

// The table of sessions by size in docs/concepts.md is what the command counts.
func TestTheSessionsOfTheConcepts(t *testing.T) {
	rows := regexp.MustCompile(`(?m)^\| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$`).FindAllStringSubmatch(strings.ReplaceAll(cli.Page(t, "concepts"), ",", ""), -1)
	require.Len(t, rows, 5)
	for _, row := range rows {
		nodes, err := strconv.Atoi(row[1])
		require.NoError(t, err)
		n, err := inventedDrawing(ofKind(v1alpha1.TopologySingle, nodes, 3, 0, 0))
		require.NoError(t, err)
		reflectors, sessions := n.reflectors(), 0
		for _, link := range n.Links {
			sessions += link.Expected
		}
		ofClient := (sessions - reflectors*(reflectors-1)/2) / n.Mesh.Nodes
		require.Equal(t, strings.Join(row[2:], " "), fmt.Sprint(n.Mesh.Sessions, n.Mesh.Nodes-1, reflectors, sessions, ofClient), "%s nodes", row[1])
	}
}

// Calico's objects on a real apiserver, read with the rights of the docs, each of which is needed.
func TestARealApiserver(t *testing.T) {
	a := cli.RealApiserver(t, "reader") // who may do nothing yet
	args := []string{"topology", "--kubeconfig", a.Kubeconfig()}
	await := func(good func(cli.Answer) bool) cli.Answer {
		return a.Eventually(func() cli.Answer { return ask(t, args...) }, good)
	}
	got := ask(t, args...)
	cli.RequireRefused(t, got, "may not get routereflectorpools.rrpool.io", "without a cluster: rrpool topology --nodes 500 --zones 3")

	granted, rules := cli.Roles(t, "topology")[0].ObjectMeta, cli.Roles(t, "topology")[0].Rules
	for i, missing := range []string{"routereflectorpools.rrpool.io", "nodes", "crd.projectcalico.org"} {
		a.Grant(granted, slices.Delete(slices.Clone(rules), i, i+1)...)
		require.Empty(t, await(func(got cli.Answer) bool { return got.Code == 1 && strings.Contains(got.Err, missing) }).Out)
	}
	a.Grant(granted, rules...)
	got = await(func(got cli.Answer) bool { return got.Code == 0 })
	require.Contains(t, got.Out, "No node has a BGP address: there is nothing to draw.")

	// A cluster of two zones, one session of which is down.
	reflector := func(n *corev1.Node) {
		n.Labels[role], n.Annotations["projectcalico.org/RouteReflectorClusterID"] = "", "244.0.0.1"
	}
	a.Node("rr-a", "a", "10.0.0.1", reflector)
	a.Node("rr-b", "b", "10.0.0.2", reflector)
	a.Node("w-1", "a", "10.0.0.11")
	a.Node("w-2", "a", "10.0.0.12")
	a.Node("w-3", "b", "10.0.0.13")
	a.Calico("kind: BGPConfiguration\nmetadata: {name: default}\nspec: {nodeToNodeMeshEnabled: false}")
	a.Calico("kind: BGPPeer\nmetadata: {name: rrpool-clients}\nspec: {nodeSelector: '!has(%[1]s)', peerSelector: 'has(%[1]s)'}", role)
	a.Calico("kind: BGPPeer\nmetadata: {name: rrpool-reflectors}\nspec: {nodeSelector: 'has(%[1]s)', peerSelector: 'has(%[1]s)'}", role)
	a.Calico("kind: BGPPeer\nmetadata: {name: tor}\nspec: {peerIP: 192.0.2.1, asNumber: 64513}")
	a.Calico("kind: BGPPeer\nmetadata: {name: broken}\nspec: {nodeSelector: 'has(', peerSelector: 'all()'}")
	for name, others := range map[string][]string{"rr-a": {"10.0.0.2", "10.0.0.12", "10.0.0.13"}, "rr-b": {"10.0.0.1", "10.0.0.11", "10.0.0.12", "10.0.0.13"}} {
		var peers []string
		for _, other := range others {
			peers = append(peers, fmt.Sprintf("{peerIP: %s, type: NodePeer, state: Established, since: '09:00:00'}", other))
		}
		if name == "rr-a" {
			peers = append(peers, "{peerIP: 10.0.0.11, type: NodePeer, state: Connect, since: '09:00:00'}")
		}
		a.Calico("kind: CalicoNodeStatus\nmetadata: {name: rrpool-%[1]s, labels: {%[2]s: %[3]s}}\nspec: {node: %[1]s, classes: [Agent, BGP], updatePeriodSeconds: 10}\n"+
			"status: {lastUpdated: '2026-11-21T09:00:00Z', agent: {birdV4: {state: Ready}}, bgp: {numberEstablishedV4: 4, numberNotEstablishedV4: 0, numberEstablishedV6: 0, numberNotEstablishedV6: 0, peersV4: [%[4]s]}}",
			name, v1alpha1.ManagedByLabel, v1alpha1.ManagedByValue, strings.Join(peers, ", "))
	}
	got = await(func(got cli.Answer) bool { return got.Code == 0 && strings.Contains(got.Out, "3 clients") })
	require.Empty(t, got.Err)
	var f flags
	set := pflag.NewFlagSet("topology", pflag.ContinueOnError)
	f.Register(set)
	require.NoError(t, set.Parse(args))
	n, err := f.read(t.Context())
	require.NoError(t, err)
	require.Equal(t, "a/1: 2 clients, 1 with all sessions up, 1 with some sessions up; 2 × 1 sessions, 1 up; 2 × 1 sessions, all up\n"+
		"rr-a: 3/4 up\nb/1: 1 client, 1 with all sessions up; 1 × 1 sessions, all up; 1 × 1 sessions, all up\nrr-b: 4/4 up\n"+
		"between reflectors: 1 session, all up\n2 reflectors, 3 clients, cluster ID 244.0.0.1", described(n))
	require.Equal(t, []string{"2 BGPPeers without nodes of the cluster on both sides: not drawn (broken, tor)"}, n.Notes)

	a.Create(&v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	got = await(func(got cli.Answer) bool { return strings.Contains(got.Out, ", step ") })
	require.Zero(t, got.Code)

	// A worker of the pool is about to reflect where that is wanted, and a client elsewhere.
	a.Node("pooled", "b", "10.0.0.3", func(n *corev1.Node) { n.Labels[v1alpha1.PoolLabel] = "route-reflectors" })
	pool := &v1alpha1.RouteReflectorPool{}
	require.NoError(t, a.Admin.Get(t.Context(), client.ObjectKey{Name: "default"}, pool))
	pool.Spec.Provider.Type = v1alpha1.ProviderIKS
	require.NoError(t, a.Admin.Update(t.Context(), pool))
	got = await(func(got cli.Answer) bool { return strings.Contains(got.Out, "no role yet") })
	require.Contains(t, got.Out, "2 reflectors, 3 clients, 1 node without the role")
	pool.Spec.Mode = v1alpha1.ModeFullMesh
	require.NoError(t, a.Admin.Update(t.Context(), pool))
	await(func(got cli.Answer) bool { return strings.Contains(got.Out, "2 reflectors, 4 clients") })
}
