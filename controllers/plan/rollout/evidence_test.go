package rollout_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// kubeletsStop lets Kubernetes call nodes NotReady whose calico-node goes on.
func (w *world) kubeletsStop(machines ...*machine) {
	for _, m := range machines {
		m.Ready, m.ReadyChanged, w.nextLook = false, w.now, w.now
	}
}

// A kubelet that is down stops no packet. With those of most clients, or of all, the safety net acts as ever.
func TestTheSafetyNetActsWithMostKubeletsDown(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*world){
		"all reflectors die": func(w *world) { w.setAlive(false, w.reflectors()...) },
		"calico-node is gone from all reflectors": func(w *world) {
			for _, r := range w.reflectors() {
				w.stopCalicoNode(r.Name, false)
			}
		},
		"the packets of those nodes get lost": func(w *world) {
			for _, c := range w.clients() {
				w.cutOff(!c.Ready, c)
			}
		},
	} {
		for _, kind := range kinds {
			for ready := range 3 {
				t.Run(fmt.Sprintf("%s, %s, %d are Ready", name, kind, ready), func(t *testing.T) {
					t.Parallel()
					w := arrangedAs(t, newWorld(1, 9, 3), kind, 2, 3)
					w.kubeletsStop(w.clients()[ready:]...)
					w.runUnchecked(300)
					require.False(t, w.bgp.MeshOn(), w.story())
					lose(w)
					_, on := w.meshComesOn(300)
					require.True(t, on, w.story())
				})
			}
		}
	}
}

// The control: nodes that are dead themselves need no mesh, and after a while their reports are not asked for any more.
func TestDeadNodesBringNoMesh(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		w := arrangedAs(t, newWorld(1, 9, 3), kind, 2, 3)
		watched := len(w.watches)
		w.setAlive(false, w.clients()[:4]...)
		w.runUnchecked(1800)
		require.Zero(t, w.restores, "%s\n%s", kind, w.story())
		require.Len(t, w.watches, watched)
	}
}

// Clients whose BIRD is dead do not answer. However many they are, one that is cut off is asked as well, and so is one
// whose kubelet is down.
func TestDeadClientsDoNotHideOneThatIsCutOff(t *testing.T) {
	t.Parallel()
	for _, dead := range []int{16, 40} {
		for _, ready := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d, Ready %t", dead, ready), func(t *testing.T) {
				t.Parallel()
				w := atRest(t, newWorld(1, 2*dead+13, 3))
				cs := w.clients()
				for _, c := range cs[:dead] {
					w.stopCalicoNode(c.Name, false)
				}
				w.runUnchecked(300)
				require.LessOrEqual(t, len(w.watches), 16+3)
				if !ready {
					w.kubeletsStop(cs[dead+14])
				}
				w.cutOff(true, cs[dead+14])
				_, on := w.meshComesOn(400)
				require.True(t, on, "%v", w.next(w.observe()).Unserved)
			})
		}
	}
}

// The report of one reflector cannot be made. The others, and the client's own, tell all the same.
func TestOneMissingReportDoesNotBlindTheNet(t *testing.T) {
	t.Parallel()
	for _, missing := range []int{1, 2} {
		w := atRest(t, newWorld(1, 10, 3))
		w.cutOff(true, w.clients()[0])
		for range 300 {
			w.tick()
			for _, r := range w.reflectors()[:missing] {
				delete(w.reports, r.Name)
			}
			w.manage(-1)
		}
		require.True(t, w.bgp.MeshOn(), w.story())
	}
	// The control: the client has its session with the one that does not report, and says so.
	w := atRest(t, newWorld(1, 10, 3))
	for _, r := range w.reflectors()[1:] {
		w.model.Cut(w.clients()[0].Name, r.Name, true)
	}
	for range 600 {
		w.tick()
		delete(w.reports, w.reflectors()[0].Name)
		w.manage(-1)
		require.False(t, w.bgp.MeshOn(), w.story())
	}
	require.Empty(t, w.next(w.observe()).Unserved)
}

