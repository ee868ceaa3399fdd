package rollout_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// specChanges are a change of each field of the spec that a Desired comes of.
var specChanges = map[string]func(*world){
	"nodeLabel":         func(w *world) { w.relabel("rrpool.io/other") },
	"passwordSecretRef": func(w *world) { w.d.Password = &plan.SecretRef{Name: "new", Key: "password"} },
	"clusterID":         func(w *world) { w.d.ClusterID, w.d.Topology.ClusterID = "10.9.0.1", "10.9.0.1" },
	"redundancy":        func(w *world) { w.d.Topology.Redundancy = 3 },
	"maxClients":        func(w *world) { w.d.Topology.MaxClients = 9 },
	"maxPaths":          func(w *world) { w.d.Topology.MaxPaths = 32 },
	"rackLabel":         func(w *world) { w.d.Topology.RackLabel = "rack" },
	"racks called like other zones": func(w *world) {
		for i, m := range w.sorted() {
			m.Labels["rack"] = w.d.Pool.Zones[2-i%3]
		}
		w.d.Topology.RackLabel = "rack"
		w.changed()
	},
	"nodeLabel and back to the mesh": func(w *world) { w.relabel("rrpool.io/other"); w.d.Mode = v1alpha1.ModeFullMesh },
	"zoneLabel":                      func(w *world) { w.rezone("rack") },
	"larger":                         func(w *world) { w.d.Pool.SizePerZone++ },
	"smaller":                        func(w *world) { w.d.Pool.SizePerZone-- },
	"another zone":                   func(w *world) { w.d.Pool.Zones = append(slices.Clone(w.d.Pool.Zones[1:]), "zone-4") },
	"gate":                           func(w *world) { w.d.Timer = !w.d.Timer },
	"promotion":                      func(w *world) { w.d.Promotion = v1alpha1.PromotionDrain },
	"preferred":                      func(w *world) { w.d.Preferred = labels.SelectorFromSet(labels.Set{"rack": "a"}) },
	"excluded":                       func(w *world) { w.d.Excluded = labels.SelectorFromSet(labels.Set{"rack": "a"}) },
	"sessionTimeout":                 func(w *world) { w.d.SessionTimeout = time.Second },
	"notReadyGrace":                  func(w *world) { w.d.NotReadyGrace = 0 },
	"removalDelay":                   func(w *world) { w.d.RemovalDelay = 0 },
	"minServing":                     func(w *world) { w.d.MinServing = 9 },
	"after":                          func(w *world) { w.d.NetAfter = 0 },
}

// rezone takes the zones from another label; a dedicated node is where its provider says.
func (w *world) rezone(key string) {
	for _, m := range w.all() {
		if w.d.Topology.ZoneLabel = key; !w.d.Dedicated {
			m.Zone, w.d.Pool.Zones = m.Labels[key], []string{"a", "b", "c"}
		}
	}
}

// relabel makes another label that of the role. The one before stays on the nodes.
func (w *world) relabel(key string) {
	for _, m := range w.all() {
		if m.Labels = maps.Clone(m.Labels); m.RoleLabel && !m.Relabel {
			m.Labels[w.d.RoleLabel] = m.Slot
		}
		if slot, labelled := m.Labels[key]; labelled {
			m.RoleLabel, m.Slot, m.Relabel = true, slot, false
			delete(m.Labels, key) // Slot says it
		} else {
			m.RoleLabel = m.RoleLabel && m.Marked
			m.Relabel = m.RoleLabel
		}
	}
	w.d.RoleLabel, w.d.Topology.RoleLabel, w.nextLook = key, key, w.now
	w.changed()
}

// A change of the spec costs a cluster at rest no packet, but for what a step announces.
func TestAChangeOfAnyFieldOfTheSpecLosesNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range append(slices.Clone(kinds), "existing nodes") {
		for name, change := range specChanges {
			t.Run(string(kind)+", "+name, func(t *testing.T) {
				t.Parallel()
				w := newInPlaceWorld(7, 8, 0, 3)
				if kind != "existing nodes" {
					w = newWorld(7, 9, 3)
					require.Empty(t, w.want(kind, 2, 3))
				}
				for i, m := range w.sorted() {
					m.Labels["rack"] = string(rune('a' + i%3))
				}
				w.atLeast = 1
				require.Empty(t, w.settle(), w.story())
				w.narrative, w.restores = nil, 0
				if change(w); w.d.Dedicated && w.arrange(w.d.Topology, w.d.Pool.SizePerZone*len(w.d.Pool.Zones)) != "" {
					return // it is refused
				}
				require.Empty(t, w.settle(), w.story())
				require.False(t, strings.HasPrefix(name, "nodeLabel") && w.d.Mode == v1alpha1.ModeRouteReflector && w.restores > 0, w.story())
			})
		}
	}
}
