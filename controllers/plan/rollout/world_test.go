package rollout_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

const label = "rrpool.io/route-reflector"

// world is a model of a Calico cluster: a datastore, one confd and one BIRD per node that follow it with delays,
// reporters, a cloud, and a manager that acts on rollout.Next. Its rules are those measured with the real parts: a
// node renders its peers a while after a change, a session whose rendered options change restarts and takes seconds
// to come back.
type world struct {
	now   time.Time
	rnd   *rand.Rand
	nodes map[string]*machine
	// byName are the nodes in order, nil when they are not known yet.
	byName []*machine
	bgp    plan.BGPConfig
	peers  map[string]plan.Peer
	// config is what the nodes render, nil when it is not known yet.
	config *simulate.Configuration

	// known is what has been worked out of the routes since the network last changed.
	known routes

	cut     map[[2]int]bool // sessions whose packets get lost
	watches map[string]plan.StatusRequest
	reports map[string]*plan.Status
	muted   map[string]time.Time // by reflector: until when it passes nothing on, sessions or not
	started map[string]time.Time // by node: when BIRD came back; see recovers
	regular bool                 // reporters write every period
	// podsUnseen: calico-node runs outside Kubernetes, or the manager may not list pods.
	podsUnseen bool
	// crowd is how many more clients there are, with sessions that never change;
	// kubelets is how far their clocks are ahead. cloudSilent: the pool is unknown.
	crowd       int
	kubelets    time.Duration
	cloudSilent bool
	proven      map[string]time.Time
	// meshSince, shortSince and straySince are the manager's memory as well.
	meshSince, shortSince, straySince time.Time
	// excused nodes and pairs may be cut off until then: it was announced.
	excused map[string]time.Time
	// lostAt is when an event took the last routes, roleAt when a role changed last.
	lostAt, roleAt time.Time

	// robbed: a person has taken what makes a reflector, and the manager, which may sleep or be refused, has not been at rest since.
	robbed bool

	// atLeast is how many reflector sessions a disturbance may leave to a client.
	atLeast int

	pool      rollout.Pool
	d         rollout.Desired
	nextLook  time.Time
	maxLag    int // seconds until a node has rendered a change
	sequence  int
	narrative []string
	lastLine  string
	writes    int
	cleared   int // roles taken in the last step

	pdb       bool           // a disruption budget lets no pod go
	blind     bool           // the manager does not know which pods could be moved
	oldCalico bool           // the apiserver drops what Calico before 3.30.3 does not know
	problems  []plan.Problem // what the datastore refuses for
	asleep    time.Time      // until when there is no manager
	stamps    bool           // the narrative says when
	churn     time.Duration  // so often a node comes, and of those that came the fifth last goes
	came      int
	ahead     time.Duration // how far the manager's clock is ahead
}

// clock is what the manager takes the time for.
func (w *world) clock() time.Time { return w.now.Add(w.ahead) }

type machine struct {
	plan.Node
	number   int
	alive    bool
	evicted  bool // while it is not alive there is no calico-node pod at all
	unready  bool // its pod is not Ready for another reason than BIRD
	ran      bool // alive when its pod was looked at last
	pods     int
	joined   time.Time
	rendered map[string]simulate.Side // by peer's name
	renderAt time.Time
	outdated bool // something has changed since it rendered
	// sessions are those with the machines that were there before, by their numbers.
	sessions []*session
}

type session struct {
	a, b simulate.Side
	up   bool
	upAt time.Time // when up: since; when down: when it will be
	live bool      // both sides are configured
}

// newBusyWorld is a world without dedicated nodes: of the nodes, idle run no pods.
func newInPlaceWorld(seed uint64, nodes, idle, zones int) *world {
	w := emptyWorld(seed, zones)
	w.d.Dedicated, w.d.Promotion = false, v1alpha1.PromotionStaged
	for i := range nodes {
		m := w.addNode(fmt.Sprintf("node-%02d", i+1), w.d.Pool.Zones[i%zones], false)
		if m.pods = 10 + i; i < idle {
			m.pods, m.ControlPlane = 0, true
		}
	}
	w.age()
	return w
}

