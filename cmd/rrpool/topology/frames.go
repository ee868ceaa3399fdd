package topology

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// frameKind is what the frames around nodes stand for.
type frameKind string

// The kinds of frames. In a Hierarchy who belongs together is a rack, wherever it is.
const (
	zoneFrame  frameKind = ""
	rackFrame  frameKind = "rack"
	spineFrame frameKind = "spines"
)

// title is what a frame is called.
func (z Zone) title() string {
	switch z.Kind {
	case rackFrame:
		return "rack " + clean(z.Name)
	case spineFrame:
		return "spines"
	case zoneFrame:
	}
	return zoneName(z.Name)
}

// compareZones sorts the spines above the racks, and what is in no rack below them.
func compareZones(a, b Zone) int {
	rank := map[frameKind]int{spineFrame: 0, rackFrame: 1, zoneFrame: 2}
	return cmp.Or(cmp.Compare(rank[a.Kind], rank[b.Kind]), natural(a.Name, b.Name))
}

// groupNamed gives the group of clients that a BGPPeer of ours is for, "" for all, and
// whether it is a rack, whose reflectors belong to it as well.
func groupNamed(p plan.Peer) (name string, rack bool) {
	for _, prefix := range []string{topology.PeerQuorum, topology.PeerMulti, topology.PeerRack} {
		if rest, ok := strings.CutPrefix(p.Name, prefix+"."); ok && p.Owned {
			return rest, prefix == topology.PeerRack
		}
	}
	return "", false
}

// kindsOf are the topologies that reflectors have by their seats, as text.
func kindsOf(members []plan.Node) string {
	var out []string
	for _, n := range members {
		if n.ClusterID != "" && n.RoleLabel {
			out = append(out, string(topology.KindOf(n.Seat)))
		}
	}
	slices.Sort(out)
	return strings.Join(slices.DeleteFunc(slices.Compact(out), func(kind string) bool { return kind == "" }), " and ")
}

// frameOf says where a node is drawn: i is its place among the members and then the
// clients.
func (s *scene) frameOf(n plan.Node, i int) (frameKind, string) {
	switch {
	case !s.tiered():
		return zoneFrame, n.Zone
	case strings.HasPrefix(n.Seat, topology.SeatSpine):
		return spineFrame, ""
	case s.peering.racks[i] != "":
		return rackFrame, s.peering.racks[i]
	}
	return zoneFrame, n.Zone
}

// tiered: at least one reflector has a seat of a Hierarchy.
func (s *scene) tiered() bool {
	return slices.ContainsFunc(s.members, func(n plan.Node) bool {
		return topology.KindOf(n.Seat) == v1alpha1.TopologyHierarchy
	})
}

// clientless is said where a frame has no clients.
func (z Zone) clientless() string {
	if z.Kind == spineFrame {
		return "no clients: they join the racks"
	}
	return "no clients"
}
