package rollout_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/evidence"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// kill makes so many reflectors ones that are not Ready for that long.
func kill(w *world, o *rollout.Observed, count int, ago time.Duration) {
	for i := range count {
		n := &o.Nodes[len(o.Nodes)-1-i]
		n.Ready, n.ReadyChanged = false, w.now.Add(-ago)
	}
}

func TestSafetyNet(t *testing.T) {
	for name, tc := range map[string]struct {
		lost int
		ago  time.Duration
		want bool
	}{
		"one of three lost changes nothing":       {1, time.Hour, false},
		"two lost just now, one serves: it waits": {2, time.Second, false},
		"two lost for long, one serves: mesh on":  {2, time.Minute, true},
		"all lost a second ago: mesh on, at once": {3, time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := migrated(t)
			kill(w, &o, tc.lost, tc.ago)
			s := w.next(o)
			require.Equal(t, tc.want, s.Name == "RestoreMesh", s.Name)
			if tc.lost == 2 && !tc.want {
				require.Positive(t, s.Again, "it must look again when the wait is over")
			}
		})
	}
	t.Run("all BIRDs dead on Ready nodes: mesh on", func(t *testing.T) {
		w, o := migrated(t)
		for name := range o.Statuses {
			editStatus(&o, name, func(st *plan.Status) { st.Sessions = nil })
		}
		require.Equal(t, "RestoreMesh", w.next(o).Name)
	})
	t.Run("a lost note does not cut the net", func(t *testing.T) {
		w, o := migrated(t)
		kill(w, &o, 3, time.Hour)
		o.BGP.Saved = nil
		require.Equal(t, "RestoreMesh", w.next(o).Name)
	})
	t.Run("a mesh that another client keeps off is theirs", func(t *testing.T) {
		w, o := migrated(t)
		kill(w, &o, 3, time.Hour)
		o.BGP.Saved, o.Peers = nil, nil
		require.NotEqual(t, "RestoreMesh", w.next(o).Name)
	})
}

// Sessions that a report has in words that we do not know may be up: that is waited for and named, and no reason for the mesh.
func TestSessionsThatCannotBeReadAreNotMissing(t *testing.T) {
	w, o := migrated(t)
	unread := make([]string, len(w.clients()))
	for _, r := range w.reflectors() {
		editStatus(&o, r.Name, func(st *plan.Status) { st.Sessions, st.Unread = nil, unread })
	}
	s := w.next(o)
	require.Equal(t, "AskReflectors", s.Name)
	require.Contains(t, s.WaitingFor[0], "a report of "+w.reflectors()[0].Name+" that rrpool can read: not known is ")
	require.Empty(t, s.Unserved)
	for _, r := range w.reflectors() {
		editStatus(&o, r.Name, func(st *plan.Status) { st.Unread = unread[:1] })
	}
	require.Equal(t, "RestoreMesh", w.next(o).Name, "of more sessions it says that they are missing")

	// A client whose own report cannot be read may have sessions as well.
	w, o = migrated(t)
	client := w.clients()[0]
	for _, r := range w.reflectors() {
		withPeer(&o, r.Name, client.Addresses[0], func(s *plan.Session) { s.Established, s.Since = false, w.now.Add(-time.Hour) })
	}
	down := plan.Session{Peer: w.reflectors()[0].Addresses[0], Kind: plan.SessionNode, Since: w.now.Add(-time.Hour)}
	o.Statuses[client.Name] = plan.Status{Node: client.Name, Updated: w.now, Written: w.now, Sessions: []plan.Session{down}}
	require.Equal(t, "RestoreMesh", w.next(o).Name, "it is cut off")
	editStatus(&o, client.Name, func(st *plan.Status) { st.Unread = []string{"session with x"} })
	require.NotEqual(t, "RestoreMesh", w.next(o).Name)
	require.Empty(t, w.next(o).Unserved)
	delete(o.Statuses, client.Name)
	require.NotEmpty(t, w.next(o).Unserved, "it does not answer, and no reflector has a session with it")
	editStatus(&o, w.reflectors()[0].Name, func(st *plan.Status) { st.Unread = []string{"session with x"} })
	require.Empty(t, w.next(o).Unserved, "that may be the one with it")
}

