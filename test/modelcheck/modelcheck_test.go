package modelcheck

import (
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// atLeast is how many distinct states the full run looks at.
const atLeast = 1_000_000

// Every state of small clusters holds the invariants, and a fair run from each settles.
// RRPOOL_MODELCHECK=full is the whole bound.
func TestEveryStateHoldsTheInvariants(t *testing.T) {
	full := os.Getenv("RRPOOL_MODELCHECK") == "full"
	var states atomic.Int64
	t.Run("scenario", func(t *testing.T) {
		for _, sc := range scenarios(full) {
			t.Run(sc.Name, func(t *testing.T) {
				t.Parallel()
				r := Explore(sc)
				require.Empty(t, r.Violation, "%s", r.Trace)
				require.Greater(t, r.Depth, 3, "the moves lead nowhere")
				t.Logf("%d states, up to %d moves away", r.States, r.Depth)
				states.Add(int64(r.States))
			})
		}
	})
	t.Logf("%d states", states.Load())
	if full {
		require.GreaterOrEqual(t, states.Load(), int64(atLeast))
	}
}

// The controls: what the explorer must not miss, it does not.
func TestTheExplorerSeesWhatIsBroken(t *testing.T) {
	t.Parallel()
	m := newModel(dedicated("", 2, 2, func(s *Scenario) { s.Settled = true }))
	sound := m.beginning()
	require.Empty(t, m.broken(&sound))
	require.False(t, m.cluster(&sound).BGP.MeshOn())
	for name, tc := range map[string]struct {
		spoil func(s *state)
		want  string
	}{
		"a client without sessions": {func(s *state) {
			for j := range m.names {
				if j > 0 {
					s.up[pairOf(0, j)] = starting
				}
			}
		}, "1: node-1 and node-2 have no route to each other"},
		"a client with one session": {func(s *state) { s.up[pairOf(0, 2)] = down }, "2: the mesh is off and node-1 has 1 reflector sessions, fewer than 2"},
		"a session whose routes have not arrived": {func(s *state) {
			s.up[pairOf(0, 2)], s.up[pairOf(0, 3)] = quietUp, quietUp
		}, "1: node-1 and node-2 have no route to each other"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sound
			tc.spoil(&s)
			require.Equal(t, tc.want, m.broken(&s))
			s.owed[0] = 0
			s.excused.add(0, 1)
			require.Empty(t, m.broken(&s), "excused")
		})
	}
}

// A second RouteReflectorPool is refused for its name. Where nothing checks that, it changes nothing, at whatever moment it comes: a
// manager that would follow it is caught, whatever it wants.
func TestASecondRouteReflectorPoolDisturbsNothing(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]Scenario{
		"the mesh": dedicated("", 2, 2, func(s *Scenario) { s.Back = true }), "fewer reflectors": dedicated("", 2, 1, nil),
	} {
		for _, heeds := range []bool{false, true} {
			for _, settled := range []bool{false, true} {
				r := Explore(dedicated("a second pool", 2, 2, func(s *Scenario) {
					s.Other, s.Heeds, s.Settled, s.Budget, s.Disturbances, s.Unbroken, s.Limit = &other, heeds, settled, 1, []Disturbance{SecondPool}, true, 4000
				}))
				require.Equal(t, heeds, r.Violation != "", "%s: %s\n%s", name, r.Violation, r.Trace)
			}
		}
	}
}

// What a disturbance takes is excused until it is there again, and not a moment longer.
func TestExcusesEnd(t *testing.T) {
	t.Parallel()
	m := newModel(dedicated("", 2, 2, func(s *Scenario) {
		s.Settled, s.Budget, s.Disturbances = true, 1, []Disturbance{PeerDeleted, LabelRemoved}
	}))
	s := m.beginning()
	m.make(&s, move{kind: disturbance, a: 1, b: 2})
	m.receive(&s, 0)
	require.Zero(t, s.excused, "the other reflector joins the two")
	require.Equal(t, uint8(1), s.owed[0])

	s = m.beginning()
	m.make(&s, move{kind: disturbance, a: 0, b: 0})
	m.receive(&s, 0)
	require.NotZero(t, s.excused, "every session with a reflector ends")
	s = m.rest(s)
	require.Zero(t, s.excused)
	require.Equal(t, uint8(2), s.owed[0])
}

