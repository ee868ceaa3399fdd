package rollout

import (
	"cmp"
	"slices"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// Every two in-place reflectors have a peering: a BGPPeer by which the one that has had the role for longer is the
// other's reflector. A node that gets the role is made a client of all reflectors first, which renders what was
// there already. A reflector that gives the role back becomes a client of the others first. A third reflector, of
// which both are clients, passes their routes on while such a session is reversed.

// group are the nodes in the role, or in half of it, the longest in the role first.
func (v *view) group() []plan.Node {
	out := filter(v.current, func(n plan.Node) bool { return n.HasRoleLabel || n.ClusterID != "" })
	slices.SortFunc(out, func(a, b plan.Node) int {
		return cmp.Or(a.RoleSince.Compare(b.RoleSince), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// groupID is the cluster ID that in-place reflectors share. One that differs from the spec's stays until the
// cluster has been back on the mesh: changing it would restart the reflectors' own sessions, and they have pods.
func (v *view) groupID() string {
	count := map[string]int{}
	for _, n := range v.group() {
		if n.ClusterID != "" {
			count[n.ClusterID]++
		}
	}
	best := v.d.ClusterID
	for id, c := range count {
		if c > count[best] || c == count[best] && best != v.d.ClusterID && id < best {
			best = id
		}
	}
	return best
}

// peerings gives the BGPPeers by which client is a client of reflector.
func (v *view) peerings(reflector, client plan.Node) []plan.Peer {
	return topology.Peerings(reflector, client, cmp.Or(client.ASN, v.BGP.ASN), v.session())
}

func (v *view) peer(name string) (plan.Peer, bool) {
	return first(v.Peers, func(p plan.Peer) bool { return p.Name == name && p.Owned })
}

// isReflectorOf reports whether client is a client of reflector in some address family, in the role or not.
func (v *view) isReflectorOf(reflector, client plan.Node) bool {
	return slices.ContainsFunc(v.peerings(reflector, client), v.stands)
}

// isFullReflectorOf reports the same for every address family that both have.
func (v *view) isFullReflectorOf(reflector, client plan.Node) bool {
	peerings := v.peerings(reflector, client)
	return len(peerings) > 0 && len(filter(peerings, v.stands)) == len(peerings)
}

// stands: the peering is there, with the same reflector.
func (v *view) stands(p plan.Peer) bool {
	have, ok := v.peer(p.Name)
	return ok && have.Node == p.Node
}

// groupPeerings gives the BGPPeers between the nodes in the role. What exists stays as it is.
func (v *view) groupPeerings() []plan.Peer {
	var out []plan.Peer
	group := v.group()
	for i, a := range group {
		for _, b := range group[i+1:] {
			if v.isReflectorOf(b, a) {
				out = append(out, v.peerings(b, a)...)
			} else {
				out = append(out, v.peerings(a, b)...)
			}
		}
	}
	return out
}

// connect gives in-place reflectors the peers without which they have no sessions at all: they are not in the mesh.
// It only adds, and waits for nothing, neither for a problem to be solved nor for the way back.
func connect(v *view) *Step {
	s := &Step{Name: "WritePeers", Reason: "route reflectors have no sessions without them", Urgent: true}
	for _, want := range v.peers {
		have, owned := v.peer(want.Name)
		taken := slices.ContainsFunc(v.Peers, func(p plan.Peer) bool { return p.Name == want.Name })
		if !taken || owned && have.Manual && !want.Manual {
			s.Actions = append(s.Actions, plan.PutPeer{Peer: want})
		}
	}
	outside := slices.ContainsFunc(v.group(), func(n plan.Node) bool { return n.ClusterID != "" }) // one with the label alone is in the mesh
	if v.d.Dedicated || !outside || len(s.Actions) == 0 {
		return nil
	}
	return s
}

// makeClient gives what makes x a client of all other reflectors. As long as x has no role it
// changes nothing that is rendered.
func (v *view) makeClient(x plan.Node) []plan.Action {
	var out []plan.Action
	for _, want := range v.peeringsAsClient(x) {
		if have, ok := v.peer(want.Name); !ok || !plan.SamePeer(have, want) {
			out = append(out, plan.PutPeer{Peer: want})
		}
	}
	return out
}

// peeringsAsClient gives the BGPPeers by which x is a client of all others in the role.
func (v *view) peeringsAsClient(x plan.Node) []plan.Peer {
	var out []plan.Peer
	for _, r := range others(v.group(), x) {
		out = append(out, v.peerings(r, x)...)
	}
	return out
}

// reverseNext is the longest-serving node in the role whose session with x has to be reversed before x becomes a
// client, and whether that cuts the two off from each other for a moment. It has to where no third reflector has
// both as clients and passes their routes on when it is reversed by itself; and until x is a client of two, so that
// it never hangs on one session alone.
func (v *view) reverseNext(x plan.Node) (client plan.Node, cuts, ok bool) {
	rest := v.leaders(x)
	reflectors := 0
	for _, j := range rest {
		switch {
		case v.isFullReflectorOf(j, x):
			reflectors++
		case !v.isReflectorOf(x, j):
		case !v.bridged(x, j):
			return j, true, true
		case !ok:
			client, ok = j, true
		}
	}
	return client, false, ok && reflectors < min(2, len(rest))
}

// hasReflector reports whether n is a client of a reflector that serves and carries its routes.
func (v *view) hasReflector(n plan.Node) bool {
	return slices.ContainsFunc(v.leaders(n), func(r plan.Node) bool { return v.serves(r) && v.isReflectorOf(r, n) })
}

// bridged: some other reflector that serves has both as clients.
func (v *view) bridged(x, j plan.Node) bool {
	return slices.ContainsFunc(v.group(), func(b plan.Node) bool {
		return v.serves(b) && v.isFullReflectorOf(b, x) && v.isFullReflectorOf(b, j) // no node is its own client
	})
}

// isStray: a peer of ours that the plan does not have, and that prepares nothing.
func (v *view) isStray(p plan.Peer) bool {
	return p.Owned && !slices.ContainsFunc(v.planned(), func(w plan.Peer) bool { return w.Name == p.Name })
}

// planned are the peers of the plan, and those that prepare the next promotion.
func (v *view) planned() []plan.Peer {
	if v.nextToPromote == nil {
		return v.peers
	}
	return append(slices.Clone(v.peers), v.peeringsAsClient(*v.nextToPromote)...)
}
