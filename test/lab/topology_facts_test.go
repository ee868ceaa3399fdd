//go:build linux

package lab_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/lab"
)

// settle is how long Calico's own end-to-end test lets Established sessions exchange their routes.
const settle = 5 * time.Second

// These are the facts about Calico that moving from one topology to another is built on: which writes change no session, and what those
// cost that take sessions away. They are Calico's, not ours: when one of these tests fails after an update of Calico, the migrations need
// another look.
func TestWhatMovingBetweenTopologiesIsBuiltOn(t *testing.T) {
	lab.SkipLong(t)
	l := start(t, lab.Options{}, append(lab.Workers(6), lab.Dedicated(5)...)...)
	w := &writer{t: t, l: l}
	names := w.dedicated()
	w.peer(clientsPeer, isClient, anyReflector)
	w.peer("reflectors", anyReflector, anyReflector)
	for _, name := range names {
		w.seat(name, "true", clusterID)
	}
	require.NoError(t, l.WaitReflected(t.Context(), names...))
	setMesh(t, l, false, nil)
	watch(t.Context(), settle)

	for _, step := range []struct {
		name string
		do   func()
	}{
		{"a second forward peer for the same pairs", func() { w.peer("second", isClient, anyReflector) }},
		{"40 updates while two forward peers match the same pairs", func() { w.stir(40) }},
		{"the first forward peer goes", func() { w.remove(clientsPeer) }},
		{"it comes again, and the second goes", func() { w.peer(clientsPeer, isClient, anyReflector); w.remove("second") }},
		{"reflectors get seats, which has(role) does not tell apart", func() {
			for i, name := range names {
				w.seat(name, fmt.Sprintf("quorum-zone-1-%d", i+1), clusterID)
			}
		}},
		{"a selector that says the same in other words", func() { w.peer(clientsPeer, isClient+" && has(topology.kubernetes.io/zone)", anyReflector) }},
		{"a group's peer beside the one of everyone", func() {
			w.peer("group", isClient+" && topology.kubernetes.io/zone == 'zone-1'", in("quorum-zone-1-1", "quorum-zone-1-2", "quorum-zone-1-3"))
		}},
		{"40 updates while the group's peer and the one of everyone match the same pairs", func() { w.stir(40) }},
	} {
		t.Run(step.name, func(t *testing.T) {
			w.t = t
			before, configured := w.sessions(), w.configured()
			l.Checkpoint(step.name)
			step.do()
			watch(t.Context(), 4*time.Second)
			require.Zero(t, w.requireSubset(before, w.sessions()), "new sessions")
			for node, at := range w.configured() {
				require.InDelta(t, 0, at.Sub(configured[node]).Seconds(), 1, "confd had something new to write on %s", node)
			}
			require.NoError(t, l.Report().Phase(step.name).ZeroLoss())
		})
	}
	w.t = t
	for round := range 2 {
		narrow := fmt.Sprintf("clients of a zone lose 2 of their 5 sessions, round %d", round+1)
		before := w.sessions()
		l.Checkpoint(narrow)
		w.peer(clientsPeer, isClient+" && topology.kubernetes.io/zone != 'zone-1'", anyReflector)
		watch(t.Context(), 4*time.Second)
		after := w.sessions()
		require.Equal(t, 8, w.requireSubset(after, before), "sides of 4 sessions")
		wide := fmt.Sprintf("they get them back, round %d", round+1)
		l.Checkpoint(wide)
		w.peer(clientsPeer, isClient, anyReflector)
		require.NoError(t, l.WaitReflected(t.Context(), names...))
		watch(t.Context(), 2*time.Second)
		require.Equal(t, 8, w.requireSubset(after, w.sessions()), "sides of 4 sessions")
		for _, phase := range []string{narrow, wide} {
			require.NoError(t, l.Report().Phase(phase).ZeroLoss())
		}
	}
	t.Log("\n" + l.Report().String())
}

// stir makes every confd work out all peers anew, in an order that it does not define.
func (w *writer) stir(times int) {
	w.t.Helper()
	for i := range times {
		w.patch("worker-5", fmt.Sprintf(`{"metadata":{"labels":{"stirred":"%d"}}}`, i))
		watch(w.t.Context(), 50*time.Millisecond)
	}
}

// configured is when each BIRD has read its configuration last, give or take a second, as in same.
func (w *writer) configured() map[string]time.Time {
	w.t.Helper()
	out := map[string]time.Time{}
	for _, name := range w.l.Nodes() {
		status, err := w.l.Birdc(name, "show status")
		require.NoError(w.t, err)
		_, after, found := strings.Cut(status, "Last reconfiguration on ")
		require.True(w.t, found, status)
		line, _, _ := strings.Cut(after, "\n")
		out[name], err = time.Parse(time.DateTime, line)
		require.NoError(w.t, err)
	}
	return out
}

// requireSubset demands that all of the fewer sessions are among the more, and have not restarted, and counts the others.
func (w *writer) requireSubset(fewer, more map[string]lab.Session) int {
	w.t.Helper()
	for key, session := range fewer {
		require.True(w.t, session.Same(more[key]), "%s was %+v and is %+v", key, session, more[key])
	}
	return len(more) - len(fewer)
}