// exceptions look like gates, and are not taken out by themselves.
var exceptions = map[string]string{
	"connect":          "only adds sessions; that it does so is what lets in-place reflectors settle",
	"undoCordon":       "changes no session",
	"awaitBGP":         "before the first change, in a cluster where no pod of calico-node is seen: the model has none",
	"strayLabels":      "its gate is onceServed",
	"putInRacks":       "each client counts for its rack already, so no session changes",
	"writePeers":       "its gates are underMesh and mayStart",
	"clearPaths":       "its gate is underMesh",
	"promote":          "its gates are mayStart and untilScopedPeersRendered",
	"reassign":         "its gates are underMesh, Prove and needs",
	"trim":             "is removeReflector, sooner",
	"clearRacks":       "runs when no BGPPeer asks for racks",
	"awaitReports":     "writes nothing",
	"substitute":       "only adds workers; who gives the role back is held by the removal gate",
	"awaitNodes":       "writes nothing",
	"deleteEmptied":    "deletes a pool without workers, when nothing else is left",
	"awaitMesh":        "writes nothing, and the explorer begins with the mesh: rollout's TestAMeshThatWasOffBeforeStaysOff",
	"awaitRoutes":      "writes nothing",
	"noteMesh":         "writes an annotation that changes no session: rollout's TestALostNoteIsWrittenAgain",
	"relabel":          "the explorer changes no label: rollout's TestAChangeOfAnyFieldOfTheSpecLosesNothing",
	"demote":           "its gate is ProveMesh",
	"reselect":         "the explorer changes no label: rollout's TestAChangeOfAnyFieldOfTheSpecLosesNothing",
	"deletePeers":      "runs when no node reflects",
	"forgetMesh":       "runs when nothing else is left",
	"releasePool":      "runs when nothing else is left",
	"inReport":         "its part is provenBy",
	"promoteInPlace":   "its gates are mayStart, promoteFirst and ProveCarried",
	"locked":           "writes nothing",
	"refuseSpec":       "writes nothing; the explorer changes no spec",
	"healUnread":       "is healRoles, sooner",
	"reconnect":        "switches the mesh on, which only adds sessions: rollout's TestTheMeshComesBackForAMinorityThatIsCutOff",
	"emptyZones":       "is removeSurplus and what goes with it, sooner",
	"orderSubstitutes": "is substitute, sooner",
	"awaitWorkers":     "writes nothing",
	"joinPool":         "chooses a node, and changes nothing there",
	"retireWorkers":    "removes a worker without the role",
	"awaitRoleRest":    "writes nothing",
	"removeInPlace":    "its gate is removeReflector",
	"shrinkPool":       "runs when no surplus worker is left",
	"leavePool":        "lets go of nodes without the role",
	"awaitMeshOwner":   "writes nothing",
	"keepNote":         "writes nothing",
	"steady":           "has nothing to do",
	"await":            "makes a step of a proof",
	"lackPeering":      "the model has one cluster; a test of the rollout shows each of its cases",
	"lackPools":        "the model has no blocks outside of IPPools: rollout's TestTheMeshStaysForBlocksThatReflectorsDoNotPassOn",
	"proveSessions":    "its parts are sessionsUp and provenBy",
	"proveSessionsOf":  "its parts are sessionsUp and provenBy",
	"proveBatch":       "its parts are unproven and meshSessions",
	"proveSteady":      "only damps reflectors that flap, over minutes: rollout's TestFlappingReflectorsDoNotFlapTheMesh",
	"ProveConnected":   "before the first in-place reflector: its part is meshSessions",
	"ProveBIRD":        "writes nothing",
}

