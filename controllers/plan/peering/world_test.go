package peering_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/peering"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func cidrs(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range texts {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// cluster is one of the two, with what its datastore has.
type cluster struct {
	o peering.Observed
	d peering.Desired
	// unknown: the other cluster's API cannot be reached.
	unknown bool
	down    map[string]bool
	asked   map[string]bool
	// rendered are the BGPPeers that BIRD knows: those of two seconds ago.
	rendered, before []plan.Peer
	made             int
}

// pair are the ends of a session, that of the first cluster first.
type pair [2]netip.Addr

// session is one as it really is: for how many seconds both sides have been configured alike, and whether a change restarted it.
type session struct {
	age        int
	restarting bool
}

const established = 3

// world is two clusters and the sessions between them.
type world struct {
	now      time.Time
	two      [2]*cluster
	sessions map[pair]session
	// configured are the sessions that BIRD is told to have, with whether they keep the next hop.
	configured [2]map[pair]bool
	// families: IPv4 is true. joined are those that have had a session.
	families []bool
	joined   map[bool]bool
	// next is peering.Next, or one that a negative control puts in its place.
	next func(side int, o peering.Observed, d peering.Desired) peering.Decision
}

func newWorld(dual bool) *world {
	w := &world{now: time.Unix(1e9, 0), joined: map[bool]bool{}, families: []bool{true}}
	w.next = func(_ int, o peering.Observed, d peering.Desired) peering.Decision { return peering.Next(o, d) }
	if dual {
		w.families = append(w.families, false)
	}
	for i := range w.two {
		own := cidrs(fmt.Sprintf("10.%d.0.0/16", 200+i), fmt.Sprintf("10.%d.0.0/16", 210+i))
		c := &cluster{down: map[string]bool{}, asked: map[string]bool{}}
		c.d = peering.Desired{Name: "other", Pods: true, Services: true, ServiceCIDRs: own[1:], Announce: own[1:]}
		c.o.Pools = []peering.IPPool{{Name: "default", CIDR: own[0], ForPods: true, Announced: true}}
		c.o.Filters = []peering.Filter{{Name: "rrpool-peering-mine"}, {Name: "rrpool-peering-third", Peering: "third"}}
		c.o.Cluster = plan.Cluster{BGP: plan.BGPConfig{ASN: uint32(64512 + i)}, Statuses: map[string]plan.Status{}}
		c.o.Cluster.Peers = []plan.Peer{{Name: "rack", PeerIP: "192.168.1.1", Filters: []string{"ours"}}, {Name: "ours", Owned: true}, {Name: "rrpool-peering-third-1", Peering: "third"}}
		w.two[i] = c
	}
	return w
}

// join adds a reflector.
func (w *world) join(side int) {
	c := w.two[side]
	c.made++
	n := plan.Node{Name: fmt.Sprintf("r%d", c.made), Ready: true, HasRoleLabel: true, ClusterID: "244.0.0.1"}
	n.Addresses = append(n.Addresses, addr(fmt.Sprintf("172.16.%d.%d", side, c.made)))
	if len(w.families) > 1 {
		n.Addresses = append(n.Addresses, addr(fmt.Sprintf("fd00::%d:%d", side, c.made)))
	}
	c.o.Cluster.Nodes = append(c.o.Cluster.Nodes, n)
}

// side is what the other cluster sees of one.
func (c *cluster) side() *peering.Side {
	out := &peering.Side{ASN: c.o.Cluster.BGP.ASN, Services: c.o.Services}
	for _, p := range c.o.Pools {
		if p.Announced {
			out.Pods = append(out.Pods, p.CIDR)
		}
	}
	for _, n := range c.reflectors() {
		out.Reflectors = append(out.Reflectors, n.Addresses...)
	}
	slices.SortFunc(out.Reflectors, netip.Addr.Compare)
	return out
}

func (c *cluster) reflectors() []plan.Node {
	in := slices.DeleteFunc(slices.Clone(c.o.Cluster.Nodes), func(n plan.Node) bool { return !n.HasRoleLabel })
	if slices.ContainsFunc(in, func(n plan.Node) bool { return n.Ready }) {
		in = slices.DeleteFunc(in, func(n plan.Node) bool { return !n.Ready })
	}
	return in
}

func (w *world) observed(side int) peering.Observed {
	c := w.two[side]
	o := c.o
	o.Cluster.Nodes, o.Cluster.Peers = slices.Clone(o.Cluster.Nodes), slices.Clone(o.Cluster.Peers)
	if !c.unknown && !c.d.Deleted {
		o.Remote = w.two[1-side].side()
	}
	return o
}

