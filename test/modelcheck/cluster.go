package modelcheck

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/selection"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// cluster is what stands in the datastore, and what the cloud has been asked for. All dates are moments of ages.
type cluster struct {
	plan.Cluster
	// PerZone is the size of the dedicated pool, 0 where there is none.
	PerZone int
	// Ordered are workers that have yet to become nodes.
	Ordered []string

	// at are the nodes by number, rows what each renders once it has read everything, and paths the most that one then
	// has to a prefix, as soon as they have been read from the rest.
	read  bool
	at    [maxNodes]*plan.Node
	rows  [maxNodes]uint32
	paths uint64
}

func (m *model) cluster(s *state) *cluster { return m.clusters.get(s.cluster) }

// read adds what follows from the rest.
func (m *model) read(c *cluster) {
	c.read, c.at = true, [maxNodes]*plan.Node{}
	for i := range c.Nodes {
		c.at[m.indexOf(c.Nodes[i].Name)] = &c.Nodes[i]
	}
	conf := simulate.NewConfiguration(label, c.Nodes, c.BGP, c.Peers)
	for i, node := range m.names {
		var r row
		for j, peer := range m.names {
			r[j].Side, r[j].There = conf.Side(node, peer)
		}
		c.rows[i] = m.rows.of(r)
	}
	every := func(string) bool { return true }
	net := conf.Network(every)
	c.paths = 0
	for _, n := range c.Nodes {
		if most, _ := net.HeldPaths(n.Name, every); pods(&n) {
			c.paths = max(c.paths, most.Paths)
		}
	}
}

// edit changes the cluster of a state. The name tells the change from all others.
func (m *model) edit(s *state, name string, do func(c *cluster)) {
	to := m.clusters.edit(s.cluster, name, func(c *cluster) {
		c.Nodes, c.Peers, c.Ordered = slices.Clone(c.Nodes), slices.Clone(c.Peers), slices.Clone(c.Ordered)
		for i := range c.Nodes {
			c.Nodes[i].Labels = maps.Clone(c.Nodes[i].Labels)
		}
		c.read = false
		do(c)
		m.tidy(c)
	})
	if c := m.clusters.get(to); !c.read {
		m.read(c)
	}
	m.enter(s, to)
}

func (m *model) editNode(s *state, name string, i int, do func(n *plan.Node)) {
	m.edit(s, fmt.Sprint(name, i), func(c *cluster) { do(c.find(m.names[i])) })
}

func (c *cluster) find(name string) *plan.Node {
	i := slices.IndexFunc(c.Nodes, func(n plan.Node) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return &c.Nodes[i]
}

// dates visits every date.
func (c *cluster) dates(visit func(*time.Time)) {
	for i := range c.Nodes {
		visit(&c.Nodes[i].Created)
		visit(&c.Nodes[i].ReadyChanged)
		visit(&c.Nodes[i].RoleSince)
	}
	for i := range c.Peers {
		visit(&c.Peers[i].Written)
	}
	visit(&c.BGP.Restored)
}

// tidy gives clusters that no rule distinguishes the same form. Of when BGPPeers were written, and dedicated nodes got their roles, rules
// read only the latest; of roles of one age, only the order.
func (m *model) tidy(c *cluster) {
	var dates, roles []*time.Time
	for i := range c.Peers {
		if !c.Peers[i].Written.IsZero() {
			dates = append(dates, &c.Peers[i].Written)
		}
	}
	for i := range c.Nodes {
		if c.Nodes[i].Marked {
			roles = append(roles, &c.Nodes[i].RoleSince)
		}
	}
	slices.SortStableFunc(roles, func(a, b *time.Time) int { return a.Compare(*b) })
	if m.Dedicated {
		dates = append(dates, roles...)
	}
	if len(dates) > 0 {
		last := *slices.MaxFunc(dates, func(a, b *time.Time) int { return a.Compare(*b) })
		for _, date := range dates {
			*date = last
		}
	}
	for rank, role := range roles {
		*role = role.Round(time.Second).Add(time.Duration(rank-maxNodes) * time.Millisecond) // never in the future
	}
}

func (m *model) indexOf(name string) int { return slices.Index(m.names, name) }

func address(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}) } //nolint:gosec // G115: at most eight

func block(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, byte(i + 1), 0}), 26) //nolint:gosec // G115: at most eight
}

// zone of a node.
func (m *model) zone(i int) string {
	if i >= m.Clients {
		i -= m.Clients
	}
	return m.Zones[i%len(m.Zones)]
}

// newNode is a Ready node that is so old.
func (m *model) newNode(i int, age time.Duration) plan.Node {
	count := 0
	n := plan.Node{
		Name: m.names[i], UID: m.names[i], Zone: m.zone(i), Labels: map[string]string{"zone": m.zone(i)},
		Created: ago(age), Ready: true, ReadyChanged: ago(age), Pods: &count, Pooled: i >= m.Clients,
		Addresses: []netip.Addr{address(i)}, Blocks: []netip.Prefix{block(i)}, CalicoNode: plan.CalicoNode{State: plan.CalicoNodeReady},
	}
	if i < m.Clients {
		count = 10 + i
	} else {
		n.WorkerID = n.Name
	}
	return n
}