// What may happen to a cluster at rest on reflectors, or on its way.
var (
	anywhere = []Disturbance{
		ModeChanges, NodeFails, LabelRemoved, IDRemoved, IDChanged, RoleRemoved, StrayLabel, MeshOn, MeshOff, PeerDeleted, PeerEdited, ForeignPeer,
		ProblemReported, Mute, Restart,
	}
	withPool   = slices.Concat(anywhere, []Disturbance{NodeDeleted, ProviderSilent})
	inPlaceToo = slices.Concat(anywhere, []Disturbance{Cordoned})
)

var twoZones = []string{"zone-a", "zone-b"}

func dedicated(name string, clients, reflectors int, more func(*Scenario)) Scenario {
	return with(Scenario{Name: name, Clients: clients, Pool: reflectors, PerZone: reflectors, Dedicated: true, Disturbances: withPool}, more)
}

func inPlace(name string, nodes, reflectors int, promotion v1alpha1.Promotion, more func(*Scenario)) Scenario {
	return with(Scenario{Name: name, Clients: nodes, PerZone: reflectors, Promotion: promotion, Disturbances: inPlaceToo}, more)
}

func with(sc Scenario, more func(*Scenario)) Scenario {
	if more != nil {
		more(&sc)
	}
	return sc
}

// arranged has four reflectors in two zones, in a topology.
func arranged(name string, kind v1alpha1.TopologyType, redundancy int, more func(*Scenario)) Scenario {
	sc := dedicated(name, 2, 4, more)
	sc.Kind, sc.Redundancy, sc.Zones, sc.PerZone = kind, redundancy, twoZones, 2
	return sc
}

// scenarios of the small bound, and those that only the full run has.
func scenarios(full bool) []Scenario {
	single := arranged("", v1alpha1.TopologySingle, 0, nil)
	three, two := dedicated("", 2, 3, nil), dedicated("", 2, 2, nil)
	out := []Scenario{
		dedicated("there, 2 clients and 2 reflectors", 2, 2, func(s *Scenario) { s.Late, s.Slow = true, true }),
		dedicated("there and back", 2, 2, func(s *Scenario) { s.Flip = true }),
		dedicated("at rest, one disturbance", 2, 3, func(s *Scenario) { s.Settled, s.Budget, s.Spare = true, 1, 1 }),
		dedicated("there, one disturbance", 2, 2, func(s *Scenario) { s.Budget = 1 }),
		dedicated("timer", 2, 2, func(s *Scenario) { s.Timer, s.Flip, s.Late = true, true, true }),
		dedicated("3 reflectors to 2", 2, 3, func(s *Scenario) { s.PerZone, s.Was = 2, &three }),
		dedicated("2 reflectors to 3", 2, 2, func(s *Scenario) { s.PerZone, s.Spare, s.Was = 3, 1, &two }),
		inPlace("existing nodes, there and back", 4, 2, v1alpha1.PromotionStaged, func(s *Scenario) { s.Flip = true }),
		inPlace("existing nodes, at rest, one disturbance", 5, 3, v1alpha1.PromotionStaged, func(s *Scenario) { s.Settled, s.Budget = true, 1 }),
		inPlace("existing nodes, cordon", 4, 2, v1alpha1.PromotionCordon, func(s *Scenario) { s.Flip = true }),
		inPlace("existing nodes, drain", 4, 2, v1alpha1.PromotionDrain, func(s *Scenario) { s.Flip = true }),
		inPlace("existing nodes, immediate", 4, 2, v1alpha1.PromotionImmediate, func(s *Scenario) { s.Flip = true }),
		arranged("quorum", v1alpha1.TopologyQuorum, 2, nil),
		dedicated("multi", 2, 2, func(s *Scenario) {
			s.Kind, s.Redundancy, s.Zones, s.PerZone = v1alpha1.TopologyMultiCluster, 2, twoZones, 1
		}),
		arranged("hierarchy", v1alpha1.TopologyHierarchy, 1, nil),
		arranged("single to quorum", v1alpha1.TopologyQuorum, 2, func(s *Scenario) { s.Was = &single }),
		arranged("single to hierarchy", v1alpha1.TopologyHierarchy, 1, func(s *Scenario) { s.Was = &single }),
		arranged("hierarchy, one disturbance", v1alpha1.TopologyHierarchy, 1, func(s *Scenario) { s.Settled, s.Budget = true, 1 }),
		arranged("quorum, one disturbance", v1alpha1.TopologyQuorum, 2, func(s *Scenario) { s.Settled, s.Budget = true, 1 }),
		inPlace("existing nodes, on the way, one disturbance", 4, 2, v1alpha1.PromotionStaged, func(s *Scenario) { s.Budget = 1 }),
	}
	for i := range out {
		out[i].Limit = 4000
		if full {
			out[i].Limit = 72_000
		}
	}
	return out
}

