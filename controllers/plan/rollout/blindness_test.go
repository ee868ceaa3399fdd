package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/evidence"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// blindness is what keeps a manager from seeing what is so: reports and pods that say nothing or what is not true, clocks, and who else acts.
var blindness = map[string]func(w *world, i int){
	"reporters hang":     onReflectors(func(m *machine) { m.hung = true }),
	"reports unmade":     onReflectors(func(m *machine) { m.unmade = true }),
	"reports garbled":    onReflectors(func(m *machine) { m.garbled = true }),
	"pods are Ready":     onReflectors(func(m *machine) { m.lies = true }),
	"pods are not Ready": onReflectors(func(m *machine) { m.unready = true }),
	"reports and pods tell": set(func(w *world, _ int) {
		for _, m := range w.all() {
			m.hung, m.unmade, m.garbled, m.lies, m.unready = false, false, false, false, false
		}
	}),
	"most kubelets die": func(w *world, i int) { w.kubeletsStop(w.clients()[min(i%3, len(w.clients())):]...) },
	"kubelets return": set(func(w *world, _ int) {
		for _, m := range w.all() {
			if m.alive && !m.Ready {
				m.Ready, m.ReadyChanged = true, w.now
			}
		}
	}),
	"packets get lost": func(w *world, i int) {
		clients := w.clients()
		if m := clients[i%len(clients)]; w.intact() && !m.HasRoleLabel {
			for _, r := range w.reflectors() {
				w.cuts = append(w.cuts, [2]string{m.Name, r.Name})
				w.each(func(b *simulate.Model) { b.Fail(m.Name, r.Name, w.dies) })
			}
			w.excused[m.Name] = w.byThen().Add(simulate.Silent.Kept + 5*time.Minute)
		}
	},
	"packets pass": func(w *world, _ int) { w.join() },
	"many come and BIRD is dead there": func(w *world, _ int) {
		if !w.intact() || w.nodes["absent-00"] != nil {
			return
		}
		for i := range 17 { // more than are asked at a time
			w.addNode(fmt.Sprintf("absent-%02d", i), w.d.Pool.Zones[0], false).alive = false
		}
	},
	"two of another AS come": func(w *world, _ int) {
		for _, name := range []string{"foreign-1", "foreign-2"} {
			if w.nodes[name] != nil {
				return
			}
			w.addNode(name, w.d.Pool.Zones[0], false).ASN = 65001
			if !w.bgp.MeshOn() { // it is refused, and told, but the mesh is off already
				w.excused[name] = w.now.Add(24 * time.Hour)
			}
		}
	},
	"two roles are taken": func(w *world, _ int) {
		rs := w.reflectors()
		if len(rs) < 3 || !w.intact() || len(w.problems) > 0 {
			return
		}
		for _, m := range rs[:2] {
			m.HasRoleLabel, m.ClusterID = false, ""
			w.excused[m.Name] = w.byThen()
		}
		if w.robbed, w.lostAt = true, w.now; w.d.Topology.Kind != "" && w.d.Topology.Kind != v1alpha1.TopologySingle {
			w.excuse(60) // a rack may have had no more
		}
		w.changed()
	},
	"a second manager": func(w *world, _ int) { w.actLate(2, func() {}) },
	"the clock is set": func(w *world, i int) {
		w.setClock([]time.Duration{0, 8 * time.Second, -8 * time.Second, time.Hour, -time.Hour}[i%5])
	},
	"bird6 dies": func(w *world, i int) {
		if rs := w.reflectors(); w.six != nil && len(rs) > 2 && w.intact() {
			m := rs[i%len(rs)]
			m.noSix = true
			w.six.Fail(m.Name, "", w.dies)
		}
	},
	"the cloud refills nothing": func(w *world, _ int) { w.miserly = true },
}

// onReflectors changes one reflector, or all.
func onReflectors(edit func(*machine)) func(*world, int) {
	return set(func(w *world, i int) {
		for j, m := range w.reflectors() {
			if i >= 6 || j == i {
				edit(m)
			}
		}
	})
}

// drawFamilies gives a third of the worlds both address families.
func (w *world) drawFamilies(t *rapid.T) {
	if rapid.IntRange(0, 2).Draw(t, "families") == 0 {
		w.regular = false
		w.dualStack()
	}
}

