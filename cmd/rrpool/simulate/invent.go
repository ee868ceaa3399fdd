package simulate

import (
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// inventedRackLabel is the label of invented racks where the file names none.
const inventedRackLabel = "rack"

// numbered gives names that sort by their numbers, counted from 1.
func numbered(prefix string, n int) []string {
	digits := len(strconv.Itoa(n))
	out := make([]string, 0, n)
	for i := range n {
		out = append(out, fmt.Sprintf("%s%0*d", prefix, digits, i+1))
	}
	return out
}

// invent makes so many clients, evenly in the zones and racks. A rack is in one zone.
func (q question) invent(clients int, spec topology.Spec) []plan.Node {
	racks := numbered("r", q.racks)
	out := make([]plan.Node, 0, clients)
	for i, name := range numbered("node-", clients) {
		n := node(name, i)
		place := i
		if len(racks) > 0 {
			place = i % len(racks)
			n.Labels[spec.RackLabel] = racks[place]
		}
		n.Zone = q.zones[place%len(q.zones)]
		n.Labels[spec.ZoneLabel] = n.Zone
		out = append(out, n)
	}
	return out
}

// dedicated makes the nodes of the pool, perZone in each zone.
func (q question) dedicated(perZone int, spec topology.Spec) []plan.Node {
	var out []plan.Node
	for _, zone := range q.zones {
		for _, name := range numbered("reflector-"+zone+"-", perZone) {
			n := node(name, mostNodes+len(out))
			n.Zone, n.Pooled = zone, true
			n.Labels[spec.ZoneLabel] = zone
			out = append(out, n)
		}
	}
	return out
}

// node makes the n-th node.
func node(name string, n int) plan.Node {
	return plan.Node{
		Name: name, UID: name, Labels: map[string]string{}, Ready: true,
		Created: time.Unix(0, 0), ReadyChanged: time.Unix(0, 0),
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})}, //nolint:gosec // G115: the bytes of a number
	}
}
