package check

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// datastoreVariable names for calico-node where Calico keeps its objects; without it that is etcd.
const datastoreVariable = "DATASTORE_TYPE"

func datastore(f facts) *Result {
	store := ""
	if f.calicoNode.found {
		for _, c := range f.calicoNode.value.Spec.Template.Spec.Containers {
			for _, variable := range c.Env {
				if variable.Name == datastoreVariable {
					store = variable.Value
				}
			}
		}
	}
	const remedy = "set DATASTORE_TYPE, and with etcdv3 Calico's ETCD_* variables, for rrpool as calico-node has them"
	ours := "kubernetes"
	if f.inEtcd() {
		ours = calico.EtcdAPI
	}
	where := "the Kubernetes datastore, with its objects in " + f.snapshot.Cluster.CalicoAPI
	if f.inEtcd() {
		where = "an etcd of its own"
	}
	switch information := f.information.value; {
	case store != "" && store != ours:
		return fail("calico-node keeps its objects elsewhere: its %s is %q, rrpool's is %q", datastoreVariable, store, ours).do(remedy)
	case f.information.found && !released(information.Spec.CalicoVersion) && f.inEtcd():
		return unknown("Calico uses %s, but which Calico it is, is not known: calicoVersion of ClusterInformation default is %q", where, information.Spec.CalicoVersion).
			do("look at the image of calico-node: with an etcd of its own rrpool needs Calico 3.31 or later")
	case f.information.found && !released(information.Spec.CalicoVersion):
		return note("Calico uses %s, but which Calico it is, is not known: calicoVersion of ClusterInformation default is %q", where, information.Spec.CalicoVersion).
			do("look at the image of calico-node: rrpool is for Calico 3.21 and later")
	case f.information.found:
		return fine("Calico %s uses %s", plan.Plain(information.Spec.CalicoVersion, 64), where)
	case f.inEtcd():
		return unknown("Calico uses %s, but which Calico it is, is not known: %s", where, cmp.Or(f.information.hidden, "there is no ClusterInformation default")).
			do("look at the image of calico-node: with an etcd of its own rrpool needs Calico 3.31 or later")
	case store != "":
		return fine("Calico uses the Kubernetes datastore, with its objects in %s", f.snapshot.Cluster.CalicoAPI)
	}
	return unseen("which datastore Calico uses",
		cmp.Or(f.information.hidden, fmt.Sprintf("neither calico-node's %s nor a ClusterInformation says", datastoreVariable))).do(remedy)
}

// released: a version begins with a number.
func released(calico string) bool {
	_, err := version.ParseGeneric(calico)
	return err == nil
}

// writes: what the datastore would refuse is known before anything is written. The answer is for this user, who may lack
// the rights to ask.
func writes(f facts) *Result {
	step := f.snapshot.Step
	switch {
	case step.Problem != nil && step.Problem.Reason == reason.WriteRefused:
		return refusal(*step.Problem)
	case calico.Untriable(f.snapshot.Untried):
		return note("whether the apiserver would take what rrpool writes is not known: nobody can try it (%s)", iostreams.Sentence(f.snapshot.Untried))
	case f.snapshot.Untried != nil:
		return note("whether the apiserver would take what rrpool writes is not known: your user cannot try it (%s)", iostreams.Sentence(f.snapshot.Untried)).
			also("the manager tries it before it changes or orders anything")
	case len(step.Ahead) == 0:
		return nil
	case f.inEtcd():
		return note("whether Calico's etcd would take what rrpool writes is not known: etcd has no dry runs, and its user may lack the right to write")
	}
	return fine("the apiserver would take what rrpool writes first: %s, tried as dry runs", iostreams.Number(len(step.Ahead), "write"))
}

// inEtcd: rrpool reads Calico's objects in an etcd.
func (f facts) inEtcd() bool { return f.snapshot.Cluster.CalicoAPI == calico.EtcdAPI }

// calicoNodeLabels mark calico-node's pods in every way to install Calico: alone, as Canal, or as kubespray had that.
var calicoNodeLabels = []string{"calico-node", "canal", "canal-node"}

// withBIRD is the backend that is BIRD.
const withBIRD = "bird"

// calicoNamespaces are where calico-node mostly is: by manifest, and by the operator.
var calicoNamespaces = []string{"calico-system", "kube-system"}

