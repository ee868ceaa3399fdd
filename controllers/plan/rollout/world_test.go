// The tests of this package play a cluster, second by second, and let rollout.Next decide in it. A world is that cluster: the datastore
// (bgp, peers, nodes), what the nodes make of it (package simulate: each takes over a change, and each session comes up, after a delay of its
// own), the reports that the manager gets of it, a cloud that sells workers, and the manager itself. Nothing is random but by the seed.
//
// A test begins with a world, lets time pass, disturbs it, and looks at what has come of it:
//
//	newWorld(seed, clients, zones)               nodes with pods; reflectors get workers of their own
//	newInPlaceWorld(seed, nodes, idle, zones)    reflectors are chosen among the nodes, of which idle have no pods
//	w.d                                          what the spec wants: w.d.Mode, w.d.Pool, w.d.Topology …
//
//	atRest(t, w), w.settle()       until the manager has had nothing to do for two minutes
//	w.run(seconds)                 stops at the first broken invariant, and names it
//	w.runUnchecked(seconds)        where packets are lost by what the test does
//	w.step(), w.runUntil(so)       one second; until something is so
//	w.until(t, step)               until the moment before a step, which it returns as observed
//
//	w.setAlive(false, m)           a node dies; w.birdDies(name): only calico-node, and Kubernetes calls the node Ready
//	w.cutOff(true, m)              packets between a node and all reflectors get lost
//	w.changed()                    after an edit of bgp, peers or a node: the nodes take it over
//	disturbances, faults, blindness: by name, what else may happen to a cluster
//
//	w.reflectors(), w.clients()    to look at; w.apart(hasPods): pairs without a route; w.story(): the last steps, for messages
//	w.next(o)                      the decision for one observation, for tests that edit w.observe() instead of playing it
//
// The invariants (violation) hold after every second: no two Ready nodes with pods are without a route to each other, save where a step has
// announced it; while the mesh is off every client has its sessions; no step takes two roles.
//
// That a migration loses nothing, and ends with the mesh off:
//
//	w := newWorld(1, 6, 3)
//	require.Empty(t, w.settle(), w.story())
//	require.False(t, w.bgp.MeshOn())
//
// That two reflectors that die bring the mesh back within a minute:
//
//	w := atRest(t, newWorld(1, 6, 3))
//	w.setAlive(false, w.reflectors()[:2]...)
//	_, on := w.meshComesOn(60)
//	require.True(t, on, w.story())
//
// That a session which is down keeps the mesh, decided from one observation:
//
//	w, o := meshOn(t) // a moment before the mesh goes
//	editStatus(&o, w.reflectors()[0].Name, func(s *plan.Status) { s.Sessions[0].Established = false })
//	require.NotEqual(t, "DisableMesh", w.next(o).Name)
//
// The example of each rule is in rules_test.go.
package rollout_test

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

const label = "rrpool.io/route-reflector"