func newWorld(seed uint64, clients, zones int) *world {
	w := emptyWorld(seed, zones)
	for i := range clients {
		w.addNode(fmt.Sprintf("client-%02d", i+1), w.d.Pool.Zones[i%zones], false)
	}
	w.age()
	return w
}

// age lets the mesh come up.
func (w *world) age() {
	w.now = w.now.Add(time.Hour)
	for range 60 {
		w.tick()
	}
}

func emptyWorld(seed uint64, zones int) *world {
	w := &world{
		now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), rnd: rand.New(rand.NewPCG(seed, 1)),
		nodes: map[string]*machine{}, peers: map[string]plan.Peer{},
		excused: map[string]time.Time{}, watches: map[string]plan.StatusRequest{}, reports: map[string]*plan.Status{}, muted: map[string]time.Time{}, started: map[string]time.Time{}, proven: map[string]time.Time{},
		bgp: plan.BGPConfig{ASN: 64512}, maxLag: 6, atLeast: 2,
		d: rollout.Desired{
			Mode: rollout.Reflect, Dedicated: true, ClusterID: "244.0.0.1", RoleLabel: label,
			SessionTimeout: 5 * time.Minute, NotReadyGrace: time.Minute, RemovalDelay: time.Minute,
			MinServing: 2, NetAfter: 30 * time.Second,
		},
	}
	for z := range zones {
		w.d.Pool.Zones = append(w.d.Pool.Zones, fmt.Sprintf("zone-%d", z+1))
	}
	w.d.Pool.SizePerZone = (3 + zones - 1) / zones
	return w
}

func (w *world) addNode(name, zone string, dedicated bool) *machine {
	w.sequence++
	ip := netip.AddrFrom4([4]byte{10, 0, byte(w.sequence >> 8), byte(w.sequence)})
	m := &machine{
		Node: plan.Node{
			Name: name, UID: fmt.Sprint(w.sequence), Zone: zone, Created: w.now, Ready: true, ReadyChanged: w.now,
			Labels: map[string]string{"zone": zone}, Pooled: dedicated, Addresses: []netip.Addr{ip},
			Blocks: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, byte(w.sequence), 0}), 26)},
		},
		number: w.sequence, alive: true, pods: 1, joined: w.now, rendered: map[string]simulate.Side{}, renderAt: w.now,
		sessions: make([]*session, w.sequence+1),
	}
	if dedicated {
		m.WorkerID, m.pods = name, 0
	}
	w.nodes[name], w.byName, w.known = m, nil, routes{}
	w.changed()
	return m
}

func (w *world) removeNode(name string) {
	delete(w.nodes, name)
	delete(w.reports, name)
	w.byName, w.known = nil, routes{}
	w.changed()
}

// setAlive kills or revives a node; Kubernetes notices.
func (w *world) setAlive(name string, alive bool) {
	m := w.nodes[name]
	if m.alive == alive {
		return
	}
	m.alive, m.Ready, m.ReadyChanged = alive, alive, w.now
	if alive {
		m.joined = w.now
	}
	w.nextLook = w.now
}

// changed lets every node render anew, each after a delay of its own.
func (w *world) changed() {
	w.config = nil
	for _, m := range w.all() {
		m.outdated = true
		if at := w.now.Add(w.random(w.maxLag)); m.renderAt.Before(w.now) || at.Before(m.renderAt) {
			m.renderAt = at
		}
	}
	w.nextLook = w.now
}

func (w *world) random(seconds int) time.Duration {
	return time.Duration(w.rnd.IntN(seconds+1)) * time.Second
}

// sorted gives the machines by name, to keep.
func (w *world) sorted() []*machine { return slices.Clone(w.all()) }

// all gives them to look at.
func (w *world) all() []*machine {
	if w.byName == nil {
		w.byName = slices.SortedFunc(maps.Values(w.nodes), func(a, b *machine) int { return cmp.Compare(a.Name, b.Name) })
	}
	return w.byName
}

