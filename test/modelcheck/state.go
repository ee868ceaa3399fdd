package modelcheck

import (
	"hash/maphash"
	"time"
)

const (
	maxNodes = 8
	maxPeers = 16
	maxPairs = maxNodes * (maxNodes - 1) / 2
)

// age is how many ticks ago something happened, up to longAgo. See the package's documentation for what a tick is.
type age uint8

const (
	justNow age = iota
	lately
	earlier
	longAgo
	never
)

// lapse is how much time an age stands for when rollout asks. lately is more than a
// node needs to render (quiet, 15 s) and less than a report is fresh (30 s); earlier is
// more than a session takes to start (timerWait, the timer gate's 90 s, removalDelay, the
// grace); longAgo is more than anything.
var lapse = [...]time.Duration{justNow: 0, lately: 25 * time.Second, earlier: 100 * time.Second, longAgo: 20 * time.Minute}

// today is when the manager reconciles.
var today = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

func (a age) moment() time.Time {
	if a == never {
		return time.Time{}
	}
	return today.Add(-lapse[a])
}

func (a *age) pass() {
	if *a < longAgo {
		*a++
	}
}

// Flags of a node.
const (
	exists   uint16 = 1 << iota
	alive           // its BIRD, confd and reporter run
	ready           // Kubernetes says so
	labelled        // role label
	marked          // our mark
	cordoned
	cordonedByUs
	pooled
	pods    // runs workloads
	ordered // a worker that is to come
)

// node is a node in the datastore, and whether its machine runs.
type node struct {
	flags                   uint16
	slot, id, rack          uint8 // indices of names, 0 for none
	readyAge, roleAge, born age
	rank                    uint8 // order of those in the role, where ages are the same
}

func (n *node) is(f uint16) bool { return n.flags&f == f }

func (n *node) set(f uint16, on bool) {
	if on {
		n.flags |= f
	} else {
		n.flags &^= f
	}
}

// inRole: the node reflects.
func (n *node) inRole() bool { return n.is(exists|labelled) && n.id != 0 }

// written is a BGPPeer, and when we wrote it.
type written struct {
	spec uint16 // index, 0 for none
	at   age
}

// mesh is the BGPConfiguration.
type mesh struct {
	is, saved           uint8 // indices of plan.Mesh; saved 0 for none
	exists, savedAbsent bool
	restored            age
}

// States of a session, by pair.
const (
	down       uint8 = iota // not configured by both, or a side is dead
	starting                // since this tick
	late                    // for longer: up before the next tick
	quietUp                 // Established, and the routes are on their way
	carrying                // Established, and every route has arrived
	upFromHere = quietUp
)

// What a report says of a session: kind in the lower bits, then since, then whether
// BIRD knows of a restart that the report does not show yet.
const (
	unseen uint8 = iota
	meshDown
	meshUp
	nodeDown
	nodeUp
	kindBits         = 7
	sinceShift       = 3
	restarted  uint8 = 1 << 6
)

// report is a CalicoNodeStatus as the manager knows it.
type report struct {
	watched, wants, has bool // wants routes, has them
	updated, cleared    age
	sess                [maxNodes]uint8
	learned             uint64 // bit origin*maxNodes+from
}

// missed notes that a session has gone, whatever the report says.
func (r *report) missed(peer int) {
	if r.sess[peer]&kindBits != unseen {
		r.sess[peer] |= restarted
	}
}

// state is everything: the cluster, its BGP, what the manager knows and remembers.
type state struct {
	nodes   [maxNodes]node
	peers   [maxPeers]written
	mesh    mesh
	pool    uint8 // size per zone that the cloud was asked for, 0: there is none
	reports [maxNodes]report
	// memory of the manager, lost in a crash.
	meshSince, shortSince, straySince age

	back    bool // mode FullMesh
	unknown bool // the provider does not answer
	problem bool // the datastore reports a problem

	hidden
}

// hidden is what the manager does not see.
type hidden struct {
	rows [maxNodes]uint16 // what each node has rendered, index of a row
	up   [maxPairs]uint8
	// spent counts disturbances, lagged reports that fell behind; dead is a node that a disturbance took, plus one.
	spent, lagged, dead uint8
	// excused pairs may be cut off; owed is how many reflector sessions a client is
	// owed; fresh are reflectors whose first sessions are still starting.
	excused uint32
	owed    [maxNodes]uint8
	fresh   uint8
	// muted reflectors pass nothing on.
	muted uint8
	// foreign is a fault that no manager can repair.
	foreign bool
	flipped bool
}

// pairOf is the index of a pair.
func pairOf(a, b int) int {
	if a > b {
		a, b = b, a
	}
	return a*(2*maxNodes-a-1)/2 + b - a - 1
}

type key [2]uint64

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func hash(s *state) key {
	return key{maphash.Comparable(seeds[0], *s), maphash.Comparable(seeds[1], *s)}
}

// visible is the state with all that the manager does not see left out.
func (s *state) visible() state {
	v := *s
	v.hidden = hidden{}
	for i := range v.nodes {
		v.nodes[i].flags &^= alive
		for j := range v.reports[i].sess {
			v.reports[i].sess[j] &^= restarted
		}
	}
	return v
}

// tick makes everything older.
func (s *state) tick() {
	for i := range s.nodes {
		s.nodes[i].readyAge.pass()
		s.nodes[i].roleAge.pass()
		s.nodes[i].born.pass()
		r := &s.reports[i]
		r.updated.pass()
		r.cleared.pass()
		for j, x := range r.sess {
			if a := age(x >> sinceShift & 7); a < longAgo && x&kindBits != unseen {
				r.sess[j] = x&^(7<<sinceShift) | uint8(a+1)<<sinceShift
			}
		}
	}
	for i := range s.peers {
		s.peers[i].at.pass()
	}
	s.mesh.restored.pass()
	s.meshSince.pass()
	s.shortSince.pass()
	s.straySince.pass()
	for i, u := range s.up {
		if u == starting {
			s.up[i] = late
		}
	}
}