// world is a cluster of package simulate's Model, in which each node takes over a change, and each session comes up, after
// a delay of its own; and what is around it: the datastore, machines and pods, the reports as they are received, a cloud,
// and a manager that acts on rollout.Next.
type world struct {
	now   time.Time
	rnd   *rand.Rand
	nodes map[string]*machine
	// byName are the nodes in order, nil when they are not known yet.
	byName []*machine
	bgp    plan.BGPConfig
	peers  map[string]plan.Peer
	// model follows these, of IPv4; six is that of BIRD for IPv6, nil where nodes have no such address.
	// outdated: they have not been told of a change yet. dies is how a BIRD ends from now on.
	model, six *simulate.Model
	delays     simulate.Delays
	dies       simulate.Outage
	outdated   bool
	// cuts are the pairs whose packets get lost, apartSince those without a route; last is the manager's last step.
	cuts       [][2]string
	apartSince map[[2]*machine]time.Time
	last       string
	// decide is the manager's decision.
	decide func(rollout.Observed, rollout.Desired, time.Time) rollout.Step
	// sees changes what the manager observes, nil for nothing.
	sees func(*rollout.Observed)
	// counted: the paths that come of what the datastore says have been counted.
	counted bool

	watches map[string]plan.StatusRequest
	reports map[string]*plan.Status
	regular bool // reporters write every period
	// podsUnseen: calico-node runs outside Kubernetes, or the manager may not list pods.
	podsUnseen bool
	// crowd is how many more clients there are, with sessions that never change;
	// kubelets is how far their clocks are ahead. cloudSilent: the pool is unknown.
	crowd       int
	kubelets    time.Duration
	cloudSilent bool
	memory      rollout.Memory
	// excused nodes and pairs may be cut off until then: it was announced.
	excused map[string]time.Time
	// lostAt is when an event took the last routes, roleAt when a role changed last, wroteAt any of Calico's objects.
	lostAt, roleAt, wroteAt time.Time

	// robbed: a person has taken what makes a reflector, and the manager, which may sleep or be refused, has not been at rest since.
	robbed bool

	// atLeast is how many reflector sessions a disturbance may leave to a client.
	atLeast int

	pool      rollout.ObservedPool
	d         rollout.Desired
	nextLook  time.Time
	maxLag    int // seconds until a node has rendered a change
	sequence  int
	narrative []string
	lastLine  string
	writes    int
	restores  int // how often the mesh was switched on
	cleared   int // roles taken in the last step

	miserly   bool           // the cloud brings no worker for one that was removed until it is asked for the size
	pdb       bool           // a disruption budget lets no pod go
	blind     bool           // the manager does not know which pods could be moved
	oldCalico bool           // the apiserver drops what Calico before 3.30.3 does not know
	problems  []plan.Problem // what the datastore refuses for
	brimful   bool           // another cluster or a router brings more paths than a report holds
	asleep    time.Time      // until when there is no manager
	unstamped bool           // the narrative does not say when
	churn     time.Duration  // so often a node comes, and of those that came the fifth last goes
	came      int
	ahead     time.Duration // how far the manager's clock is ahead
	remembers bool          // the manager remembers reversals; many disturbances are no repository
}

// clock is what the manager takes the time for.
func (w *world) clock() time.Time { return w.now.Add(w.ahead) }

type machine struct {
	plan.Node
	alive   bool
	evicted bool      // while it is not alive there is no calico-node pod at all
	unready bool      // its pod is not Ready for another reason than BIRD
	lies    bool      // its pod is Ready, whatever BIRD does
	hung    bool      // its status reporter writes nothing, not even what was cleared
	unmade  bool      // its report cannot be made
	garbled bool      // its report is in words that are not known
	noSix   bool      // its BIRD for IPv6 is dead, and so its report is empty
	roleAt  time.Time // when it got the role, by the world's time
	ran     bool      // alive when its pod was looked at last
	pods    int
	joined  time.Time
}

// newInPlaceWorld is a world without dedicated nodes: of the nodes, idle run no pods.
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
		excused: map[string]time.Time{}, watches: map[string]plan.StatusRequest{}, reports: map[string]*plan.Status{},
		bgp: plan.BGPConfig{ASN: 64512}, maxLag: 6, atLeast: 2, decide: rollout.Next,
		d: rollout.Desired{
			Mode: v1alpha1.ModeRouteReflector, Dedicated: true, ClusterID: "244.0.0.1", RoleLabel: label,
			SessionTimeout: 5 * time.Minute, NotReadyGrace: time.Minute, RemovalDelay: time.Minute,
			MinServing: 2, NetAfter: 30 * time.Second,
		},
	}
	for z := range zones {
		w.d.Pool.Zones = append(w.d.Pool.Zones, fmt.Sprintf("zone-%d", z+1))
	}
	w.d.Pool.SizePerZone = (3 + zones - 1) / zones
	w.delays = simulate.Delays{
		Lag: func(string) time.Duration { return time.Duration(w.rnd.IntN(w.maxLag+1)) * time.Second },
		Connect: func(a, b string, began time.Time) time.Duration {
			names := fnv.New64a()
			_, _ = names.Write([]byte(pair(a, b)))
			return time.Duration(2+rand.New(rand.NewPCG(seed^names.Sum64(), uint64(began.Unix()))).IntN(17)) * time.Second
		},
		Longest: 40 * time.Second,
	}
	w.model = simulate.New(w.cluster(), w.scope(), w.now)
	w.model.Delay(w.delays)
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
		alive: true, pods: 1, joined: w.now,
	}
	if dedicated {
		m.WorkerID, m.pods = name, 0
	}
	if w.six != nil {
		m.addSix()
	}
	w.nodes[name], w.byName = m, nil
	w.changed()
	return m
}

