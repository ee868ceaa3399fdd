package rollout

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// ownPrefix begins the label keys that only rrpool uses.
const ownPrefix = "rrpool.io/"

// UnsupportedCluster is the name of the step that changes nothing because rrpool cannot handle the cluster as it is.
const UnsupportedCluster = "UnsupportedCluster"

// InvalidSpec is the name of the step that changes nothing because of the spec.
const InvalidSpec = "InvalidSpec"

// locked writes nothing while Calico's datastore is locked, or its objects are moved to another API group.
func locked(v *view) *Step {
	if v.Locked == nil {
		return nil
	}
	return unsupported(*v.Locked)
}

// refuseSpec does nothing while the spec cannot be carried out.
func refuseSpec(v *view) *Step {
	if v.d.Invalid == nil {
		return nil
	}
	return &Step{Name: InvalidSpec, Reason: v.d.Invalid.Message, Problem: v.d.Invalid}
}

// healUnread puts a lost role back while Calico cannot read an object. Calico
// then takes in no change of BGPPeers, but still does what is written on Nodes.
func healUnread(v *view) *Step {
	if len(v.Problems) == 0 || v.Problems[0].Reason != reason.ObjectUnreadable {
		return nil
	}
	return healRoles(v)
}

// hold stops while the datastore itself reports a problem.
func hold(v *view) *Step {
	if len(v.Problems) == 0 {
		return nil
	}
	return unsupported(v.Problems[0])
}

// refuse stops everything, and touches nothing, while the cluster holds something that rrpool cannot be sure to handle.
func refuse(v *view) *Step {
	for _, check := range []func(*view) *plan.Problem{unreadSelectors, mixedAS, sharedAddress, unreachable, foreignReflector, routesFromRouters, nameTaken, foreignPeer, foreignLabel, tooFewNodes, uselessReflectors, outsidePools} {
		if p := check(v); p != nil {
			return unsupported(*p)
		}
	}
	return nil
}

// unsupported returns the step that changes nothing because of a problem.
func unsupported(p plan.Problem) *Step {
	return &Step{Name: UnsupportedCluster, Reason: p.Message, Problem: &p, Again: poolPoll}
}

// unreadSelectors refuses BGPPeers if it is not known which nodes they select.
func unreadSelectors(v *view) *plan.Problem {
	names := simulate.Unread(v.Peers)
	return plan.ProblemIf(len(names) > 0, "SelectorTooLong", "BGPPeer %s: a selector is longer than %d bytes or nests too many parentheses, or those of all BGPPeers are too long together, "+
		"so it is not known which nodes it selects: shorten it, by a label of those nodes, or delete the BGPPeer", plan.Few(names), simulate.LongestSelector)
}

// mixedAS refuses nodes of several AS numbers: route reflection is iBGP.
func mixedAS(v *view) *plan.Problem {
	as := func(n plan.Node) uint32 { return cmp.Or(n.ASN, v.BGP.ASN) }
	one, _ := plan.First(v.Nodes, plan.Node.SpeaksBGP)
	other, found := plan.First(v.Nodes, func(n plan.Node) bool { return n.SpeaksBGP() && as(n) != as(one) })
	do := "remove the nodes' own AS numbers or keep the mesh"
	if !v.BGP.MeshOn() && !v.Relied() {
		do = "the mesh is off, and " + v.carried() + ": leave them as they are, and delete this object"
	}
	return plan.ProblemIf(found, "MixedASNumbers", "node %s has AS %d but node %s has AS %d: route reflectors need one AS for all nodes; %s",
		one.Name, as(one), other.Name, as(other), do)
}

// refusesAddresses reports whether BGP addresses that give no sessions are refused. They are only until there
// are reflectors; after that rrpool goes on repairing whatever else fails, even while the mesh is back.
func (v *view) refusesAddresses() bool { return v.BGP.MeshOn() && v.isStarting() }

// sharedAddress refuses two Ready nodes with one BGP address.
func sharedAddress(v *view) *plan.Problem {
	if !v.refusesAddresses() {
		return nil
	}
	shared := plan.SharedAddresses(v.Nodes, plan.Usable)
	for _, a := range slices.SortedFunc(maps.Keys(shared), netip.Addr.Compare) {
		return plan.Problemf("SharedBGPAddress", "%d Ready nodes have the BGP address %s: %s: sessions reach one of them at most; "+
			"let calico-node choose another, %s", len(shared[a]), a, plan.Few(shared[a]), detect)
	}
	return nil
}

