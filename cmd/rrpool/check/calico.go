package check

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

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

// datastoreVariable is the environment variable of calico-node that names Calico's datastore. The default is etcd.
const datastoreVariable = "DATASTORE_TYPE"

func datastore(f facts) *Result {
	const remedy = "set DATASTORE_TYPE, and with etcdv3 Calico's ETCD_* variables, for rrpool as calico-node has them"
	store, ours, where := f.calicoNodeVariable(datastoreVariable), "kubernetes", "the Kubernetes datastore, with its objects in "+f.snapshot.Cluster.CalicoAPI
	if f.inEtcd() {
		ours, where = calico.EtcdAPI, "an etcd of its own"
	}
	switch information := f.information; {
	case store != "" && store != ours:
		return fail("calico-node keeps its objects elsewhere: its %s is %q, rrpool's is %q", datastoreVariable, store, ours).do(remedy)
	case information.found && isVersion(information.value.Spec.CalicoVersion):
		return fine("Calico %s uses %s", plan.Plain(information.value.Spec.CalicoVersion, 64), where)
	case information.found || f.inEtcd():
		return f.versionUnknown(where)
	case store != "":
		return fine("Calico uses %s", where)
	}
	return unseen("which datastore Calico uses",
		cmp.Or(f.information.hidden, fmt.Sprintf("neither calico-node's %s nor a ClusterInformation says", datastoreVariable))).do(remedy)
}

// calicoNodeVariable returns the value of an environment variable of calico-node, empty if it is not known.
func (f facts) calicoNodeVariable(name string) (value string) {
	if !f.calicoNode.found {
		return ""
	}
	for _, c := range f.calicoNode.value.Spec.Template.Spec.Containers {
		for _, variable := range c.Env {
			if variable.Name == name {
				value = variable.Value
			}
		}
	}
	return value
}

// versionUnknown returns the result if ClusterInformation names no version of Calico. The text where describes the datastore.
func (f facts) versionUnknown(where string) *Result {
	why, remedy, result := cmp.Or(f.information.hidden, "there is no ClusterInformation default"), "rrpool is for Calico 3.21 and later", note
	if f.information.found {
		why = fmt.Sprintf("calicoVersion of ClusterInformation default is %q", f.information.value.Spec.CalicoVersion)
	}
	if f.inEtcd() {
		remedy, result = "with an etcd of its own rrpool needs Calico 3.31 or later", unknown
	}
	return result("Calico uses %s, but which Calico it is, is not known: %s", where, why).do("look at the image of calico-node: %s", remedy)
}

// isVersion reports whether a text begins with a version number.
func isVersion(text string) bool {
	_, err := version.ParseGeneric(text)
	return err == nil
}

// writes checks with dry runs whether the datastore would accept the manager's first writes. The user needs the right to write for that.
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

// inEtcd reports whether rrpool reads Calico's objects in an etcd.
func (f facts) inEtcd() bool { return f.snapshot.Cluster.CalicoAPI == calico.EtcdAPI }

// calicoNodeLabels are the values of the label k8s-app that calico-node's pods have: those of Calico, of Canal, and of Canal by kubespray.
var calicoNodeLabels = []string{"calico-node", "canal", "canal-node"}

// withBIRD is the value of CALICO_NETWORKING_BACKEND that starts BIRD.
const withBIRD = "bird"

// calicoNamespaces are the namespaces in which Calico's operator and its manifests put calico-node.
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
	// The DaemonSet counts only the nodes that it selects. Other nodes may have a BGP address but no calico-node.
	expected, without := f.nodes(needsCalicoNode), f.nodes(func(n plan.Node) bool { return needsCalicoNode(n) && n.CalicoNode.Failing() })
	want, ready := max(d.Status.DesiredNumberScheduled, int32(len(expected))), d.Status.NumberReady //nolint:gosec // G115: nodes of a cluster
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

// needsCalicoNode reports whether steps wait for BGP sessions of the node, for which calico-node has to run there.
func needsCalicoNode(n plan.Node) bool { return n.SpeaksBGP() && n.Ready && n.Reports() }

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
	return meshOffByOthers(f)
}

