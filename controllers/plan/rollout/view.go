package rollout

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

const (
	// freshFor is how old a status report may be and still prove something.
	freshFor = 30 * time.Second
	// poll is when to look again at a wait that nothing announces the end of.
	poll = 5 * time.Second
	// poolPoll is the same for the cloud, where things take minutes.
	poolPoll = 15 * time.Second
	// timerWait is the fixed wait of the Timer gate: longer than the longest time BIRD takes to re-establish a
	// session with Calico's timers (error wait 30 s, connect retry 5 s, twice).
	timerWait = 75 * time.Second
	// joinWait is the same for one node that has come, or come back: connect delay 2 s, one
	// error wait, and connect retry 5 s. Its routes settle within the rest.
	joinWait = 45 * time.Second
)

// view is an observation with what follows from it.
type view struct {
	Observed
	d   Desired
	now time.Time

	// clients are the Ready nodes whose routing the reflectors carry.
	clients []plan.Node
	// unready are workload nodes that Kubernetes calls NotReady or is deleting, and
	// whose routing may well be alive: a kubelet that is down stops no packet.
	unready []plan.Node
	// families counts the nodes with workloads that have an IPv4 and an IPv6 address.
	families [2]int
	// alive are the clients and those of unready that are known to be, nil when that has not been asked for.
	alive []plan.Node
	// clientAddrs are the addresses of all clients.
	clientAddrs sets.Set[netip.Addr]
	// numbers of addresses, and what was asked for so far, by node: reports, dependants, and whether it has most of its sessions.
	numbers    map[netip.Addr]int32
	reports    map[string]*report
	dependants map[string][]*member
	most       map[string]bool
	// current have the role, or what is left of it, by our doing.
	current []plan.Node
	// wanted are the nodes of the pool that should reflect; absent should too and are
	// not in the pool yet; total is how many there should be.
	wanted, absent []plan.Node
	total          int
	// pool is the pool that is wanted for now, see poolNow; nodesLeave: it has nodes that are leaving.
	pool       plan.PoolTarget
	nodesLeave bool
	// nextToPromote and nextToDemote are the in-place nodes that get the role, and give it back, next.
	nextToPromote, nextToDemote *plan.Node
	// tried are the nodes that may be the first reflector, by preference, as far as the mesh sessions of those before lack some.
	tried []plan.Node
	peers []plan.Peer
	// arrangement is nil where all reflectors are alike.
	arrangement *arrangement
	// settle is how long a session must have been Established to count as converged; quiet is how long after one of
	// our writes the nodes may still be busy rendering it.
	settle, quiet time.Duration
	// tooFew: fewer reflectors serve than should; stray: peers of ours are left over.
	tooFew, stray bool
	// unserved are the clients that lack a session with every reflector, cutOff those of them
	// that the mesh would reach; asked are those of which it is not known yet as well.
	unserved, cutOff []string
	asked            []unserved
	// again is when something is due that no event announces, 0 for nothing.
	again time.Duration
}

func newView(o Observed, d Desired, now time.Time) *view {
	v := &view{Observed: o, d: d, now: now, clientAddrs: sets.Set[netip.Addr]{}, numbers: number(o.Nodes)}
	v.reports, v.dependants, v.most = map[string]*report{}, map[string][]*member{}, map[string]bool{}
	v.sortOut(o.Nodes)
	v.total = d.Pool.SizePerZone * v.zones()
	v.pool = v.poolNow()
	if d.Dedicated {
		v.wanted = topology.Choose(d.Topology.Kind, o.Nodes, d.Pool.SizePerZone, d.Pool.Zones, func(n plan.Node) bool { return v.lost(n) || v.leaving(n) })
	} else {
		v.d.ClusterID = v.groupID()
		v.chooseInPlace()
	}
	for _, n := range v.current {
		if !n.Ready {
			v.passed(n.ReadyChanged, d.NotReadyGrace)
		}
	}
	v.peers = topology.Single(d.RoleLabel, v.session())
	nodes := len(v.clients) + len(v.unready)
	routes := nodes * nodes // that a reflector of all sends, where each node announces one prefix
	switch {
	case v.needsSlots():
		v.arrange()
		routes = max(routesSent(v.present()), routesSent(v.goal()))
	case !d.Dedicated:
		v.peers = topology.InPlace(d.RoleLabel, v.session(), v.groupPeerings(), len(v.group()) == 0)
	}
	v.settle = settleTime(float64(routes) * float64(v.announced()) / float64(max(nodes, 1)))
	v.quiet = 10*time.Second + v.settle
	v.findUnserved()
	return v
}

