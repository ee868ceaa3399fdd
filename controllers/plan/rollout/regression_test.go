package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// does reports whether a step contains an action of this type.
func does(s rollout.Step, kind plan.Action) bool {
	return slices.ContainsFunc(s.Actions, func(a plan.Action) bool { return fmt.Sprintf("%T", a) == fmt.Sprintf("%T", kind) })
}

// Sequences that once lost packets in this model: told from a migrated cluster, and run for as long as it took.
func TestSequencesThatOnceLostPackets(t *testing.T) {
	failAndReturn := func(w *world) {
		w.setAlive(false, w.reflectors()...)
		w.runUnchecked(300) // the loss here is the outage's
		w.setAlive(true, w.reflectors()...)
	}
	for name, tc := range map[string]struct {
		timer bool
		do    func(*world)
	}{
		"Timer: the reflectors come back after the net has caught them": {true, failAndReturn},
		"Sessions: the same": {false, failAndReturn},
		"Timer: the BGPConfiguration is deleted, then back to the mesh": {true, func(w *world) {
			w.bgp, w.d.Mode = plan.BGPConfig{ASN: 64512}, v1alpha1.ModeFullMesh
			w.changed()
		}},
		"Timer: the BGPConfiguration is deleted, then another password": {true, func(w *world) {
			w.bgp, w.d.Password = plan.BGPConfig{ASN: 64512}, &plan.SecretRef{Name: "new", Key: "password"}
			w.changed()
		}},
		"back to the mesh while no node is Ready, and all route": {false, func(w *world) {
			for _, c := range w.clients() {
				c.Ready, c.ReadyChanged = false, w.now
			}
			w.d.Mode, w.maxLag = v1alpha1.ModeFullMesh, 30
		}},
		"new zones, whose reflectors exchange nothing at first": {false, func(w *world) {
			w.d.Pool.Zones, w.d.Pool.SizePerZone = []string{"zone-4"}, 3
			for i := range 40 { // whatever they will be called
				w.model.Mute(fmt.Sprintf("worker-%02d", 10+i), w.now.Add(10*time.Minute))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, 6, 3)
			w.d.Timer = tc.timer
			require.Empty(t, w.settle())
			tc.do(w)
			w.nextLook = w.now
			require.Empty(t, w.run(900), strings.Join(w.narrative, "\n"))
		})
	}
}

// Single observations in which something must not, or must, be done.
func TestDecisionsThatWereWrongOnce(t *testing.T) {
	forbid := func(kind plan.Action) func(*testing.T, rollout.Step) {
		return func(t *testing.T, s rollout.Step) { t.Helper(); require.False(t, does(s, kind), s.Reason) }
	}
	demand := func(kind plan.Action) func(*testing.T, rollout.Step) {
		return func(t *testing.T, s rollout.Step) {
			t.Helper()
			require.True(t, does(s, kind), "%s: %s", s.Name, s.Reason)
		}
	}
	down := func(w *world, o *rollout.Observed, count int) {
		for _, r := range w.reflectors()[:count] {
			editStatus(o, r.Name, func(s *plan.Status) {
				for i := range s.Sessions {
					s.Sessions[i].Established, s.Sessions[i].Since = false, w.now.Add(-time.Hour)
				}
			})
		}
	}
	for name, tc := range map[string]struct {
		from  func(*testing.T) (*world, rollout.Observed)
		do    func(*world, *rollout.Observed)
		check func(*testing.T, rollout.Step)
	}{
		"the mesh goes without IPv6 on the reflectors": {meshOn, withoutIPv6, forbid(plan.DisableMesh{})},
		"the mesh goes though the sampled tables are empty": {meshOn, func(_ *world, o *rollout.Observed) {
			for name := range o.Statuses {
				editStatus(o, name, func(s *plan.Status) { s.Routes = nil })
			}
		}, forbid(plan.DisableMesh{})},
		"untainted nodes are promoted": {func(*testing.T) (*world, rollout.Observed) {
			w := newWorld(1, 6, 1)
			w.pool = rollout.Pool{Exists: true, SizePerZone: 3, Zones: []string{"zone-1"}, Drifted: "taint missing"}
			for i := range 3 {
				w.addNode(fmt.Sprintf("worker-%d", i), "zone-1", true)
			}
			return w, w.observe()
		}, func(*world, *rollout.Observed) {}, forbid(plan.SetReflector{})},
		"a chatty report holds the net back": {migrated, func(w *world, o *rollout.Observed) {
			down(w, o, 2)
		}, demand(plan.RestoreMesh{})},
		"one client is enough to serve": {migrated, func(w *world, o *rollout.Observed) {
			down(w, o, 3)
			for _, r := range w.reflectors() {
				editStatus(o, r.Name, func(s *plan.Status) {
					for i := range s.Sessions {
						s.Sessions[i].Established = s.Sessions[i].Peer == o.Nodes[0].Addresses[0]
					}
				})
			}
		}, demand(plan.RestoreMesh{})},
		"a pool that grows sets off the net": {migrated, func(w *world, _ *rollout.Observed) {
			w.d.MinServing, w.d.NetAfter, w.d.Pool.SizePerZone = 5, time.Hour, 2
		}, forbid(plan.RestoreMesh{})},
		"a node object that is gone skips the wait of the net": {migrated, func(w *world, o *rollout.Observed) {
			w.d.MinServing, w.d.NetAfter = 3, time.Hour
			o.Nodes = o.Nodes[:len(o.Nodes)-1]
		}, forbid(plan.RestoreMesh{})},
		"a dropped zone stays in the pool": {migrated, func(_ *world, o *rollout.Observed) {
			o.Pool.Zones = append(slices.Clone(o.Pool.Zones), "zone-9")
		}, demand(plan.EnsurePool{})},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := tc.from(t)
			tc.do(w, &o)
			tc.check(t, w.next(o))
		})
	}
}

