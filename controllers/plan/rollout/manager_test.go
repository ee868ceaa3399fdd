package rollout_test

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// observe is what the manager sees.
func (w *world) observe() rollout.Observed {
	o := rollout.Observed{Cluster: plan.Cluster{BGP: w.bgp, Statuses: map[string]plan.Status{}}, Proven: w.proven}
	if !w.bgp.MeshOn() {
		w.meshSince = time.Time{}
	} else if w.meshSince.IsZero() {
		w.meshSince = w.clock()
	}
	o.MeshSince, o.ShortSince, o.StraySince = w.meshSince, w.shortSince, w.straySince
	o.Evictable = map[string][]string{}
	o.Problems = w.problems
	o.Nodes = make([]plan.Node, 0, len(w.nodes))
	for _, m := range w.all() {
		n, pods := m.Node, m.pods
		n.Pods = &pods
		if w.podsUnseen {
			n.CalicoNode = plan.CalicoNode{}
		}
		o.Nodes = append(o.Nodes, n)
		if !w.blind {
			o.Evictable[n.Name] = make([]string, m.pods)
		}
	}
	for _, p := range w.peers {
		o.Peers = append(o.Peers, p)
	}
	sort.Slice(o.Peers, func(i, j int) bool { return o.Peers[i].Name < o.Peers[j].Name })
	for name, st := range w.reports {
		o.Statuses[name] = *st
	}
	for i := range w.crowd {
		w.addToCrowd(&o, i)
	}
	if pool := w.pool; !w.cloudSilent {
		pool.Workers = slices.Clone(pool.Workers)
		o.Pool = &pool
	}
	return o
}

// addToCrowd adds a client that has been there for long.
func (w *world) addToCrowd(o *rollout.Observed, i int) {
	ip := netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})
	n := w.clients()[0].Node
	n.Name, n.UID, n.Addresses, n.Blocks = fmt.Sprintf("crowd-%04d", i), fmt.Sprint("crowd-", i), []netip.Addr{ip}, nil
	o.Nodes = append(o.Nodes, n)
	for name, st := range o.Statuses {
		st.Sessions = append(slices.Clip(st.Sessions), plan.Session{Peer: ip, Kind: plan.SessionNode, Established: true})
		o.Statuses[name] = st
	}
}

// manage runs one reconcile if one is due. limit bounds how many of the step's
// actions are carried out before the manager dies; negative for all.
func (w *world) manage(limit int) *rollout.Step {
	if w.now.Before(w.nextLook) || w.now.Before(w.asleep) {
		return nil
	}
	s := rollout.Next(w.observe(), w.d, w.clock())
	w.nextLook = w.now.Add(time.Hour)
	if s.Again > 0 {
		w.nextLook = w.now.Add(s.Again)
	}
	w.narrate(s)
	w.cleared = 0
	w.excuse(s)
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
	w.shortSince = sinceWhen(s.Short, w.shortSince, w.clock())
	w.straySince = sinceWhen(s.Stray, w.straySince, w.clock())
	w.robbed = w.robbed && s.Name != rollout.Steady
	for _, n := range s.Proven {
		w.proven[n] = w.clock()
	}
	return &s
}

func sinceWhen(is bool, since, now time.Time) time.Time {
	switch {
	case !is:
		return time.Time{}
	case since.IsZero():
		return now
	}
	return since
}

// excuse notes whom a step says that it cuts off.
func (w *world) excuse(s rollout.Step) {
	for _, d := range s.Disrupts {
		w.excused[pair(d.Node, d.From)] = w.now.Add(joinTime)
	}
}

// pair names two nodes, or with "" one.
func pair(a, b string) string { return strings.TrimSpace(max(a, b) + " " + min(a, b)) }