func calicoNode(f facts) *Result {
	switch {
	case f.calicoNode.hidden != "":
		return unseen("calico-node", f.calicoNode.hidden)
	case !f.calicoNode.found:
		return unknown("calico-node is not seen: no DaemonSet's pods have the label k8s-app=%s", strings.Join(calicoNodeLabels, ", or ")).
			do("see how calico-node runs here: rrpool goes by its reports then")
	}
	d := f.calicoNode.value
	// A DaemonSet counts the nodes that it selects. Others may have a BGP address all the same, and nothing that answers there.
	speaking := f.nodes(func(n plan.Node) bool { return n.SpeaksBGP() && n.Ready && n.Reports() })
	without := f.nodes(func(n plan.Node) bool { return n.SpeaksBGP() && n.Ready && n.Reports() && n.CalicoNode.Failing() })
	want, ready := max(d.Status.DesiredNumberScheduled, int32(len(speaking))), d.Status.NumberReady //nolint:gosec // G115: nodes of a cluster
	is := fmt.Sprintf("calico-node is Ready on %d of %d nodes (%s/%s)", ready, want, d.Namespace, d.Name)
	remedy := fmt.Sprintf("kubectl --namespace %s get pods --selector k8s-app=%s --output wide", d.Namespace, cmp.Or(d.Spec.Template.Labels["k8s-app"], calicoNodeLabels[0]))
	switch {
	case len(f.calicoNodes) > 1:
		return warn("%s, and %s say that they are calico-node", is, iostreams.Number(len(f.calicoNodes), "DaemonSet")).also(f.calicoNodes...).
			do("where Calico's operator is taking over, wait; else see whose the others are: this goes by %s/%s, and a DaemonSet outside of the host's network, or of Calico's namespaces, comes last", d.Namespace, d.Name)
	case want > 0 && ready >= want && len(without) == 0:
		return fine("%s", is)
	case want > 0 && ready == 0:
		return fail("%s", is).do("%s", remedy)
	case len(without) > 0:
		return warn("%s: steps wait for the others, of which %s have a BGP address", is, plan.Few(without)).do("%s", remedy)
	}
	return warn("%s: steps wait for the others", is).do("%s", remedy)
}

func mesh(f facts) *Result {
	bgp := f.snapshot.Cluster.BGP
	switch {
	case bgp.ManagedBy != "" && (bgp.MeshOn() || f.snapshot.Cluster.Relied()):
		return warn("BGPConfiguration default is described elsewhere (%s), which may undo what rrpool writes there: the mesh is on again then", bgp.ManagedBy).
			reason(reason.MeshReversed).do("let that leave nodeToNodeMeshEnabled, nodeMeshPassword and the annotations rrpool.io/* alone")
	case bgp.MeshOn():
		return fine("the node-to-node mesh is on")
	case bgp.Saved != nil || bgp.SavedAbsent:
		return fine("the node-to-node mesh is off, by rrpool, which has kept how it was")
	}
	source, carried := rollout.Carried(f.snapshot.Cluster, f.object.Spec.BGP.NodeLabel)
	off, step := warn("the node-to-node mesh is off, and not by rrpool: %s", carried), f.snapshot.Step
	switch {
	case step.Problem != nil && step.Problem.Reason == reason.RoutesFromRouters:
		return refusal(*step.Problem)
	case f.snapshot.Cluster.Routes.BGPUnused():
		return note("the node-to-node mesh is off, and not by rrpool; no pod needs it: %s", f.snapshot.Cluster.Routes.BGPUnusedReason())
	case source == simulate.SourceRouters:
		return off.do("leave it off: nothing is changed there")
	case source == simulate.SourceNone && step.Problem == nil && step.Name == "AwaitMesh":
		off = fail("%s", off.Message)
		off.reason(step.Name)
	case f.mixed():
		return off.do("leave it off: with more than one AS number rrpool cannot help")
	}
	if by := rollout.ByAddress(f.snapshot.Cluster, f.object.Spec.BGP.NodeLabel); by != "" {
		return off.do("do not switch it on beside BGPPeer %s and others with a peerIP of nodes: their sessions would end; leave it off, or replace these by BGPPeers with a peerSelector first", by)
	}
	if f.inEtcd() {
		return off.do(`switch it on before anything else: calicoctl patch bgpconfiguration default --patch '{"spec":{"nodeToNodeMeshEnabled":true}}'`)
	}
	return off.
		do("switch it on before anything else: kubectl patch bgpconfigurations.%s default --type=merge -p '{\"spec\":{\"nodeToNodeMeshEnabled\":true}}'",
			strings.Split(f.snapshot.Cluster.CalicoAPI, "/")[0])
}

