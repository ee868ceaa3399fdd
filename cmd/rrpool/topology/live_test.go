package topology

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// told is a network in a few words: its groups, its reflectors, and what is between them.
func told(n Network) string {
	var out []string
	for _, zone := range n.Zones {
		for _, g := range zone.Groups {
			text := g.ID + ": " + n.howMany(g.Clients)
			for _, l := range n.lines(g) {
				text += ", " + l.text
			}
			for _, w := range n.wires(g) {
				text += "; " + w.words(&n)
			}
			out = append(out, text)
		}
		for _, r := range zone.Reflectors {
			out = append(out, joined(r.Name+": "+n.chipText(r), n.detailOf(r)))
		}
	}
	if r := n.ring(); r.total.Expected > 0 {
		out = append(out, r.words(&n))
	}
	return strings.Join(append(out, n.headline()), "\n")
}

func TestWhatALiveClusterShows(t *testing.T) {
	const r1, r2, c1 = "10.240.0.200", "10.240.0.201", "10.241.0.0"
	for name, tc := range map[string]struct {
		edit func(*observed)
		want string
	}{
		"all is well": {
			func(*observed) {},
			"a/1: 4 clients, 4 with all sessions up; 4 × 2 sessions, all up\n" +
				"10.240.0.200: 5/5 up\n10.240.0.201: 5/5 up\nreflectors each with each: 1 session, all up\n" +
				"2 reflectors, 4 clients, cluster ID 244.0.0.1, step Steady, node-to-node mesh: off",
		},
		"a client short of one session": {
			func(o *observed) { o.cut(r1, c1) },
			"a/1: 4 clients, 3 with all sessions up, 1 with some sessions up; 4 × 2 sessions, 7 up\n" +
				"10.240.0.200: 4/5 up\n10.240.0.201: 5/5 up\nreflectors each with each: 1 session, all up\n" +
				"2 reflectors, 4 clients, cluster ID 244.0.0.1, step Steady, node-to-node mesh: off",
		},
		"a client that is cut off": {
			func(o *observed) {
				o.cut(r1, c1)
				o.cut(r2, c1)
				o.change(c1, func(n *plan.Node) { n.Ready = false })
			},
			"a/1: 4 clients, 3 with all sessions up, 1 with no session up, 1 not Ready; 4 × 2 sessions, 6 up\n" +
				"10.240.0.200: 4/5 up\n10.240.0.201: 4/5 up\nreflectors each with each: 1 session, all up\n" +
				"2 reflectors, 4 clients, cluster ID 244.0.0.1, step Steady, node-to-node mesh: off",
		},
		"a session that the report does not know": {
			func(o *observed) {
				st := o.Statuses[r1]
				st.Sessions = st.Sessions[:len(st.Sessions)-1]
				o.Statuses[r1] = st
			},
			"a/1: 4 clients, 3 with all sessions up, 1 with some sessions up; 4 × 2 sessions, 7 up\n" +
				"10.240.0.200: 4/5 up\n10.240.0.201: 5/5 up\nreflectors each with each: 1 session, all up\n" +
				"2 reflectors, 4 clients, cluster ID 244.0.0.1, step Steady, node-to-node mesh: off",
		},
		"a session of the mesh is none with a reflector": {
			func(o *observed) {
				for i := range o.Statuses[r1].Sessions {
					o.Statuses[r1].Sessions[i].Kind = plan.SessionMesh
				}
			},
			"a/1: 4 clients, 4 with some sessions up; 4 × 2 sessions, 4 up\n" +
				"10.240.0.200: 0/5 up\n10.240.0.201: 4/5 up\nreflectors each with each: 1 session, none up\n" +
				"2 reflectors, 4 clients, cluster ID 244.0.0.1, step Steady, node-to-node mesh: off",
		},
		"a reflector without a report": {
			func(o *observed) { delete(o.Statuses, r2) },
			"a/1: 4 clients, 4 not known; 4 × 2 sessions, 4 up, 4 not known\n" +
				"10.240.0.200: 5/5 up\n10.240.0.201: not known\nreflectors each with each: 1 session, all up\n" +
				"2 reflectors, 4 clients, cluster ID 244.0.0.1, step Steady, node-to-node mesh: off",
		},
		"a report that was cleared": {
			func(o *observed) { o.Statuses[r2] = plan.Status{Node: r2, Cleared: time.Unix(1, 0)} },
			"a/1: 4 clients, 4 not known; 4 × 2 sessions, 4 up, 4 not known\n" +
				"10.240.0.200: 5/5 up\n10.240.0.201: not known\nreflectors each with each: 1 session, all up\n" +
				"2 reflectors, 4 clients, cluster ID 244.0.0.1, step Steady, node-to-node mesh: off",
		},
		"the last word of a reflector that is not Ready": {
			func(o *observed) { o.change(r2, func(n *plan.Node) { n.Ready = false }); o.cut(r1, r2) },
			"a/1: 4 clients, 4 not known; 4 × 2 sessions, 4 up, 4 not known\n" +
				"10.240.0.200: 4/5 up\n10.240.0.201: 0/5 up, not Ready\nreflectors each with each: 1 session, none up\n" +
				"2 reflectors, 4 clients, cluster ID 244.0.0.1, step Steady, node-to-node mesh: off",
		},
		"what one reflector denies is not up": {
			func(o *observed) {
				st := o.Statuses[r2]
				for i := range st.Sessions {
					st.Sessions[i].Established = st.Sessions[i].Peer != o.Nodes[0].Addresses[0]
				}
			},
			"a/1: 4 clients, 4 with all sessions up; 4 × 2 sessions, all up\n" +
				"10.240.0.200: 4/5 up\n10.240.0.201: 4/5 up\nreflectors each with each: 1 session, none up\n" +
				"2 reflectors, 4 clients, cluster ID 244.0.0.1, step Steady, node-to-node mesh: off",
		},
		"no BGPPeers, and no mesh either": {
			func(o *observed) { o.Peers = nil },
			"a/1: 4 clients, 4 with no session up\n10.240.0.200: no sessions\n10.240.0.201: no sessions\n" +
				"2 reflectors, 4 clients, cluster ID 244.0.0.1, step Steady, node-to-node mesh: off",
		},
		"no BGPPeers yet, and the mesh is on": {
			func(o *observed) { o.Peers, o.BGP = nil, plan.BGPConfig{} },
			"a/1: 4 clients\n10.240.0.200: no sessions\n10.240.0.201: no sessions\n" +
				"2 reflectors, 4 clients, cluster ID 244.0.0.1, step Steady",
		},
		"reflectors of somebody else": {
			func(o *observed) {
				for _, r := range []string{r1, r2} {
					o.change(r, func(n *plan.Node) {
						n.RoleLabel, n.Pooled, n.Labels = false, false, map[string]string{"their": "label"}
					})
				}
				o.step = ""
				o.Peers = []plan.Peer{{Name: "theirs", NodeSelector: "all()", PeerSelector: "their == 'label'"}}
			},
			"a/1: 4 clients, 4 with all sessions up; 4 × 2 sessions, all up\n" +
				"10.240.0.200: 5/5 up, without rrpool's label\n10.240.0.201: 5/5 up, without rrpool's label\n" +
				"reflectors each with each: 1 session, all up\n" +
				"2 reflectors, 4 clients, cluster ID 244.0.0.1, node-to-node mesh: off",
		},
		"a worker of the pool without its role": {
			func(o *observed) {
				o.change(r2, func(n *plan.Node) { n.RoleLabel, n.ClusterID, n.Labels = false, "", nil })
				delete(o.Statuses, r2)
			},
			"a/1: 4 clients, 4 with all sessions up; 4 × 1 sessions, all up\n" +
				"10.240.0.200: 5/5 up\n10.240.0.201: 1/1 up, no role yet\nreflectors each with each: 1 session, all up\n" +
				"1 reflector, 4 clients, 1 node without the role, cluster ID 244.0.0.1, step Steady, node-to-node mesh: off",
		},
		"a worker of the pool that is not to have its role": {
			func(o *observed) {
				o.coming = false
				o.change(r2, func(n *plan.Node) { n.RoleLabel, n.ClusterID, n.Labels = false, "", nil })
				delete(o.Statuses, r2)
			},
			"a/1: 4 clients, 4 with all sessions up; 4 × 1 sessions, all up\n" +
				"a/2: 1 client, in the pool, without the role, 1 with all sessions up; 1 × 1 sessions, all up\n10.240.0.200: 5/5 up\n" +
				"1 reflector, 5 clients, cluster ID 244.0.0.1, step Steady, node-to-node mesh: off",
		},
		"a worker whose label alone is left": {
			func(o *observed) {
				o.coming = false
				o.change(r2, func(n *plan.Node) { n.ClusterID = "" })
				delete(o.Statuses, r2)
			},
			"a/1: 4 clients, 4 with all sessions up; 4 × 1 sessions, all up\n" +
				"10.240.0.200: 5/5 up\n10.240.0.201: 1/1 up, no cluster ID\nreflectors each with each: 1 session, all up\n" +
				"1 reflector, 4 clients, 1 node without the role, cluster ID 244.0.0.1, step Steady, node-to-node mesh: off",
		},
		"an existing node that was chosen is a client until it has the role": {
			func(o *observed) {
				o.provider = v1alpha1.ProviderExistingNodes
				o.change(r2, func(n *plan.Node) { n.RoleLabel, n.ClusterID, n.Labels = false, "", nil })
			},
			"a/1: 5 clients, 5 with all sessions up; 5 × 1 sessions, all up\n10.240.0.200: 5/5 up\n" +
				"1 reflector, 5 clients, cluster ID 244.0.0.1, step Steady, node-to-node mesh: off",
		},
		"reflectors in pairs, as on existing nodes": {
			func(o *observed) {
				o.provider = v1alpha1.ProviderExistingNodes
				o.Peers = topology.Busy(role, topology.Session{}, topology.Over(o.Nodes[0], o.Nodes[1], 64512, topology.Session{}), false)
			},
			"a/1: 4 clients, 4 with all sessions up; 4 × 2 sessions, all up\n" +
				"10.240.0.200: 5/5 up\n10.240.0.201: 5/5 up\nreflectors each with each: 1 session, all up\n" +
				"2 reflectors, 4 clients, cluster ID 244.0.0.1, step Steady, node-to-node mesh: off",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := cluster([]string{"a"}, 2, 4)
			tc.edit(&o)
			n := live(o)
			require.Equal(t, tc.want, told(n))
			require.Empty(t, n.Warnings)
		})
	}
}

