package rollout_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// tiered: reflectors have different cluster IDs, so a route may be reflected more than
// once.
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
	clusters string // each ID between two spaces
}

// learn gives all that have a route to origin, and from whom, by BIRD's rules of
// reflection.
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
func (w *world) sends(origin *machine, h heard, next *machine) (string, bool) {
	if next == h.at || next == h.from || next == origin || !w.session(h.at, next).up {
		return "", false
	}
	clusters, reflected := h.clusters, true
	if h.at != origin {
		clusters, reflected = w.reflects(h, next)
	}
	back := next.rendered[h.at.Name]
	return clusters, reflected && (!back.Client || !contains(clusters, back.ClusterID))
}

// reflects reports whether a node passes on what it has from another, and the clusters
// that the route has come through then.
func (w *world) reflects(h heard, next *machine) (string, bool) {
	from, to := h.at.rendered[h.from.Name], h.at.rendered[next.Name]
	if w.now.Before(w.muted[h.at.Name]) || !from.Client && !to.Client || to.Client && contains(h.clusters, to.ClusterID) {
		return "", false
	}
	clusters := h.clusters
	for _, side := range []simulate.Side{from, to} {
		if side.Client {
			clusters = with(clusters, side.ClusterID)
		}
	}
	return clusters, true
}

func contains(clusters, id string) bool { return strings.Contains(clusters, " "+id+" ") }

func with(clusters, id string) string {
	if contains(clusters, id) {
		return clusters
	}
	ids := append(strings.Fields(clusters), id)
	slices.Sort(ids)
	return " " + strings.Join(ids, " ") + " "
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

// moves counts a reflector that changes its seat while nodes depend on it.
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

// learned is learn, once a second.
func (w *world) learned(origin *machine) map[*machine]map[*machine]bool {
	if w.learnedAt != w.now {
		w.learnedAt, w.known = w.now, map[*machine]map[*machine]map[*machine]bool{}
	}
	if w.known[origin] == nil {
		w.known[origin] = w.learn(origin)
	}
	return w.known[origin]
}

// atOdds: BGPPeers of ours that must not stand side by side. While the mesh is off, those
// that may select the same nodes render the same; and Single's, which select every
// reflector, are fenced beside reflectors with other cluster IDs.
func (w *world) atOdds() string {
	if w.bgp.MeshOn() {
		return ""
	}
	var first *plan.Peer
	for _, name := range slices.Sorted(maps.Keys(w.peers)) {
		p := w.peers[name]
		switch {
		case p.PeerIP != "":
			continue
		case first == nil:
			first = &p
		case !plan.SameRef(first.Password, p.Password):
			return fmt.Sprintf("4: BGPPeers %s and %s have different passwords", first.Name, name)
		}
		if p.PeerSelector == "has("+label+")" && w.hasTiers() {
			return fmt.Sprintf("4: BGPPeer %s selects reflectors of another topology", name)
		}
	}
	return ""
}

func (w *world) hasTiers() bool {
	return slices.ContainsFunc(w.reflectors(), func(m *machine) bool {
		kind := topology.KindOf(m.Seat)
		return kind == v1alpha1.TopologyHierarchy || kind == v1alpha1.TopologyMultiCluster
	})
}