// What a dead reflector takes from those that serve is not what they lack; what else
// they have lost is, while it is dead as well.
func TestADeadReflectorDoesNotHideWhatTheOthersLack(t *testing.T) {
	w, o := migrated(t)
	dead, left := w.reflectors()[0], w.reflectors()[1:]
	at := func(i int) evidence.Reflector { return w.next(o).Reflectors[i] }
	require.Zero(t, at(1).Lacking)
	for _, r := range left {
		withPeer(&o, r.Name, dead.Addresses[0], func(s *plan.Session) { s.Established = false })
	}
	withPeer(&o, left[0].Name, w.clients()[0].Addresses[0], func(s *plan.Session) { s.Established = false })
	require.Equal(t, 2, at(1).Lacking, "the other reflector is not known to be dead")
	editStatus(&o, dead.Name, func(st *plan.Status) { st.Sessions = nil })
	require.False(t, at(0).Serving)
	require.Equal(t, 1, at(1).Lacking, "%+v", at(1))
	require.Zero(t, at(2).Lacking, "%+v", at(2))
	require.Equal(t, at(2).Expected-1, at(2).Established, "the status counts all")
	require.Len(t, at(2).Missing, 1)
}

// On the way back the mesh comes on whatever is refused, because it only adds sessions. What takes sessions away waits.
func TestTheNetWorksOnTheWayBackToo(t *testing.T) {
	refusals := []plan.Problem{{Reason: "NodeStatusCRDMissing", Message: "no reports"}}
	for name, tc := range map[string]struct {
		lost     int
		problems []plan.Problem
	}{
		"all serve":                       {0, nil},
		"all serve, something is refused": {0, refusals},
		"none serves":                     {3, nil},
		"none serves, and it is refused":  {3, refusals},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := migrated(t)
			w.d.Mode, o.Problems = v1alpha1.ModeFullMesh, tc.problems
			kill(w, &o, tc.lost, time.Hour)
			s := w.next(o)
			require.Equal(t, "RestoreMesh", s.Name)
			require.Equal(t, tc.lost > 0, s.Short)
			if o.BGP.Mesh.Enabled, o.BGP.Restored = nil, w.now; tc.problems != nil {
				require.Equal(t, "UnsupportedCluster", w.next(o).Name, "the mesh is on")
			}
		})
	}
}

func TestTheNetIsQuickerWhenOnlyOneReflectorServes(t *testing.T) {
	for serving, want := range map[int]time.Duration{0: 0, 1: 5 * time.Second} {
		w := atRest(t, newInPlaceWorld(1, 7, 1, 3))
		w.setAlive(false, w.reflectors()[serving:]...)
		dead := w.now
		for w.next(w.observe()).Name != "RestoreMesh" {
			w.tick()
			require.Less(t, w.now.Sub(dead), time.Minute)
		}
		require.Equal(t, want, w.now.Sub(dead), "%d serving", serving)
	}
}

// Too few have served for ten minutes. What dates the failing ones later, and may do
// so again and again, does not keep the net away.
func TestTheNetDoesNotWaitForALaterDate(t *testing.T) {
	long := -10 * time.Minute
	cut := func(w *world, o *rollout.Observed, since time.Duration, clients ...string) {
		for _, c := range clients {
			withPeer(o, "node-03", w.nodes[c].Addresses[0], func(s *plan.Session) { s.Established, s.Since = false, w.now.Add(since) })
		}
	}
	notReady := func(w *world, o *rollout.Observed, since time.Duration) {
		for _, name := range []string{"node-02", "node-03"} {
			n := nodeOf(o, name)
			n.Ready, n.ReadyChanged = false, w.now.Add(since)
		}
		w.memory.Observe(&o.Cluster, w.now)
	}
	for name, tc := range map[string]struct {
		least       int
		fail, later func(*world, *rollout.Observed)
	}{
		"a client that flaps on a dying reflector": {
			3, func(w *world, o *rollout.Observed) { cut(w, o, long, "node-04", "node-05", "node-06") },
			func(w *world, o *rollout.Observed) { cut(w, o, -time.Second, "node-06") },
		},
		"nodes whose clock is ahead": {
			2, func(w *world, o *rollout.Observed) { notReady(w, o, -time.Hour) },
			func(w *world, o *rollout.Observed) { notReady(w, o, time.Hour) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := atRest(t, newInPlaceWorld(1, 7, 1, 3))
			w.d.MinServing = tc.least
			o := w.observe()
			o.ShortSince = w.now.Add(long)
			tc.fail(w, &o)
			require.Equal(t, "RestoreMesh", w.next(o).Name, "the control")
			tc.later(w, &o)
			require.Equal(t, "RestoreMesh", w.next(o).Name)
		})
	}
}

