package topology_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

const (
	roleLabel = "rrpool.io/route-reflector"
	zoneLabel = "topology.kubernetes.io/zone"
	rackLabel = "example.com/rack"
)

var everyKind = []v1alpha1.TopologyType{single, quorum, multi, hierarchy}

// world is a cluster and what is wanted of it.
type world struct {
	spec       topology.Spec
	zones      []string
	perZone    int
	clients    []plan.Node
	reflectors []plan.Node
	peers      []plan.Peer
	made       int
}

func newWorld(kind v1alpha1.TopologyType, zones int) *world {
	w := &world{spec: topology.Spec{
		Kind: kind, ClusterID: "244.0.0.1", Redundancy: 3, MaxClients: 2000, MaxPaths: 64, RoleLabel: roleLabel, ZoneLabel: zoneLabel,
	}}
	for z := range zones {
		w.zones = append(w.zones, fmt.Sprintf("zone-%d", z+1))
	}
	return w
}

func (w *world) node(prefix, zone string) plan.Node {
	w.made++
	n := plan.Node{
		Name: fmt.Sprintf("%s-%05d", prefix, w.made), Zone: zone, Ready: true, Labels: map[string]string{},
		Created:   time.Unix(int64(w.made), 0),
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(w.made >> 16), byte(w.made >> 8), byte(w.made)})},
	}
	if zone != "" {
		n.Labels[zoneLabel] = zone
	}
	return n
}

// join adds clients: n in every zone.
func (w *world) join(n int) *world {
	for range n {
		for _, z := range w.zones {
			w.clients = append(w.clients, w.node("client", z))
		}
	}
	return w
}

// joinAll adds n clients, spread over the zones.
func (w *world) joinAll(n int) *world {
	for i := range n {
		w.clients = append(w.clients, w.node("client", w.zones[i%len(w.zones)]))
	}
	return w
}

func (w *world) standing() topology.Spec {
	return w.spec.Standing(slices.Concat(w.clients, w.reflectors), w.peers)
}

func (w *world) size(sized int) *plan.Problem {
	var total int
	var problem *plan.Problem
	w.spec, total, problem = topology.Size(w.standing(), w.clients, w.zones, sized, "")
	w.perZone = total / len(w.zones)
	return problem
}

// pool has perZone nodes in each zone: those without a slot go first, new ones come.
func (w *world) pool() {
	assigned := map[string]int{}
	for i, s := range w.arrange().Slots {
		assigned[s.Node] = len(w.reflectors) + i
	}
	var out []plan.Node
	for _, z := range w.zones {
		there := slices.DeleteFunc(slices.Clone(w.reflectors), func(n plan.Node) bool { return n.Zone != z })
		slices.SortFunc(there, func(a, b plan.Node) int {
			return cmp.Or(plan.TrueFirst(assigned[a.Name] > 0, assigned[b.Name] > 0), cmp.Compare(assigned[a.Name], assigned[b.Name]))
		})
		for len(there) < w.perZone {
			n := w.node("reflector", z)
			n.Pooled = true
			there = append(there, n)
		}
		out = append(out, there[:w.perZone]...)
	}
	w.reflectors = out
}

func (w *world) arrange() topology.Layout {
	return topology.Arrange(w.standing(), topology.Session{}, w.clients, w.reflectors, w.zones, w.perZone)
}

// follow does what a layout says.
func (w *world) follow(l topology.Layout) {
	reflectors := slices.Clone(w.reflectors)
	for i := range reflectors {
		n := &reflectors[i]
		n.RoleLabel, n.Slot, n.ClusterID, n.Labels = false, "", "", maps.Clone(n.Labels)
		delete(n.Labels, roleLabel)
	}
	w.reflectors, w.clients, w.peers = l.Written(reflectors, roleLabel), l.Written(w.clients, roleLabel), l.Peers
}

// settle sizes, orders, arranges and follows.
func (w *world) settle(sized int) (topology.Layout, *plan.Problem) {
	problem := w.size(sized)
	w.pool()
	l := w.arrange()
	w.follow(l)
	for next := w.arrange(); !slices.EqualFunc(l.Peers, next.Peers, plan.SamePeer) || len(next.Racks) > 0; next = w.arrange() {
		l = next
		w.follow(l)
	}
	return l, problem
}

// network is that of all nodes but those that are down.
func (w *world) network(down ...string) *simulate.Network {
	off := false
	return simulate.NewConfiguration(roleLabel, slices.Concat(w.clients, w.reflectors), plan.BGPConfig{Mesh: plan.Mesh{Enabled: &off}}, w.peers).
		Network(func(name string) bool { return !slices.Contains(down, name) })
}

func isClient(name string) bool { return strings.HasPrefix(name, "client") }

// sessions of each client with reflectors.
func (w *world) sessions() map[string][]string {
	net := w.network()
	classes := net.Classes()
	out := map[string][]string{}
	for _, class := range classes {
		if class.Reflects {
			continue
		}
		var peers []string
		for _, r := range w.reflectors {
			if net.Connected(class.Nodes[0], r.Name) {
				peers = append(peers, r.Name)
			}
		}
		for _, n := range class.Nodes {
			if isClient(n) {
				out[n] = peers
			}
		}
	}
	return out
}

// drawWorld makes up a cluster.
func drawWorld(t *rapid.T) *world {
	w := newWorld(rapid.SampledFrom(everyKind).Draw(t, "kind"), rapid.IntRange(1, 6).Draw(t, "zones"))
	w.spec.Redundancy = rapid.IntRange(1, 4).Draw(t, "redundancy")
	w.spec.MaxClients = rapid.SampledFrom([]int{20, 60, 150, 500}).Draw(t, "limit")
	racks := 0
	if rapid.IntRange(0, 3).Draw(t, "labels") == 0 {
		w.spec.RackLabel, racks = rackLabel, rapid.IntRange(1, 6).Draw(t, "racks")
	}
	skew := rapid.IntRange(1, 3).Draw(t, "skew")
	for range rapid.SampledFrom([]int{3, 10, 40, 100, 400}).Draw(t, "clients") {
		w.drawClient(t, racks, skew)
	}
	return w
}

// drawClient adds one, now and then without the label that would put it into a group.
func (w *world) drawClient(t *rapid.T, racks, skew int) {
	draw := rapid.IntRange(0, 1<<20).Draw(t, "client")
	zone := w.zones[min(draw%(skew*len(w.zones)), len(w.zones)-1)]
	n := w.node("client", zone)
	draw /= 64
	if draw%16 == 0 {
		delete(n.Labels, zoneLabel)
		n.Zone = ""
	} else if racks > 0 {
		n.Labels[rackLabel] = fmt.Sprintf("r%d", draw/16%racks)
	}
	w.clients = append(w.clients, n)
}
