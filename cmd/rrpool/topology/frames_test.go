package topology

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// framed is what is in the frames of a network, in a few words.
func framed(n Network) string {
	var out []string
	for i, frame := range n.Zones {
		text := frame.title() + ": " + n.panelWords(i, n.ring())
		for _, g := range frame.Groups {
			text += fmt.Sprintf("; %d clients", g.Clients)
			for _, l := range n.lines(g) {
				if l.state == idle {
					text += ", " + l.text
				}
			}
		}
		out = append(out, text)
	}
	if r := n.ring(); r.total.Expected > 0 {
		out = append(out, r.words(&n))
	}
	return strings.Join(append(out, n.Subtitle), "\n")
}

func TestFrames(t *testing.T) {
	const hierarchy = v1alpha1.TopologyHierarchy
	for name, tc := range map[string]struct {
		kind v1alpha1.TopologyType
		wish wish
		edit func(*observed)
		want string
	}{
		"racks by label, which are in one zone each": {
			hierarchy,
			wish{nodes: 40, zones: 2, racks: 4, reflectors: 16},
			nil,
			"spines: 4 spines, cluster ID 244.0.0.2\n" +
				"rack 1: 3 reflectors, cluster ID 244.0.0.3; 10 clients, in zone zone-1\nrack 2: 3 reflectors, cluster ID 244.0.0.4; 10 clients, in zone zone-2\n" +
				"rack 3: 3 reflectors, cluster ID 244.0.0.5; 10 clients, in zone zone-1\nrack 4: 3 reflectors, cluster ID 244.0.0.6; 10 clients, in zone zone-2\n" +
				"spines with all reflectors of the racks: 48 sessions, all up\n" +
				"16 reflectors (4 spines), 40 clients, topology Hierarchy, step Steady",
		},
		"a client that no label puts into a rack is in the open one": {
			hierarchy,
			wish{nodes: 20, zones: 2},
			func(o *observed) {
				o.change("10.241.0.19", func(n *plan.Node) { n.Zone, n.Labels = "", nil })
			},
			"spines: 4 spines, cluster ID 244.0.0.2\n" +
				"rack zone-1: 3 reflectors, cluster ID 244.0.0.3; 11 clients, in 2 zones\nrack zone-2: 3 reflectors, cluster ID 244.0.0.4; 9 clients, in zone zone-2\n" +
				"spines with all reflectors of the racks: 24 sessions, all up\n" +
				"10 reflectors (4 spines), 20 clients, topology Hierarchy, step Steady",
		},
		"seats whose BGPPeers are not written yet": {
			hierarchy,
			wish{nodes: 20, zones: 2},
			func(o *observed) { o.Peers = topology.Single(role, topology.Session{}) },
			"spines: 4 spines, cluster ID 244.0.0.2\n" +
				"zone-1: 3 reflectors; 10 clients\nzone-2: 3 reflectors; 10 clients\n" +
				"reflectors each with each: 45 sessions, all up\n" +
				"10 reflectors (4 spines), 20 clients, topology Hierarchy, step Steady",
		},
		"BGPPeers of somebody else that are called like ours": {
			hierarchy,
			wish{nodes: 20, zones: 2},
			func(o *observed) {
				for i := range o.Peers {
					o.Peers[i].Owned = false
				}
			},
			"spines: 4 spines, cluster ID 244.0.0.2\n" +
				"zone-1: 3 reflectors; 10 clients, with 3 of 10 reflectors\nzone-2: 3 reflectors; 10 clients, with 3 of 10 reflectors\n" +
				"spines with all reflectors of the racks: 24 sessions, all up\n" +
				"10 reflectors (4 spines), 20 clients, topology Hierarchy, step Steady",
		},
		"zones are the groups of a Quorum": {
			v1alpha1.TopologyQuorum,
			wish{nodes: 30, zones: 3, reflectors: 9},
			nil,
			"zone-1: 3 reflectors; 10 clients, with 6 of 9 reflectors\nzone-2: 3 reflectors; 10 clients, with 6 of 9 reflectors\n" +
				"zone-3: 3 reflectors; 10 clients, with 6 of 9 reflectors\n" +
				"reflectors each with each: 36 sessions, all up\n" +
				"9 reflectors, 30 clients, topology Quorum, cluster ID 244.0.0.1, step Steady",
		},
		"many groups of a Quorum are one card": {
			v1alpha1.TopologyQuorum,
			wish{nodes: 120, zones: 1, reflectors: 9},
			nil,
			"zone-1: 9 reflectors; 120 clients, 12 groups, each with 6 of 9 reflectors\n" +
				"reflectors each with each: 36 sessions, all up\n" +
				"9 reflectors, 120 clients, topology Quorum, cluster ID 244.0.0.1, step Steady",
		},
		"a cluster ID for each reflector of a MultiCluster": {
			v1alpha1.TopologyMultiCluster,
			wish{nodes: 30, zones: 3, reflectors: 3},
			nil,
			"zone-1: 1 reflector; 10 clients\nzone-2: 1 reflector; 10 clients\nzone-3: 1 reflector; 10 clients\n" +
				"reflectors each with each: 3 sessions, all up\n3 reflectors, 30 clients, topology MultiCluster, step Steady",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := arranged(tc.kind, tc.wish)
			require.NoError(t, err)
			if tc.edit != nil {
				tc.edit(&o)
			}
			n := live(o)
			require.Equal(t, tc.want, framed(n))
			require.Empty(t, n.Warnings)
		})
	}
}

// Whatever is invented has the sessions that the cluster will have once it is there.
func TestAnInventedClusterIsTheOneThatComes(t *testing.T) {
	for kind, w := range map[v1alpha1.TopologyType]wish{
		v1alpha1.TopologySingle: {nodes: 90, zones: 3}, v1alpha1.TopologyQuorum: {nodes: 90, zones: 3, reflectors: 9},
		v1alpha1.TopologyHierarchy: {nodes: 90, zones: 3}, v1alpha1.TopologyMultiCluster: {nodes: 90, zones: 3, reflectors: 3},
	} {
		o, err := arranged(kind, w)
		require.NoError(t, err)
		w.object = object(t, kind)
		invented, err := invent(w)
		require.NoError(t, err)
		there := live(o)
		require.Len(t, invented.Zones, len(there.Zones))
		for i, frame := range there.Zones {
			require.Equal(t, frame.title(), invented.Zones[i].title())
			require.Len(t, invented.Zones[i].Reflectors, len(frame.Reflectors))
			for j, r := range frame.Reflectors {
				require.Equal(t, r.Expected, invented.Zones[i].Reflectors[j].Expected)
				require.Zero(t, invented.Zones[i].Reflectors[j].Unknown, "nobody has looked, and nobody could have")
			}
			require.Len(t, invented.Zones[i].Groups, len(frame.Groups))
		}
		require.Len(t, invented.Links, len(there.Links))
		require.Equal(t, there.Topology, invented.Topology)
	}
}
