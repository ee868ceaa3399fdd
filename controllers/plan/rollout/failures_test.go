package rollout_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

var (
	sequences = flag.Int("sequences", 100, "how many random sequences of failures to play")
	firstSeed = flag.Uint64("seed", 0, "the seed of the first sequence; 0 for a random one")
)

// recovery is how long routes may be gone after a failure that took the last ones:
// until the mesh is on, and its sessions are up with the slowest start of the model.
const recovery = 60 * time.Second

// Nodes fail, return, come and go, whichever and however many. What such an event
// itself takes away has to come back soon; nothing else may ever be lost.
func TestRandomSequencesOfFailures(t *testing.T) {
	first := *firstSeed
	if first == 0 {
		first = rand.Uint64()
	}
	middle := *sequences / 2
	for name, part := range map[string][2]int{"one half": {0, middle}, "the other half": {middle, *sequences}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := part[0]; i < part[1]; i++ {
				seed := first + uint64(i)
				w := newWorld(seed, 5, 1+int(seed%3))
				if seed%2 == 0 {
					w = newInPlaceWorld(seed, 7, int(seed/2%2), 1+int(seed%3))
				}
				if v := w.playFailures(8); v != "" {
					t.Fatalf("seed %d (repeat it with -sequences 1 -seed %d): %s\n%s", seed, seed, v, strings.Join(w.narrative, "\n"))
				}
			}
		})
	}
}

func (w *world) playFailures(events int) string {
	if v := w.settle(); v != "" {
		return v
	}
	for i := range events {
		what := w.fail(i)
		w.forgive()
		if v := w.run(w.rnd.IntN(300)); v != "" {
			return fmt.Sprintf("after event %d, %s: %s", i+1, what, v)
		}
	}
	w.everythingReturns()
	if v := w.run(60); v != "" {
		return v
	}
	return w.settle()
}

// forgive excuses what the last event takes away, and no step: at once, or while
// sessions that were on their way do not arrive.
func (w *world) forgive() {
	for range 20 {
		w.tick()
		w.deploy()
		w.manage(-1)
		if w.violation() == "" {
			continue
		}
		for _, m := range w.nodes {
			w.excused[m.Name] = w.now.Add(recovery)
		}
		w.lostAt = w.now
		return
	}
}

// fail lets one thing happen, or up to three at once.
func (w *world) fail(i int) string {
	var what []string
	for range 1 + w.rnd.IntN(3) {
		all := w.all()
		m := all[w.rnd.IntN(len(all))]
		switch kind := w.rnd.IntN(5); {
		case kind == 4:
			w.setAlive(false, w.reflectors()[min(w.rnd.IntN(2), len(w.reflectors())):]...)
			what = append(what, "all reflectors but one fail, or all")
		case kind == 0:
			w.setAlive(false, m)
			what = append(what, m.Name+" fails")
		case kind == 1 && len(all) > 6:
			if w.removeNode(m.Name); m.WorkerID != "" {
				w.dropWorker(m.WorkerID)
				w.fillPool()
			}
			what = append(what, m.Name+" is deleted")
		case kind == 2:
			name := fmt.Sprintf("new-%02d-%02d", i, w.sequence)
			w.addNode(name, w.d.Pool.Zones[w.rnd.IntN(len(w.d.Pool.Zones))], false)
			what = append(what, name+" comes")
		default:
			w.setAlive(true, all...)
			what = append(what, "all return")
		}
	}
	return strings.Join(what, ", ")
}

