package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// stopCalicoNode ends calico-node on a node that stays Ready: its pod is evicted, or is there and not Ready.
func (w *world) stopCalicoNode(name string, evicted bool) {
	w.nodes[name].alive, w.nodes[name].evicted = false, evicted
}

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

// after lets something happen once calico-node is gone from all reflectors.
func after(do func(*world)) func(*world, func()) {
	return func(w *world, lose func()) {
		lose()
		do(w)
	}
}

// before lets something happen some minutes before that.
func before(do func(*world)) func(*world, func()) {
	return func(w *world, lose func()) {
		do(w)
		for range 200 {
			w.step()
		}
		lose()
	}
}

func (w *world) refuse() { w.problems = []plan.Problem{{Reason: "BGPDisabled", Message: "x"}} }

func (w *world) deleteReports() {
	w.reports, w.watches, w.nextLook = map[string]*plan.Status{}, map[string]plan.StatusRequest{}, w.now
}

func (w *world) withUnreadyPods() {
	for _, r := range w.reflectors() {
		r.unready = true
	}
}

// What else is going on while calico-node goes from all reflectors at once.
var meanwhile = map[string]func(*world, func()){
	"nothing else":                            after(func(*world) {}),
	"reports that are regular":                before(func(w *world) { w.regular = true }),
	"the manager is restarted before":         before((*world).crash),
	"the manager is restarted at once":        after((*world).crash),
	"the manager is restarted after a look":   after(func(w *world) { w.step(); w.step(); w.crash() }),
	"the manager is down for 20 s":            after(func(w *world) { w.asleep = w.now.Add(20 * time.Second); w.crash() }),
	"the kubelets' clocks are behind":         after(func(w *world) { w.regular, w.kubelets = true, -5*time.Minute; w.step(); w.crash() }),
	"the kubelets' clocks are ahead":          after(func(w *world) { w.regular, w.kubelets = true, 5*time.Minute; w.step(); w.crash() }),
	"Calico has not been as needed for long":  before((*world).refuse),
	"Calico is not as rrpool needs it":        after((*world).refuse),
	"the reports are deleted":                 after((*world).deleteReports),
	"the reports are deleted, and it refuses": before(func(w *world) { w.refuse(); w.deleteReports() }),
	"the pool has been incomplete for long":   before(func(w *world) { w.cloudSilent = true; w.d.Pool.SizePerZone++ }),
	"the pool is incomplete":                  after(func(w *world) { w.d.Pool.SizePerZone++ }),
	"fewer reflectors are wanted":             after(func(w *world) { w.d.Pool.Zones = w.d.Pool.Zones[:2] }),
	"the cluster ID is another":               after(func(w *world) { w.d.ClusterID = "244.0.0.9" }),
	"the cloud is silent":                     before(func(w *world) { w.cloudSilent = true }),
	"a password has changed":                  after(func(w *world) { w.d.Password = &plan.SecretRef{Name: "bgp", Key: "password"} }),
	"the clients' BGPPeer is deleted":         after(func(w *world) { delete(w.peers, "rrpool-clients"); w.changed() }),
	"pods that have not been Ready for long":  before((*world).withUnreadyPods),
	"sessions are not observed (Timer)":       after(func(w *world) { w.d.Timer = true; w.step() }),
	"the way back has begun": after(func(w *world) {
		w.d.Mode = v1alpha1.ModeFullMesh
		w.refuse()
	}),
}

// goFromAll lets calico-node go from all reflectors, and waits for the mesh. What of its
// pods shows that is "evicted", "not Ready", or "unseen".
func goFromAll(t *testing.T, what string, change func(*world, func()), crowd int, pods string, most time.Duration) {
	t.Helper()
	w := atRest(t, newWorld(uint64(len(what)), 6, 3))
	w.podsUnseen, w.crowd = pods == "unseen", crowd
	for range 60 + w.rnd.IntN(60) {
		w.step()
	}
	var began time.Time
	change(w, func() {
		require.False(t, w.bgp.MeshOn(), w.story())
		began = w.now
		for _, r := range w.reflectors() {
			w.stopCalicoNode(r.Name, pods == "evicted")
			r.lies = pods == "disguised"
		}
	})
	_, on := w.meshComesOn(600)
	require.Equal(t, !w.d.Timer || !w.podsUnseen && pods != "disguised", on, "without reports and pods nothing shows it: %s", w.story())
	if crowd < 1000 && on {
		require.LessOrEqual(t, w.now.Sub(began), most)
	}
	for crowd == 0 && on && w.now.Sub(began) < max(95*time.Second, most+25*time.Second) { // BIRD keeps the routes for 120 s
		w.step()
	}
	if crowd == 0 && on {
		require.Empty(t, w.apart(hasPods))
	}
}