// New nodes, more than there were clients, and a zone that comes back have no sessions yet: the reflectors serve as before.
func TestNodesThatComeAreNoOutage(t *testing.T) {
	for name, fresh := range map[string]func() *world{
		"existing nodes": func() *world { return newInPlaceWorld(1, 9, 0, 3) }, "dedicated nodes": func() *world { return newWorld(1, 6, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			stays := func(w *world) {
				for range 120 {
					w.step()
					require.False(t, w.bgp.MeshOn(), w.story())
				}
			}
			w := atRest(t, fresh())
			for i := range 7 {
				w.addNode(fmt.Sprintf("new-%d", i+1), "zone-1", false)
			}
			stays(w)

			w = atRest(t, fresh())
			plain := slices.DeleteFunc(w.clients(), func(m *machine) bool { return m.HasRoleLabel })
			w.setAlive(false, plain[:len(plain)/2]...)
			w.runUnchecked(600)
			require.False(t, w.bgp.MeshOn())
			w.setAlive(true, plain[:len(plain)/2]...)
			stays(w)
		})
	}
}

// Reflectors that flap must not make the mesh flap.
func TestFlappingReflectorsDoNotFlapTheMesh(t *testing.T) {
	for name, tc := range map[string]struct {
		w            *world
		every, after int // a failure every so many seconds, over after so many
		fail, mend   func(*world, string)
		most         int
	}{
		"their nodes fail: it comes on once and stays on": {
			newWorld(1, 6, 3), 180, 90,
			func(w *world, r string) { w.setAlive(false, w.nodes[r]) },
			func(w *world, r string) { w.setAlive(true, w.nodes[r]) }, 1,
		},
		"their BIRDs die on Ready nodes, minutes apart": {newInPlaceWorld(1, 8, 0, 3), 300, 100, (*world).birdDies, (*world).birdBack, 4},
		"a client is cut off from them every four minutes": {
			newWorld(1, 6, 3), 240, 90, func(w *world, _ string) { w.cutOff(true, w.clients()[0]) }, func(w *world, _ string) { w.cutOff(false, w.clients()[0]) }, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := tc.w
			require.Empty(t, w.settle())
			two, switches, on := w.reflectors()[:2], 0, false
			for i := range 3600 {
				for _, r := range two {
					switch i % tc.every {
					case 0:
						tc.fail(w, r.Name)
					case tc.after:
						tc.mend(w, r.Name)
					}
				}
				w.step()
				if w.bgp.MeshOn() != on {
					on = !on
					switches++
				}
			}
			require.Positive(t, switches, "the control")
			require.LessOrEqual(t, switches, tc.most, w.story())
		})
	}
}

// A reflector that has lost all its sessions says of the others that they are gone. Were it believed, nobody would
// count as serving, and sessions that the cluster depends on would be restarted.
func TestAReflectorThatIsAloneIsNotBelieved(t *testing.T) {
	w := atRest(t, newWorld(1, 6, 3))
	w.now = w.now.Add(time.Hour)
	o := w.observe()
	rs := w.reflectors()
	editStatus(&o, rs[0].Name, func(st *plan.Status) {
		st.Updated = w.now
		for i := range st.Sessions {
			st.Sessions[i].Established, st.Sessions[i].Since = false, w.now.Add(-2*time.Minute)
		}
	})
	serving := func() int {
		return len(slices.DeleteFunc(w.next(o).Reflectors, func(r evidence.Reflector) bool { return !r.Serving }))
	}
	require.Equal(t, 2, serving())
	editStatus(&o, rs[0].Name, func(st *plan.Status) { // the control: one that serves is believed
		for i := range st.Sessions {
			st.Sessions[i].Established = !slices.Contains(rs[1].Addresses, st.Sessions[i].Peer)
		}
	})
	require.Equal(t, 2, serving())
}