// faults go further than the disturbances: routing that dies where Kubernetes sees
// nothing, nodes that come back as others, and what the manager leans on failing.
var faults = map[string]func(w *world, i int){
	"bird of a reflector dies": func(w *world, i int) {
		if rs := w.reflectors(); len(rs) > 2 && w.intact() {
			w.birdDies(rs[i%len(rs)].Name)
		}
	},
	"bird of a client dies": func(w *world, i int) {
		all := slices.DeleteFunc(w.all(), func(m *machine) bool { return m.HasRoleLabel })
		if len(all) > 0 {
			w.birdDies(all[i%len(all)].Name)
		}
	},
	"birds return": func(w *world, _ int) {
		for _, m := range w.all() {
			w.birdBack(m.Name)
		}
	},
	"kubelet dies": func(w *world, i int) {
		all := w.all()
		if m := all[i%len(all)]; m.Ready && m.alive && w.intact() {
			m.Ready, m.ReadyChanged, w.nextLook = false, w.now, w.now
		}
	},
	"candidate dies": func(w *world, _ int) {
		for _, m := range w.all() {
			if m.Pooled && !m.HasRoleLabel && w.intact() {
				w.setAlive(false, m)
				return
			}
		}
	},
	"replaced, new IP":  func(w *world, i int) { w.replace(i, false) },
	"replaced, same IP": func(w *world, i int) { w.replace(i, true) },
	"pair deleted": func(w *world, _ int) {
		for _, n := range slices.Sorted(maps.Keys(w.peers)) {
			if p := w.peers[n]; p.PeerIP != "" && w.intact() {
				delete(w.peers, n)
				for _, m := range w.all() {
					if m.Addresses[0].String() == p.PeerIP {
						w.excused[pair(p.Node, m.Name)] = w.byThen()
					}
				}
				w.changed()
				return
			}
		}
	},
	"all cordoned": set(func(w *world, _ int) {
		for _, m := range w.all() {
			m.Cordoned = true
		}
	}),
	"min serving":  set(func(w *world, i int) { w.d.MinServing = []int{1, 5, 2, 3}[i%4] }),
	"size":         set(func(w *world, i int) { w.d.Pool.SizePerZone = 1 + i%3 }),
	"immediate":    set(func(w *world, _ int) { w.d.Promotion = v1alpha1.PromotionImmediate }),
	"pdb":          set(func(w *world, _ int) { w.pdb, w.d.Promotion = true, v1alpha1.PromotionDrain }),
	"no pdb":       set(func(w *world, _ int) { w.pdb = false }),
	"pods unknown": set(func(w *world, _ int) { w.blind = true }),
	"pods known":   set(func(w *world, _ int) { w.blind = false }),
	"problem": set(func(w *world, _ int) {
		if !w.robbed { // else what was taken would stay away for as long as the problem lasts
			w.problems = []plan.Problem{{Reason: "X", Message: "x"}}
		}
	}),
	"no problem": set(func(w *world, _ int) { w.problems = nil }),
	"zone goes": set(func(w *world, _ int) {
		if z := w.d.Pool.Zones; len(z) > 1 {
			w.d.Pool.Zones = z[:len(z)-1]
		}
	}),
	"zone comes": func(w *world, i int) {
		z := fmt.Sprintf("zone-%d", len(w.d.Pool.Zones)+1)
		w.d.Pool.Zones = append(slices.Clone(w.d.Pool.Zones), z)
		w.addNode(fmt.Sprintf("zoned-%02d-%d", i, w.sequence), z, false)
	},
	"manager sleeps": func(w *world, i int) { w.asleep = w.now.Add(time.Duration(i*40) * time.Second) },
	"crash in a longer step": func(w *world, i int) {
		for range 40 {
			w.tick()
			w.nextLook = w.now
			if s := w.manage(i % 4); s != nil && len(s.Actions) > i%4 {
				return
			}
		}
	},
}

// set is an event that is noticed at once.
func set(change func(*world, int)) func(*world, int) {
	return func(w *world, i int) {
		change(w, i)
		w.nextLook = w.now
	}
}

// birdDies kills calico-node on a node that Kubernetes goes on calling Ready.
func (w *world) birdDies(name string) { w.nodes[name].alive, w.nextLook = false, w.now }

func (w *world) birdBack(name string) {
	m := w.nodes[name]
	if !m.alive && m.Ready {
		m.alive, m.joined = true, w.now
	}
	if m.noSix {
		w.sixBack(m)
	}
}

// replace sets a node up anew under its name: another machine, with nothing on it.
func (w *world) replace(i int, sameIP bool) {
	all := w.all()
	m := all[i%len(all)]
	if !w.intact() || len(w.nodes) < 5 {
		return
	}
	w.removeNode(m.Name)
	w.tick()
	n := w.addNode(m.Name, m.Zone, false)
	n.pods = 10
	if sameIP {
		n.Addresses = m.Addresses
	}
}

