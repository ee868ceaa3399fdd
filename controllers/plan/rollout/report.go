package rollout

import (
	"net/netip"
	"slices"

	"github.com/rrpool/rrpool/controllers/plan"
)

// report is what a node's status report says of its sessions by BGPPeers. In a large cluster every reflector has one with
// every node, so each address has a number, and a report is read once.
type report struct {
	// up says by the number of an address whether there is an Established session with it.
	up []bool
	// down are the sessions that are not Established.
	down []*plan.Session
}

// report of a node; without any, it has no sessions.
func (v *view) report(node string) *report {
	r, known := v.reports[node]
	if known {
		return r
	}
	r = &report{up: make([]bool, len(v.numbers)+1)}
	sessions := v.Statuses[node].Sessions
	for i := range sessions {
		switch s := &sessions[i]; {
		case !isPeer(s.Kind):
		case s.Established:
			r.up[v.numbers[s.Peer]] = true
		default:
			r.down = append(r.down, s)
		}
	}
	r.up[0] = false // addresses that no node has
	v.reports[node] = r
	return r
}

// member is a node with the numbers of its addresses.
type member struct {
	*plan.Node
	numbers []int32
	// class in the network as it is, where reflectors are not all alike.
	class int
}

func (v *view) members(nodes []plan.Node) []*member {
	out, numbers := make([]*member, len(nodes)), make([]int32, 0, 2*len(nodes))
	for i := range nodes {
		from := len(numbers)
		for _, a := range nodes[i].Addresses {
			numbers = append(numbers, v.numbers[a])
		}
		out[i] = &member{Node: &nodes[i], numbers: numbers[from:len(numbers):len(numbers)]}
	}
	return out
}

// has reports whether there is an Established session with the address of this number.
func (r *report) has(number int32) bool { return int(number) < len(r.up) && r.up[number] }

// isUp reports whether a node has an Established session at any address of m.
func (r *report) isUp(m *member) bool {
	return slices.ContainsFunc(m.numbers, r.has)
}

// number gives each address of a node a number, from 1.
func number(nodes []plan.Node) map[netip.Addr]int32 {
	out := make(map[netip.Addr]int32, len(nodes))
	for i := range nodes {
		for _, a := range nodes[i].Addresses {
			if _, known := out[a]; !known {
				out[a] = int32(len(out) + 1) //nolint:gosec // G115: as many as there are nodes
			}
		}
	}
	return out
}