// mixed: nodes have different AS numbers.
func (f facts) mixed() bool {
	as := func(n plan.Node) uint32 { return cmp.Or(n.ASN, f.snapshot.Cluster.BGP.ASN) }
	all := clients(f)
	return slices.ContainsFunc(all, func(n plan.Node) bool { return as(n) != as(all[0]) })
}

// meshOff is what to know before anything is removed that is not rrpool's where routes may depend on it.
func (f facts) meshOff() []string {
	if f.snapshot.Cluster.BGP.MeshOn() || f.snapshot.Cluster.Relied() {
		return nil
	}
	_, carried := rollout.Carried(f.snapshot.Cluster, f.object.Spec.BGP.NodeLabel)
	return []string{"the node-to-node mesh is off, and " + carried + ": remove none of them while that is so"}
}

func speaking(f facts) *Result {
	if p := f.problem(reason.BGPDisabled); p != nil {
		return refusal(*p)
	}
	silent := f.nodes(func(n plan.Node) bool { return !n.SpeaksBGP() && n.Ready })
	doubt := doubtful(f)
	switch {
	case len(f.snapshot.Cluster.Nodes) == 0:
		return fail("the cluster has no nodes").do("add some")
	case doubt != nil:
		return doubt
	case len(silent) > 0:
		return warn("Ready nodes without a BGP address: %s", plan.Few(silent)).
			do("look at calico-node there; such a node gets no session, and is left out")
	}
	return fine("BGP is enabled: every Ready node has a BGP address")
}

// doubtful is why BIRD does not run, or is not known to, nil where it is seen that it does.
func doubtful(f facts) *Result {
	kind := strings.Split(f.information.value.Spec.ClusterType, ",")
	switch {
	case f.backend.found && calico.NoBIRD.Has(f.backend.value):
		return fail("calico-node runs no BIRD (%s of DaemonSet %s/%s is %q): nodes have BGP addresses all the same", calico.BackendVariable,
			f.calicoNode.value.Namespace, f.calicoNode.value.Name, f.backend.value).see(reason.BGPDisabled)
	case kind[0] != "" && !slices.Contains(kind, "bgp") && f.backend.value != withBIRD:
		return unknown("whether BGP is enabled is not known: clusterType of ClusterInformation default is %q, which does not name bgp", plan.Plain(strings.Join(kind, ","), 64)).
			do("see whether BIRD runs in calico-node (%s=bird)", calico.BackendVariable).see(reason.BGPUnknown)
	case !f.backend.found && (f.backend.hidden != "" || f.snapshot.Cluster.BGPUnknown != ""):
		return unknown("whether BGP is enabled is not known: %s", cmp.Or(f.snapshot.Cluster.BGPUnknown, f.backend.hidden)).
			do("see whether BIRD runs in calico-node (%s=bird): nodes have BGP addresses without it as well", calico.BackendVariable).see(reason.BGPUnknown)
	}
	return nil
}

// annotations: what Calico passes over, so that a node has no session, or not the AS number that is meant.
func annotations(f facts) *Result {
	var unread []string
	for _, n := range f.snapshot.Cluster.Nodes {
		for _, text := range n.Unread {
			unread = append(unread, n.Name+": "+text)
		}
	}
	if len(unread) == 0 {
		return nil
	}
	return warn("annotations of nodes are no address, AS number, cluster ID or labels, and Calico passes over them").also(unread[:min(len(unread), 10)]...).
		do("correct them, or restart calico-node there, which writes the addresses")
}

