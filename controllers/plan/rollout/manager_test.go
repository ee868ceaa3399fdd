package rollout_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/selection"
)

// observe is what the manager sees.
func (w *world) observe() rollout.Observed {
	o := rollout.Observed{Cluster: w.cluster(), Evictable: map[string][]string{}}
	o.Problems = w.problems
	for i, m := range w.all() {
		pods := m.pods
		o.Nodes[i].Pods = &pods
		if w.podsUnseen {
			o.Nodes[i].CalicoNode = plan.CalicoNode{}
		}
		if !w.blind {
			o.Evictable[m.Name] = make([]string, m.pods)
		}
	}
	for name, st := range w.reports {
		o.Statuses[name] = *st
	}
	w.addCrowd(&o)
	if pool := w.pool; !w.cloudSilent {
		pool.Workers = slices.Clone(pool.Workers)
		o.Pool = &pool
	}
	if w.sees != nil {
		w.sees(&o)
	}
	w.memory.Observe(&o.Cluster, w.clock())
	if !w.remembers {
		w.memory.ForgetReversals()
	}
	o.Memory = w.memory
	return o
}

// addCrowd adds clients that have been there for long, each with the sessions of one of the others.
func (w *world) addCrowd(o *rollout.Observed) {
	like := map[netip.Addr][]netip.Addr{}
	for i := range w.crowd {
		ip, n := netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), w.clients()[i%len(w.clients())].Node
		like[n.Addresses[0]] = append(like[n.Addresses[0]], ip)
		n.Name, n.UID, n.Addresses, n.Blocks = fmt.Sprintf("crowd-%05d", i), fmt.Sprint("crowd-", i), []netip.Addr{ip}, nil
		o.Nodes = append(o.Nodes, n)
	}
	for name, st := range o.Statuses {
		for _, s := range slices.Clip(st.Sessions) {
			for _, ip := range like[s.Peer] {
				st.Sessions = append(st.Sessions, plan.Session{Peer: ip, Kind: s.Kind, Established: true})
			}
		}
		o.Statuses[name] = st
	}
}

// manage runs one reconcile if one is due. limit bounds how many of the step's
// actions are carried out before the manager dies; negative for all.
func (w *world) manage(limit int) *rollout.Step {
	if w.now.Before(w.nextLook) || w.now.Before(w.asleep) {
		return nil
	}
	s := w.decide(w.observe(), w.d, w.clock())
	w.last = s.Name
	w.nextLook = w.now.Add(time.Hour)
	if s.Again > 0 {
		w.nextLook = w.now.Add(s.Again)
	}
	w.narrate(s)
	w.cleared = 0
	// Whom the step says that it cuts off.
	for _, d := range s.Disrupts {
		w.excused[pair(d.Node, d.From)] = w.now.Add(joinTime)
	}
	if s.Problem == nil || len(s.Watch) > 0 {
		w.watch(s.Watch)
	}
	for i, a := range s.Actions {
		if i == limit {
			w.crash()
			break
		}
		w.apply(a)
	}
	w.memory.After(s, w.clock())
	w.robbed = w.robbed && s.Name != rollout.Steady
	return &s
}

// pair names two nodes, or with "" one.
func pair(a, b string) string { return strings.TrimSpace(max(a, b) + " " + min(a, b)) }

// crash loses what only the manager's memory holds.
func (w *world) crash() {
	w.memory = rollout.Memory{}
	for _, st := range w.reports {
		st.Updated = time.Time{}
		for i := range st.Sessions {
			st.Sessions[i].Since = time.Time{}
		}
	}
	w.nextLook = w.now
	for _, m := range w.all() { // see calicoPods
		if at := m.CalicoNode.Since.Add(w.kubelets); m.CalicoNode.State == plan.CalicoNodeAbsent || at.After(w.now) {
			m.CalicoNode.Since = w.now
		} else {
			m.CalicoNode.Since = at
		}
	}
}

func (w *world) watch(want []plan.StatusRequest) {
	next := map[string]plan.StatusRequest{}
	for _, x := range want {
		next[x.Node] = x
		if w.watches[x.Node] != x {
			w.writes++
		}
	}
	for name := range w.watches {
		if _, ok := next[name]; !ok {
			delete(w.reports, name)
			w.writes++
		}
	}
	w.watches = next
}

func (w *world) apply(a plan.Action) {
	w.writes++
	switch a := a.(type) {
	case plan.Pause:
		return // less than a tick
	case plan.RefreshStatus:
		if st := w.reports[a.Node]; st != nil && st.Cleared.IsZero() {
			cleared := *st
			cleared.Cleared, cleared.Updated = w.clock(), time.Time{}
			w.reports[a.Node] = &cleared
		}
		return
	case plan.EnsurePool:
		w.ensure(a.Want)
	case plan.DrainNode:
		if m := w.nodes[a.Node]; m.pods > 0 && !w.pdb {
			m.pods--
		}
	case plan.ReleasePool:
		if i := slices.IndexFunc(w.all(), func(m *machine) bool { return m.Pooled }); i >= 0 {
			w.all()[i].Pooled = false
		}
	default:
		w.count(a)
		w.write(a)
	}
	w.nextLook = w.now.Add(time.Second)
}

