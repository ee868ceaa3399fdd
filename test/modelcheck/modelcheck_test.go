package modelcheck

import (
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
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
	"connect":       "only adds sessions; that it does so is what lets in-place reflectors settle",
	"undoCordon":    "changes no session",
	"strayLabels":   "its gate is onceServed",
	"putInRacks":    "each client counts for its rack already, so no session changes",
	"writePeers":    "its gates are underMesh and mayStart",
	"clearForMesh":  "is deleteStrayPeerings, sooner",
	"promote":       "its gates are mayStart, promoteFirst, othersCarry and scopedFor",
	"reassign":      "its gates are underMesh, nowGate and needs",
	"trim":          "is removeReflector, sooner",
	"clearRacks":    "runs when no BGPPeer asks for racks",
	"awaitReports":  "writes nothing",
	"substitute":    "only adds workers; who gives the role back is held by the removal gate",
	"awaitNodes":    "writes nothing",
	"peeringGate":   "the model has one cluster; a test of the rollout shows each of its cases",
	"deleteEmptied": "deletes a pool without workers, when nothing else is left",
	"awaitMesh":     "writes nothing, and the explorer begins with the mesh: rollout's TestAMeshThatWasOffBeforeStaysOff",
	"relabel":       "the explorer changes no label: rollout's TestAChangeOfAnyFieldOfTheSpecLosesNothing",
	"demote":        "its gate is meshGate",
	"reselect":      "the explorer changes no label: rollout's TestAChangeOfAnyFieldOfTheSpecLosesNothing",
	"deletePeers":   "runs when no node reflects",
	"forgetMesh":    "runs when nothing else is left",
	"releasePool":   "runs when nothing else is left",
	"serveGate":     "passes on to sessionsOf, and is called by reflectorGate and nowGate",
	"sessionsOf":    "its parts are sessionsUp and prove",
	"inReport":      "its part is prove",
	"steadyGate":    "only damps reflectors that flap, over minutes: rollout's TestFlappingReflectorsDoNotFlapTheMesh",
}