// nodeStatus: whether calico-node can report what steps wait for.
func nodeStatus(f facts) *Result {
	r := unless(reason.NodeStatusCRDMissing, "sessions can be observed: the API has CalicoNodeStatus, or spec.rollout.gate is Timer")(f)
	var why []string
	for _, p := range f.snapshot.Cluster.Peers {
		if p.Workloads {
			why = append(why, "BGPPeer "+p.Name+" connects nodes with pods of their own")
		}
	}
	var containers []corev1.Container
	if f.calicoNode.found {
		containers = f.calicoNode.value.Spec.Template.Spec.Containers
	}
	for _, c := range containers {
		for _, m := range c.VolumeMounts {
			if strings.HasPrefix(m.MountPath, "/etc/calico/confd") {
				why = append(why, fmt.Sprintf("calico-node has templates of its own for BIRD (%s)", m.MountPath))
			}
		}
	}
	switch {
	case r.Status != OK:
		return r
	case f.object.Spec.Rollout.Gate == v1alpha1.GateTimer:
	case len(f.reporter.lacking) > 0:
		return fail("calico-node may not report its sessions: its service account lacks %s", strings.Join(named(f.reporter.lacking), ", ")).
			do("give its ClusterRole these rights: without reports every step waits for ever").reason(reason.SessionTimeout)
	case f.reporter.hidden != "":
		return unseen("whether calico-node may report its sessions", f.reporter.hidden)
	}
	if len(why) == 0 {
		return r
	}
	return warn("sessions can be observed, and routes perhaps not: Calico's reporter fails where it does not know the protocol of a route").also(why...).
		do("nothing: where it fails rrpool goes by the sessions alone, and says so")
}

// illegible: what calico-node reports in words that are not known keeps every gate shut.
func illegible(f facts) *Result {
	var unread []string
	all := f.snapshot.Cluster.Statuses
	for _, node := range slices.Sorted(maps.Keys(all)) {
		for _, text := range slices.Concat(all[node].Unread, all[node].UnreadRoutes) {
			unread = append(unread, node+": "+text)
		}
	}
	if len(unread) == 0 {
		return nil
	}
	return unknown("calico-node reports what rrpool cannot read, so whether sessions are up and routes are there is not known; steps wait").
		also(unread[:min(len(unread), 10)]...).do("upgrade rrpool, or report these texts; rrpool rollback --help tells how to go back")
}

// passwords: what calico-node cannot read keeps sessions down.
func passwords(f facts) *Result {
	var names []string
	var hidden *Result
	for _, p := range f.passwords {
		what := fmt.Sprintf("Secret %s, key %s (%s)", p.Name, p.Key, p.field)
		switch {
		case p.secret.hidden == "" && len(bytes.TrimSpace(p.secret.value.Data[p.Key])) == 0:
			return fail("the password of the sessions is missing: %s has no value, or does not exist in calico-node's namespace", what).
				do("store it there, or correct the field: sessions cannot come up without it")
		case len(p.reader.lacking) > 0:
			return fail("calico-node may not read the password of the sessions: %s", what).
				do("give its service account a Role to get, list and watch that Secret")
		case p.secret.hidden != "" || p.reader.hidden != "":
			hidden = unseen("the password of the sessions, "+what+",", cmp.Or(p.secret.hidden, p.reader.hidden))
		}
		names = append(names, what)
	}
	switch {
	case hidden != nil:
		return hidden
	case len(names) == 0:
		return fine("sessions have no password")
	}
	return fine("the password of the sessions is there, and calico-node may read it: %s", strings.Join(names, ", "))
}

// asNumbers: route reflection is iBGP, so all nodes have to share one AS number.
func asNumbers(f facts) *Result {
	of := map[uint32][]string{}
	for _, n := range clients(f) {
		as := cmp.Or(n.ASN, f.snapshot.Cluster.BGP.ASN)
		of[as] = append(of[as], n.Name)
	}
	var parts []string
	for _, as := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, fmt.Sprintf("AS %d: %s", as, plan.Few(of[as])))
	}
	switch len(of) {
	case 0:
		return nil
	case 1:
		return fine("all nodes have one AS number")
	}
	return fail("nodes have %d different AS numbers, and route reflectors need one for all", len(of)).also(parts...).also(f.meshOff()...).see(reason.MixedASNumbers)
}