// The status reporters of all reflectors hang; BIRD runs, and the pods are Ready. Also where they write changes only that is noticed.
func TestReportersThatHangAreNoticed(t *testing.T) {
	t.Parallel()
	for _, regular := range []bool{true, false} {
		w := newWorld(1, 10, 3)
		w.regular = regular
		w = atRest(t, w)
		w.runUnchecked(200)
		for _, r := range w.reflectors() {
			r.hung = true
		}
		w.cutOff(true, w.clients()[:6]...)
		w.runUnchecked(1200)
		require.True(t, w.bgp.MeshOn(), "regular %t: %s", regular, w.next(w.observe()).Name)
	}
}

// At rest, where reporters write changes only, one reflector a quarter of an hour is asked whether it still reports, each in its turn; the
// others as well as soon as it misses a client, or does not answer.
func TestAtRestOneReflectorAnswersForAll(t *testing.T) {
	t.Parallel()
	asked := func(w *world, seconds int) map[string]int {
		out := map[string]int{}
		for range seconds {
			w.tick()
			if s := w.manage(-1); s != nil {
				for _, a := range s.Actions {
					out[a.(plan.RefreshStatus).Node]++
				}
			}
		}
		return out
	}
	w := atRest(t, newWorld(1, 10, 3))
	require.Empty(t, asked(w, 600), "right after a migration")
	for range 3 {
		first := asked(w, 3*15*60)
		require.Len(t, first, 3, "all, in turn")
		for name, times := range first {
			require.Equal(t, 1, times, name)
		}
	}
	w.model.Cut("client-01", w.reflectors()[0].Name, true)
	require.Len(t, asked(w, 960), 2, "the others: the first has just reported that")
	w.model.Cut("client-01", w.reflectors()[0].Name, false)
	require.Empty(t, asked(w, 600))
	w.reflectors()[1].hung = true
	require.Len(t, asked(w, 3*15*60+120), 3)
	require.Equal(t, []string{"a status report from calico-node on " + w.reflectors()[1].Name}, w.next(w.observe()).WaitingFor)
}

// Where all reflectors lose their addresses of one family, the sessions in that are missed as before, and the mesh takes over.
func TestAFamilyThatReflectorsHaveLostIsMissed(t *testing.T) {
	t.Parallel()
	w, o := migrated(t)
	w.now = w.now.Add(time.Hour)
	addIPv6(&o, 1, 2, 3, 7, 8, 9)
	for _, r := range []int{7, 8, 9} {
		editStatus(&o, o.Nodes[r-1].Name, func(s *plan.Status) {
			s.Updated = w.now
			for _, peer := range []int{1, 2, 3, 7, 8, 9} {
				if peer != r {
					s.Sessions = append(s.Sessions, plan.Session{Peer: o.Nodes[peer-1].Addresses[1], Kind: plan.SessionNode, Established: true, Since: w.now.Add(-time.Hour)})
				}
			}
		})
	}
	before := w.next(o)
	require.Equal(t, rollout.Steady, before.Name)
	for _, r := range []int{7, 8, 9} {
		n := &o.Nodes[r-1]
		n.Addresses = n.Addresses[:1]
		editStatus(&o, n.Name, func(s *plan.Status) {
			s.Sessions = slices.DeleteFunc(slices.Clone(s.Sessions), func(x plan.Session) bool { return x.Peer.Is6() })
		})
	}
	after := w.next(o)
	for i, r := range after.Reflectors {
		require.Equal(t, r.Expected, before.Reflectors[i].Expected-2, "less those with the other two reflectors, which have none any more")
		require.Equal(t, 3, r.Expected-r.Established)
	}
	require.Equal(t, []string{"client-01", "client-02", "client-03"}, after.Unserved)
	require.NotEqual(t, "RestoreMesh", after.Name, "no client has said yet that its BIRD runs")
	answer := plan.Status{Node: "client-01", Updated: w.now}
	for _, r := range w.reflectors() {
		answer.Sessions = append(answer.Sessions, plan.Session{Peer: r.Addresses[0], Kind: plan.SessionNode, Established: true, Since: w.now.Add(-time.Hour)})
	}
	o.Statuses["client-01"] = answer
	require.Equal(t, "RestoreMesh", w.next(o).Name)
}