// manage lets one manager take a step, which a crash may end after some writes. It gives the first rule that a write breaks.
func (w *world) manage(side, most int) (peering.Decision, string) {
	s := w.next(side, w.observed(side), w.two[side].d)
	for i, action := range s.Actions {
		if i == most {
			break
		}
		if broken := w.apply(w.two[side], action); broken != "" {
			return s, broken
		}
	}
	return s, ""
}

func (w *world) apply(c *cluster, action plan.Action) string {
	switch a := action.(type) {
	case plan.PutFilter:
		create(&c.o.Filters, peering.Filter{Name: a.Name, Peering: a.Peering, Rules: &a.Filter}, func(f peering.Filter) string { return f.Name })
	case plan.PutIPPool:
		create(&c.o.Pools, peering.IPPool{Name: a.Name, Peering: a.Peering, CIDR: a.CIDR}, func(p peering.IPPool) string { return p.Name })
	case plan.AnnounceServices:
		c.o.Services = a.CIDRs
	case plan.RefreshStatus:
		c.asked[a.Node] = true
	case plan.PutPeer:
		if !slices.ContainsFunc(c.o.Filters, func(f peering.Filter) bool { return f.Name == a.Peer.Filters[0] }) {
			return "e: a BGPPeer names a filter that is not there"
		}
		a.Peer.Written = w.now
		create(&c.o.Cluster.Peers, a.Peer, func(p plan.Peer) string { return p.Name })
	case plan.DeletePeer:
		c.o.Cluster.Peers = slices.DeleteFunc(c.o.Cluster.Peers, func(p plan.Peer) bool { return p.Name == a.Name })
	case plan.DeletePeeringObject:
		return c.remove(a)
	}
	return ""
}

func (c *cluster) remove(a plan.DeletePeeringObject) string {
	if a.Kind == peering.KindIPPool {
		c.o.Pools = slices.DeleteFunc(c.o.Pools, func(p peering.IPPool) bool { return p.Name == a.Name })
		return ""
	}
	if slices.ContainsFunc(c.o.Cluster.Peers, func(p plan.Peer) bool { return slices.Contains(p.Filters, a.Name) }) {
		return "e: a filter goes that a BGPPeer uses"
	}
	c.o.Filters = slices.DeleteFunc(c.o.Filters, func(f peering.Filter) bool { return f.Name == a.Name })
	return ""
}

// create replaces what has the same name, or adds it.
func create[T any](to *[]T, item T, name func(T) string) {
	*to = slices.DeleteFunc(slices.Clone(*to), func(x T) bool { return name(x) == name(item) })
	*to = append(*to, item)
}

// render makes BIRD's configuration of a side from the BGPPeers that it knows.
func (w *world) render(side int) map[pair]bool {
	c, out := w.two[side], map[pair]bool{}
	c.rendered, c.before = c.before, slices.Clone(c.o.Cluster.Peers)
	for _, p := range c.rendered {
		for _, n := range c.o.Cluster.Nodes {
			for _, here := range n.Addresses {
				if there, err := netip.ParseAddr(p.PeerIP); err == nil && p.Node == n.Name && here.Is4() == there.Is4() {
					key := pair{here, there}
					if side == 1 {
						slices.Reverse(key[:])
					}
					out[key] = p.KeepNextHop
				}
			}
		}
	}
	return out
}

// works reports whether packets pass by a session. The neighbour of a dead host takes it for Established for minutes.
func (w *world) works(key pair) bool { return w.sessions[key].age >= established && !w.dead(key) }

func (w *world) dead(key pair) bool {
	for i, c := range w.two {
		if !slices.ContainsFunc(c.o.Cluster.Nodes, func(n plan.Node) bool { return slices.Contains(n.Addresses, key[i]) && !c.down[n.Name] }) {
			return true
		}
	}
	return false
}

// tick lets a second pass.
func (w *world) tick() string {
	w.now = w.now.Add(time.Second)
	was, old := w.configured, w.sessions
	w.configured, w.sessions = [2]map[pair]bool{w.render(0), w.render(1)}, map[pair]session{}
	for _, side := range w.configured {
		for key := range side {
			w.sessions[key] = w.grown(key, old[key], was)
		}
	}
	w.report()
	return w.broken()
}

