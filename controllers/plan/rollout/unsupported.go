package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// ownPrefix begins label keys that are ours alone.
const ownPrefix = "rrpool.io/"

// UnsupportedCluster is the name of the step that changes nothing because rrpool cannot handle the cluster as it is.
const UnsupportedCluster = "UnsupportedCluster"

// unsupportedCluster stops everything, and touches nothing, while the cluster holds
// something that rrpool cannot be sure to handle.
func unsupportedCluster(v *view) *Step {
	if s := hold(v); s != nil {
		return s
	}
	for _, check := range []func(*view) *plan.Problem{mixedAS, foreignReflector, nameTaken, foreignPeer, foreignLabel, tooFewNodes, uselessReflectors} {
		if p := check(v); p != nil {
			return unsupported(*p)
		}
	}
	return nil
}

// hold stops while the datastore itself reports a problem.
func hold(v *view) *Step {
	if len(v.Problems) == 0 {
		return nil
	}
	return unsupported(v.Problems[0])
}

func unsupported(p plan.Problem) *Step {
	return &Step{Name: UnsupportedCluster, Reason: p.Message, Problem: &p, Again: poolPoll}
}

// mixedAS: route reflection is iBGP, all nodes must share one AS.
func mixedAS(v *view) *plan.Problem {
	as := func(n plan.Node) uint32 { return cmp.Or(n.ASN, v.BGP.ASN) }
	one, _ := first(v.Nodes, plan.Node.SpeaksBGP)
	other, found := first(v.Nodes, func(n plan.Node) bool { return n.SpeaksBGP() && as(n) != as(one) })
	return plan.ProblemIf(found, "MixedASNumbers", "node %s has AS %d but node %s has AS %d: route reflectors need one AS for all nodes; "+
		"remove the nodes' own AS numbers or keep the mesh", one.Name, as(one), other.Name, as(other))
}

// foreignReflector: route reflectors that are not ours.
func foreignReflector(v *view) *plan.Problem {
	n, found := first(v.Nodes, func(n plan.Node) bool { return n.ClusterID != "" && !n.HoldsRole() })
	return plan.ProblemIf(found, "ForeignReflector", "node %s already is a route reflector (cluster ID %s) that rrpool did not make: "+
		"remove its routeReflectorClusterID and the BGPPeers that belong to it first", n.Name, n.ClusterID)
}

// nameTaken: a BGPPeer that is not ours under one of our names.
func nameTaken(v *view) *plan.Problem {
	ours := v.planned()
	p, found := first(v.Peers, func(p plan.Peer) bool {
		return !p.Owned && slices.ContainsFunc(ours, func(w plan.Peer) bool { return w.Name == p.Name })
	})
	return plan.ProblemIf(found, "NameTaken", "BGPPeer %s exists but was not made by rrpool "+
		"(it lacks the label app.kubernetes.io/managed-by=rrpool): rename or delete it", p.Name)
}

// foreignPeer: a BGPPeer that is not ours between nodes of the cluster. With one of ours for the same pair, which
// of the two Calico renders is not defined. Peers outside the cluster (a rack switch) are fine.
func foreignPeer(v *view) *plan.Problem {
	p, found := first(v.Peers, func(p plan.Peer) bool { return !p.Owned && InCluster(p, v.Nodes) })
	return plan.ProblemIf(found, "ForeignInClusterPeer", "BGPPeer %s makes sessions between nodes of this cluster and was not made by rrpool: "+
		"delete it, or keep your own route reflection and set spec.mode to Paused", p.Name)
}

// InCluster reports whether a BGPPeer makes sessions between these nodes.
func InCluster(p plan.Peer, nodes []plan.Node) bool {
	if p.PeerSelector != "" {
		return true
	}
	addr := simulate.PeerAddress(p.PeerIP)
	return slices.ContainsFunc(nodes, func(n plan.Node) bool { return slices.Contains(n.Addresses, addr) })
}

// foreignLabel: the label the user chose for reflectors is already in use for
// something else. Our own default is not; see strayLabels.
func foreignLabel(v *view) *plan.Problem {
	n, found := first(v.Nodes, func(n plan.Node) bool { return n.RoleLabel && !n.HoldsRole() })
	return plan.ProblemIf(found && !strings.HasPrefix(v.d.RoleLabel, ownPrefix), "ForeignLabel",
		"node %s carries the label %s (spec.bgp.nodeLabel), which rrpool did not set: choose another label or remove it", n.Name, v.d.RoleLabel)
}

// tooFewNodes: with no node left to be a client, the mesh could never go.
func tooFewNodes(v *view) *plan.Problem {
	found := !v.d.Dedicated && v.starting() && v.total > 0 && len(v.clients) > 0 && len(v.clients)+len(v.unready) <= v.total
	return plan.ProblemIf(found, "TooFewNodes", "all %d nodes that speak BGP would be route reflectors, and none their client, "+
		"which is what the full mesh is: add nodes, lower spec.sizing.min or spec.sizing.minPerZone, or delete this object", len(v.clients))
}

// uselessReflectors: BGP carries no routes to pods, so no machine is ordered to pass them on. Where that changes later
// the reflectors stay: the mesh that they replaced would be of no use either.
func uselessReflectors(v *view) *plan.Problem {
	switch {
	case !v.starting() || !v.BGP.MeshOn():
	case v.Routes.Unknown != "":
		return plan.Problemf("RoutesUnknown", "whether BGP carries the routes to pods is not known: %s", v.Routes.Unknown)
	case v.Routes.Useless():
		pools := make([]string, len(v.Routes.Pools))
		for i, p := range v.Routes.Pools {
			pools[i] = p.String()
		}
		return plan.Problemf("NoRoutesOverBGP", "Felix programs the routes to all pods, not BGP (%s): route reflectors would change nothing, "+
			"so none is ordered; keep the mesh and delete this object", plan.Few(pools))
	}
	return nil
}

// strayLabels takes our label from nodes that others put it on. Such a node has no cluster ID and reflects nothing.
// While the mesh is on and our BGPPeers exist, the label has turned the node's mesh sessions into others, and
// taking it away restarts them once more: that needs reflectors that serve.
func strayLabels(v *view) *Step {
	n, ok := first(v.Nodes, func(n plan.Node) bool {
		return n.RoleLabel && n.ClusterID == "" && (!n.HoldsRole() || v.mislabelled(n))
	})
	if !ok || !strings.HasPrefix(v.d.RoleLabel, ownPrefix) {
		return nil // a label of the user's choice may be in use for something else as well
	}
	s := do("RemoveStrayLabel", fmt.Sprintf("node %s carries the reflector label but is no reflector", n.Name), plan.ClearReflector{Node: n.Name})
	if v.mislabelled(n) && v.hasPeers() {
		v.addCost(s, "; without it all its sessions start anew: ", n)
	}
	if !v.BGP.MeshOn() || !v.hasPeers() {
		return s
	}
	return v.onceServed(s)
}

// onceServed holds the removal of a label back until the reflectors serve all other nodes.
// As long as they have not got their sessions, what gives them those comes first.
func (v *view) onceServed(s *Step) *Step {
	g := v.serve(slices.DeleteFunc(slices.Clone(v.clients), v.mislabelled)).nowGate(v.serving())
	switch {
	case g.open():
		return s
	case g.sessions(), v.d.Mode == v1alpha1.ModeFullMesh && len(v.serving()) > 0:
		return g.step(s.Name, s.Reason+", which waits for the reflectors to serve")
	case v.d.Mode == v1alpha1.ModeFullMesh:
		return s
	}
	return nil
}
