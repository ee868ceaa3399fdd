// Package evidence says what is known of BGP sessions and routes from the reports of nodes and the states of their pods, and how old that
// is. It is pure: the same cluster at the same time gives the same answers.
package evidence

import (
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

const (
	// Poll is after how long to look again while waiting for something that no event announces.
	Poll = 5 * time.Second
	// TimerWait is the fixed wait of the Timer gate. It is longer than the longest time BIRD takes to
	// re-establish a session with Calico's timers: twice an error wait of 30 s and a connect retry of 5 s.
	TimerWait = 75 * time.Second
	// DeadTime is how long a node without sessions may be NotReady until it counts as dead, even if the
	// cloud does not say so. It is much longer than any reboot, because replacing a worker cannot be undone.
	DeadTime = 15 * time.Minute
	// BigCluster is the number of clients from which on reports are requested less often, as each report lists every session.
	BigCluster = 1000
	// freshFor is the age up to which a status report proves something.
	freshFor = 30 * time.Second
	// joinWait replaces TimerWait for a single node that has joined or come back: connect delay
	// 2 s, one error wait of 30 s, connect retry 5 s. In the remaining 8 s its routes settle.
	joinWait = 45 * time.Second
)

// Network is which nodes are to be reflectors, and which sessions they have.
type Network struct {
	// Wanted are the nodes that are to be reflectors.
	Wanted []plan.Node
	// InAssignedSlot reports whether a node has the role with the slot and the cluster ID that are planned for it.
	InAssignedSlot func(plan.Node) bool
	// Configuration is what is configured on the nodes, without the mesh. It is
	// nil if all reflectors are alike, so that each has a session with every node.
	Configuration *simulate.Configuration
	// Present is the network that results from Configuration if every node is up. Goal returns the
	// network that results once everything is as planned. Both are nil if Configuration is nil.
	Present *simulate.Network
	Goal    func() *simulate.Network
	// IsGoalMissed: every reflector is in its slot, but BGPPeers or rack labels
	// are not as planned. The sessions of Goal are then expected already.
	IsGoalMissed bool
}

// Options say how evidence is judged, and hold what is remembered of earlier looks.
type Options struct {
	// Timer: nodes send no reports, and fixed times are waited instead.
	Timer bool
	// Dedicated: the reflectors are nodes that run nothing but BGP.
	Dedicated bool
	// NetAfter is how long a client may lack every session until it counts as unserved.
	NetAfter time.Duration
	// Proven is when all mesh sessions of a node were last seen Established, by node.
	Proven map[string]time.Time
	// MeshSince is since when the mesh has been on; zero means only just now. ClockSet is when the clock was last set, zero if never.
	MeshSince, ClockSet time.Time
}

// Evidence is what is known of a cluster's sessions and routes at one moment.
type Evidence struct {
	Roles
	// Settle is how long a session must have been Established until its routes have been exchanged.
	// Quiet is how long after one of rrpool's writes the nodes may still be busy rendering it.
	Settle, Quiet time.Duration
	// Unserved names the clients that have no session with any reflector in one of their address families, nil while
	// that is unknown. CutOff names the clients and unready nodes without such sessions that the mesh would reach.
	Unserved, CutOff []string

	cluster plan.Cluster
	network Network
	opts    Options
	clock   *Clock
	// asked are the clients without a session whose own reports are needed.
	asked []unserved
	// numbers gives each address of a node its number; see function number.
	numbers map[netip.Addr]int32
	// The following fields cache results: the addresses of all clients, the owners of their blocks, what
	// served returns, and by node name its report, its dependants, and whether it has most of its sessions.
	addresses  sets.Set[netip.Addr]
	owners     map[netip.Prefix]string
	alive      []plan.Node
	reports    map[string]*report
	dependants map[string][]*member
	most       map[string]bool
}

// New returns what is known of a cluster whose nodes have these roles.
func New(cluster plan.Cluster, roles Roles, network Network, opts Options, clock *Clock) *Evidence {
	e := &Evidence{
		Roles: roles, cluster: cluster, network: network, opts: opts, clock: clock,
		numbers: number(cluster.Nodes), reports: map[string]*report{}, dependants: map[string][]*member{}, most: map[string]bool{},
	}
	e.Settle = e.settleTime()
	e.Quiet = 10*time.Second + e.Settle
	e.findUnserved()
	return e
}

// withClients returns a copy of the evidence with other clients.
func (e *Evidence) withClients(clients []plan.Node) *Evidence {
	of := *e
	of.Clients, of.alive, of.dependants, of.most = clients, nil, map[string][]*member{}, map[string]bool{}
	return &of
}

// arranged reports whether the reflectors are not all alike: their slots differ, and each may serve only some nodes.
func (e *Evidence) arranged() bool { return e.network.Configuration != nil }

func (e *Evidence) present() *simulate.Network { return e.network.Present }

// peersOf returns those of nodes that r has a session with in the network, or all of them if network is nil.
func peersOf(network *simulate.Network, r plan.Node, nodes []plan.Node) []plan.Node {
	return plan.Filter(nodes, func(n plan.Node) bool { return network == nil || network.Connected(r.Name, n.Name) })
}

// status returns the report of a node, the zero value if there is none.
func (e *Evidence) status(n plan.Node) plan.Status { return e.cluster.Statuses[n.Name] }

// clientAddresses returns the addresses of all clients.
func (e *Evidence) clientAddresses() sets.Set[netip.Addr] {
	if e.addresses == nil {
		e.addresses = sets.Set[netip.Addr]{}
		for i := range e.Clients {
			e.addresses.Insert(e.Clients[i].Addresses...)
		}
	}
	return e.addresses
}

// LastWrite returns when rrpool last changed what nodes render for sessions with reflectors. If the clock was set later, it returns that time.
func (e *Evidence) LastWrite() time.Time {
	last := e.opts.ClockSet
	for i := range e.cluster.Peers {
		if p := &e.cluster.Peers[i]; p.Owned {
			last = plan.Latest(last, p.Written)
		}
	}
	for i := range e.Current {
		last = plan.Latest(last, e.Current[i].RoleSince)
	}
	return last
}

// TakenOver returns how much longer nodes may need to render rrpool's last change, 0 or less if they have had the time.
func (e *Evidence) TakenOver() time.Duration {
	return e.rendered().Sub(e.clock.now)
}

// rendered returns when nodes have rendered our last change, at the latest.
func (e *Evidence) rendered() time.Time { return e.LastWrite().Add(e.Quiet) }

// lastReady returns the latest of two kinds of times: rrpool's last write, and the last changes of these reflectors' Ready conditions.
func (e *Evidence) lastReady(rs []plan.Node) time.Time {
	last := e.LastWrite()
	for _, r := range rs {
		last = plan.Latest(last, r.ReadyChanged)
	}
	return last
}
