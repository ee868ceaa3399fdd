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
	// Poll is when to look again at a wait that no event ends.
	Poll = 5 * time.Second
	// TimerWait is the fixed wait of the Timer gate: longer than the longest time BIRD takes to re-establish a
	// session with Calico's timers (error wait 30 s, connect retry 5 s, twice).
	TimerWait = 75 * time.Second
	// DeadTime is how long a node may be NotReady, with no session left, until it counts as dead although the cloud does not say so.
	// Much longer than any reboot: to replace its worker is final.
	DeadTime = 15 * time.Minute
	// BigCluster is the number of clients from which reports come less often, as each lists every session.
	BigCluster = 1000
	// freshFor is how old a status report may be and still prove something.
	freshFor = 30 * time.Second
	// joinWait is TimerWait for one node that has come, or come back: connect delay 2 s, one
	// error wait, and connect retry 5 s. Its routes settle within the rest.
	joinWait = 45 * time.Second
)

// Network is which nodes are to be reflectors, and which sessions they have.
type Network struct {
	// Wanted are the nodes that are to be reflectors.
	Wanted []plan.Node
	// InAssignedSlot reports whether a node is a reflector as wanted, in the slot that it is to have.
	InAssignedSlot func(plan.Node) bool
	// Configuration is what nodes have configured, without the mesh; nil where all reflectors are alike, and each has a session with all nodes.
	Configuration *simulate.Configuration
	// Present is what comes of the Configuration with every node up, Goal the same once everything is as planned. Both are nil where
	// there is none.
	Present *simulate.Network
	Goal    func() *simulate.Network
	// IsGoalMissed: each reflector is to have the sessions of Goal already, as those that differ were taken away.
	IsGoalMissed bool
}

// Options are how evidence is judged, and what is remembered of earlier looks.
type Options struct {
	// Timer: there are no reports, and fixed times are waited for.
	Timer bool
	// Dedicated: the reflectors are nodes that run nothing but BGP.
	Dedicated bool
	// NetAfter is how long a client may lack every session until it counts as unserved.
	NetAfter time.Duration
	// Proven is when all mesh sessions of a node were last seen Established, by node.
	Proven map[string]time.Time
	// MeshSince is since when the mesh is on, zero for a moment ago. ClockSet is when the clock was last set, zero for never.
	MeshSince, ClockSet time.Time
}

// Evidence is what is known of a cluster's sessions and routes at one moment.
type Evidence struct {
	Roles
	// Settle is how long a session must have been Established until its routes have been exchanged; Quiet is how long
	// after one of our writes the nodes may still be busy rendering it.
	Settle, Quiet time.Duration
	// Unserved names the clients that lack a session with every reflector, nil while that is unknown. CutOff are those of them, or with a kubelet
	// that is down, that the mesh would reach.
	Unserved, CutOff []string

	cluster plan.Cluster
	network Network
	opts    Options
	clock   *Clock
	// asked are the clients without a session whose own reports are needed.
	asked []unserved
	// numbers of addresses.
	numbers map[netip.Addr]int32
	// What follows was computed before: the addresses of all clients, the owners of their blocks, the clients and those of Unready that are known to be alive, and by node its report,
	// its dependants, and whether it has most of its sessions.
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

// withClients returns the same evidence for other clients.
func (e *Evidence) withClients(clients []plan.Node) *Evidence {
	of := *e
	of.Clients, of.alive, of.dependants, of.most = clients, nil, map[string][]*member{}, map[string]bool{}
	return &of
}

// arranged reports whether reflectors have slots that differ.
func (e *Evidence) arranged() bool { return e.network.Configuration != nil }

func (e *Evidence) present() *simulate.Network { return e.network.Present }

// peersOf returns those of nodes that r has a session with in a network; all, where there is none.
func peersOf(network *simulate.Network, r plan.Node, nodes []plan.Node) []plan.Node {
	return plan.Filter(nodes, func(n plan.Node) bool { return network == nil || network.Connected(r.Name, n.Name) })
}

// status returns the report of a node, the zero one where there is none.
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

// LastWrite returns when we last changed what nodes render for reflector sessions.
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

// TakenOver returns how long nodes may still need to take over our last change, 0 or less when they have.
func (e *Evidence) TakenOver() time.Duration {
	return e.LastWrite().Add(e.Quiet).Sub(e.clock.now)
}

// lastReady returns when these reflectors became what they are: Ready, and rendered as last written.
func (e *Evidence) lastReady(rs []plan.Node) time.Time {
	last := e.LastWrite()
	for _, r := range rs {
		last = plan.Latest(last, r.ReadyChanged)
	}
	return last
}
