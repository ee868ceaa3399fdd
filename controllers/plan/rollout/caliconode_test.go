package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// stopCalicoNode ends calico-node on a node that stays Ready: its pod is evicted, or is there and not Ready.
func (w *world) stopCalicoNode(name string, evicted bool) {
	w.nodes[name].alive, w.nodes[name].evicted = false, evicted
}

// startCalicoNode starts it again.
func (w *world) startCalicoNode(name string) { w.nodes[name].alive, w.nodes[name].joined = true, w.now }

// step lets a second pass, with the manager.
func (w *world) step() {
	w.tick()
	w.manage(-1)
}

// meshComesOn waits so many seconds for the manager to switch the mesh on, and says after how many it did.
func (w *world) meshComesOn(most int) (int, bool) {
	for i := range most {
		w.step()
		if w.bgp.MeshOn() {
			return i + 1, true
		}
	}
	return 0, false
}

// What else is going on while calico-node goes from all reflectors at once.
var meanwhile = map[string]func(*world){
	"nothing else":                          func(*world) {},
	"reports that are regular":              func(w *world) { w.regular = true },
	"the manager is restarted at once":      (*world).crash,
	"the manager is restarted after a look": func(w *world) { w.step(); w.step(); w.crash() },
	"the manager is down for 20 s":          func(w *world) { w.asleep = w.now.Add(20 * time.Second); w.crash() },
	"Calico is not as rrpool needs it":      func(w *world) { w.problems = []plan.Problem{{Reason: "BGPDisabled", Message: "x"}} },
	"the pool is incomplete":                func(w *world) { w.d.Pool.SizePerZone++ },
	"a password has changed":                func(w *world) { w.d.Password = &plan.SecretRef{Name: "bgp", Key: "password"} },
	"sessions are not observed (Timer)":     func(w *world) { w.d.Timer = true; w.step() },
	"the way back has begun": func(w *world) {
		w.d.Mode = rollout.Mesh
		w.problems = []plan.Problem{{Reason: "BGPDisabled", Message: "x"}}
	},
}

// BIRD keeps the routes of a killed neighbour for 120 s, and the mesh needs up to 18 s.
func TestTheMeshIsBackInTimeWhenCalicoNodeGoesFromAllReflectors(t *testing.T) {
	for name, change := range meanwhile {
		for gone, evicted := range map[string]bool{"evicted": true, "not Ready": false} {
			t.Run(fmt.Sprintf("%s, %s", gone, name), func(t *testing.T) {
				w := newWorld(1, 6, 3)
				require.Empty(t, w.settle())
				w.step()
				for _, r := range w.reflectors() {
					w.stopCalicoNode(r.Name, evicted)
				}
				began := w.now
				change(w)
				_, on := w.meshComesOn(55)
				require.True(t, on, w.story())
				for w.now.Sub(began) < 75*time.Second {
					w.step()
				}
				for _, a := range w.clients() {
					for _, b := range w.clients() {
						require.True(t, a == b || w.reaches(a, b), "%s has no route to %s", b.Name, a.Name)
					}
				}
			})
		}
	}
	t.Run("existing nodes", func(t *testing.T) {
		w := newInPlaceWorld(1, 7, 1, 3)
		require.Empty(t, w.settle())
		for _, r := range w.reflectors() {
			w.stopCalicoNode(r.Name, true)
		}
		_, on := w.meshComesOn(30)
		require.True(t, on, w.story())
	})
	t.Run("negative control: with no look at the pods, dual stack takes longer", func(t *testing.T) {
		w := newWorld(1, 6, 3)
		require.Empty(t, w.settle())
		w.podsUnseen = true
		for _, r := range w.reflectors() {
			w.stopCalicoNode(r.Name, true)
		}
		_, on := w.meshComesOn(55)
		require.False(t, on)
	})
}

// Where calico-node is no pod, or pods may not be listed, an overdue report is asked for
// again by itself, and the net acts when it is not answered for a minute.
func TestWithoutPodsAStaleReportIsNoticed(t *testing.T) {
	for name, change := range meanwhile {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, 6, 3)
			require.Empty(t, w.settle())
			w.podsUnseen = true
			for _, r := range w.reflectors() {
				w.stopCalicoNode(r.Name, true)
			}
			change(w)
			_, on := w.meshComesOn(120)
			require.Equal(t, !w.d.Timer, on, w.story())
		})
	}
}

// At rest a look at the pods costs nothing: neither a write, nor a look of the manager's.
func TestCalicoNodeThatRunsCostsNoWrite(t *testing.T) {
	for _, regular := range []bool{false, true} {
		w := newWorld(1, 6, 3)
		w.regular = regular
		require.Empty(t, w.settle())
		w.step()
		w.crash()
		w.writes = 0
		for range 1800 {
			w.step()
		}
		require.Zero(t, w.writes, w.story())
	}
}