// grown is a session a second later.
func (w *world) grown(key pair, s session, was [2]map[pair]bool) session {
	keep, here := w.configured[0][key]
	other, there := w.configured[1][key]
	up, alike, dead := s.age >= established, here && there, w.dead(key)
	switch {
	case dead && !up, !dead && !alike:
		return session{}
	case up && alike && (keep != was[0][key] || other != was[1][key]):
		return session{restarting: true}
	}
	return session{age: s.age + 1, restarting: s.restarting && s.age+1 < established}
}

// report renews the reports that were asked for, and every five seconds those that changed.
func (w *world) report() {
	for i, c := range w.two {
		for _, n := range c.o.Cluster.Nodes {
			var sessions []plan.Session
			for key := range w.configured[i] {
				if slices.Contains(n.Addresses, key[i]) {
					sessions = append(sessions, plan.Session{Peer: key[1-i], Established: w.sessions[key].age >= established})
				}
			}
			slices.SortFunc(sessions, func(a, b plan.Session) int { return a.Peer.Compare(b.Peer) })
			st := c.o.Cluster.Statuses[n.Name]
			changed := w.now.Unix()%5 == 0 && !reflect.DeepEqual(st.Sessions, sessions)
			if !c.down[n.Name] && (c.asked[n.Name] || changed) {
				c.o.Cluster.Statuses[n.Name] = plan.Status{Node: n.Name, Updated: w.now, Sessions: sessions}
				delete(c.asked, n.Name)
			}
		}
	}
}

// working are the sessions of a family by which packets pass.
func (w *world) working(four bool) (out []pair) {
	for key := range w.sessions {
		if key[0].Is4() == four && w.works(key) {
			out = append(out, key)
		}
	}
	return out
}

// broken names the first rule that is broken at this moment.
func (w *world) broken() string {
	for _, four := range w.families {
		up := len(w.working(four)) > 0
		w.joined[four] = w.joined[four] || up
		if w.joined[four] && !up && !w.two[0].d.Deleted && !w.two[1].d.Deleted {
			return fmt.Sprintf("a: no session left (IPv4: %t)", four)
		}
	}
	restarting := 0
	for _, s := range w.sessions {
		if s.restarting {
			restarting++
		}
	}
	if restarting > 1 {
		return "a: two sessions restart at once"
	}
	return ""
}

// run lets managers and time go on in a drawn order until nothing has been written for a while.
func (w *world) run(t *rapid.T, seconds int) string {
	rest := 0
	for range seconds {
		for side := range w.two {
			most := rapid.SampledFrom([]int{-1, -1, -1, 0, 1, 2}).Draw(t, "writes before a crash")
			s, broken := w.manage(side, most)
			if broken != "" {
				return broken
			}
			if len(s.Actions) > 0 {
				rest = 0
			}
		}
		if broken := w.tick(); broken != "" {
			return broken
		}
		if rest++; rest > 20 {
			return ""
		}
	}
	return "c: it does not settle"
}

// unsettled says what is not as it should be where both clusters know each other and nothing is left to do.
func (w *world) unsettled() string {
	for i, c := range w.two {
		s := w.next(i, w.observed(i), c.d)
		if s.Problem != nil || len(s.Actions) > 0 {
			return fmt.Sprintf("c: at rest with %v %v", s.Problem, s.Actions)
		}
	}
	for key := range w.sessions {
		_, here := w.configured[0][key]
		if _, there := w.configured[1][key]; !here || !there || !w.works(key) && !w.dead(key) {
			return fmt.Sprintf("b: %v is not on both sides, or not Established", key)
		}
	}
	for _, four := range w.families {
		if miscounted := w.miscounted(four); miscounted != "" {
			return miscounted
		}
	}
	return ""
}

// miscounted: a family has another number of sessions than 3, or does not spread them over all reflectors.
func (w *world) miscounted(four bool) string {
	used, sessions := [2]map[netip.Addr]bool{{}, {}}, 0
	for key := range w.sessions {
		if key[0].Is4() == four {
			used[0][key[0]], used[1][key[1]], sessions = true, true, sessions+1
		}
	}
	here, there := len(w.two[0].reflectors()), len(w.two[1].reflectors())
	if sessions != min(3, here*there) || len(used[0]) != min(3, here) || len(used[1]) != min(3, there) {
		return fmt.Sprintf("c: %d sessions of %d and %d reflectors, by %d and %d", sessions, here, there, len(used[0]), len(used[1]))
	}
	return ""
}

// objects are all of a cluster, in words.
func (c *cluster) objects() string {
	return fmt.Sprintf("%+v\n%+v\n%+v\n%v", c.o.Cluster.Peers, c.o.Filters, c.o.Pools, c.o.Services)
}
