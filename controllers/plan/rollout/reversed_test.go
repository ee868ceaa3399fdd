package rollout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// A Git repository has the mesh on, and brings that back three minutes after each change. The mesh is left on then, for an hour, for two, and so
// on, and goes off for good once that has ended.
func TestAMeshThatGitKeepsOnIsLeftOn(t *testing.T) {
	w, _ := migrated(t)
	w.remembers = true
	w.observe()
	git := func(hours int) (offs int) {
		was, offSince := w.bgp.MeshOn(), w.now
		for range hours * 60 {
			require.Empty(t, w.run(60), w.story())
			switch on := w.bgp.MeshOn(); {
			case !on && was:
				offs, offSince = offs+1, w.now
			case !on && w.now.Sub(offSince) >= 3*time.Minute:
				disturbances["mesh switched on"](w, 0)
			}
			was = w.bgp.MeshOn()
		}
		return offs
	}
	require.Equal(t, 2, git(1), "it had been off before")
	s := w.next(w.observe())
	require.Equal(t, rollout.AwaitMeshOwner, s.Name)
	require.Equal(t, rollout.AwaitsOwner, s.Awaits)
	require.Contains(t, s.Reason, "3 times")
	require.NotEmpty(t, s.Watch, "the reflectors are looked at")
	require.Equal(t, 2, git(6), "after an hour, and after two more")
	require.Empty(t, w.run(4*3600), w.story())
	require.False(t, w.bgp.MeshOn())
	require.Equal(t, rollout.Steady, w.next(w.observe()).Name)
}

// Something puts the label on a client, at once whenever it is gone. A worker that dies meanwhile is replaced all the same, and the label is
// removed ever more seldom; when that has ended it goes for good.
func TestALabelThatComesBackHoldsNothingUp(t *testing.T) {
	w, _ := migrated(t)
	w.remembers = true
	labelled := w.clients()[0]
	puts := 0
	run := func(seconds int) {
		for range seconds {
			if !labelled.HasRoleLabel {
				labelled.HasRoleLabel = true
				puts++
				w.changed()
			}
			w.step()
		}
	}
	run(60)
	require.Equal(t, 4, puts, "three removals")
	s := w.next(w.observe())
	require.Equal(t, []string{labelled.Name}, s.Labelled)
	require.Equal(t, rollout.Steady, s.Name)
	dead := w.reflectors()[0]
	w.setAlive(false, dead)
	run(2 * 3600)
	require.NotContains(t, w.all(), dead, "its worker is replaced")
	require.LessOrEqual(t, puts, 12)
	require.Empty(t, w.run(2*3600), w.story())
	require.False(t, labelled.HasRoleLabel)
	require.Empty(t, w.next(w.observe()).Labelled)
}

func TestWhatCountsAsAReversal(t *testing.T) {
	saved, now, m := &plan.Mesh{}, time.Unix(1_800_000_000, 0), rollout.Memory{}
	see := func(on bool, restored time.Time, after time.Duration) int {
		now = now.Add(after)
		m.Observe(&plan.Cluster{BGP: plan.BGPConfig{Mesh: plan.Mesh{Enabled: &on}, Saved: saved, Restored: restored}}, now)
		return len(m.Reversed)
	}
	require.Zero(t, see(true, time.Time{}, 0), "it was never off")
	see(false, time.Time{}, time.Minute)
	require.Zero(t, see(true, now, time.Minute), "rrpool did it")
	see(false, time.Time{}, time.Minute)
	require.Equal(t, 1, see(true, time.Time{}, time.Minute))
	require.Equal(t, 1, see(true, time.Time{}, time.Minute), "once")
	see(false, time.Time{}, time.Minute)
	require.Equal(t, 1, see(false, time.Time{}, 5*time.Hour))
	require.Equal(t, 2, see(true, time.Time{}, time.Minute), "a slow repository")
	see(false, time.Time{}, time.Minute)
	require.Zero(t, see(false, time.Time{}, 7*time.Hour), "it has stayed off")
	saved = nil
	see(false, time.Time{}, 0)
	require.Equal(t, 1, see(true, time.Time{}, time.Minute), "the note went with it")
	see(false, time.Time{}, time.Minute)
	require.Equal(t, 1, see(true, time.Time{}, time.Minute), "rrpool had not switched it off")
}

// The time since when a BGPPeer is not needed any more is that of the last of them.
func TestSinceWhenPeersAreStray(t *testing.T) {
	m, now := rollout.Memory{}, time.Unix(1_800_000_000, 0)
	after := func(minutes int, names ...string) time.Duration {
		at := now.Add(time.Duration(minutes) * time.Minute)
		m.After(rollout.Step{Stray: names}, at)
		return m.StraySince.Sub(now)
	}
	require.Zero(t, after(0, "a"))
	require.Zero(t, after(1, "a"))
	require.Equal(t, 2*time.Minute, after(2, "a", "b"), "another one")
	require.Equal(t, 2*time.Minute, after(3, "b"))
	after(4)
	require.Zero(t, m.StraySince)
}

// A spec that is refused writes nothing. Stale reports are asked for again all the same, reports that show whether reflectors serve are left
// while the mesh is off, no more often than at rest, and the mesh comes on where it has to.
func TestARefusedSpecKeepsTheSafetyNet(t *testing.T) {
	w, _ := migrated(t)
	rest := w.next(w.observe())
	w.d.Invalid = &plan.Problem{Reason: "SizingInvalid", Message: "x"}
	o := w.observe()
	first := w.reflectors()[0].Name
	st := o.Statuses[first]
	st.Cleared, st.Updated = w.now.Add(-10*time.Second), time.Time{}
	o.Statuses[first] = st
	s := w.next(o)
	require.Equal(t, rollout.InvalidSpec, s.Name)
	require.Equal(t, rest.Watch, s.Watch)
	require.Equal(t, []plan.Action{plan.RefreshStatus{Node: first}}, s.Actions)
	require.Empty(t, s.Reflectors)
	o.BGP.Mesh.Enabled = nil
	require.Empty(t, w.next(o).Watch)
	w.setAlive(false, w.reflectors()...)
	w.runUnchecked(120)
	require.True(t, w.bgp.MeshOn(), w.story())
	require.Equal(t, "SizingInvalid", w.next(w.observe()).Problem.Reason)
}