// ensure is the cloud: one change a call, workers after a while.
func (w *world) ensure(want plan.PoolTarget) {
	if !w.d.Dedicated {
		w.joinPool(want)
		return
	}
	p := &w.pool
	switch {
	case !p.Exists:
		p.Exists, p.SizePerZone = true, want.SizePerZone
	case len(want.Retire) > 0:
		w.dropWorker(want.Retire[0]) // and the cloud stops refilling the pool
		return
	case len(want.Replace) > 0:
		if w.dropWorker(want.Replace[0]); w.miserly {
			return
		}
	case w.changeZones(want):
	default:
		p.SizePerZone = want.SizePerZone
	}
	w.fillPool()
}

// joinPool is the provider of existing nodes: one label a call.
func (w *world) joinPool(want plan.PoolTarget) {
	for _, name := range want.Retire {
		if m := w.nodes[name]; m != nil && m.Pooled {
			m.Pooled = false
			return
		}
	}
	rules := selection.Rules{
		PerZone: want.SizePerZone, Zones: want.Zones, Preferred: w.d.Preferred, Excluded: w.d.Excluded,
		Lost: func(n plan.Node) bool {
			stopsShort := n.CalicoNode.Failing() && !n.IsOurs() && w.now.Sub(n.CalicoNode.Since) > w.d.NotReadyGrace
			return stopsShort || !n.Ready && w.now.Sub(n.ReadyChanged) > w.d.NotReadyGrace
		},
	}
	if n, ok := selection.Next(w.observe().Nodes, rules); ok {
		w.nodes[n.Name].Pooled = true
	}
}

// changeZones adds a zone that is wanted, or else drops one that is not, and reports whether there was one.
func (w *world) changeZones(want plan.PoolTarget) bool {
	p := &w.pool
	if i := slices.IndexFunc(want.Zones, func(z string) bool { return !slices.Contains(p.Zones, z) }); i >= 0 {
		p.Zones = append(p.Zones, want.Zones[i])
		return true
	}
	had := len(p.Zones)
	if i := slices.IndexFunc(p.Zones, func(z string) bool { return !slices.Contains(want.Zones, z) }); i >= 0 {
		p.Zones = slices.Delete(p.Zones, i, i+1)
	}
	return len(p.Zones) < had
}

func (w *world) dropWorker(id string) {
	w.pool.Workers = slices.DeleteFunc(w.pool.Workers, func(x rollout.ObservedWorker) bool { return x.ID == id })
	w.removeNode(id)
}

// fillPool orders workers where a zone has too few.
func (w *world) fillPool() {
	for _, z := range w.pool.Zones {
		count := 0
		for _, x := range w.pool.Workers {
			if x.Zone == z {
				count++
			}
		}
		for ; count < w.pool.SizePerZone; count++ {
			w.sequence++
			id := fmt.Sprintf("worker-%02d", w.sequence)
			w.pool.Workers = append(w.pool.Workers, rollout.ObservedWorker{ID: id, Node: id, Zone: z, Message: "deploying"})
		}
	}
}

// deploy turns ordered workers into nodes.
func (w *world) deploy() {
	for i, x := range w.pool.Workers {
		if x.Message == "deploying" && w.rnd.IntN(20) == 0 {
			w.pool.Workers[i].Message = "Ready"
			w.addNode(x.ID, x.Zone, true)
		}
	}
}

// narrate keeps an entry for each step that is not just the one before, waiting for less. The rule is named where the step does not show it.
func (w *world) narrate(s rollout.Step) {
	line := s.Name + ": " + s.Reason
	if !strings.HasPrefix(s.Name, s.Rule) && !strings.HasPrefix(s.Rule, s.Name) {
		line = s.Name + " (" + s.Rule + "): " + s.Reason
	}
	at := w.now.Format("04:05 ")
	if w.unstamped {
		at = ""
	}
	for _, a := range s.Actions {
		if _, asks := a.(plan.RefreshStatus); !asks {
			line += "\n    do    " + a.String()
		}
	}
	if line == w.lastLine {
		return
	}
	w.lastLine = line
	for _, x := range s.WaitingFor[:min(len(s.WaitingFor), 2)] {
		line += "\n    await " + x
	}
	if n := len(s.WaitingFor); n > 2 {
		line += fmt.Sprintf("\n          and %d more", n-2)
	}
	w.narrative = append(w.narrative, at+line)
}

func (w *world) reflectors() []*machine {
	return slices.DeleteFunc(w.all(), func(m *machine) bool { return !m.HasRoleLabel || m.ClusterID == "" })
}

// clients are the nodes with workloads, reflectors or not.
func (w *world) clients() []*machine {
	return slices.DeleteFunc(w.all(), func(m *machine) bool { return m.pods == 0 })
}

// story is how the narrative ends.
func (w *world) story() string { return strings.Join(w.narrative[max(0, len(w.narrative)-12):], "\n") }