// crash loses what only the manager's memory holds.
func (w *world) crash() {
	w.proven = map[string]time.Time{}
	for _, st := range w.reports {
		st.Updated = time.Time{}
		for i := range st.Sessions {
			st.Sessions[i].Since = time.Time{}
		}
	}
	w.meshSince, w.shortSince, w.straySince = time.Time{}, time.Time{}, time.Time{}
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
	case plan.SetReflector:
		m := w.nodes[a.Node]
		w.moves(m, a)
		m.RoleLabel, m.ClusterID, m.Marked, m.RoleSince, m.Slot, m.Relabel = true, a.ClusterID, true, w.clock(), cmp.Or(a.Slot, topology.SlotSingle), false
		w.roleAt = w.now
	case plan.ClearReflector:
		m := w.nodes[a.Node]
		m.RoleLabel, m.ClusterID, m.Marked, m.RoleSince, m.Slot, m.Relabel = false, "", false, time.Time{}, "", false
		w.cleared++
		w.roleAt = w.now
	case plan.SetRack:
		w.setRack(a)
	case plan.PutPeer:
		p := a.Peer
		p.Written = w.clock()
		p.Manual = p.Manual && !w.oldCalico
		w.peers[p.Name] = p
	case plan.DeletePeer:
		delete(w.peers, a.Name)
	case plan.DisableMesh, plan.RestoreMesh, plan.ForgetMesh:
		w.applyMesh(a)
	case plan.RefreshStatus:
		if st := w.reports[a.Node]; st != nil && st.Cleared.IsZero() {
			cleared := *st
			cleared.Cleared, cleared.Updated = w.clock(), time.Time{}
			w.reports[a.Node] = &cleared
		}
		return
	default:
		w.applyAside(a)
		return
	}
	w.changed()
}

func (w *world) applyMesh(a plan.Action) {
	switch a := a.(type) {
	case plan.DisableMesh:
		off := false
		saved := a.Saved
		w.bgp = plan.BGPConfig{Exists: true, ASN: w.bgp.ASN, Mesh: plan.Mesh{Enabled: &off}, Saved: &saved, SavedAbsent: a.SavedAbsent}
	case plan.RestoreMesh:
		on := true
		w.bgp.Mesh = plan.Mesh{Enabled: &on}
		if w.bgp.Saved != nil {
			w.bgp.Mesh = *w.bgp.Saved
		}
		w.bgp.Restored = w.clock()
	case plan.ForgetMesh:
		w.bgp.Exists = !w.bgp.SavedAbsent
		w.bgp.Saved, w.bgp.SavedAbsent, w.bgp.Restored = nil, false, time.Time{}
	}
}

// ensure is the cloud: one change a call, workers after a while.
func (w *world) ensure(want plan.PoolSpec) {
	w.nextLook = w.now.Add(time.Second)
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
		w.dropWorker(want.Replace[0])
	case w.addZone(want):
	case w.dropZone(want):
	default:
		p.SizePerZone = want.SizePerZone
	}
	w.fillPool()
}

func (w *world) addZone(want plan.PoolSpec) bool {
	for _, z := range want.Zones {
		if !slices.Contains(w.pool.Zones, z) {
			w.pool.Zones = append(w.pool.Zones, z)
			return true
		}
	}
	return false
}

func (w *world) dropZone(want plan.PoolSpec) bool {
	for i, z := range w.pool.Zones {
		if !slices.Contains(want.Zones, z) {
			w.pool.Zones = slices.Delete(w.pool.Zones, i, i+1)
			return true
		}
	}
	return false
}

func (w *world) dropWorker(id string) {
	w.pool.Workers = slices.DeleteFunc(w.pool.Workers, func(x rollout.Worker) bool { return x.ID == id })
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
			w.pool.Workers = append(w.pool.Workers, rollout.Worker{ID: id, Node: id, Zone: z, Message: "deploying"})
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

// narrate keeps an entry for each step that is not just the one before, waiting for less.
func (w *world) narrate(s rollout.Step) {
	line := s.Name + ": " + s.Reason
	at := ""
	if w.stamps {
		at = w.now.Format("04:05 ")
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
	return slices.DeleteFunc(w.sorted(), func(m *machine) bool { return !m.RoleLabel || m.ClusterID == "" })
}

// clients are the nodes with workloads, reflectors or not.
func (w *world) clients() []*machine {
	return slices.DeleteFunc(w.sorted(), func(m *machine) bool { return m.pods == 0 })
}

// story is how the narrative ends.
func (w *world) story() string { return strings.Join(w.narrative[max(0, len(w.narrative)-12):], "\n") }
