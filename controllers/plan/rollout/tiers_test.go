package rollout_test

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
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

// count counts roles that are taken, and how often the mesh comes on. A reflector that changes its slot while nodes depend on it is one, too.
func (w *world) count(a plan.Action) {
	switch a := a.(type) {
	case plan.SetReflector:
		m := w.nodes[a.Node]
		if w.roleAt = w.now; m.RoleLabel && m.ClusterID != "" && m.ClusterID != a.ClusterID && !w.bgp.MeshOn() {
			w.cleared++
		}
	case plan.ClearReflector:
		w.roleAt = w.now
		w.cleared++
	case plan.RestoreMesh:
		w.restores++
	}
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