// BIRD keeps the routes of a killed neighbour for 120 s, and the mesh needs up to 18 s.
// Where calico-node is no pod, or pods may not be listed, overdue reports are asked for
// again by themselves, from 1,000 nodes on every five minutes. A pod of others that passes for calico-node's delays it by no more than a pod
// that is not seen.
func TestTheMeshIsBackInTimeWhenCalicoNodeGoesFromAllReflectors(t *testing.T) {
	t.Parallel()
	for pods, most := range map[string]int{"evicted": 41, "not Ready": 41, "unseen": 75, "disguised": 81} {
		for what, change := range meanwhile {
			for i, crowd := range []int{0, 494, 1000} {
				if what != "nothing else" && what != "reports that are regular" && (i == 2 || i == 1 && pods != "unseen") {
					continue
				}
				t.Run(fmt.Sprintf("%s, %d nodes more, %s", pods, crowd, what), func(t *testing.T) {
					goFromAll(t, what, change, crowd, pods, time.Duration(most)*time.Second)
				})
			}
		}
	}
}

func TestTheMeshIsBackInTimeWithOtherReflectorsToo(t *testing.T) {
	t.Run("existing nodes", func(t *testing.T) {
		w := atRest(t, newInPlaceWorld(1, 7, 1, 3))
		for _, r := range w.reflectors() {
			w.stopCalicoNode(r.Name, true)
		}
		_, on := w.meshComesOn(30)
		require.True(t, on, w.story())
	})
	t.Run("a rack of a Hierarchy", func(t *testing.T) {
		w := arrangedAs(t, newWorld(1, 12, 3), v1alpha1.TopologyHierarchy, 2, 3)
		rack := w.reflectors()[0].ClusterID
		for _, r := range w.reflectors() {
			if r.ClusterID == rack {
				w.stopCalicoNode(r.Name, true)
			}
		}
		_, on := w.meshComesOn(41)
		require.True(t, on, w.story())
	})
}