// join lets the packets pass again.
func (w *world) join() {
	for _, p := range w.cuts {
		w.each(func(b *simulate.Model) { b.Cut(p[0], p[1], false) })
		if m := w.nodes[p[0]]; m != nil {
			m.joined = w.now
		}
	}
	w.cuts = nil
}

// repair ends all blindness, and takes away who cannot be served.
func (w *world) repair() {
	blindness["reports and pods tell"](w, 0)
	blindness["kubelets return"](w, 0)
	w.join()
	w.miserly = false
	for _, m := range w.all() {
		switch {
		case m.ASN != 0 || strings.HasPrefix(m.Name, "absent-"):
			w.removeNode(m.Name)
		case m.noSix:
			w.sixBack(m)
		}
	}
}

func (w *world) sixBack(m *machine) {
	m.noSix = false
	w.six.Start(m.Name)
	m.joined = w.now
}

// actLate is what a manager does whose lease has ended without its notice: what it decided so many seconds ago.
func (w *world) actLate(seconds int, meanwhile func()) {
	s := rollout.Next(w.observe(), w.d, w.clock())
	meanwhile()
	for range seconds {
		w.step()
	}
	for _, d := range s.Disrupts {
		w.excused[pair(d.Node, d.From)] = w.now.Add(joinTime)
	}
	w.cleared = 0
	for _, a := range s.Actions {
		if set, ok := a.(plan.SetReflector); ok && w.nodes[set.Node] == nil {
			continue
		}
		w.apply(a)
	}
}

// excuse lets all nodes lose their routes for so long.
func (w *world) excuse(seconds int) {
	for name := range w.nodes {
		w.excused[name] = w.now.Add(time.Duration(seconds) * time.Second)
	}
	w.lostAt = w.now.Add(time.Duration(seconds) * time.Second)
}

// seeing is a manager that sees the cluster otherwise than it is.
func seeing(change func(*world, *rollout.Observed)) func(*world, rollout.Observed, rollout.Desired) rollout.Step {
	return func(w *world, o rollout.Observed, d rollout.Desired) rollout.Step {
		change(w, &o)
		return rollout.Next(o, d, w.clock())
	}
}

// deciding is a manager that does otherwise than Next says.
func deciding(change func(*world, *rollout.Step)) func(*world, rollout.Observed, rollout.Desired) rollout.Step {
	return func(w *world, o rollout.Observed, d rollout.Desired) rollout.Step {
		s := rollout.Next(o, d, w.clock())
		change(w, &s)
		return s
	}
}

// speaks lets a reflector seem to have reported just now.
func speaks(w *world, o *rollout.Observed, name string) {
	n := nodeOf(o, name)
	n.Ready, n.CalicoNode = true, plan.CalicoNode{State: plan.CalicoNodeReady}
	editStatus(o, name, func(st *plan.Status) { st.Cleared, st.Updated = time.Time{}, w.clock() })
}