// The mesh has a session for each two of its nodes and each family that both have;
// reflectors are not in it.
func TestTheMesh(t *testing.T) {
	o := cluster([]string{"a"}, 3, 100)
	o.BGP = plan.BGPConfig{}
	require.Equal(t, Mesh{On: true, Nodes: 100, Sessions: 4950}, live(o).Mesh)
	for i := range 10 {
		o.change(fmt.Sprintf("10.241.0.%d", i), func(n *plan.Node) { n.Addresses = append(n.Addresses, netip.MustParseAddr(fmt.Sprint("fd00::", i))) })
	}
	require.Equal(t, 4950+45, live(o).Mesh.Sessions)
	n := live(o)
	require.Equal(t, "node-to-node mesh: on, 100 nodes each with each, 4,995 sessions", n.meshLine())
}

// What the title counts is what the mesh joins, and nothing is promised that nobody wants.
func TestThePoolAfterARollback(t *testing.T) {
	for name, o := range map[string]observed{"rolled back": rolledBack(), "ordered": ordered(), "migrating": migrating()} {
		n := live(o)
		joins := n.clients()
		for _, zone := range n.Zones {
			for _, r := range zone.Reflectors {
				if !r.Role {
					joins++
				}
			}
		}
		require.Equal(t, n.Mesh.Nodes, joins, name)
		for _, format := range formats {
			promises := regexp.MustCompile(`\byet\b`).MatchString(rendered(t, n, format))
			require.Equal(t, o.coming, promises, "%s as %s", name, format)
		}
	}
	back := live(rolledBack())
	require.Equal(t, "no reflectors, 9 nodes, step Steady", back.Subtitle)
	require.Equal(t, "node-to-node mesh: on, 9 nodes each with each, 36 sessions", back.meshLine())
	for _, zone := range back.Zones {
		require.Empty(t, zone.Reflectors)
		require.Len(t, zone.Groups, 2)
		require.Equal(t, []line{{idle, "in the pool, without the role"}}, back.lines(zone.Groups[1]))
	}
	n := live(ordered())
	require.Equal(t, "no reflectors, 9 nodes, step WritePeers", n.Subtitle)
	n = live(migrating())
	require.Equal(t, "2 reflectors, 120 clients, 1 node without the role, cluster ID 244.0.0.1, step AwaitSessions", n.Subtitle)
	require.Equal(t, 121, n.Mesh.Nodes)
}