// meshOffByOthers returns the result if the mesh is off and rrpool has not switched it off.
func meshOffByOthers(f facts) *Result {
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
	return off.do("%s", f.switchMeshOn())
}

// switchMeshOn returns the remedy: how to switch the mesh on, or why the user should not.
func (f facts) switchMeshOn() string {
	if by := rollout.ByAddress(f.snapshot.Cluster, f.object.Spec.BGP.NodeLabel); by != "" {
		return "do not switch it on beside BGPPeer " + by + " and others with a peerIP of nodes: their sessions would end; leave it off, or replace these by BGPPeers with a peerSelector first"
	}
	if f.inEtcd() {
		return `switch it on before anything else: calicoctl patch bgpconfiguration default --patch '{"spec":{"nodeToNodeMeshEnabled":true}}'`
	}
	return fmt.Sprintf(`switch it on before anything else: kubectl patch bgpconfigurations.%s default --type=merge -p '{"spec":{"nodeToNodeMeshEnabled":true}}'`,
		strings.Split(f.snapshot.Cluster.CalicoAPI, "/")[0])
}

// mixed reports whether nodes have different AS numbers.
func (f facts) mixed() bool {
	as := func(n plan.Node) uint32 { return cmp.Or(n.ASN, f.snapshot.Cluster.BGP.ASN) }
	all := clients(f)
	return slices.ContainsFunc(all, func(n plan.Node) bool { return as(n) != as(all[0]) })
}

// meshOff returns a warning if the mesh is off and not by rrpool: as routes
// may depend on the BGPPeers and reflectors of others, these have to stay.
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

// doubtful returns a result if BIRD does not run, or if it is not known whether BIRD runs; otherwise nil.
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

// annotations checks for annotations of nodes that Calico cannot parse and therefore ignores. Such a node lacks, say, its address or AS number.
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

// nodeStatus checks whether calico-node can report sessions and routes. Steps wait for these reports.
func nodeStatus(f facts) *Result {
	r := unless(reason.NodeStatusCRDMissing, "sessions can be observed: the API has CalicoNodeStatus, or spec.rollout.gate is Timer")(f)
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
	why := f.unknownProtocols()
	if len(why) == 0 {
		return r
	}
	return warn("sessions can be observed, and routes perhaps not: Calico's reporter fails where it does not know the protocol of a route").also(why...).
		do("nothing: where it fails rrpool goes by the sessions alone, and says so")
}

// unknownProtocols returns the reasons why nodes may have routes from protocols that Calico's reporter does not know.
func (f facts) unknownProtocols() (why []string) {
	for _, p := range f.snapshot.Cluster.Peers {
		if p.Workloads {
			why = append(why, "BGPPeer "+p.Name+" connects nodes with pods of their own")
		}
	}
	if !f.calicoNode.found {
		return why
	}
	for _, c := range f.calicoNode.value.Spec.Template.Spec.Containers {
		for _, m := range c.VolumeMounts {
			if strings.HasPrefix(m.MountPath, "/etc/calico/confd") {
				why = append(why, fmt.Sprintf("calico-node has templates of its own for BIRD (%s)", m.MountPath))
			}
		}
	}
	return why
}

// illegible checks calico-node's reports for values that rrpool does not know. Steps wait for ever for the sessions or routes with such a value.
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

// passwords checks that calico-node can read the passwords of the sessions.
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

// asNumbers checks that all nodes have the same AS number: route reflection is iBGP.
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