// withoutIPv6 makes all clients dual-stack, with too many blocks to look at routes.
func withoutIPv6(_ *world, o *rollout.Observed) {
	addIPv6(o, 1, 2, 3, 4, 5, 6)
	for i := range 6 {
		o.Nodes[i].Blocks = slices.Repeat(o.Nodes[i].Blocks, 400)
	}
}

// Waits that once had no end.
func TestWaitsThatOnceHadNoEnd(t *testing.T) {
	for name, do := range map[string]func(*world){
		"a stray label and a dead reflector on the way back": func(w *world) {
			w.clients()[0].RoleLabel = true
			w.setAlive(false, w.reflectors()[0])
			w.bgp.Mesh, w.d.Mode = plan.Mesh{}, v1alpha1.ModeFullMesh
			w.changed()
		},
		"a stray label and another cluster ID on the way back": func(w *world) {
			w.clients()[0].RoleLabel = true
			w.d.Mode, w.d.ClusterID = v1alpha1.ModeFullMesh, "244.0.0.7"
			w.changed()
		},
		"another cluster ID for the only reflector": func(w *world) {
			w.d.Pool.Zones, w.d.Pool.SizePerZone, w.d.MinServing = w.d.Pool.Zones[:1], 1, 1
			w.runUnchecked(1200)
			w.d.ClusterID = "244.0.0.7"
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := migrated(t)
			do(w)
			w.nextLook = w.now
			w.runUnchecked(3600)
			s := w.next(w.observe())
			require.Equal(t, rollout.Steady, s.Name, "%s %v", s.Reason, s.WaitingFor)
		})
	}
}

// A wait for a route that never comes is one wait, however often reports are
// asked for, so that it can be seen to last too long.
func TestAWaitForARouteIsOneWait(t *testing.T) {
	w, _ := meshOn(t)
	missing := w.reflectors()[0].Addresses[0]
	names := map[string]bool{}
	for range 1200 {
		w.tick()
		for _, st := range w.reports {
			st.Routes = slices.DeleteFunc(slices.Clone(st.Routes), func(r plan.Route) bool { return r.From == missing })
		}
		if s := w.manage(-1); s != nil {
			names[s.Name] = true
		}
	}
	require.Equal(t, map[string]bool{"AwaitRoutes": true}, names)
}

// A single Ready client tells nothing of the pairs among clients, but it does of a node
// whose kubelet alone is down.
func TestTheMeshStaysForTheOnlyOtherNodeThatIsNotReady(t *testing.T) {
	w := atRest(t, newWorld(1, 2, 3))
	on := true
	w.bgp.Mesh.Enabled = &on
	w.changed()
	c := w.nodes["client-02"]
	for _, r := range w.reflectors() {
		w.model.Cut(c.Name, r.Name, true)
	}
	for i := range 600 {
		if i == 60 { // the mesh is up
			c.Ready, c.ReadyChanged, w.nextLook = false, w.now, w.now
		}
		w.step()
	}
	require.True(t, w.bgp.MeshOn(), w.story())
	require.True(t, w.reaches(c, w.nodes["client-01"]))
}
