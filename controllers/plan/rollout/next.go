package rollout

import (
	"cmp"
	"slices"
	"time"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/evidence"
)

// view is what rules decide from.
type view struct {
	*target
	ev *evidence.Evidence
	// nextToPromote and nextToDemote are the in-place nodes that get the role, and give it back, next.
	nextToPromote, nextToDemote *plan.Node
	// tried are the nodes that were considered as the first reflector, in order; see findNextToPromote.
	tried []plan.Node
	// planned are the BGPPeers that are wanted, and those that prepare the next promotion.
	planned []plan.Peer
	// service says how far the reflectors keep the nodes connected. It is nil if nodes do not rely on reflectors.
	service *evidence.Service
}

func newView(o Observed, d Desired, now time.Time) *view {
	clock := evidence.NewClock(now)
	t := aim(o, d, clock)
	options := evidence.Options{
		Timer: d.Timer, Dedicated: d.Dedicated, NetAfter: d.NetAfter, Proven: o.Proven, MeshSince: o.MeshSince, ClockSet: o.ClockSet,
	}
	v := &view{target: t, ev: evidence.New(o.Cluster, t.Roles, t.network(), options, clock)}
	for _, n := range v.Current {
		if !n.Ready {
			clock.Passed(n.ReadyChanged, d.NotReadyGrace)
		}
	}
	if !d.Dedicated {
		v.nextToPromote, v.tried = v.findNextToPromote()
		v.nextToDemote = v.findNextToDemote()
	}
	if v.planned = v.peers; v.nextToPromote != nil {
		v.planned = slices.Concat(v.peers, v.peeringsAsClient(*v.nextToPromote))
	}
	if v.reliesOnReflectors() {
		service := v.ev.Service(v.leastServing())
		v.service = &service
	}
	return v
}

// Next decides the next safe step from what is observed. It uses no earlier
// decision: if rrpool is killed at any instant, it goes on after its restart.
func Next(o Observed, d Desired, now time.Time) Step {
	v := newView(o, d, now)
	for _, r := range rules {
		if !r.when.holds(v) {
			continue
		}
		if s := r.propose(v); s != nil {
			out := v.finish(*s)
			if out.Rule = r.name; out.Problem == nil {
				out.Problem = v.d.Invalid // only with an urgent step; otherwise rule RefuseSpec has decided
			}
			return out
		}
	}
	return v.finish(Step{Name: Steady}) // the last rule always has a step
}

// finish adds what every step has: the reports to ask for, those to ask for again, and the reflectors as seen.
func (v *view) finish(s Step) Step {
	v.refreshStale(&s)
	v.watchReflectors(&s)
	v.askUnserved(&s)
	if v.d.Timer {
		s.Watch = nil
	}
	v.limit(&s)
	s.Ahead = v.ahead(s)
	s.Short = v.service != nil && (!v.service.IsEnough || v.service.IsInDoubt)
	s.Stray, s.Leaving = v.strayPeerings(), v.nodesLeave
	s.Unserved, s.Labelled = v.ev.Unserved, v.labelled()
	if s.Name != InvalidSpec { // how many there should be is not known
		s.Reflectors = v.ev.Reflectors()
	}
	s.Again = plan.Sooner(s.Again, v.clock.Due())
	slices.SortFunc(s.Watch, func(a, b plan.StatusRequest) int { return cmp.Compare(a.Node, b.Node) })
	if v.Locked != nil {
		s.Actions, s.Watch = nil, nil
	}
	return s
}

// watchReflectors adds to a step requests for the reports of the reflectors. To a refusal it adds them only while the safety net needs them.
func (v *view) watchReflectors(s *Step) {
	if s.Problem != nil && (!v.Relied() || v.BGP.MeshOn()) {
		return
	}
	rest := s.Name == Steady || s.Name == UnsupportedCluster || s.Name == InvalidSpec || s.Name == AwaitMeshOwner
	for _, n := range v.Current {
		s.Watch = append(s.Watch, plan.StatusRequest{Node: n.Name, Period: v.ev.Period(rest)})
	}
}

// refreshStale adds to any step requests for new reports in place of stale ones: after the actions of an urgent step, before those of any other.
func (v *view) refreshStale(s *Step) {
	var asks []plan.Action
	for _, n := range v.ev.Stale() {
		if ask := plan.Action(plan.RefreshStatus{Node: n.Name}); !slices.Contains(s.Actions, ask) {
			asks = append(asks, ask)
			v.clock.In(evidence.Poll)
		}
	}
	if s.Urgent {
		s.Actions = append(s.Actions, asks...)
		return
	}
	s.Actions = append(asks, s.Actions...)
}

// askUnserved adds to a step requests for the reports of clients without a session, even to a refusal, which has no other requests.
func (v *view) askUnserved(s *Step) {
	watch, refresh := v.ev.Asked()
	for _, w := range watch {
		if !slices.ContainsFunc(s.Watch, func(x plan.StatusRequest) bool { return x.Node == w.Node }) {
			s.Watch = append(s.Watch, w)
		}
	}
	for _, n := range refresh {
		s.Actions = append(s.Actions, plan.RefreshStatus{Node: n.Name})
		v.clock.In(evidence.Poll)
	}
}

// ahead returns the first writes of a migration, as far as they can be known: BGPPeers, the role of one node, and the mesh that
// is switched off. Workers to come have no Node yet: the role is then tried on another one, to show whether it would be refused.
func (v *view) ahead(s Step) (out []plan.Action) {
	isBeginning := v.d.Mode == v1alpha1.ModeRouteReflector && v.isStarting() && (len(s.Actions) > 0 || s.Awaits == AwaitsBGP)
	if !isBeginning || s.Problem != nil || s.Urgent {
		return nil
	}
	chosen := slices.Concat(v.wanted, v.absent)
	out = v.peersAhead(chosen)
	switch {
	case len(chosen) > 0:
		out = append(out, v.setReflector(chosen[0]))
	case len(v.Clients) > 0:
		out = append(out, plan.SetReflector{Node: v.Clients[0].Name, ClusterID: v.clusterID, StandIn: true})
	}
	if v.BGP.MeshOn() {
		saved, absent := v.meshBefore()
		out = append(out, plan.DisableMesh{Saved: saved, SavedAbsent: absent})
	}
	return out
}

// peersAhead returns the writes of the BGPPeers that the chosen nodes need.
func (v *view) peersAhead(chosen []plan.Node) (out []plan.Action) {
	peers := slices.Clone(v.planned)
	if !v.d.Dedicated && len(chosen) > 1 {
		peers = append(peers, v.peerings(chosen[0], chosen[1])...)
	}
	for _, p := range peers {
		out = append(out, plan.PutPeer{Peer: p})
	}
	return out
}

// limit sets how long the step may wait. Under the Timer gate no session is observed, so none can be missing.
func (v *view) limit(s *Step) {
	if s.Awaits == AwaitsSessions {
		s.Settle = v.ev.Settle
	}
	switch {
	case s.Awaits == AwaitsWorkers, s.Awaits == AwaitsPeering:
		s.Timeout = WorkersTimeout
	case s.Awaits == AwaitsBGP:
		s.Timeout = evidence.Silence
	case s.Awaits == "", v.d.SessionTimeout <= 0, v.d.Timer && s.Awaits == AwaitsSessions:
		s.Timeout = 0
	default:
		s.Timeout += v.d.SessionTimeout + max(s.Settle-evidence.SettleTime(0), 0) // sessions settle later in large clusters
	}
}