// blindManagers each lack one thing that Next has, and get by where the world lacks its counterpart.
var blindManagers = map[string]struct {
	decide func(*world, rollout.Observed, rollout.Desired) rollout.Step
	// play is what happens to a cluster at rest, with that counterpart or without it, and says what is wrong.
	play func(w *world, with bool) string
	dual bool
}{
	"one address family is all that it looks at": {dual: true, decide: seeing(func(_ *world, o *rollout.Observed) {
		for i := range o.Nodes {
			o.Nodes[i].Addresses = o.Nodes[i].Addresses[:1]
		}
		for name := range o.Statuses {
			editStatus(o, name, func(st *plan.Status) {
				st.Sessions = slices.DeleteFunc(st.Sessions, func(s plan.Session) bool { return s.Peer.Is6() })
			})
		}
	}), play: func(w *world, with bool) string {
		for _, r := range w.reflectors() {
			w.six.Cut("client-01", r.Name, true)
			w.model.Cut("client-01", r.Name, !with)
		}
		w.excuse(150)
		return w.run(400)
	}},
	"AS numbers do not matter to it": {decide: seeing(func(_ *world, o *rollout.Observed) {
		for i := range o.Nodes {
			o.Nodes[i].ASN = 0
		}
	}), play: func(w *world, with bool) string {
		w.d.Mode = v1alpha1.ModeFullMesh
		w.runUnchecked(600)
		blindness["two of another AS come"](w, 0)
		for _, m := range w.all() {
			if !with {
				m.ASN = 0
			}
		}
		w.d.Mode = v1alpha1.ModeRouteReflector
		return w.run(900)
	}},
	"routes that are kept prove to it that BIRD runs": {decide: seeing(func(w *world, o *rollout.Observed) {
		for _, r := range w.model.Report("client-01", true).Routes {
			for _, m := range w.reflectors() {
				if slices.Contains(m.Addresses, r.From) {
					speaks(w, o, m.Name)
				}
			}
		}
	}), play: func(w *world, with bool) string {
		if w.dies = simulate.ShutDown; with {
			w.dies = simulate.Killed
		}
		for _, r := range w.reflectors() {
			w.birdDies(r.Name)
		}
		w.excuse(75)
		return w.run(300)
	}},
	"sessions that look Established prove to it that a host is up": {decide: seeing(func(w *world, o *rollout.Observed) {
		for _, m := range w.reflectors() {
			if w.model.Connected("client-01", m.Name) {
				speaks(w, o, m.Name)
			}
		}
	}), play: func(w *world, with bool) string {
		if w.dies = simulate.ShutDown; with {
			w.dies = simulate.Silent
		}
		rs := w.reflectors()
		w.cloudSilent = true
		w.setAlive(false, rs[:2]...)
		if v := w.run(200); v != "" {
			return v
		}
		w.dies = simulate.ShutDown
		w.setAlive(false, rs[2])
		w.excuse(10)
		return w.run(200)
	}},
	"it never asks for a report again": {decide: deciding(func(_ *world, s *rollout.Step) {
		s.Actions = slices.DeleteFunc(s.Actions, func(a plan.Action) bool { _, asks := a.(plan.RefreshStatus); return asks })
	}), play: func(w *world, with bool) string {
		for _, r := range w.reflectors() {
			r.hung = with
		}
		w.cutOff(true, w.clients()[:4]...)
		w.excuse(1500)
		return w.run(2000)
	}},
	"pods that are Ready prove to it that BIRD runs": {decide: seeing(func(w *world, o *rollout.Observed) {
		for _, m := range w.reflectors() {
			if m.CalicoNode.State == plan.CalicoNodeReady {
				speaks(w, o, m.Name)
			}
		}
	}), play: func(w *world, with bool) string {
		w.regular = true
		w.runUnchecked(100)
		for _, r := range w.reflectors() {
			r.lies = with
			w.birdDies(r.Name)
		}
		w.excuse(150)
		return w.run(400)
	}},
	"one report that is missing blinds it": {decide: seeing(func(w *world, o *rollout.Observed) {
		for _, m := range w.reflectors() {
			if _, ok := o.Statuses[m.Name]; !ok {
				o.Statuses = nil
			}
		}
	}), play: func(w *world, with bool) string {
		w.reflectors()[0].unmade = with
		w.cutOff(true, w.clients()[0])
		w.excuse(150)
		return w.run(400)
	}},
	"what it cannot read is not there": {decide: seeing(func(_ *world, o *rollout.Observed) {
		for name := range o.Statuses {
			editStatus(o, name, func(st *plan.Status) { st.Unread = nil })
		}
	}), play: func(w *world, with bool) string {
		for _, r := range w.reflectors() {
			r.garbled = with
		}
		w.regular = true
		v := w.run(400)
		if w.bgp.MeshOn() {
			return "the mesh is on for nothing"
		}
		return v
	}},
	"who is not Ready is dead to it": {decide: seeing(func(_ *world, o *rollout.Observed) {
		o.Nodes = slices.DeleteFunc(o.Nodes, func(n plan.Node) bool { return !n.Ready && !n.Pooled })
	}), play: func(w *world, with bool) string {
		if with {
			w.kubeletsStop(w.clients()[1:]...)
		}
		w.runUnchecked(100)
		w.setAlive(false, w.reflectors()...)
		w.cloudSilent = true
		w.excuse(75)
		return w.run(300)
	}},
	"one that serves is enough for it": {decide: deciding(func(_ *world, s *rollout.Step) {
		if slices.ContainsFunc(s.Reflectors, func(r evidence.Reflector) bool { return r.Serving }) {
			s.Actions = slices.DeleteFunc(s.Actions, func(a plan.Action) bool { _, on := a.(plan.RestoreMesh); return on })
		}
	}), play: func(w *world, with bool) string {
		w.refuse()
		rs := w.reflectors()
		for _, r := range rs[:map[bool]int{true: 2, false: 1}[with]] {
			r.HasRoleLabel, r.ClusterID = false, ""
		}
		w.changed()
		w.excuse(60)
		if v := w.run(120); v != "" {
			return v
		}
		w.setAlive(false, rs[2])
		return w.run(120)
	}},
	"a pool has as many workers as it should": {decide: seeing(func(_ *world, o *rollout.Observed) {
		for _, z := range o.Pool.Zones {
			if !slices.ContainsFunc(o.Pool.Workers, func(x rollout.ObservedWorker) bool { return x.Zone == z }) {
				o.Pool.Workers = append(o.Pool.Workers, rollout.ObservedWorker{ID: "x-" + z, Zone: z, Message: "deploying"})
			}
		}
	}), play: func(w *world, with bool) string {
		w.miserly = with
		w.pool.Workers[0].Failed = true
		w.setAlive(false, w.nodes[w.pool.Workers[0].Node])
		return w.settle()
	}},
	"only the first sixteen are asked": {decide: deciding(func(w *world, s *rollout.Step) {
		asked := 0
		s.Watch = slices.DeleteFunc(s.Watch, func(x plan.StatusRequest) bool {
			if !w.nodes[x.Node].Pooled {
				asked++
			}
			return !w.nodes[x.Node].Pooled && (asked > 16 || x.Node == "client-01" && w.nodes["absent-16"] != nil)
		})
	}), play: func(w *world, with bool) string {
		if with {
			blindness["many come and BIRD is dead there"](w, 0)
		}
		w.runUnchecked(200)
		w.cutOff(true, w.clients()[len(w.clients())-6])
		w.excuse(240)
		return w.run(400)
	}},
}