func pods(n *plan.Node) bool { return n != nil && *n.Pods > 0 }

// reflects: the node is in the role.
func reflects(n *plan.Node) bool { return n != nil && n.HasRoleLabel && n.ClusterID != "" }

// apply carries out one action.
func (m *model) apply(c *cluster, a plan.Action) {
	switch a := a.(type) {
	case plan.EnsurePool:
		m.ensure(c, a.Want)
	case plan.ReleasePool:
		if i := slices.IndexFunc(c.Nodes, func(n plan.Node) bool { return n.Pooled }); i >= 0 {
			c.Nodes[i].Pooled = false
		}
	case plan.DrainNode:
		c.find(a.Node).Pods = new(int)
	case plan.RefreshStatus, plan.Pause:
	default:
		sim := simulate.New(c.Cluster, plan.DatastoreOptions{RoleLabel: label, ZoneLabel: "zone"}, today)
		if _, err := sim.Apply(a); err != nil {
			panic(fmt.Sprintf("modelcheck: %v", err))
		}
		c.Cluster = sim.Observe()
		c.Statuses = nil // the manager's are in the state
	}
}

// ensure is the provider, which makes one change a call.
func (m *model) ensure(c *cluster, want plan.PoolTarget) {
	if !m.Dedicated {
		m.joinPool(c, want)
		return
	}
	if len(want.Retire) > 0 {
		c.remove(want.Retire[0])
		return
	}
	if len(want.Replace) > 0 {
		c.remove(want.Replace[0])
	}
	c.PerZone = want.SizePerZone
	for _, zone := range m.Zones {
		m.fill(c, zone)
	}
}

func (c *cluster) remove(name string) {
	c.Nodes = slices.DeleteFunc(c.Nodes, func(n plan.Node) bool { return n.Name == name })
	c.Ordered = slices.DeleteFunc(c.Ordered, func(worker string) bool { return worker == name })
}

// fill orders workers where a zone has too few.
func (m *model) fill(c *cluster, zone string) {
	missing := c.PerZone
	var free []string
	for i := m.Clients; i < len(m.names); i++ {
		switch {
		case m.zone(i) != zone:
		case c.worker(m.names[i]):
			missing--
		default:
			free = append(free, m.names[i])
		}
	}
	c.Ordered = append(c.Ordered, free[:min(max(missing, 0), len(free))]...)
	slices.Sort(c.Ordered)
}

// worker: there is one of that name.
func (c *cluster) worker(name string) bool {
	return c.find(name) != nil || slices.Contains(c.Ordered, name)
}

func (m *model) joinPool(c *cluster, want plan.PoolTarget) {
	for _, name := range want.Retire {
		if n := c.find(name); n.Pooled {
			n.Pooled = false
			return
		}
	}
	d := m.desired[0]
	n, ok := selection.Next(c.Nodes, selection.Rules{
		PerZone: want.SizePerZone, Zones: want.Zones, Preferred: d.Preferred, Excluded: d.Excluded,
		Lost: func(n plan.Node) bool { return !n.Ready && today.Sub(n.ReadyChanged) > d.NotReadyGrace },
	})
	if ok {
		c.find(n.Name).Pooled = true
	}
}

// pool is what the provider shows.
func (m *model) pool(c *cluster) *rollout.ObservedPool {
	if !m.Dedicated {
		return &rollout.ObservedPool{}
	}
	p := &rollout.ObservedPool{Exists: c.PerZone > 0, SizePerZone: c.PerZone}
	if p.Exists {
		p.Zones = m.Zones
	}
	for i := m.Clients; i < len(m.names); i++ {
		if name := m.names[i]; c.worker(name) {
			p.Workers = append(p.Workers, rollout.ObservedWorker{ID: name, Node: name, Zone: m.zone(i), Message: "deploying"})
		}
	}
	return p
}

// foreign are the BGPPeers that are not ours.
func (c *cluster) foreign() []plan.Peer {
	return slices.DeleteFunc(slices.Clone(c.Peers), func(p plan.Peer) bool { return p.Owned })
}

// describe is a cluster in a few words.
func (c *cluster) describe() string {
	out := fmt.Sprintf("mesh on: %t", c.BGP.MeshOn())
	for _, n := range c.Nodes {
		out += fmt.Sprintf(", %s (Ready %t, label %q, ID %q, cordoned %t, pooled %t)", n.Name, n.Ready, n.Slot, n.ClusterID, n.Cordoned, n.Pooled)
	}
	for _, p := range c.Peers {
		out += ", BGPPeer " + p.Name
	}
	return out
}