func TestBGPPeersThatAreNotOurs(t *testing.T) {
	o := cluster([]string{"a"}, 1, 2)
	o.Peers = append(o.Peers,
		plan.Peer{Name: "broken", NodeSelector: "has(", PeerSelector: "all()"},
		plan.Peer{Name: "broken-too", PeerSelector: "=="},
		plan.Peer{Name: "nowhere", PeerIP: "here"},
		plan.Peer{Name: "nobody", NodeSelector: "all()", PeerSelector: "has(nothing)"},
		plan.Peer{Name: "tor", PeerIP: "192.0.2.1:179"},
	)
	n := live(o)
	require.Equal(t, []string{"1 BGPPeer that leads out of the cluster: not drawn (tor)"}, n.Notes)
	require.Len(t, n.Warnings, 3)
	require.Contains(t, n.Warnings[0], `BGPPeer broken-too: its selector "==" cannot be read`)
	require.Contains(t, n.Warnings[1], `BGPPeer broken: its selector "has(" cannot be read`)
	require.Contains(t, n.Warnings[2], `BGPPeer nowhere: its peerIP "here" cannot be read: its sessions are not drawn`)
	require.Contains(t, told(n), "a/1: 2 clients, 2 with all sessions up; 2 × 1 sessions, all up")

	o.Peers = []plan.Peer{{Name: "by-address", Node: "10.241.0.0", PeerIP: o.Nodes[0].Addresses[0].String() + ":179"}}
	require.Contains(t, told(live(o)), "a/1: 1 client, 1 with all sessions up; 1 × 1 sessions, all up\na/2: 1 client, 1 with no session up")
	for i := range 5 {
		o.Peers = append(o.Peers, plan.Peer{Name: fmt.Sprint("tor-", i), PeerIP: "192.0.2.1"})
	}
	require.Equal(t, []string{"5 BGPPeers that lead out of the cluster: not drawn (tor-0, tor-1, tor-2 and 2 more)"}, live(o).Notes)
}