// addSix gives a node an address and a block of IPv6.
func (m *machine) addSix() {
	a := m.Addresses[0].As4()
	m.Addresses = append(m.Addresses[:1:1], netip.AddrFrom16([16]byte{0xfd, 14: a[2], 15: a[3]}))
	m.Blocks = append(m.Blocks[:1:1], netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 1, a[2], a[3]}), 122))
}

// dualStack gives all nodes IPv6 as well, as it has always been there. Reporters write changes only then.
func (w *world) dualStack() *world {
	w.six = simulate.New(plan.Cluster{BGP: w.bgp}, w.scope(), w.now)
	w.six.Delay(w.delays)
	for _, m := range w.all() {
		m.addSix()
	}
	w.changed()
	w.age()
	return w
}

// birds are the BIRDs of the nodes, for each address family.
func (w *world) birds() []*simulate.Model {
	if w.six == nil {
		return []*simulate.Model{w.model}
	}
	return []*simulate.Model{w.model, w.six}
}

func (w *world) removeNode(name string) {
	delete(w.nodes, name)
	delete(w.reports, name)
	w.byName = nil
	w.changed()
}

// setAlive kills or revives nodes; Kubernetes notices.
func (w *world) setAlive(alive bool, machines ...*machine) {
	for _, m := range machines {
		if m.alive == alive {
			continue
		}
		m.alive, m.Ready, m.ReadyChanged = alive, alive, w.now
		if alive {
			m.joined = w.now
		}
		w.nextLook = w.now
	}
}

// changed lets every node render anew, each after a delay of its own.
func (w *world) changed() { w.outdated, w.counted, w.nextLook = true, false, w.now }

// all gives the machines by name.
func (w *world) all() []*machine {
	if w.byName == nil {
		w.byName = slices.SortedFunc(maps.Values(w.nodes), func(a, b *machine) int { return cmp.Compare(a.Name, b.Name) })
	}
	return slices.Clone(w.byName)
}

// tick lets one second pass for everything but the manager.
func (w *world) tick() {
	w.now = w.now.Add(time.Second)
	w.comeAndGo()
	// Calico-node runs, or does not.
	for _, m := range w.all() {
		ran := m.ran
		m.ran = m.alive
		switch w.movePod(m, ran); {
		case m.alive && !ran:
			w.each(func(b *simulate.Model) { b.Start(m.Name) })
			m.noSix = false
		case ran && !m.alive:
			w.each(func(b *simulate.Model) { b.Fail(m.Name, "", w.dies) })
		}
	}
	if w.outdated {
		w.outdated = false
		w.each(func(b *simulate.Model) { b.Replace(w.seenBy(b), w.scope()) })
	}
	w.each(func(b *simulate.Model) { b.Advance(w.now.Sub(b.Now())) })
	w.report()
}

func (w *world) each(do func(*simulate.Model)) {
	for _, b := range w.birds() {
		do(b)
	}
}

// seenBy is the cluster as the BIRDs of one address family see it.
func (w *world) seenBy(b *simulate.Model) plan.Cluster {
	c := w.cluster()
	for i := range c.Nodes {
		n := &c.Nodes[i]
		n.Addresses = slices.DeleteFunc(slices.Clone(n.Addresses), func(a netip.Addr) bool { return a.Is4() != (b == w.model) })
		n.Blocks = slices.DeleteFunc(slices.Clone(n.Blocks), func(p netip.Prefix) bool { return p.Addr().Is4() != (b == w.model) })
	}
	return c
}

func (w *world) scope() plan.DatastoreOptions { return plan.DatastoreOptions{RoleLabel: w.d.RoleLabel} }

// cluster is what the datastore says.
func (w *world) cluster() plan.Cluster {
	c := plan.Cluster{BGP: w.bgp, Statuses: map[string]plan.Status{}, Nodes: make([]plan.Node, 0, len(w.nodes))}
	for _, m := range w.all() {
		c.Nodes = append(c.Nodes, m.Node)
	}
	for _, name := range slices.Sorted(maps.Keys(w.peers)) {
		c.Peers = append(c.Peers, w.peers[name])
	}
	return c
}