// addresses: sessions need one of each node's own.
func addresses(f facts) *Result {
	nodes := f.snapshot.Cluster.Nodes
	var clash, unreachable, former, apart []string
	why, refuses := plan.Unreachable(nodes), warn // where reflectors are, or the mesh is off, the manager goes on
	if f.snapshot.Cluster.BGP.MeshOn() && rollout.Starting(f.snapshot.Cluster) {
		refuses = fail
	}
	ready, all := plan.SharedAddresses(nodes, plan.Usable), plan.SharedAddresses(nodes, plan.Node.SpeaksBGP)
	for _, a := range slices.SortedFunc(maps.Keys(all), netip.Addr.Compare) {
		if names := ready[a]; len(names) > 0 {
			clash = append(clash, fmt.Sprintf("%s: %s", a, plan.Few(names)))
			continue
		}
		former = append(former, fmt.Sprintf("%s: %s", a, plan.Few(all[a])))
	}
	for _, n := range nodes {
		for _, a := range n.Addresses {
			if what := why(a); what != "" && plan.Usable(n) {
				unreachable = append(unreachable, fmt.Sprintf("%s of node %s %s", a, n.Name, what))
			}
		}
	}
	for _, n := range plan.WithUnexpectedAddress(nodes) {
		apart = append(apart, fmt.Sprintf("%s: %s", n.Name, n.Addresses[0]))
	}
	switch {
	case !slices.ContainsFunc(nodes, plan.Node.SpeaksBGP):
		return nil
	case len(clash) > 0:
		return refuses("several Ready nodes have one BGP address").also(clash...).see(reason.SharedBGPAddress)
	case len(unreachable) > 0:
		return refuses("no other node can have a session with the BGP address of %s", iostreams.Number(len(unreachable), "node")).also(unreachable...).see(reason.UnusableBGPAddress)
	case len(former) > 0:
		return warn("nodes that are not Ready have the BGP address of another").also(former...).
			do("kubectl delete node those of hosts that are gone or bear another name: a node that shares its address does not become a route reflector")
	case len(apart) > 0:
		return warn("the BGP address of %s is none of its own in Kubernetes, as most nodes' are: %s", iostreams.Number(len(apart), "node"), plan.Few(apart)).
			do("look whether calico-node has taken that of the right interface: IP_AUTODETECTION_METHOD, or nodeAddressAutodetectionV4 of the operator")
	}
	return fine("each node has a BGP address of its own")
}

// reflectors that rrpool did not make.
func reflectors(f facts) *Result {
	if foreign := f.nodes(func(n plan.Node) bool { return n.ClusterID != "" && !n.IsOurs() }); len(foreign) > 0 {
		return fail("route reflectors that rrpool did not make: %s", plan.Few(foreign)).also(f.meshOff()...).see(reason.ForeignReflector)
	}
	return fine("no node is a route reflector but by rrpool")
}

// peers that are not rrpool's: to routers they are fine, between nodes they are not.
func peers(f facts) *Result {
	var inside, outside, idle, pods, linkLocal []string
	starting := rollout.Starting(f.snapshot.Cluster)
	for _, p := range f.snapshot.Cluster.Peers {
		switch {
		case p.Owned, p.Peering != "":
		case p.Workloads, simulate.PeerAddress(p.PeerIP).IsLoopback():
			pods = append(pods, p.Name)
		case rollout.Refused(p, f.snapshot.Cluster.Nodes, starting):
			inside = append(inside, p.Name)
			if why := rollout.Idle(p, f.snapshot.Cluster.Nodes, f.object.Spec.BGP.NodeLabel); why != "" {
				idle = append(idle, p.Name+" makes no sessions now: "+why)
			}
		case simulate.PeerAddress(p.PeerIP).Is6() && simulate.PeerAddress(p.PeerIP).IsLinkLocalUnicast():
			linkLocal = append(linkLocal, p.Name+": "+plan.Plain(p.PeerIP, 64))
		default:
			outside = append(outside, p.Name)
		}
	}
	switch {
	case len(inside) > 0:
		return fail("BGPPeers between nodes of this cluster that are not rrpool's: %s", plan.Few(inside)).also(idle...).also(f.meshOff()...).see(reason.ForeignInClusterPeer)
	case len(linkLocal) > 0:
		return warn("BGPPeers have a link-local address: Calico takes none with an interface, and BIRD for IPv6 refuses its whole configuration for one without").
			also(linkLocal...).do("give such a BGPPeer another address of its router: where BIRD refuses its configuration, no change of rrpool's arrives")
	case len(outside) > 0:
		return fine("BGPPeers that are not rrpool's lead out of the cluster, and are left alone: %s", plan.Few(append(outside, pods...)))
	case len(pods) > 0:
		return fine("BGPPeers that are not rrpool's connect a node with itself or pods of its own, and are left alone: %s", plan.Few(pods))
	}
	return fine("no BGPPeers but rrpool's")
}

