package rollout_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// until runs the world up to the moment before a step is carried out.
func (w *world) until(t *testing.T, step string) rollout.Observed {
	t.Helper()
	for range 3600 {
		w.tick()
		w.nextLook = w.now
		o := w.observe()
		if s := w.next(o); s.Name == step && len(s.Actions) > 0 && !onlyAsks(s) {
			return o
		}
		w.manage(-1)
	}
	t.Fatalf("never came to %s", step)
	return rollout.Observed{}
}

// onlyAsks: the step waits, and asks for reports meanwhile.
func onlyAsks(s rollout.Step) bool {
	for _, a := range s.Actions {
		if _, asks := a.(plan.RefreshStatus); !asks {
			return false
		}
	}
	return true
}

func editStatus(o *rollout.Observed, name string, edit func(*plan.Status)) {
	st := o.Statuses[name]
	st.Sessions, st.Routes = slices.Clone(st.Sessions), slices.Clone(st.Routes)
	edit(&st)
	o.Statuses[name] = st
}

// withPeer changes the session that a node reports with a peer.
func withPeer(o *rollout.Observed, node string, peer netip.Addr, edit func(*plan.Session)) {
	editStatus(o, node, func(st *plan.Status) {
		for i := range st.Sessions {
			if st.Sessions[i].Peer == peer {
				edit(&st.Sessions[i])
			}
		}
	})
}

func TestACordonOfAPersonIsNeverUndone(t *testing.T) {
	w := newInPlaceWorld(1, 7, 1, 3)
	w.d.Promotion = "Drain"
	w.nodes["node-04"].Cordoned = true
	require.Empty(t, w.settle())
	require.True(t, w.nodes["node-04"].Cordoned)
	require.False(t, w.nodes["node-04"].Pooled)
	w.d.Mode = v1alpha1.ModeFullMesh
	require.Empty(t, w.settle())
	require.True(t, w.nodes["node-04"].Cordoned)
}

// A cordon of ours ends when the node serves in its new role, or when it fails meanwhile.
func TestWhenACordonOfOursEnds(t *testing.T) {
	w := atRest(t, newInPlaceWorld(1, 7, 1, 3))
	o := w.observe()
	n, uncordon := &o.Nodes[1], plan.UncordonNode{Node: "node-02"}
	n.Cordoned, n.CordonedByUs, n.CordonMark = true, true, true
	require.Contains(t, w.next(o).Actions, uncordon, "it serves")
	editStatus(&o, "node-02", func(st *plan.Status) { st.Cleared = w.now })
	require.NotContains(t, w.next(o).Actions, uncordon, "its report is from before it was asked again")
	delete(o.Statuses, "node-02")
	require.NotContains(t, w.next(o).Actions, uncordon, "it has not been seen serving")
	n.Ready, n.ReadyChanged = false, w.now
	require.Contains(t, w.next(o).Actions, uncordon, "it is not Ready")
}

func TestAMarkThatOutlivesTheCordonIsTakenAway(t *testing.T) {
	for _, mode := range []v1alpha1.Mode{v1alpha1.ModeRouteReflector, v1alpha1.ModeFullMesh} {
		w := newInPlaceWorld(1, 7, 1, 3)
		w.d.Mode = mode
		require.Empty(t, w.settle())
		o := w.observe()
		o.Nodes[3].CordonMark = true // a person has uncordoned it since
		require.Equal(t, []plan.Action{plan.UncordonNode{Node: o.Nodes[3].Name}}, w.next(o).Actions)
	}
}

// Node-06 is not Ready. Whether its host is cut off, or only its kubelet is down,
// shows in its sessions, and only after a while.
func TestANodeThatIsNotReadyIsWaitedForWhileItMayBeAlive(t *testing.T) {
	const silent = "node-06"
	down := func(since time.Duration, reflectors ...string) func(*world, *rollout.Observed) {
		return func(w *world, o *rollout.Observed) {
			for _, r := range reflectors {
				withPeer(o, r, w.nodes[silent].Addresses[0], func(s *plan.Session) {
					s.Established, s.Since = false, w.now.Add(-since)
				})
			}
		}
	}
	for name, tc := range map[string]struct {
		edit func(*world, *rollout.Observed)
		goes bool
	}{
		"all have their session with it":              {edit: func(*world, *rollout.Observed) {}, goes: true},
		"one has lost it a moment ago":                {edit: down(10*time.Second, "node-05")},
		"one has not had it for longer than it takes": {edit: down(80*time.Second, "node-05"), goes: true},
		"only the one that goes has it":               {edit: down(80*time.Second, "node-01", "node-03", "node-05")},
		"nobody has it":                               {edit: down(80*time.Second, "node-01", "node-02", "node-03", "node-05"), goes: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := atRest(t, newInPlaceWorld(1, 7, 1, 3))
			w.nodes["node-02"].Cordoned = true
			o := w.until(t, "RemoveReflector")
			n := nodeOf(&o, silent)
			n.Ready, n.ReadyChanged = false, w.now.Add(-2*time.Minute)
			tc.edit(w, &o)
			s := w.next(o)
			require.Equal(t, tc.goes, slices.Contains(s.Actions, plan.Action(plan.ClearReflector{Node: "node-02"})), "%s %v", s.Reason, s.WaitingFor)
		})
	}
}