// What is wrong with the cluster is not left to the picture.
func TestProblemsAreWarnings(t *testing.T) {
	o := cluster([]string{"a"}, 1, 2)
	o.Problems = []plan.Problem{{Reason: "NodeStatusCRDMissing", Message: "no reports"}}
	require.Equal(t, []string{"no reports"}, live(o).Warnings)
	require.Contains(t, rendered(t, live(o), "html"), "‼ no reports")
}

func TestNumbersAndOrder(t *testing.T) {
	require.Equal(t, "0", grouped(0))
	require.Equal(t, "999", grouped(999))
	require.Equal(t, "1,000", grouped(1000))
	require.Equal(t, "-1,234,567", grouped(-1234567))
	for _, pair := range [][2]string{{"zone 2", "zone 10"}, {"a", "b"}, {"a", "a1"}, {"1", "a"}, {"007", "8"}, {"", "a"}, {"a01", "a1"}, {"10.240.0.9", "10.240.0.10"}} {
		require.Negative(t, natural(pair[0], pair[1]), pair)
		require.Positive(t, natural(pair[1], pair[0]), pair)
	}
	require.Zero(t, natural("x1y", "x1y"))
}

// Sessions of a group that are alike go over the trunk; those that differ do not hide there.
func TestTheTrunk(t *testing.T) {
	n := live(racks())
	var wires []string
	for _, w := range n.wires(n.Zones[6].Groups[0]) {
		wires = append(wires, fmt.Sprint(w.trunk, " ", len(w.zones), " ", w.words(&n)))
	}
	require.Equal(t, []string{"false 1 20 × 1 sessions, none up", "true 11 20 × 11 sessions, all up"}, wires)
	o := racks()
	for i := range 6 {
		o.cut(fmt.Sprintf("10.240.%d.200", i), "10.241.0.0")
	}
	n = live(o)
	all := n.wires(n.Zones[0].Groups[0])
	require.Len(t, all, 1, "too many differ")
	require.Equal(t, "20 × 12 sessions, 234 up", all[0].words(&n))
	few := live(cluster([]string{"a", "b", "c", "d"}, 1, 2))
	require.Len(t, few.wires(few.Zones[0].Groups[0]), 4, "a few zones need no trunk")
}