// peerings: what is wrong with ClusterPeerings, and what is left of those that are gone.
func peerings(f facts) *Result {
	if f.peerings.hidden != "" {
		return unseen("ClusterPeerings", f.peerings.hidden)
	}
	known, bad := map[string]bool{}, []string{}
	for i := range f.peerings.value.Items {
		o := &f.peerings.value.Items[i]
		known[o.Name] = true
		if ready := status.PeeringReady(o); ready.Status != metav1.ConditionTrue {
			bad = append(bad, fmt.Sprintf("%s: %s: %s", o.Name, ready.Reason, ready.Message))
		}
	}
	switch bad = append(bad, strayPeers(f.snapshot.Cluster, known)...); {
	case len(bad) > 0:
		r := warn("ClusterPeerings have %s", iostreams.Number(len(bad), "problem")).also(bad...).do("see what each reason means:")
		r.Link = plan.Docs + "peering.md#conditions-and-reasons"
		return r
	case len(known) > 0:
		return fine("%s: all sessions are Established", iostreams.Number(len(known), "ClusterPeering"))
	}
	return nil
}

// strayPeers are BGPPeers of ClusterPeerings that have no reflector here, or no ClusterPeering.
func strayPeers(c plan.Cluster, known map[string]bool) (out []string) {
	for _, p := range c.Peers {
		reflects := func(n plan.Node) bool { return n.Name == p.Node && n.HasRoleLabel && n.ClusterID != "" }
		switch {
		case p.Peering == "":
		case !known[p.Peering]:
			out = append(out, fmt.Sprintf("BGPPeer %s is left of ClusterPeering %s, which is not there", p.Name, p.Peering))
		case !slices.ContainsFunc(c.Nodes, reflects):
			out = append(out, fmt.Sprintf("%s: its BGPPeer %s is of node %s, which is no route reflector", p.Peering, p.Name, p.Node))
		}
	}
	return out
}

// outside are the BGPPeers of others to routers, those of them that on the mesh no node has, those whose routers are clients of route
// reflectors, and those by which these announce what they learn with themselves as the next hop.
func outside(f facts) (all, only, members, shared []string) {
	c := f.snapshot.Cluster
	reflectors, own := labelled(clients(f), true), c.BGP.ASN
	if len(reflectors) > 0 { // all have the same
		own = cmp.Or(reflectors[0].ASN, own)
	}
	ordinary := labelled(slices.DeleteFunc(clients(f), func(n plan.Node) bool { return n.Pooled && f.iks() }), false)
	selects := func(p plan.Peer, nodes []plan.Node) bool {
		return simulate.Selects(p, nodes, f.object.Spec.BGP.NodeLabel)
	}
	for _, p := range c.Peers {
		if p.Owned || p.Peering != "" || p.Workloads || rollout.InCluster(p, c.Nodes) {
			continue
		}
		all = append(all, p.Name)
		switch reflects := selects(p, reflectors); {
		case reflects && !selects(p, ordinary):
			only = append(only, p.Name)
		case reflects && p.ASN == cmp.Or(p.LocalASN, own):
			if members = append(members, p.Name); p.SelfNextHop {
				members[len(members)-1] += " (by its nextHopMode packets to all pods come through the route reflectors)"
			}
		case reflects && !p.KeepNextHop:
			shared = append(shared, p.Name)
		}
	}
	return all, only, members, shared
}

// labelled gives the nodes the role label, or none of them.
func labelled(nodes []plan.Node, role bool) []plan.Node {
	for i := range nodes {
		nodes[i].HasRoleLabel = role
	}
	return nodes
}

// routers: what a router outside learns changes where its sessions are with route reflectors.
func routers(f facts) *Result {
	all, only, members, shared := outside(f)
	services, single := f.snapshot.Cluster.BGP.Services, []string{}
	for _, r := range services {
		if r.IsSingleIP() {
			single = append(single, r.String())
		}
	}
	switch {
	case len(only) > 0:
		return warn("BGPPeers select route reflectors only, so on the mesh their routers learn nothing: %s", plan.Few(only)).do("let them select other nodes as well")
	case len(single) > 0 && len(shared) > 0:
		return warn("route reflectors pass on single addresses of serviceLoadBalancerIPs with themselves as the next hop: BGPPeers %s, addresses %s",
			plan.Few(shared), plan.Few(single)).do("set keepOriginalNextHop: true in the BGPPeers, or the nodeSelector !has(%s)", f.object.Spec.BGP.NodeLabel)
	case len(members) > 0:
		return warn("routers with the AS number of the nodes become clients of nodes that become route reflectors: that session restarts once, and they "+
			"learn the routes to all pods by it: BGPPeers %s", plan.Few(members)).
			do("nothing, if they may learn these; else give the BGPPeers the nodeSelector !has(%s)", f.object.Spec.BGP.NodeLabel)
	case len(all) > 0 && len(services) > 0:
		return fine("routers outside learn services from the nodes that have them: %s", plan.Few(all))
	}
	return nil
}