// tick lets one second pass for everything but the manager.
func (w *world) tick() {
	w.now = w.now.Add(time.Second)
	w.comeAndGo()
	for _, m := range w.all() {
		if m.alive && m.outdated && !m.renderAt.After(w.now) {
			m.outdated = false
			if next := w.render(m); !maps.Equal(next, m.rendered) {
				m.rendered, w.known = next, routes{}
			}
		}
	}
	w.movePods()
	w.moveSessions()
	if len(w.muted)+len(w.started) > 0 {
		w.known = routes{} // with the time it changes who passes routes on
	}
	w.report()
}

func (w *world) comeAndGo() {
	if w.churn == 0 || w.now.Unix()%int64(w.churn/time.Second) != 0 {
		return
	}
	w.came++
	w.addNode(fmt.Sprintf("young-%03d", w.came), w.d.Pool.Zones[w.came%len(w.d.Pool.Zones)], false)
	if m := w.nodes[fmt.Sprintf("young-%03d", w.came-4)]; m != nil {
		w.removeNode(m.Name)
	}
}

// movePods lets Kubernetes notice what becomes of calico-node.
func (w *world) movePods() {
	for _, m := range w.all() {
		state := plan.CalicoNodeReady
		switch {
		case m.alive && !m.unready:
		case !m.alive && m.evicted:
			state = plan.CalicoNodeAbsent
		default:
			state = plan.CalicoNodeNotReady
		}
		if m.CalicoNode.State != state || m.ran != m.alive {
			m.CalicoNode, m.ran = plan.CalicoNode{State: state, Since: w.now}, m.alive
			w.nextLook = w.now
		}
	}
}

// render is what a node configures about the others.
func (w *world) render(m *machine) map[string]simulate.Side {
	if w.config == nil {
		w.config = w.configuration()
	}
	out := map[string]simulate.Side{}
	for _, o := range w.all() {
		if side, ok := w.config.Side(m.Name, o.Name); ok && o != m {
			out[o.Name] = side
		}
	}
	return out
}

func (w *world) configuration() *simulate.Configuration {
	var nodes []plan.Node
	for _, m := range w.all() {
		nodes = append(nodes, m.Node)
	}
	var peers []plan.Peer
	for _, name := range slices.Sorted(maps.Keys(w.peers)) { // else a seed would not repeat
		peers = append(peers, w.peers[name])
	}
	return simulate.NewConfiguration(w.d.RoleLabel, nodes, w.bgp, peers)
}

func (w *world) moveSessions() {
	all := w.all()
	for i, a := range all {
		for _, b := range all[i+1:] {
			s := w.session(a, b)
			up := s.up
			w.moveSession(s, a, b)
			if s.up != up {
				w.known = routes{}
			}
		}
	}
}

// moveSession restarts a session when what either side has rendered changed.
func (w *world) moveSession(s *session, a, b *machine) {
	oa, oka := a.rendered[b.Name]
	ob, okb := b.rendered[a.Name]
	if !oka || !okb || !a.alive || !b.alive || !oa.Fits(ob) || w.cut[between(a, b)] {
		*s = session{}
		return
	}
	if !s.live || s.a != oa || s.b != ob {
		*s = session{a: oa, b: ob, live: true, upAt: w.now.Add(2*time.Second + w.random(16))}
	}
	s.up = !s.upAt.After(w.now)
}

// session is that of two machines, Established or not.
func (w *world) session(a, b *machine) *session {
	if a.number < b.number {
		a, b = b, a
	}
	s := a.sessions[b.number]
	if s == nil {
		s = &session{}
		a.sessions[b.number] = s
	}
	return s
}

// recovers: after a start BIRD passes on nothing for up to 240 s, as long as a neighbour of
// its is down. What the sessions that it had before have brought is kept.
func (w *world) recovers(from, to *machine) bool {
	at, ok := w.started[from.Name]
	return ok && w.now.Sub(at) < 4*time.Minute && w.session(from, to).upAt.After(at)
}

// waiting counts a node's sessions that are up and bring nothing from it.
func (w *world) waiting(m *machine) int {
	return len(slices.DeleteFunc(w.sorted(), func(o *machine) bool { return !w.session(m, o).up || !w.recovers(m, o) }))
}

// between names the session of two machines.
func between(a, b *machine) [2]int { return [2]int{min(a.number, b.number), max(a.number, b.number)} }

