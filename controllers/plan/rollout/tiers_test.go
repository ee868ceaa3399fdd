package rollout_test

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// tiered: reflectors have different cluster IDs, so a route may be reflected more than once.
func (w *world) tiered() bool {
	id := ""
	for _, m := range w.nodes {
		if m.ClusterID != "" && id != "" && m.ClusterID != id {
			return true
		}
		id = max(id, m.ClusterID)
	}
	return false
}

// heard is a route as a node has it: from whom, and by which clusters.
type heard struct {
	at, from *machine
	clusters uint64 // a bit for each
}

// routes is what follows from the sessions that are up and from what is rendered. Mostly
// nothing of that changes for many seconds, and then neither do the routes.
type routes struct {
	learned map[*machine]map[*machine]map[*machine]bool // by origin
	apart   [][2]*machine
	// paired: apart is worked out; tiered: for reflectors with different cluster IDs.
	computed, tiered bool
	bits             map[string]uint64 // by cluster ID
}

// learn gives all that have a route to origin, and from whom, by BIRD's rules of reflection.
func (w *world) learn(origin *machine) map[*machine]map[*machine]bool {
	all := w.sorted()
	seen, got := map[heard]bool{}, map[*machine]map[*machine]bool{}
	queue := []heard{{at: origin}}
	for len(queue) > 0 {
		h := queue[0]
		queue = queue[1:]
		for _, next := range all {
			if clusters, ok := w.sends(origin, h, next); ok {
				if n := (heard{next, h.at, clusters}); !seen[n] {
					if got[next] == nil {
						got[next] = map[*machine]bool{}
					}
					seen[n], got[next][h.at] = true, true
					queue = append(queue, n)
				}
			}
		}
	}
	return got
}

// sends reports whether the node that has heard a route passes it on to next, and the
// clusters that it has come through then.
func (w *world) sends(origin *machine, h heard, next *machine) (uint64, bool) {
	if next == h.at || next == h.from || next == origin || !w.session(h.at, next).up || w.recovers(h.at, next) {
		return 0, false
	}
	clusters, reflected := h.clusters, true
	if h.at != origin {
		clusters, reflected = w.reflects(h, next)
	}
	back := next.rendered[h.at.Name]
	return clusters, reflected && (!back.Client || clusters&w.known.bit(back.ClusterID) == 0)
}

// reflects reports whether a node passes on what it has from another, and the clusters
// that the route has come through then.
func (w *world) reflects(h heard, next *machine) (uint64, bool) {
	from, to := h.at.rendered[h.from.Name], h.at.rendered[next.Name]
	if w.now.Before(w.muted[h.at.Name]) || !from.Client && !to.Client || to.Client && h.clusters&w.known.bit(to.ClusterID) != 0 {
		return 0, false
	}
	clusters := h.clusters
	for _, side := range []simulate.Side{from, to} {
		if side.Client {
			clusters |= w.known.bit(side.ClusterID)
		}
	}
	return clusters, true
}

// bit stands for a cluster ID as long as the network is the same.
func (r *routes) bit(id string) uint64 {
	if r.bits == nil {
		r.bits = map[string]uint64{}
	}
	bit, known := r.bits[id]
	if !known {
		if bit = 1 << len(r.bits); bit == 0 {
			panic("a network with more than 64 cluster IDs")
		}
		r.bits[id] = bit
	}
	return bit
}

func (w *world) setRack(a plan.SetRack) {
	m := w.nodes[a.Node]
	m.Labels = maps.Clone(m.Labels)
	if m.Labels == nil {
		m.Labels = map[string]string{}
	}
	m.Rack, m.Labels[plan.RackLabel] = a.Rack, a.Rack
	if a.Rack == "" {
		delete(m.Labels, plan.RackLabel)
	}
}

// moves counts a reflector that changes its slot while nodes depend on it.
func (w *world) moves(m *machine, a plan.SetReflector) {
	if m.RoleLabel && m.ClusterID != "" && m.ClusterID != a.ClusterID && !w.bgp.MeshOn() {
		w.cleared++
	}
}

// brings reports whether to has origin's routes from via, whatever way they took there.
func (w *world) brings(origin, via, to *machine) bool {
	if w.tiered() {
		return w.learned(origin)[to][via]
	}
	return w.passes(origin, via, to)
}

// learned is learn, once for a network.
func (w *world) learned(origin *machine) map[*machine]map[*machine]bool {
	if w.known.learned == nil {
		w.known.learned = map[*machine]map[*machine]map[*machine]bool{}
	}
	got, known := w.known.learned[origin]
	if !known {
		got = w.learn(origin)
		w.known.learned[origin] = got
	}
	return got
}

// apart gives the pairs of nodes of which the first has no route to the second.
func (w *world) apart() [][2]*machine {
	if tiered := w.tiered(); !w.known.computed || w.known.tiered != tiered {
		w.known.computed, w.known.tiered, w.known.apart = true, tiered, nil
		for _, a := range w.all() {
			for _, b := range w.all() {
				if a != b && !w.reachesAs(tiered, b, a) {
					w.known.apart = append(w.known.apart, [2]*machine{a, b})
				}
			}
		}
	}
	return w.known.apart
}

// atOdds: BGPPeers of ours that must not stand side by side. While the mesh is off, those
// that may select the same nodes render the same; and Single's, which select every
// reflector, are scoped beside reflectors with other cluster IDs.
func (w *world) atOdds() string {
	if w.bgp.MeshOn() {
		return ""
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(w.peers)), func(name string) bool { return w.peers[name].PeerIP != "" })
	for i, name := range names {
		p := w.peers[name]
		for _, other := range names[:i] {
			if !ptr.Equal(w.peers[other].Password, p.Password) && !disjoint(other, name) {
				return fmt.Sprintf("4: BGPPeers %s and %s have different passwords", other, name)
			}
		}
		if p.PeerSelector == "has("+w.d.RoleLabel+")" && w.hasTiers() {
			return fmt.Sprintf("4: BGPPeer %s selects reflectors of another topology", name)
		}
	}
	return ""
}

// disjoint: Single's two BGPPeers select no two nodes together. One that a person has
// deleted comes back at once with a new password, and the other when the mesh is on.
func disjoint(a, b string) bool { return a == topology.PeerClients && b == topology.PeerReflectors }

func (w *world) hasTiers() bool {
	return slices.ContainsFunc(w.reflectors(), func(m *machine) bool {
		kind := topology.KindOf(m.Slot)
		return kind == v1alpha1.TopologyHierarchy || kind == v1alpha1.TopologyMultiCluster
	})
}