// probes are the smallest scenarios that find a missing gate.
func probes() []Scenario {
	single := arranged("", v1alpha1.TopologySingle, 0, nil)
	three, two := dedicated("", 2, 3, nil), dedicated("", 2, 2, nil)
	out := []Scenario{
		dedicated("probe: there, quickly", 3, 1, func(s *Scenario) { s.Slow = true }),
		dedicated("probe: back", 3, 2, func(s *Scenario) { s.Was, s.Back, s.Late, s.Slow = &two, true, true, true }),
		dedicated("probe: fewer", 2, 3, func(s *Scenario) { s.Was, s.PerZone, s.Spare = &three, 2, 1 }),
		dedicated("probe: edits", 2, 3, func(s *Scenario) {
			s.Settled, s.Budget, s.Disturbances = true, 1, []Disturbance{PeerDeleted, PeerEdited, IDChanged, IDRemoved, LabelRemoved, RoleRemoved, StrayLabel}
		}),
		dedicated("probe: in the way", 2, 2, func(s *Scenario) {
			s.Budget, s.Disturbances = 1, []Disturbance{ForeignPeer, ProblemReported, ProviderSilent}
		}),
		dedicated("probe: in the way, fewer", 2, 3, func(s *Scenario) {
			s.Was, s.PerZone, s.Spare, s.Budget, s.Disturbances = &three, 2, 1, 1, []Disturbance{ForeignPeer, ProblemReported, ProviderSilent}
		}),
		dedicated("probe: too small a pool", 2, 1, func(s *Scenario) {
			s.PerZone, s.Spare, s.Budget, s.Disturbances = 2, 2, 1, []Disturbance{ProviderSilent}
		}),
		dedicated("probe: two failures", 2, 3, func(s *Scenario) { s.Settled, s.Budget, s.Disturbances = true, 2, []Disturbance{NodeFails} }),
		dedicated("probe: another cluster ID", 2, 3, func(s *Scenario) { s.Was, s.ID = &three, "244.0.0.9" }),
		dedicated("probe: a password", 2, 3, func(s *Scenario) { s.Was, s.Password = &three, "bgp" }),
		dedicated("probe: mute", 2, 1, func(s *Scenario) { s.Budget, s.Disturbances = 1, []Disturbance{Mute} }),
		dedicated("probe: stale", 3, 1, func(s *Scenario) {
			s.Settled, s.Stale, s.Budget, s.Disturbances, s.Limit = true, 1, 2, []Disturbance{MeshOn, ClientFails}, 100_000
		}),
		dedicated("probe: timer", 2, 2, func(s *Scenario) { s.Timer = true }),
		inPlace("probe: existing nodes, there", 4, 2, v1alpha1.PromotionStaged, nil),
		inPlace("probe: existing nodes, 3 of 5", 5, 3, v1alpha1.PromotionStaged, nil),
		inPlace("probe: existing nodes, a cordon", 5, 3, v1alpha1.PromotionStaged, func(s *Scenario) { s.Settled, s.Budget, s.Disturbances = true, 1, []Disturbance{Cordoned} }),
		arranged("probe: single to hierarchy", v1alpha1.TopologyHierarchy, 1, func(s *Scenario) { s.Was = &single }),
		arranged("probe: single to multi", v1alpha1.TopologyMultiCluster, 2, func(s *Scenario) { s.Was = &single }),
	}
	for i := range out {
		out[i].Unbroken, out[i].Limit = true, max(out[i].Limit, 6000)
	}
	return out
}