// unreachable refuses a BGP address with which no other node can have a session: rrpool would wait for that session without end.
func unreachable(v *view) *plan.Problem {
	if !v.refusesAddresses() {
		return nil
	}
	unreachable := plan.Unreachable(v.Nodes)
	for _, n := range plan.Filter(v.Nodes, plan.Usable) {
		for _, a := range n.Addresses {
			if why := unreachable(a); why != "" {
				return plan.Problemf("UnusableBGPAddress", "node %s has the BGP address %s, which %s: no other node gets a session with it; "+
					"let calico-node choose another, %s", n.Name, a, why, detect)
			}
		}
	}
	return nil
}

// detect is the remedy for an address that Calico has detected wrongly.
const detect = "with IP_AUTODETECTION_METHOD (IP6_AUTODETECTION_METHOD), by the operator nodeAddressAutodetectionV4 (V6), or the node's annotation"

// foreignReflector refuses route reflectors that are not ours.
func foreignReflector(v *view) *plan.Problem {
	n, found := plan.First(v.Nodes, func(n plan.Node) bool { return n.ClusterID != "" && !n.IsOurs() })
	return plan.ProblemIf(found, "ForeignReflector", "node %s already is a route reflector (cluster ID %s) that rrpool did not make: "+
		"%sremove its routeReflectorClusterID and the BGPPeers that belong to it%s; stop before that what makes them, as a playbook that is applied again", n.Name, n.ClusterID, v.meshFirst(), v.orKeep())
}

// routesFromRouters refuses a cluster whose mesh is off and whose nodes have their routes from outside of the cluster: routers do what
// route reflectors would do.
func routesFromRouters(v *view) *plan.Problem {
	if !v.isMeshless() || v.Routes.BGPUnused() {
		return nil
	}
	routed, without := simulate.RouterPeers(v.d.RoleLabel, v.Nodes, v.Peers), []string{}
	for _, n := range v.Nodes {
		if n.SpeaksBGP() && routed[n.Name] == "" {
			without = append(without, n.Name)
		}
	}
	one, found := plan.First(v.Nodes, func(n plan.Node) bool { return routed[n.Name] != "" })
	by := fmt.Sprintf("BGPPeer %s of node %s", routed[one.Name], one.Name)
	if len(without) > 0 {
		by += "; without one: " + plan.Few(without)
	}
	return plan.ProblemIf(found, "RoutesFromRouters", "the node-to-node mesh is off, and %d nodes have their routes from routers outside of the cluster (%s): "+
		"route reflectors would take their place, so nothing is changed; leave it as it is, and delete this object", len(routed), by)
}

// Carried returns where nodes have their routes from while the mesh is off, also as a clause for messages.
func Carried(c plan.Cluster, roleLabel string) (simulate.Source, string) {
	count := map[simulate.Source]int{}
	for _, source := range simulate.Sources(roleLabel, c) {
		count[source]++
	}
	switch {
	case count[simulate.SourceReflectors] > 0:
		return simulate.SourceReflectors, "nodes have their routes from route reflectors among them"
	case count[simulate.SourceRouters] > 0:
		return simulate.SourceRouters, "nodes have their routes from routers outside of the cluster"
	case count[simulate.SourceMachines] > 0:
		return simulate.SourceMachines, "nodes have their routes from machines among them on which something beside calico-node speaks BGP"
	case count[simulate.SourceNodes] > 0:
		return simulate.SourceNodes, "nodes have their routes by BGPPeers with each other"
	}
	return simulate.SourceNone, "no BGPPeer gives nodes a session that could bring routes"
}

func (v *view) carried() string {
	_, words := Carried(v.Cluster, v.d.RoleLabel)
	return words
}

// meshFirst returns what precedes the advice to remove objects that rrpool did
// not make. If the mesh is off, and not by rrpool, routes may depend on them.
func (v *view) meshFirst() string {
	if v.BGP.MeshOn() || v.Relied() {
		return ""
	}
	out := "the node-to-node mesh is off, and " + v.carried() + ", so "
	if by := ByAddress(v.Cluster, v.d.RoleLabel); by != "" {
		out += fmt.Sprintf("replace BGPPeer %s and others with a peerIP of nodes by some with a peerSelector, as beside the mesh their sessions would end; then ", by)
	}
	return out + "switch the mesh on first and wait until its sessions are Established; then "
}