// report is Calico's reporter and our receipt of its reports: it writes what has changed, and at once what was
// cleared; where one address family has no sessions, every period.
func (w *world) report() {
	for name, watch := range w.watches {
		m, old := w.nodes[name], w.reports[name]
		if m == nil {
			continue
		}
		if old == nil {
			old = &plan.Status{Node: name, Cleared: w.clock()}
			w.reports[name] = old
			w.nextLook = w.now
		}
		cleared := !old.Cleared.IsZero()
		if !m.alive || m.Labels["kubernetes.io/os"] == "windows" {
			continue // no reporter
		}
		if cleared || w.now.Unix()%max(1, int64(watch.Period/time.Second)) == 0 {
			w.write(m, watch, old, cleared)
		}
	}
}

func (w *world) write(m *machine, watch plan.StatusRequest, old *plan.Status, cleared bool) {
	st, same := w.statusOf(m, watch.Routes, old)
	st.Regular = w.regular && (same || old.Regular)
	if cleared || !same || w.regular {
		w.reports[m.Name] = st
		w.nextLook = w.now
	}
}

func (w *world) statusOf(m *machine, routes bool, old *plan.Status) (*plan.Status, bool) {
	st := &plan.Status{Node: m.Name, Updated: w.clock(), Written: w.now, HasRoutes: routes, Waiting: w.waiting(m)}
	same := old.HasRoutes == routes && old.Waiting == st.Waiting
	for _, o := range w.all() {
		opt, ok := m.rendered[o.Name]
		if !ok {
			continue
		}
		s := plan.Session{Peer: o.Addresses[0], Kind: plan.SessionNode, Established: w.session(m, o).up, Since: w.clock()}
		if opt.Mesh {
			s.Kind = plan.SessionMesh
		}
		i := slices.IndexFunc(old.Sessions, func(x plan.Session) bool { return x.Peer == s.Peer && x.Kind == s.Kind })
		if i >= 0 && old.Sessions[i].Established == s.Established {
			s.Since = old.Sessions[i].Since
		} else {
			same = false
		}
		st.Sessions = append(st.Sessions, s)
	}
	if routes {
		st.Routes = w.routesOf(m)
		same = same && slices.Equal(st.Routes, old.Routes)
	}
	return st, same && len(st.Sessions) == len(old.Sessions)
}

// routesOf gives the paths that m has, one for each neighbour that passes one on.
func (w *world) routesOf(m *machine) []plan.Route {
	var out []plan.Route
	for _, origin := range w.all() {
		for _, via := range w.all() {
			if via != m && origin != m && w.brings(origin, via, m) {
				out = append(out, plan.Route{Prefix: origin.Blocks[0], From: via.Addresses[0]})
			}
		}
	}
	return out
}

// passes reports whether to has origin's routes from via: directly, or reflected
// once (with one cluster ID a route is never reflected twice).
func (w *world) passes(origin, via, to *machine) bool {
	if !w.session(via, to).up || w.recovers(via, to) {
		return false
	}
	if origin == via {
		return true
	}
	if w.now.Before(w.muted[via.Name]) {
		return false
	}
	if !w.session(origin, via).up || w.recovers(origin, via) {
		return false
	}
	viaOrigin, viaTo, toVia := via.rendered[origin.Name], via.rendered[to.Name], to.rendered[via.Name]
	// BIRD refuses, on a session with a client, what carries its own cluster ID.
	looped := toVia.Client && (toVia.ClusterID == viaOrigin.ClusterID || toVia.ClusterID == viaTo.ClusterID)
	return (viaOrigin.Client || viaTo.Client) && !looped
}

// reaches reports whether a has a route to b.
func (w *world) reaches(b, a *machine) bool {
	return w.reachesAs(w.tiered(), b, a)
}

// reachesAs is the same where it is known already whether cluster IDs differ.
func (w *world) reachesAs(tiered bool, b, a *machine) bool {
	if tiered {
		return len(w.learned(b)[a]) > 0
	}
	for _, via := range w.all() {
		if via != a && via.alive && w.passes(b, via, a) {
			return true
		}
	}
	return false
}