// serve is the same view with other clients.
func (v *view) serve(clients []plan.Node) *view {
	of := *v
	of.clients, of.alive, of.dependants, of.most = clients, nil, map[string][]*member{}, map[string]bool{}
	return &of
}

// sortOut puts each node where it belongs. One that is not Ready and has the address of one that is belongs nowhere: its host
// bears another name now, and what is heard from the address is not heard from it.
func (v *view) sortOut(nodes []plan.Node) {
	v.clients = make([]plan.Node, 0, len(nodes))
	taken := sync.OnceValue(func() sets.Set[netip.Addr] { // mostly all nodes are Ready
		all := sets.Set[netip.Addr]{}
		for i := range nodes {
			if usable(nodes[i]) {
				all.Insert(nodes[i].Addresses...)
			}
		}
		return all
	})
	for _, n := range nodes {
		switch {
		case n.IsOurs():
			v.current = append(v.current, n)
		case usable(n) && !v.d.dedicated(n):
			v.clients = append(v.clients, n)
			v.clientAddrs.Insert(n.Addresses...)
		case n.SpeaksBGP() && !v.d.dedicated(n) && !taken().HasAny(n.Addresses...):
			v.unready = append(v.unready, n)
		}
		for _, a := range n.Addresses {
			if !v.d.dedicated(n) && a.Is4() {
				v.families[0]++
			} else if !v.d.dedicated(n) {
				v.families[1]++
			}
		}
	}
}

// lookIn asks to look again after d at the latest.
func (v *view) lookIn(d time.Duration) { v.again = sooner(v.again, d) }

// sooner is the shorter of two waits, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// passed reports whether this long has passed since a time. If not, we look again when it has.
func (v *view) passed(since time.Time, long time.Duration) bool {
	left := since.Add(long).Sub(v.now)
	if left > 0 {
		v.lookIn(left)
	}
	return left <= 0
}

// announced counts the prefixes that each node announces: its blocks, at least one, the ranges of services, and the blocks
// of others to which Felix has routes.
func (v *view) announced() (prefixes int) {
	nodes := len(v.clients) + len(v.unready) + len(v.wanted)
	for _, r := range v.BGP.Services {
		if !r.IsSingleIP() {
			prefixes += nodes
		}
	}
	for _, some := range [][]plan.Node{v.clients, v.unready} {
		for i := range some {
			prefixes += max(len(some[i].Blocks), 1)
			for _, b := range some[i].Blocks {
				if v.Routes.Direct(b) {
					prefixes += nodes
				}
			}
		}
	}
	return prefixes
}

// routesSent is the most that a reflector of this network sends, where each node announces one prefix. The paths that a
// node holds come from its reflectors in equal parts.
func routesSent(network *simulate.Network) int {
	classes := network.Classes()
	sent := make([]int, len(classes)+1) // 0 where there are no nodes
	for _, to := range classes {
		var senders []int // the classes
		reflectors := 0
		for i, from := range classes {
			if from.Reflects && network.Connected(from.Nodes[len(from.Nodes)-1], to.Nodes[0]) {
				senders = append(senders, i)
				reflectors += len(from.Nodes)
			}
		}
		if reflectors == 0 {
			continue
		}
		each := len(to.Nodes) * int(min(network.RIB(to.Nodes[0]).Paths, 1<<24)) / reflectors
		for _, i := range senders {
			sent[i] += each
		}
	}
	return slices.Max(sent)
}

// settleTime is how long BIRD may take to send so many routes. Measured (docs/capacity.md): up to 7 s per million on a busy machine, 2.5 s
// where nothing else runs, whatever the numbers of clients and prefixes are. More than half an hour's do not count: BIRD cannot hold them.
func settleTime(routes float64) time.Duration {
	return (5*time.Second + time.Duration(min(routes, 270_000_000)/150_000*float64(time.Second))).Round(time.Second)
}

func usable(n plan.Node) bool { return plan.Usable(n) }

// hasRole: the node has both parts of what makes it a reflector, in whatever slot.
func hasRole(n plan.Node) bool { return n.HasRoleLabel && n.ClusterID != "" }

// inRole reports whether a node is a reflector as wanted.
func (v *view) inRole(n plan.Node) bool {
	slot, id := v.slot(n)
	return n.Marked && n.HasRoleLabel && n.ClusterID == id && (!v.arranged() || n.Slot == slot)
}

// lost reflectors have been NotReady for longer than the grace, or are leaving.
func (v *view) lost(n plan.Node) bool {
	return n.Deleting || !n.Ready && v.notReadyFor(n) >= v.d.NotReadyGrace
}

func (v *view) notReadyFor(n plan.Node) time.Duration {
	return v.now.Sub(latest(n.ReadyChanged, v.ClockSet))
}