// ByAddress returns a BGPPeer of others whose sessions would end if the mesh were switched on.
func ByAddress(c plan.Cluster, roleLabel string) string {
	return simulate.NewConfiguration(roleLabel, c.Nodes, c.BGP, c.Peers).ByAddress()
}

// orKeep returns the end of the advice that meshFirst begins. If the mesh is off, and not by rrpool, the cluster may also stay as it is.
func (v *view) orKeep() string {
	if v.BGP.MeshOn() || v.Relied() {
		return " first"
	}
	return " (docs/migrating.md has the way); or keep them, and delete this object"
}

// nameTaken refuses a BGPPeer of others with one of our names.
func nameTaken(v *view) *plan.Problem {
	ours := v.planned
	p, found := plan.First(v.Peers, func(p plan.Peer) bool {
		return !p.Owned && slices.ContainsFunc(ours, func(w plan.Peer) bool { return w.Name == p.Name })
	})
	return plan.ProblemIf(found, "NameTaken", "BGPPeer %s exists but was not made by rrpool "+
		"(it lacks the label app.kubernetes.io/managed-by=rrpool): %srename or delete it", p.Name, v.meshFirst())
}

// foreignPeer refuses a BGPPeer of others between nodes of the cluster: if a BGPPeer of rrpool selects the same
// pair, it is not defined which of the two Calico renders. Peers outside the cluster (a rack switch) are fine.
// A BGPPeer that selects no node now is refused too, because it may select one as soon as a node gets a label.
func foreignPeer(v *view) *plan.Problem {
	starting := v.isStarting()
	p, found := plan.First(v.Peers, func(p plan.Peer) bool { return !p.Owned && Refused(p, v.Nodes, starting) })
	if !found {
		return nil
	}
	what := "makes sessions between nodes of this cluster"
	if side := Idle(p, v.Nodes, v.d.RoleLabel); side != "" {
		what = "makes no sessions now, as " + side + ", and would between nodes of this cluster as soon as one is"
	}
	return plan.Problemf("ForeignInClusterPeer", "BGPPeer %s %s, and was not made by rrpool: "+
		"%sdelete it, once nothing makes it again, or keep your own route reflection and set spec.mode to Paused", p.Name, what, v.meshFirst())
}

// Idle returns why a BGPPeer gives no session between these nodes now, "" if it gives one.
func Idle(p plan.Peer, nodes []plan.Node, roleLabel string) string {
	from, to := simulate.Sides(p, nodes, roleLabel)
	switch {
	case from == 0:
		return fmt.Sprintf("no node is selected by its %s", cmp.Or(selector("nodeSelector", p.NodeSelector), selector("node", p.Node)))
	case to == 0 && p.PeerSelector != "":
		return fmt.Sprintf("no node is selected by its %s", selector("peerSelector", p.PeerSelector))
	}
	return ""
}

// mostShown is how many bytes of a selector are shown: a condition has room for 32 KiB.
const mostShown = 256

// selector returns a selector with its field, as shown to people.
func selector(field, value string) string {
	if value == "" {
		return ""
	}
	return field + " " + plan.Plain(value, mostShown)
}

// InCluster reports whether a BGPPeer makes sessions between these nodes.
func InCluster(p plan.Peer, nodes []plan.Node) bool {
	if p.PeerSelector != "" {
		return true
	}
	return plan.IsMachineAddress(simulate.PeerAddress(p.PeerIP), nodes) && !isOfItself(p, nodes)
}

// isOfItself reports whether a BGPPeer selects only the node that has its peerIP. Calico leaves such a BGPPeer out.
func isOfItself(p plan.Peer, nodes []plan.Node) bool {
	address := simulate.PeerAddress(p.PeerIP)
	other := func(n plan.Node) bool { return !slices.Contains(n.Addresses, address) }
	selects := func(nodes []plan.Node) bool { return simulate.Selects(p, nodes, "") }
	return selects(nodes) && !selects(plan.Filter(nodes, other))
}