// write is what an action changes in the datastore.
func (w *world) write(a plan.Action) {
	m := simulate.New(w.cluster(), w.scope(), w.clock())
	if _, err := m.Apply(a); err != nil {
		panic(err)
	}
	c := m.Observe()
	w.bgp, w.peers = c.BGP, map[string]plan.Peer{}
	for _, n := range c.Nodes {
		delete(n.Labels, w.d.RoleLabel) // Slot says it
		w.nodes[n.Name].Node = n
	}
	for _, p := range c.Peers {
		p.Manual = p.Manual && !w.oldCalico
		w.peers[p.Name] = p
	}
	w.wroteAt = w.now
	w.changed()
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

// movePod lets Kubernetes notice that.
func (w *world) movePod(m *machine, ran bool) {
	state := plan.CalicoNodeReady
	switch {
	case m.lies || m.alive && !m.unready:
	case !m.alive && m.evicted:
		state = plan.CalicoNodeAbsent
	default:
		state = plan.CalicoNodeNotReady
	}
	if m.CalicoNode.State != state || ran != m.alive {
		m.CalicoNode, w.nextLook = plan.CalicoNode{State: state, Since: w.now}, w.now
	}
}

// connected: the sessions of two machines are Established.
func (w *world) connected(a, b *machine) bool {
	return a.alive && b.alive && !slices.ContainsFunc(w.birds(), func(m *simulate.Model) bool { return !m.Connected(a.Name, b.Name) })
}

// report is Calico's reporter and our receipt of its reports: it writes what has changed, and at once what was
// cleared; where one address family has no sessions, every period.
func (w *world) report() {
	for name, watch := range w.watches {
		m, old := w.nodes[name], w.reports[name]
		if m == nil || m.unmade {
			delete(w.reports, name)
			continue
		}
		if old == nil {
			old = &plan.Status{Node: name, Cleared: w.clock()}
			w.reports[name] = old
			w.nextLook = w.now
		}
		cleared := !old.Cleared.IsZero()
		if !m.alive || m.hung || m.Labels["kubernetes.io/os"] == "windows" {
			continue // no reporter
		}
		if w.brimful && watch.Routes {
			w.overfill(*old)
			continue
		}
		if cleared || w.now.Unix()%max(1, int64(watch.Period/time.Second)) == 0 {
			w.fill(m, watch, old, cleared)
		}
	}
}

// overfill takes no report with its routes, and after a while that is known of the node.
func (w *world) overfill(st plan.Status) {
	if st.Cleared.IsZero() {
		st.Cleared, st.Updated = w.clock(), time.Time{}
	}
	st.RoutesUnanswered = st.RoutesUnanswered || w.clock().Sub(st.Cleared) >= plan.RoutesTimeout
	w.reports[st.Node] = &st
}

func (w *world) fill(m *machine, watch plan.StatusRequest, old *plan.Status, cleared bool) {
	st, same := w.statusOf(m, watch.Routes, old)
	st.Regular, st.RoutesUnanswered = w.regular && (same || old.Regular), old.RoutesUnanswered && !watch.Routes
	if cleared || !same || w.regular {
		w.reports[m.Name] = st
		w.nextLook = w.now
	}
}

// statusOf is what a node reports, by our dates, and whether that is the same as before.
func (w *world) statusOf(m *machine, routes bool, old *plan.Status) (*plan.Status, bool) {
	st := w.model.Report(m.Name, routes)
	if w.six != nil {
		other := w.six.Report(m.Name, routes)
		st.Sessions, st.Routes, st.Waiting = append(st.Sessions, other.Sessions...), append(st.Routes, other.Routes...), st.Waiting+other.Waiting
	}
	if m.noSix {
		st.Sessions, st.Routes, st.Waiting = nil, nil, 0
	}
	st.Updated, st.Written = w.clock(), w.now
	if m.garbled {
		for _, s := range st.Sessions {
			st.Unread = append(st.Unread, "session with "+s.Peer.String())
		}
		st.Sessions, st.Routes = nil, nil
	}
	same := old.HasRoutes == routes && slices.Equal(old.Unread, st.Unread) && old.Waiting == st.Waiting && len(st.Sessions) == len(old.Sessions) && slices.Equal(st.Routes, old.Routes)
	for j, s := range st.Sessions {
		i := slices.IndexFunc(old.Sessions, func(x plan.Session) bool { return x.Peer == s.Peer && x.Kind == s.Kind })
		if i >= 0 && old.Sessions[i].Established == s.Established {
			st.Sessions[j].Since = old.Sessions[i].Since
		} else {
			st.Sessions[j].Since, same = w.clock(), false
		}
	}
	return &st, same
}

// apart gives the pairs of nodes among those of which the first has no route to the second, in some address family. Two of an AS of
// their own have none by way of the others: each finds its AS in the path.
func (w *world) apart(among func(*machine) bool) [][2]*machine {
	var out [][2]*machine
	for _, b := range w.birds() {
		for _, p := range b.Unreached(func(n plan.Node) bool { return w.nodes[n.Name] != nil && among(w.nodes[n.Name]) }) {
			if two := [2]*machine{w.nodes[p.From], w.nodes[p.To]}; !slices.Contains(out, two) {
				out = append(out, two)
			}
		}
	}
	for _, a := range w.all() {
		for _, b := range w.all() {
			if a.ASN != 0 && a != b && a.ASN == b.ASN && among(a) && among(b) && !w.connected(a, b) {
				out = append(out, [2]*machine{a, b})
			}
		}
	}
	return out
}

func hasPods(m *machine) bool { return m.pods > 0 }

// reaches reports whether a has a route to b.
func (w *world) reaches(b, a *machine) bool {
	both := func(m *machine) bool { return m == a || m == b }
	return a.alive && b.alive && !slices.Contains(w.apart(both), [2]*machine{a, b})
}

// count counts roles that are taken, and how often the mesh comes on. A reflector that changes its slot while nodes depend on it is one, too.
func (w *world) count(a plan.Action) {
	switch a := a.(type) {
	case plan.SetReflector:
		m := w.nodes[a.Node]
		if w.roleAt, m.roleAt = w.now, w.now; m.HasRoleLabel && m.ClusterID != "" && m.ClusterID != a.ClusterID && !w.bgp.MeshOn() {
			w.cleared++
		}
	case plan.ClearReflector:
		w.roleAt = w.now
		w.cleared++
	case plan.RestoreMesh:
		w.restores++
	}
}

// atOdds: BGPPeers of ours that must not stand side by side. While the mesh is off, those
// that may select the same nodes render the same; and Single's, which select every
// reflector, are scoped beside reflectors with other cluster IDs.
func (w *world) atOdds() string {
	if w.bgp.MeshOn() {
		return ""
	}
	tiers := slices.ContainsFunc(w.reflectors(), func(m *machine) bool {
		kind := topology.KindOf(m.Slot)
		return kind == v1alpha1.TopologyHierarchy || kind == v1alpha1.TopologyMultiCluster
	})
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(w.peers)), func(name string) bool { return w.peers[name].PeerIP != "" })
	for i, name := range names {
		p := w.peers[name]
		for _, other := range names[:i] {
			if !ptr.Equal(w.peers[other].Password, p.Password) && !disjoint(other, name) {
				return fmt.Sprintf("4: BGPPeers %s and %s have different passwords", other, name)
			}
		}
		if p.PeerSelector == "has("+w.d.RoleLabel+")" && tiers {
			return fmt.Sprintf("4: BGPPeer %s selects reflectors of another topology", name)
		}
	}
	return ""
}

// multiplied: the paths of a node to a prefix are at most those of two topologies side by side, however nodes and BGPPeers
// come together. It goes by what the datastore says, with every node up, whether the mesh is on or off.
func (w *world) multiplied() string {
	if w.counted {
		return ""
	}
	w.counted = true
	c := w.cluster()
	every := func(string) bool { return true }
	net, limit := simulate.NewConfiguration(w.d.RoleLabel, c.Nodes, c.BGP, c.Peers).Network(every), uint64(2*max(w.d.Topology.MaxPaths, 64)+1)
	for _, m := range w.clients() {
		if most, all := net.HeldPaths(m.Name, every); most.Paths > limit {
			return fmt.Sprintf("5: %s has %d paths to a prefix, and %d in all", m.Name, most.Paths, all.Paths)
		}
	}
	return ""
}

// disjoint: Single's two BGPPeers select no two nodes together. One that a person has
// deleted comes back at once with a new password, and the other when the mesh is on.
func disjoint(a, b string) bool { return a == topology.PeerClients && b == topology.PeerReflectors }