// An upgrade of Calico restarts calico-node node after node. However few reflectors there
// are, that is no reason for the mesh.
func TestARollingRestartOfCalicoNodeLeavesTheMeshOff(t *testing.T) {
	for _, reflectors := range []int{2, 3} {
		for _, takes := range []int{5, 30, 55} {
			t.Run(fmt.Sprintf("%d reflectors, %d s each", reflectors, takes), func(t *testing.T) {
				w := newWorld(1, 6, reflectors)
				w.d.Pool.SizePerZone = 1
				require.Empty(t, w.settle())
				require.Len(t, w.reflectors(), reflectors)
				notReady := 0
				for _, r := range w.reflectors() {
					w.stopCalicoNode(r.Name, true)
					w.step()
					w.step()
					w.stopCalicoNode(r.Name, false)
					for i := range takes + 30 { // it is Ready, and then the next is restarted
						if i == takes {
							w.startCalicoNode(r.Name)
						}
						w.step()
						require.False(t, w.bgp.MeshOn(), w.story())
						if s := w.next(w.observe()); s.Reflectors[0].NotRunning || s.Reflectors[1].NotRunning {
							notReady++
						}
					}
				}
				require.Zero(t, notReady, "conditions must not flap")
			})
		}
	}
}

// A reflector whose calico-node crashes again and again does not serve, however often it is Ready for a moment.
func TestOneThatCrashesAgainAndAgainIsNotWaitedFor(t *testing.T) {
	w := newWorld(1, 6, 2)
	w.d.Pool.SizePerZone = 1
	require.Empty(t, w.settle())
	r := w.reflectors()[0].Name
	for i := range 240 {
		switch i % 40 {
		case 0:
			w.stopCalicoNode(r, false)
		case 38:
			w.startCalicoNode(r)
		}
		w.step()
	}
	require.True(t, w.bgp.MeshOn(), w.story())
}

// Felix is not Ready where Typha is gone, and BIRD runs all the same. A reporter that
// answers is believed, and asked seldom.
func TestAPodThatIsNotReadyButReportsServes(t *testing.T) {
	w := newWorld(1, 6, 3)
	require.Empty(t, w.settle())
	w.step()
	w.writes = 0
	steps := map[string]bool{}
	for range 600 {
		w.tick()
		for _, r := range w.reflectors() {
			r.CalicoNode = plan.CalicoNode{State: plan.CalicoNodeNotReady, Since: w.now}
			if w.now.Sub(r.joined) > 0 {
				r.CalicoNode.Since = r.joined
			}
		}
		if s := w.manage(-1); s != nil {
			steps[s.Name] = true
		}
		require.False(t, w.bgp.MeshOn(), w.story())
	}
	require.Equal(t, map[string]bool{rollout.Steady: true}, steps)
	require.LessOrEqual(t, w.writes, 3*600/30+3, "each is asked every 30 s")
}

func TestThePodsOfReflectorsThatStopped(t *testing.T) {
	w, o := migrated(t)
	gone := plan.CalicoNode{State: plan.CalicoNodeAbsent, Since: w.now.Add(-time.Hour)}
	at := func(name string) *plan.Node {
		for i := range o.Nodes {
			if o.Nodes[i].Name == name {
				return &o.Nodes[i]
			}
		}
		return nil
	}
	asks := func(s rollout.Step) (out []string) {
		for _, a := range s.Actions {
			if r, ok := a.(plan.RefreshStatus); ok {
				out = append(out, r.Node)
			}
		}
		return out
	}
	rs := w.reflectors()
	for _, r := range rs {
		at(r.Name).CalicoNode = gone
	}
	s := w.next(o)
	require.Len(t, asks(s), 3, "the reports are older than that")
	require.True(t, s.Short, "no slow request to the cloud comes between")
	for _, r := range rs {
		amend(&o, r.Name, func(st *plan.Status) { st.Cleared = w.now.Add(-19 * time.Second) })
	}
	require.Equal(t, time.Second, w.next(o).Again)
	for _, r := range rs {
		amend(&o, r.Name, func(st *plan.Status) { st.Cleared = w.now.Add(-20 * time.Second) })
	}
	s = w.next(o)
	require.Equal(t, "RestoreMesh", s.Name)
	require.Contains(t, s.Reason, fmt.Sprintf("calico-node is not running on 3 of 3 route reflectors: %s, %s, %s, ", rs[0].Name, rs[1].Name, rs[2].Name))
	require.Len(t, asks(s), 3, "they may come back")
	require.True(t, s.Reflectors[0].NotRunning)

	amend(&o, rs[0].Name, func(st *plan.Status) { st.Cleared, st.Updated = time.Time{}, w.now })
	s = w.next(o)
	require.NotEqual(t, "RestoreMesh", s.Name, "one answers: the others may restart")
	require.False(t, s.Reflectors[1].NotRunning)
	require.Equal(t, "a, b, c and 2 more", rollout.NotRunning([]string{"a", "b", "c", "d", "e"}, 9)[len("calico-node is not running on 5 of 9 route reflectors: "):])
}