// routes: who writes the routes to pods into the kernel.
func routes(f facts) *Result {
	r := f.snapshot.Cluster.Routes
	if r.Unknown != "" {
		return unseen("who programs the routes to pods", r.Unknown).reason(reason.RoutesUnknown)
	}
	bird, felix, disputed, doubtful := programmed(r.Pools)
	outside, marked := f.snapshot.Cluster.NotPassed()
	refuses := warn
	if rollout.Starting(f.snapshot.Cluster) {
		refuses = fail
	}
	switch {
	case len(marked) > 0 && !r.BGPUnused():
		return refuses("route reflectors do not pass on %s of nodes with the community NO_ADVERTISE, or one that cannot be read", iostreams.Number(len(marked), "block")).
			also(marked[:min(len(marked), 10)]...).see(reason.BlocksMarkedNoAdvertise)
	case len(outside) > 0 && !r.BGPUnused():
		return refuses("route reflectors do not pass on %s of nodes that are in no IPPool", iostreams.Number(len(outside), "block")).
			also(outside[:min(len(outside), 10)]...).see(reason.BlocksOutsideIPPools)
	case len(r.Pools) == 0:
		return note("who programs the routes to pods cannot be seen: no IPPool is enabled for workloads")
	case len(disputed) > 0 && r.BGPUnused() && !f.begun():
		return fail("neither Felix nor BIRD programs the routes to the pods of %s", iostreams.Number(len(disputed), "IPPool")).also(disputed...).see(reason.NoRoutesOverBGP)
	case len(disputed) > 0:
		return warn("both or neither of Felix and BIRD program the routes to the pods of %s", iostreams.Number(len(disputed), "IPPool")).also(disputed...).
			do("let programClusterRoutes of FelixConfiguration default and of BGPConfiguration default complement each other")
	case r.BGPUnused() && !f.begun():
		return fail("%s: route reflectors would change nothing for them", r.BGPUnusedReason()).also(felix...).also(bird...).see(reason.NoRoutesOverBGP)
	case r.BGPUnused():
		return warn("%s: the route reflectors change nothing for them", r.BGPUnusedReason()).also(felix...).also(bird...).
			do("go back to the mesh: rrpool has a use only where BGP carries routes to pods")
	case len(doubtful) > 0:
		return unknown("who programs the routes to the pods of %s is not known", iostreams.Number(len(doubtful), "IPPool")).also(doubtful...).also(felix...).also(bird...).
			do("nothing, if you know that BIRD does: only then route reflectors matter for these pods")
	case len(felix) > 0:
		return warn("Felix programs the routes to the pods of %s, not BGP: route reflectors matter for the others only", iostreams.Number(len(felix), "IPPool")).
			also(felix...).also(bird...).do("nothing, if you know that")
	}
	return fine("BGP carries the routes to pods").also(bird...)
}

// begun: the cluster is on route reflectors of rrpool, or on the way.
func (f facts) begun() bool {
	return f.snapshot.Cluster.BGP.Saved != nil || len(f.nodes(plan.Node.IsOurs)) > 0
}

// programmed are the pools whose routes BIRD alone programs, or that BGP does not export, which changes nothing, Felix alone, both or neither, and those of which it is not known.
func programmed(pools []plan.PoolRoutes) (bird, felix, disputed, doubtful []string) {
	for _, p := range pools {
		switch text := p.String(); {
		case p.Unknown != "":
			doubtful = append(doubtful, text)
		case p.NotExported && !p.Felix:
			bird = append(bird, text)
		case p.BIRD == p.Felix:
			disputed = append(disputed, text)
		case p.BIRD:
			bird = append(bird, text)
		default:
			felix = append(felix, text)
		}
	}
	return bird, felix, disputed, doubtful
}