// The negative controls of all that: a manager that lacks one thing breaks the invariants once the world has the counterpart, and not
// before; Next does not.
func TestAManagerThatLacksOneThingIsCaught(t *testing.T) {
	t.Parallel()
	for name, tc := range blindManagers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			played := func(with, blind bool) (string, *world) {
				w := newWorld(3, 6, 3)
				if tc.dual {
					w = w.dualStack()
				}
				w = atRest(t, w)
				if w.runUnchecked(100); blind {
					w.decide = func(o rollout.Observed, d rollout.Desired, _ time.Time) rollout.Step { return tc.decide(w, o, d) }
				}
				return tc.play(w, with), w
			}
			v, w := played(true, false)
			require.Empty(t, v, "Next\n%s", w.story())
			v, w = played(false, true)
			require.Empty(t, v, "without the counterpart\n%s", w.story())
			v, w = played(true, true)
			require.NotEmpty(t, v, w.story())
		})
	}
}

// A manager that acts on what it saw a minute ago, as one without a look at its lease, is caught; two seconds lose nothing.
func TestASecondManagerThatIsLateIsCaught(t *testing.T) {
	t.Parallel()
	for late, lost := range map[int]bool{2: false, 60: true} {
		w := newWorld(3, 6, 3)
		w.runUntil(func() bool { return len(w.reflectors()) > 0 })
		w.until(t, "DisableMesh")
		w.actLate(late, func() { w.d.Mode, w.nextLook = v1alpha1.ModeFullMesh, w.now })
		require.Equal(t, lost, w.run(60) != "", "%d s\n%s", late, w.story())
	}
}

// The last reflector gives the role back while its kubelet is down: its pods can be reached all the same, and what that costs them is said.
func TestALastReflectorWithoutAKubeletIsAnnounced(t *testing.T) {
	t.Parallel()
	w := newInPlaceWorld(1, 4, 0, 1)
	w.d.Timer = true
	require.Empty(t, w.settle())
	w.d.Mode, w.nextLook = v1alpha1.ModeFullMesh, w.now
	require.Empty(t, w.run(1))
	w.kubeletsStop(w.all()...)
	require.Empty(t, w.run(900), w.story())
	require.Empty(t, w.reflectors(), w.story())
}