// An upgrade of Calico restarts calico-node node after node. However few reflectors there
// are, that is no reason for the mesh.
func TestARollingRestartOfCalicoNodeLeavesTheMeshOff(t *testing.T) {
	for i := range 24 {
		reflectors, takes, pause := 2+i%2, []int{5, 30, 55}[i/2%3], []int{30, 0, 1, 5}[i/6]
		t.Run(fmt.Sprintf("%d reflectors, %d s each, %d s between", reflectors, takes, pause), func(t *testing.T) {
			w := newWorld(uint64(i), 6, reflectors)
			w.d.Pool.SizePerZone = 1
			require.Empty(t, w.settle())
			require.Len(t, w.reflectors(), reflectors)
			notReady := 0
			for _, r := range w.reflectors() {
				w.stopCalicoNode(r.Name, true)
				w.step()
				w.step()
				w.stopCalicoNode(r.Name, false)
				for i := range takes + pause + 1 { // it is Ready, and then the next is restarted
					if i == takes {
						w.birdBack(r.Name)
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
			w.birdBack(r)
		}
		w.step()
	}
	require.True(t, w.bgp.MeshOn(), w.story())
}

// Felix is not Ready where Typha is gone, and BIRD runs all the same. A reporter that
// answers is believed, and asked ever more seldom.
func TestAPodThatIsNotReadyButReportsServes(t *testing.T) {
	w := atRest(t, newWorld(1, 6, 3))
	w.step()
	w.writes = 0
	steps := map[string]bool{}
	for range 600 {
		w.tick()
		w.withUnreadyPods()
		if s := w.manage(-1); s != nil {
			steps[s.Name] = true
		}
		require.False(t, w.bgp.MeshOn(), w.story())
	}
	require.Equal(t, map[string]bool{rollout.Steady: true}, steps)
	require.LessOrEqual(t, w.writes, 3*12)
	for range 3600 {
		w.step()
	}
	require.LessOrEqual(t, w.writes, 3*18, "not every 30 s")
}

func TestThePodsOfReflectorsThatStopped(t *testing.T) {
	w, o := migrated(t)
	gone := plan.CalicoNode{State: plan.CalicoNodeAbsent, Since: w.now.Add(-time.Hour)}
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
		nodeOf(&o, r.Name).CalicoNode = gone
		editStatus(&o, r.Name, func(st *plan.Status) { st.Updated = w.now.Add(-time.Minute) })
	}
	s := w.next(o)
	require.Len(t, asks(s), 3, "the reports are older than that")
	require.True(t, s.Short, "no slow request to the cloud comes between")
	for _, r := range rs {
		editStatus(&o, r.Name, func(st *plan.Status) { st.Cleared = w.now.Add(-19 * time.Second) })
	}
	require.Equal(t, time.Second, w.next(o).Again)
	for _, r := range rs {
		editStatus(&o, r.Name, func(st *plan.Status) { st.Cleared = w.now.Add(-20 * time.Second) })
	}
	s = w.next(o)
	require.Equal(t, "RestoreMesh", s.Name)
	require.Contains(t, s.Reason, fmt.Sprintf("calico-node is not running on 3 of 3 route reflectors: %s, %s, %s, ", rs[0].Name, rs[1].Name, rs[2].Name))
	require.Len(t, asks(s), 3, "they may come back")
	require.True(t, s.Reflectors[0].NotRunning)

	editStatus(&o, rs[0].Name, func(st *plan.Status) { st.Cleared, st.Updated = time.Time{}, w.now })
	s = w.next(o)
	require.NotEqual(t, "RestoreMesh", s.Name, "one answers: the others may restart")
	require.False(t, s.Reflectors[1].NotRunning)
	require.Equal(t, "a, b, c and 2 more", rollout.NotRunning([]string{"a", "b", "c", "d", "e"}, 9)[len("calico-node is not running on 5 of 9 route reflectors: "):])
}

// A manager that has just started has watched no report come: those that were written after the last change of the pods are not asked for again.
func TestAManagerThatStartsAsksForReportsFromBeforeThePodsChanged(t *testing.T) {
	for name, tc := range map[string]struct {
		written, changed time.Duration // ago
		asked            bool
	}{
		"written since":                   {written: time.Minute, changed: time.Hour},
		"written before":                  {written: time.Minute, changed: 30 * time.Second, asked: true},
		"written by a clock that is fast": {written: -time.Minute, changed: time.Hour, asked: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := migrated(t)
			r := w.reflectors()[0].Name
			nodeOf(&o, r).CalicoNode = plan.CalicoNode{State: plan.CalicoNodeReady, Since: w.now.Add(-tc.changed)}
			editStatus(&o, r, func(st *plan.Status) { st.Updated, st.Written = time.Time{}, w.now.Add(-tc.written) })
			if ask := plan.Action(plan.RefreshStatus{Node: r}); tc.asked {
				require.Contains(t, w.next(o).Actions, ask)
			} else {
				require.NotContains(t, w.next(o).Actions, ask)
			}
		})
	}
}

// Whether calico-node runs is told by its pod and its reporter together, and of a node that is not Ready by neither.
func TestWhatShowsThatCalicoNodeDoesNotRun(t *testing.T) {
	gone := plan.CalicoNode{State: plan.CalicoNodeAbsent}
	for name, tc := range map[string]struct {
		pod          plan.CalicoNode
		heard, ready bool
		stopped      bool
	}{
		"no pod, and no answer":                       {pod: gone, ready: true, stopped: true},
		"no pod, but an answer":                       {pod: gone, ready: true, heard: true},
		"no answer, but a pod that is Ready":          {pod: plan.CalicoNode{State: plan.CalicoNodeReady}, ready: true},
		"no pod and no answer of a node that is away": {pod: gone},
		"no answer, and pods that cannot be seen":     {ready: true},
		"a pod that is not Ready any more, no answer": {pod: plan.CalicoNode{State: plan.CalicoNodeNotReady}, ready: true, stopped: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := migrated(t)
			r := nodeOf(&o, w.reflectors()[0].Name)
			r.CalicoNode, r.Ready, r.ReadyChanged = tc.pod, tc.ready, w.now.Add(-10*time.Minute)
			r.CalicoNode.Since = w.now.Add(-10 * time.Minute)
			editStatus(&o, r.Name, func(st *plan.Status) {
				if st.Updated = w.now; !tc.heard {
					st.Cleared, st.Updated = w.now.Add(-9*time.Minute), time.Time{}
				}
			})
			require.Equal(t, tc.stopped, w.next(o).Reflectors[0].NotRunning)
		})
	}
}

// The reporters of an older Calico are not heard once its CRDs are newer. The pod of one is away for as long as any may be while it restarts.
func TestCalicoNodeMayRestartThatWasNotHeardBefore(t *testing.T) {
	for limit, unheard := range map[time.Duration]int{20 * time.Second: 3, time.Minute: 1} {
		w, o := migrated(t)
		for _, r := range w.reflectors()[:unheard] {
			editStatus(&o, r.Name, func(st *plan.Status) { st.Cleared = w.now.Add(-time.Hour) })
		}
		for _, away := range []time.Duration{limit - time.Second, limit} {
			o.Nodes[6].CalicoNode = plan.CalicoNode{State: plan.CalicoNodeAbsent, Since: w.now.Add(-away)}
			require.Equal(t, away == limit, w.next(o).Reflectors[0].NotRunning, "%d are not heard, and one is away for %s", unheard, away)
		}
	}
}