// Refused reports whether rrpool refuses to act because of p, a BGPPeer of others. If its peerIP is an address of a node's
// machine, but not the BGP address, only the start is refused: reflectors that are there already serve in spite of it.
func Refused(p plan.Peer, nodes []plan.Node, starting bool) bool {
	if starting || p.PeerSelector != "" {
		return InCluster(p, nodes)
	}
	address := simulate.PeerAddress(p.PeerIP)
	return slices.ContainsFunc(nodes, func(n plan.Node) bool { return slices.Contains(n.Addresses, address) }) && !isOfItself(p, nodes)
}

// foreignLabel refuses a role label chosen by the user that is in use for
// something else. rrpool's own default label is not refused; see strayLabels.
func foreignLabel(v *view) *plan.Problem {
	n, found := plan.First(v.Nodes, func(n plan.Node) bool { return n.HasRoleLabel && !n.IsOurs() })
	return plan.ProblemIf(found && !strings.HasPrefix(v.d.RoleLabel, ownPrefix), "ForeignLabel",
		"node %s carries the label %s (spec.bgp.nodeLabel), which rrpool did not set: choose another label or remove it", n.Name, v.d.RoleLabel)
}

// tooFewNodes refuses a cluster in which no node would be left to be a client: the mesh could never go off.
func tooFewNodes(v *view) *plan.Problem {
	found := !v.d.Dedicated && v.isStarting() && v.total > 0 && len(v.Clients) > 0 && len(v.Clients)+len(v.Unready) <= v.total
	return plan.ProblemIf(found, "TooFewNodes", "all %d nodes that speak BGP would be route reflectors, and none their client, "+
		"which is what the full mesh is: add nodes, lower spec.sizing.min or spec.sizing.minPerZone, or delete this object", len(v.Clients))
}

// uselessReflectors refuses a cluster in which BGP does not carry the routes to pods, so that no machine is ordered in
// vain. If BGP stops carrying them later, the reflectors stay: the mesh that they replaced would be of no use either.
func uselessReflectors(v *view) *plan.Problem {
	keep := "keep the mesh and delete this object"
	if !v.BGP.MeshOn() {
		keep = "the mesh, which is off, would not either; delete this object"
	}
	switch {
	case !v.isStarting():
	case v.Routes.Unknown != "":
		return plan.Problemf("RoutesUnknown", "whether BGP carries the routes to pods is not known: %s", v.Routes.Unknown)
	case v.Routes.BGPUnused():
		pools := make([]string, len(v.Routes.Pools))
		for i, p := range v.Routes.Pools {
			pools[i] = p.String()
		}
		return plan.Problemf("NoRoutesOverBGP", "%s (%s): route reflectors would change nothing, "+
			"so none is ordered; %s", v.Routes.BGPUnusedReason(), plan.Few(pools), keep)
	}
	return nil
}

// outsidePools refuses blocks of pod addresses that the mesh carries and route reflectors would not pass on.
func outsidePools(v *view) *plan.Problem {
	if !v.isStarting() {
		return nil
	}
	outside, marked := v.NotPassed()
	if len(marked) > 0 {
		return plan.Problemf("BlocksMarkedNoAdvertise", "route reflectors pass on nothing with the community NO_ADVERTISE (65535:65282), and prefixAdvertisements of "+
			"BGPConfigurations give it, or one that cannot be read, to blocks: %s: their pods could not be reached; remove it there, and let the router that it is for "+
			"add it, or from Calico 3.33 on a BGPFilter of its BGPPeer", plan.Few(marked))
	}
	return plan.ProblemIf(len(outside) > 0, "BlocksOutsideIPPools", "route reflectors pass on only what is in an IPPool, and the mesh carries blocks that are in none: %s: "+
		"their pods could not be reached; make an IPPool again that contains them, with disabled: true so that no pod gets an address of it, or release them", plan.Few(outside))
}

// awaitBGP waits before the first change until a node reports an Established session, if it is not known
// whether calico-node runs BIRD: machines could be ordered for nothing. It asks some nodes in turn; one such
// report clears BGPUnknown. The Timer gate is for clusters without reports, so there the user's word counts.
func awaitBGP(v *view) *Step {
	if v.BGPUnknown == "" || v.d.Timer || !v.isStarting() {
		return nil
	}
	g := v.ev.ProveBIRD()
	s := await(g, "AwaitBGP", "whether calico-node runs BIRD is not known, so nothing is changed or ordered before one node reports a session: "+v.BGPUnknown)
	s.Awaits = AwaitsBGP
	return s
}
