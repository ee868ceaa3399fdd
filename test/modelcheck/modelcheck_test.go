package modelcheck

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// everything is how many distinct states the full run looks at, at least.
const everything = 1_000_000

// Every state of small clusters holds the invariants, and a fair run from each settles.
// RRPOOL_MODELCHECK=full is the whole bound.
func TestEveryStateHoldsTheInvariants(t *testing.T) {
	full := os.Getenv("RRPOOL_MODELCHECK") == "full"
	var report Report
	for _, sc := range Scenarios(full) {
		r := Explore(sc, runtime.GOMAXPROCS(0))
		report = append(report, r)
		require.Empty(t, r.Violation, "%s", r.Trace)
		require.Positive(t, r.Runs)
		require.Greater(t, r.Depth, 3, "%s: the moves lead nowhere", sc.Name)
	}
	t.Logf("\n%s", report)
	if full {
		require.GreaterOrEqual(t, report.States(), everything)
	}
}

// The controls: what the explorer must not miss, it does not.
func TestTheExplorerSeesWhatIsBroken(t *testing.T) {
	t.Parallel()
	m := newModel(dedicated("", 2, 2, func(s *Scenario) { s.Settled = true }))
	sound := m.beginning()
	require.Empty(t, m.broken(&sound))
	require.False(t, m.bgp(&sound).MeshOn())
	for name, tc := range map[string]struct {
		spoil func(s *state)
		want  string
	}{
		"a client without sessions": {func(s *state) {
			for j := range m.size() {
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
			s.excused, s.owed[0] = 1<<pairOf(0, 1), 0
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
	m.do(&s, move{kind: disturbance, a: 1, b: 2})
	require.Zero(t, s.excused, "the other reflector joins the two")
	require.Equal(t, uint8(1), s.owed[0])

	s = m.beginning()
	m.do(&s, move{kind: disturbance, a: 0, b: 0})
	require.NotZero(t, s.excused, "every session with a reflector ends")
	s = m.rest(s)
	require.Zero(t, s.excused)
	require.Equal(t, uint8(2), s.owed[0])
}

// The ages are where the package's documentation says, between the waits of rollout.
func TestAgesLieBetweenTheWaits(t *testing.T) {
	t.Parallel()
	d := newModel(dedicated("", 2, 2, nil)).desired[0]
	const quiet, timer = 15e9, 90e9
	require.Greater(t, lapse[lately].Nanoseconds(), int64(quiet))
	require.Less(t, lapse[lately], d.NetAfter)
	require.Greater(t, lapse[earlier].Nanoseconds(), int64(timer))
	require.Greater(t, lapse[earlier], max(d.RemovalDelay, d.NotReadyGrace))
	require.Greater(t, lapse[longAgo], d.SessionTimeout)
}

// The same cluster has the same states, however many workers look.
func TestTheNumberOfStatesDoesNotDependOnTheWorkers(t *testing.T) {
	t.Parallel()
	for _, sc := range Probes()[:4] {
		sc.Limit = 1500
		one, two := Explore(sc, 1), Explore(sc, 3)
		require.Equal(t, one.States, two.States, sc.Name)
		require.Equal(t, one.Depth, two.Depth, sc.Name)
	}
}

// exceptions look like gates, and are not taken out by themselves.
var exceptions = map[string]string{
	"connect":      "only adds sessions; that it does so is what lets in-place reflectors settle",
	"undoCordon":   "changes no session",
	"strayLabels":  "its gate is onceServed",
	"putInRacks":   "each client counts for its rack already, so no session changes",
	"writePeers":   "its gates are underMesh and mayStart",
	"clearForMesh": "is deleteStrayPeerings, sooner",
	"promote":      "its gates are mayStart, promoteFirst, othersCarry and scopedFor",
	"reassign":     "its gates are underMesh, nowGate and needs",
	"trim":         "is removeReflector, sooner",
	"clearRacks":   "runs when no BGPPeer asks for racks",
	"awaitReports": "writes nothing",
	"awaitNodes":   "writes nothing",
	"awaitMesh":    "writes nothing, and the explorer begins with the mesh: rollout's TestAMeshThatWasOffBeforeStaysOff",
	"relabel":      "the explorer changes no label: rollout's TestAChangeOfAnyFieldOfTheSpecLosesNothing",
	"demote":       "its gate is meshGate",
	"deletePeers":  "runs when no node reflects",
	"forgetMesh":   "runs when nothing else is left",
	"releasePool":  "runs when nothing else is left",
	"serveGate":    "passes on to sessionsOf, and is called by reflectorGate and nowGate",
	"sessionsOf":   "its parts are sessionsUp and prove",
	"inReport":     "its part is prove",
	"steadyGate":   "only damps reflectors that flap, over minutes: rollout's TestFlappingReflectorsDoNotFlapTheMesh",
}