// addresses checks that each node has a BGP address of its own, which the other nodes can reach.
func addresses(f facts) *Result {
	nodes, refuses := f.snapshot.Cluster.Nodes, f.refuses()
	shared, former, unreachable, apart := sharedAddresses(nodes, true), sharedAddresses(nodes, false), unreachableAddresses(nodes), []string(nil)
	for _, n := range plan.WithUnexpectedAddress(nodes) {
		apart = append(apart, fmt.Sprintf("%s: %s", n.Name, n.Addresses[0]))
	}
	switch {
	case !slices.ContainsFunc(nodes, plan.Node.SpeaksBGP):
		return nil
	case len(shared) > 0:
		return refuses("several Ready nodes have one BGP address").also(shared...).see(reason.SharedBGPAddress)
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

// refuses returns fail if the manager refuses to begin a migration because of a problem. On
// reflectors, or with the mesh off, the manager goes on all the same, so it returns warn.
func (f facts) refuses() func(format string, args ...any) *Result {
	if f.snapshot.Cluster.BGP.MeshOn() && rollout.Starting(f.snapshot.Cluster) {
		return fail
	}
	return warn
}

// sharedAddresses lists the BGP addresses that several nodes have. If usable is set,
// several usable nodes have the address, otherwise at most one of these nodes is usable.
func sharedAddresses(nodes []plan.Node, usable bool) (out []string) {
	among, all := plan.SharedAddresses(nodes, plan.Usable), plan.SharedAddresses(nodes, plan.Node.SpeaksBGP)
	for _, a := range slices.SortedFunc(maps.Keys(all), netip.Addr.Compare) {
		switch names := among[a]; {
		case usable && len(names) > 0:
			out = append(out, fmt.Sprintf("%s: %s", a, plan.Few(names)))
		case !usable && len(names) == 0:
			out = append(out, fmt.Sprintf("%s: %s", a, plan.Few(all[a])))
		}
	}
	return out
}

// unreachableAddresses lists the BGP addresses of usable nodes with which no other node can have a session.
func unreachableAddresses(nodes []plan.Node) (out []string) {
	why := plan.Unreachable(nodes)
	for _, n := range nodes {
		for _, a := range n.Addresses {
			if what := why(a); what != "" && plan.Usable(n) {
				out = append(out, fmt.Sprintf("%s of node %s %s", a, n.Name, what))
			}
		}
	}
	return out
}

// reflectors checks that rrpool has made every route reflector.
func reflectors(f facts) *Result {
	if foreign := f.nodes(func(n plan.Node) bool { return n.ClusterID != "" && !n.IsOurs() }); len(foreign) > 0 {
		return fail("route reflectors that rrpool did not make: %s", plan.Few(foreign)).also(f.meshOff()...).see(reason.ForeignReflector)
	}
	return fine("no node is a route reflector but by rrpool")
}

// peers checks the BGPPeers that are not rrpool's: those to routers are fine, those between nodes are an error.
func peers(f facts) *Result {
	by := map[peerKind][]string{}
	var idle []string
	for _, p := range f.snapshot.Cluster.Peers {
		kind, name := f.kindOf(p), p.Name
		switch kind {
		case linkLocal:
			name += ": " + plan.Plain(p.PeerIP, 64)
		case betweenNodes:
			if why := rollout.Idle(p, f.snapshot.Cluster.Nodes, f.object.Spec.BGP.NodeLabel); why != "" {
				idle = append(idle, name+" makes no sessions now: "+why)
			}
		default:
		}
		by[kind] = append(by[kind], name)
	}
	switch {
	case len(by[betweenNodes]) > 0:
		return fail("BGPPeers between nodes of this cluster that are not rrpool's: %s", plan.Few(by[betweenNodes])).also(idle...).also(f.meshOff()...).see(reason.ForeignInClusterPeer)
	case len(by[linkLocal]) > 0:
		return warn("BGPPeers have a link-local address: Calico takes none with an interface, and BIRD for IPv6 refuses its whole configuration for one without").
			also(by[linkLocal]...).do("give such a BGPPeer another address of its router: where BIRD refuses its configuration, no change of rrpool's arrives")
	case len(by[toRouters]) > 0:
		return fine("BGPPeers that are not rrpool's lead out of the cluster, and are left alone: %s", plan.Few(append(by[toRouters], by[toPods]...)))
	case len(by[toPods]) > 0:
		return fine("BGPPeers that are not rrpool's connect a node with itself or pods of its own, and are left alone: %s", plan.Few(by[toPods]))
	}
	return fine("no BGPPeers but rrpool's")
}

// peerKind says what a BGPPeer connects.
type peerKind int

const (
	ofRRPool peerKind = iota
	toPods
	betweenNodes
	linkLocal
	toRouters
)

func (f facts) kindOf(p plan.Peer) peerKind {
	switch addr := simulate.PeerAddress(p.PeerIP); {
	case p.Owned, p.Peering != "":
		return ofRRPool
	case p.Workloads, addr.IsLoopback():
		return toPods
	case rollout.Refused(p, f.snapshot.Cluster.Nodes, rollout.Starting(f.snapshot.Cluster)):
		return betweenNodes
	case addr.Is6() && addr.IsLinkLocalUnicast():
		return linkLocal
	}
	return toRouters
}

// peerings checks the ClusterPeerings, and looks for BGPPeers whose ClusterPeering or reflector is gone.
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

// strayPeers lists the BGPPeers of ClusterPeerings that are left over: the ClusterPeering or the reflector is gone.
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

// routerPeers names the BGPPeers to routers that are not rrpool's: all of them, and those with a problem.
// BGPPeers in only select route reflectors and no other node. Those in members make their routers clients of
// route reflectors. By those in shared, route reflectors announce learned routes with themselves as the next hop.
type routerPeers struct{ all, only, members, shared []string }

// isRouterPeer reports whether a BGPPeer is not rrpool's and connects nodes with something outside of the cluster.
func isRouterPeer(p plan.Peer, nodes []plan.Node) bool {
	return !p.Owned && p.Peering == "" && !p.Workloads && !rollout.InCluster(p, nodes)
}

func (f facts) routerPeers() (out routerPeers) {
	c := f.snapshot.Cluster
	reflectors, own := labelled(clients(f), true), c.BGP.ASN
	if len(reflectors) > 0 { // all have the same AS number
		own = cmp.Or(reflectors[0].ASN, own)
	}
	ordinary := labelled(slices.DeleteFunc(clients(f), func(n plan.Node) bool { return n.Pooled && f.iks() }), false)
	for _, p := range plan.Filter(c.Peers, func(p plan.Peer) bool { return isRouterPeer(p, c.Nodes) }) {
		out.all = append(out.all, p.Name)
		selects := func(nodes []plan.Node) bool { return simulate.Selects(p, nodes, f.object.Spec.BGP.NodeLabel) }
		if !selects(reflectors) {
			continue
		}
		name := p.Name
		if p.SelfNextHop {
			name += " (by its nextHopMode packets to all pods come through the route reflectors)"
		}
		switch {
		case !selects(ordinary):
			out.only = append(out.only, p.Name)
		case p.ASN == cmp.Or(p.LocalASN, own):
			out.members = append(out.members, name)
		case !p.KeepNextHop:
			out.shared = append(out.shared, p.Name)
		}
	}
	return out
}

// labelled sets or removes the role label of all nodes in place, and returns them.
func labelled(nodes []plan.Node, role bool) []plan.Node {
	for i := range nodes {
		nodes[i].HasRoleLabel = role
	}
	return nodes
}

// routers checks the BGPPeers to routers. A router may learn other routes from a route reflector than from the nodes themselves.
func routers(f facts) *Result {
	peers := f.routerPeers()
	services, single := f.snapshot.Cluster.BGP.Services, []string{}
	for _, r := range services {
		if r.IsSingleIP() {
			single = append(single, r.String())
		}
	}
	switch {
	case len(peers.only) > 0:
		return warn("BGPPeers select route reflectors only, so on the mesh their routers learn nothing: %s", plan.Few(peers.only)).do("let them select other nodes as well")
	case len(single) > 0 && len(peers.shared) > 0:
		return warn("route reflectors pass on single addresses of serviceLoadBalancerIPs with themselves as the next hop: BGPPeers %s, addresses %s",
			plan.Few(peers.shared), plan.Few(single)).do("set keepOriginalNextHop: true in the BGPPeers, or the nodeSelector !has(%s)", f.object.Spec.BGP.NodeLabel)
	case len(peers.members) > 0:
		return warn("routers with the AS number of the nodes become clients of nodes that become route reflectors: that session restarts once, and they "+
			"learn the routes to all pods by it: BGPPeers %s", plan.Few(peers.members)).
			do("nothing, if they may learn these; else give the BGPPeers the nodeSelector !has(%s)", f.object.Spec.BGP.NodeLabel)
	case len(peers.all) > 0 && len(services) > 0:
		return fine("routers outside learn services from the nodes that have them: %s", plan.Few(peers.all))
	}
	return nil
}

// routes checks who programs the routes to pods into the kernel.
func routes(f facts) *Result {
	r := f.snapshot.Cluster.Routes
	if r.Unknown != "" {
		return unseen("who programs the routes to pods", r.Unknown).reason(reason.RoutesUnknown)
	}
	if blocks := blocksNotPassed(f); blocks != nil && !r.BGPUnused() {
		return blocks
	}
	return programs(f, r)
}

// programs reports whether Felix or BIRD programs the routes to the pods of each IPPool.
func programs(f facts, r plan.Routes) *Result {
	bird, felix, disputed, doubtful := programmed(r.Pools)
	switch {
	case len(r.Pools) == 0:
		return note("who programs the routes to pods cannot be seen: no IPPool is enabled for workloads")
	case len(disputed) > 0 && r.BGPUnused() && !f.begun():
		return fail("neither Felix nor BIRD programs the routes to the pods of %s", iostreams.Number(len(disputed), "IPPool")).also(disputed...).see(reason.NoRoutesOverBGP)
	case len(disputed) > 0:
		return warn("both or neither of Felix and BIRD program the routes to the pods of %s", iostreams.Number(len(disputed), "IPPool")).also(disputed...).
			do("let programClusterRoutes of FelixConfiguration default and of BGPConfiguration default complement each other")
	case r.BGPUnused():
		return bgpUnused(f).also(felix...).also(bird...)
	case len(doubtful) > 0:
		return unknown("who programs the routes to the pods of %s is not known", iostreams.Number(len(doubtful), "IPPool")).also(doubtful...).also(felix...).also(bird...).
			do("nothing, if you know that BIRD does: only then route reflectors matter for these pods")
	case len(felix) > 0:
		return warn("Felix programs the routes to the pods of %s, not BGP: route reflectors matter for the others only", iostreams.Number(len(felix), "IPPool")).
			also(felix...).also(bird...).do("nothing, if you know that")
	}
	return fine("BGP carries the routes to pods").also(bird...)
}

// bgpUnused returns the result if BGP carries no routes to pods: a warning once a migration has begun, else an error.
func bgpUnused(f facts) *Result {
	why := f.snapshot.Cluster.Routes.BGPUnusedReason()
	if f.begun() {
		return warn("%s: the route reflectors change nothing for them", why).do("go back to the mesh: rrpool has a use only where BGP carries routes to pods")
	}
	return fail("%s: route reflectors would change nothing for them", why).see(reason.NoRoutesOverBGP)
}

// blocksNotPassed returns the result if route reflectors do not pass on the routes to some IPAM blocks, nil if they pass on all.
func blocksNotPassed(f facts) *Result {
	outside, marked := f.snapshot.Cluster.NotPassed()
	refuses := warn
	if rollout.Starting(f.snapshot.Cluster) {
		refuses = fail
	}
	switch {
	case len(marked) > 0:
		return refuses("route reflectors do not pass on %s of nodes with the community NO_ADVERTISE, or one that cannot be read", iostreams.Number(len(marked), "block")).
			also(marked[:min(len(marked), 10)]...).see(reason.BlocksMarkedNoAdvertise)
	case len(outside) > 0:
		return refuses("route reflectors do not pass on %s of nodes that are in no IPPool", iostreams.Number(len(outside), "block")).
			also(outside[:min(len(outside), 10)]...).see(reason.BlocksOutsideIPPools)
	}
	return nil
}

// begun reports whether the cluster is on route reflectors of rrpool, or on its way to them.
func (f facts) begun() bool {
	return f.snapshot.Cluster.BGP.Saved != nil || len(f.nodes(plan.Node.IsOurs)) > 0
}

// programmed sorts the IPPools by who programs their routes: BIRD, Felix, both or neither (disputed), or not known
// (doubtful). If BGP does not export a pool and Felix does not program its routes, the pool counts as BIRD's.
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