// reporting are the clients whose own reports can be asked for.
func (v *view) reporting() []plan.Node { return filter(v.clients, plan.Node.Reports) }

// zones counts the zones that get reflectors.
func (v *view) zones() int {
	if len(v.d.Pool.Zones) > 0 {
		return len(v.d.Pool.Zones)
	}
	return max(len(plan.Zones(v.Nodes, func(n plan.Node) bool { return n.Pooled })), 1)
}

// session is what our BGPPeers share: the password and restart time that the mesh has, or had. Authentication is
// never dropped because the object that it was written on has been deleted: our own peers remember it.
func (v *view) session() topology.Session {
	mesh, saved := v.BGP.Mesh, plan.Mesh{}
	if v.BGP.Saved != nil {
		saved = *v.BGP.Saved
	}
	s := topology.Session{
		Password:       cmp.Or(v.d.Password, mesh.Password, saved.Password),
		MaxRestartTime: cmp.Or(mesh.MaxRestartTime, saved.MaxRestartTime),
	}
	for _, p := range v.Peers {
		if p.Owned {
			s.Password = cmp.Or(s.Password, p.Password)
		}
	}
	return s
}

// lastWrite is when we last changed what nodes render for reflector sessions.
func (v *view) lastWrite() time.Time {
	last := v.ClockSet
	for i := range v.Peers {
		if p := &v.Peers[i]; p.Owned {
			last = latest(last, p.Written)
		}
	}
	for i := range v.current {
		last = latest(last, v.current[i].RoleSince)
	}
	return last
}

// complete reports whether every wanted reflector is there, Ready and in its role.
func (v *view) complete() bool {
	return v.ready() && len(filter(v.wanted, v.inRole)) == len(v.wanted)
}

// served are the nodes that reflectors must serve, or the mesh must reach: the
// Ready ones, and those of the others that are known to be alive.
func (v *view) served() []plan.Node {
	if len(v.unready) == 0 {
		return v.clients
	}
	if v.alive == nil {
		v.alive = slices.Concat(v.clients, v.heard())
	}
	return v.alive
}

// relying are those that are to be kept in touch: where not even least are known to be alive, all that there are.
func (v *view) relying(least int) []plan.Node {
	if alive := v.served(); len(alive) >= least {
		return alive
	}
	return slices.Concat(v.clients, v.unready)
}

// heard are the nodes that are not Ready and that a reflector has a session with, or that have reported since. One is gone of which
// some sessions look Established and others have been down for longer than any takes to start. A host that is cut off looks like that
// until BIRD's hold time (240 s) ends. Should it be alive after all, it keeps a reflector that stays.
func (v *view) heard() []plan.Node {
	witnesses, down := v.witnesses(), sets.Set[netip.Addr]{}
	wanted := make([]bool, len(witnesses))
	for i, h := range witnesses {
		wanted[i] = v.isWanted(h)
		for _, s := range v.report(h.Name).down {
			if !s.Since.IsZero() && v.now.Sub(s.Since) > timerWait {
				down.Insert(s.Peer)
			}
		}
	}
	return filter(v.unready, func(n plan.Node) bool {
		up, stays := false, false
		for _, a := range n.Addresses {
			for i, h := range witnesses {
				has := v.report(h.Name).has(v.numbers[a])
				up, stays = up || has, stays || has && wanted[i]
			}
		}
		if up {
			return !stays || !down.HasAny(n.Addresses...)
		}
		return v.hasReported(n)
	})
}

// hasReported reports whether a node that is not Ready has reported since.
func (v *view) hasReported(n plan.Node) bool {
	st, ok := v.Statuses[n.Name]
	return ok && !cleared(st) && st.Updated.After(n.ReadyChanged)
}

// witnesses are the reflectors whose reports tell who is alive. The last word of one
// that is dead itself, or silent although asked, will never change again.
func (v *view) witnesses() []plan.Node {
	return filter(v.current, func(n plan.Node) bool {
		st := v.Statuses[n.Name]
		return usable(n) && (!cleared(st) || v.now.Sub(st.Cleared) <= silence)
	})
}

// unreadyWith gives the unready nodes that have one of these addresses.
func (v *view) unreadyWith(addrs sets.Set[netip.Addr]) []plan.Node {
	return filter(v.unready, func(n plan.Node) bool { return addrs.HasAny(n.Addresses...) })
}

// isWanted reports whether a node is in the wanted set.
func (v *view) isWanted(n plan.Node) bool { return named(v.wanted, n) }

// named reports whether a node is among others.
func named(nodes []plan.Node, n plan.Node) bool {
	return slices.ContainsFunc(nodes, func(x plan.Node) bool { return x.Name == n.Name })
}