// What docs/operations.md says of disasters: whatever is lost at once is back within the
// time that the mesh takes to come up, and the cluster gets by itself to where it was.
func TestDisasters(t *testing.T) {
	for name, tc := range map[string]struct {
		strike func(*world)
		// first is the step that the manager takes first, "" when there is nothing to do.
		first string
		free  bool
	}{
		// To a manager, which remembers nothing, the same as another cluster into which the
		// BGPConfiguration and the BGPPeers of this one were restored.
		"the worker pool is deleted with all reflectors": {strike: func(w *world) {
			for _, r := range w.reflectors() {
				w.removeNode(r.Name)
			}
			w.pool = rollout.ObservedPool{}
			w.crash()
		}, first: "RestoreMesh"},
		"the apiserver is restored to before the migration": {strike: func(w *world) {
			w.bgp, w.peers = plan.BGPConfig{ASN: 64512}, map[string]plan.Peer{}
			for _, m := range w.nodes {
				m.HasRoleLabel, m.ClusterID, m.Marked, m.RoleSince, m.Slot = false, "", false, time.Time{}, ""
			}
			w.crash()
			w.changed()
		}, first: "WritePeers"},
		"the apiserver is restored to after it": {strike: func(w *world) { w.crash(); w.changed() }, free: true},
		"the object is gone for a day, and made again": {strike: func(w *world) {
			for range 24 * 60 {
				w.now = w.now.Add(59 * time.Second)
				w.tick()
			}
			w.crash()
		}, free: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := migrated(t)
			w.narrative, w.writes = nil, 0
			tc.strike(w)
			if tc.free {
				require.Empty(t, w.settle())
				require.LessOrEqual(t, w.writes, len(w.reflectors()), "each is asked once whether it still reports\n%s", w.story())
				return
			}
			w.forgive()
			struck, lost := w.now, time.Duration(0)
			for range 120 {
				_ = w.run(1)
				if len(w.apart(hasPods)) > 0 {
					lost = w.now.Sub(struck)
				}
			}
			require.LessOrEqual(t, lost, 20*time.Second, "what docs/failure-modes.md says")
			require.Empty(t, w.settle(), w.story())
			require.Contains(t, w.narrative[0], " "+tc.first, w.story())
			require.False(t, w.bgp.MeshOn(), w.story())
			require.Len(t, w.reflectors(), 3)
		})
	}
	t.Run("negative control: with no manager the pool's loss lasts", func(t *testing.T) {
		w, _ := migrated(t)
		for _, r := range w.reflectors() {
			w.removeNode(r.Name)
		}
		w.asleep = w.now.Add(time.Hour)
		w.forgive()
		require.Contains(t, w.run(120), "has no route")
	})
}

// With the mesh off a reflector goes although the others do not pass on what is announced by no node, or by them in no case.
func TestReflectorsGoWhateverIsNotAnnounced(t *testing.T) {
	silent := func(block string) func(*rollout.Observed) {
		return func(o *rollout.Observed) {
			o.Routes.NotExported = []netip.Prefix{netip.MustParsePrefix("10.3.0.0/24")}
			o.Nodes[2].Blocks = append(slices.Clone(o.Nodes[2].Blocks), netip.MustParsePrefix(block))
		}
	}
	// moved is a single address of a reflector's block that is used on another node: that reflector rejects it, the others pass it on.
	moved := func(o *rollout.Observed) {
		i := slices.IndexFunc(o.Nodes, func(n plan.Node) bool { return n.HasRoleLabel })
		address := netip.PrefixFrom(o.Nodes[i].Blocks[0].Addr().Next(), 32)
		for name, st := range o.Statuses {
			for _, n := range o.Nodes {
				if n.HasRoleLabel && n.Name != o.Nodes[i].Name && n.Name != name && st.HasRoutes {
					st.Routes = append(slices.Clone(st.Routes), plan.Route{Prefix: address, From: n.Addresses[0]})
				}
			}
			o.Statuses[name] = st
		}
	}
	for name, c := range map[string]struct {
		edit func(*rollout.Observed)
		goes bool
	}{
		"a block that BGP does not export":            {silent("10.3.0.64/31"), true},
		"a block of one address, without a pod":       {silent("10.4.0.1/32"), true},
		"one of IPv6":                                 {silent("fd00::1/128"), true},
		"a block that should be announced":            {silent("10.4.0.0/31"), false},
		"an address of a reflector's, used by others": {moved, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, 6, 3)
			w.d.Pool.SizePerZone = 2
			atRest(t, w)
			w.decide = func(o rollout.Observed, d rollout.Desired, now time.Time) rollout.Step {
				c.edit(&o)
				return rollout.Next(o, d, now)
			}
			w.d.Pool.SizePerZone, w.nextLook = 1, w.now
			w.runUnchecked(3600)
			require.Equal(t, c.goes, len(w.reflectors()) == 3, w.story())
		})
	}
}
