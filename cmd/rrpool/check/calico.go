package check

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/controllers/plan"
)

// sinceReports is the first Calico that has CalicoNodeStatus.
var sinceReports = version.MustParseGeneric("3.21")

func present(f facts) *Result {
	if f.snapshot == nil {
		return unseen("Calico's BGP", lookFirst)
	}
	if p := f.problem("CalicoNotInstalled"); p != nil {
		return fail("%s", p.Message).reason(p.Reason).do("install Calico with the Kubernetes datastore")
	}
	return fine("Calico is there: the API has its BGPPeers and BGPConfigurations")
}

// datastoreVariable names for calico-node where Calico keeps its objects; without it that is etcd.
const datastoreVariable = "DATASTORE_TYPE"

func datastore(f facts) *Result {
	store, known := "", false
	if f.calico.nodes.found {
		for _, c := range f.calico.nodes.value.Spec.Template.Spec.Containers {
			for _, variable := range c.Env {
				if variable.Name == datastoreVariable && variable.ValueFrom == nil {
					store, known = variable.Value, true
				}
			}
		}
	}
	switch {
	case known && store != "kubernetes":
		return fail("calico-node keeps its objects elsewhere: %s is %q", datastoreVariable, store).
			do("rrpool needs Calico's Kubernetes datastore")
	case known:
		return fine("Calico uses the Kubernetes datastore")
	case f.calico.version.found:
		return fine("Calico uses the Kubernetes datastore: its ClusterInformation is there")
	}
	return unseen("which datastore Calico uses", fmt.Sprintf("neither calico-node's %s nor a ClusterInformation says", datastoreVariable)).
		do("rrpool needs Calico's Kubernetes datastore")
}

func calicoVersion(f facts) *Result {
	v := f.calico.version
	switch {
	case v.hidden != "":
		return unseen("Calico's version", v.hidden)
	case !v.found:
		return unseen("Calico's version", "there is no ClusterInformation default, which calico-node writes when it starts")
	}
	is, err := version.ParseGeneric(v.value)
	switch {
	case err != nil:
		return unseen("Calico's version", fmt.Sprintf("its ClusterInformation says %q", v.value))
	case !is.LessThan(sinceReports):
		return fine("Calico %s", v.value)
	case f.timer():
		return fine("Calico %s, and spec.rollout.gate is Timer: sessions are not observed", v.value)
	}
	return warn("Calico %s is older than %s: BGP sessions cannot be observed", v.value, sinceReports).
		do("upgrade Calico, or set spec.rollout.gate: Timer, with which fixed waits stand in for proof")
}

// calicoNodeLabel marks calico-node's DaemonSet in every way to install Calico.
const calicoNodeLabel = "calico-node"

// calicoNamespaces are where calico-node is: by manifest, and by the operator.
var calicoNamespaces = []string{"calico-system", "kube-system"}

func calicoNode(f facts) *Result {
	d := f.calico.nodes
	switch {
	case d.hidden != "":
		return unseen("calico-node", d.hidden)
	case !d.found:
		return warn("there is no DaemonSet with the label k8s-app=%s in %s", calicoNodeLabel, strings.Join(calicoNamespaces, " or ")).
			do("if calico-node runs elsewhere there is nothing to do")
	}
	want, ready, where := d.value.Status.DesiredNumberScheduled, d.value.Status.NumberReady, d.value.Namespace+"/"+d.value.Name
	remedy := fmt.Sprintf("kubectl --namespace %s get pods --selector k8s-app=%s --output wide", d.value.Namespace, calicoNodeLabel)
	switch {
	case want == 0:
		return warn("%s runs nowhere", where).do("%s", remedy)
	case ready == 0:
		return fail("calico-node is Ready on none of %d nodes (%s)", want, where).do("%s", remedy)
	case ready < want:
		return warn("calico-node is Ready on %d of %d nodes (%s): steps wait for the others", ready, want, where).do("%s", remedy)
	}
	return fine("calico-node is Ready on all %d nodes (%s)", want, where)
}

func nodeStatus(f facts) *Result {
	r := f.calico.reports
	switch {
	case r.hidden != "":
		return unseen("CalicoNodeStatus", r.hidden)
	case r.found:
		return fine("the API has CalicoNodeStatus, by which sessions are observed")
	case f.timer():
		return fine("the API has no CalicoNodeStatus, and spec.rollout.gate is Timer: fixed waits stand in for proof")
	}
	return fail("the API has no CalicoNodeStatus, so BGP sessions cannot be observed").reason("NodeStatusCRDMissing").
		do("upgrade Calico to %s or later, or set spec.rollout.gate: Timer", sinceReports)
}

func mesh(f facts) *Result {
	bgp := f.snapshot.Cluster.BGP
	switch {
	case bgp.MeshOn():
		return fine("the node-to-node mesh is on")
	case bgp.Saved != nil || bgp.SavedAbsent:
		return fine("the node-to-node mesh is off, by rrpool, which has kept how it was")
	}
	return warn("the node-to-node mesh is off, and not by rrpool: routes depend on the BGPPeers that are there").
		do("switch it on before the migration: kubectl patch bgpconfigurations.crd.projectcalico.org default --type=merge -p '{\"spec\":{\"nodeToNodeMeshEnabled\":true}}'")
}

func speaking(f facts) *Result {
	if p := f.problem("BGPDisabled"); p != nil {
		return fail("%s", p.Message).reason(p.Reason).do("enable BGP, or keep the cluster as it is: without BGP it has no use for route reflectors")
	}
	silent := f.nodes(func(n plan.Node) bool { return !n.SpeaksBGP() && n.Ready })
	switch {
	case len(f.snapshot.Cluster.Nodes) == 0:
		return fail("the cluster has no nodes").do("add some")
	case len(silent) > 0:
		return warn("%s no BGP address: %s", count(len(silent), "Ready node has", "Ready nodes have"), iostreams.Few(silent)).
			do("look at calico-node there; such a node gets no session, and is left out")
	}
	return fine("BGP is enabled: every Ready node has a BGP address")
}

// passwords: what calico-node cannot read keeps sessions down.
func passwords(f facts) *Result {
	var names []string
	var hidden *Result
	for _, p := range f.calico.passwords {
		what := fmt.Sprintf("Secret %s, key %s (%s)", p.Name, p.Key, p.field)
		switch {
		case p.filled.hidden != "":
			hidden = unseen("the password of the sessions, "+what+",", p.filled.hidden)
		case !p.filled.found:
			return fail("the password of the sessions is missing: %s does not exist in calico-node's namespace", what).
				do("create it there, or correct the field: sessions cannot come up without it")
		case !p.filled.value:
			return fail("the password of the sessions is missing: %s has no value", what).
				do("fill it in, or correct the field: sessions cannot come up without it")
		case p.readable.hidden != "":
			hidden = unseen("whether calico-node may read the password of the sessions, "+what+",", p.readable.hidden)
		case !p.readable.value:
			return fail("calico-node may not read the password of the sessions: %s", what).
				do("give its service account a Role to get, list and watch that Secret")
		default:
			names = append(names, what)
		}
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
	for _, n := range f.snapshot.Cluster.Nodes {
		if n.SpeaksBGP() {
			as := cmp.Or(n.ASN, f.snapshot.Cluster.BGP.ASN)
			of[as] = append(of[as], n.Name)
		}
	}
	var parts []string
	for _, as := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, fmt.Sprintf("AS %d: %s", as, iostreams.Few(of[as])))
	}
	switch len(of) {
	case 0:
		return nil
	case 1:
		return fine("all nodes have AS number %d", slices.Collect(maps.Keys(of))[0])
	}
	return fail("nodes have %d different AS numbers, and route reflectors need one for all", len(of)).also(parts...).
		reason("MixedASNumbers").do("remove the nodes' own AS numbers, or keep the mesh")
}

// reflectors that rrpool did not make.
func reflectors(f facts) *Result {
	var foreign []string
	ours := 0
	for _, n := range f.snapshot.Cluster.Nodes {
		switch {
		case n.ClusterID == "":
		case n.Marked || n.Pooled:
			ours++
		default:
			foreign = append(foreign, fmt.Sprintf("%s (cluster ID %s)", n.Name, n.ClusterID))
		}
	}
	switch {
	case len(foreign) > 0:
		return fail("%s already, and not by rrpool: %s", count(len(foreign), "node is a route reflector", "nodes are route reflectors"), iostreams.Few(foreign)).
			reason("ForeignReflector").do("remove their routeReflectorClusterID and the BGPPeers that belong to it, or keep your own reflection")
	case ours > 0:
		return fine("%s, by rrpool", count(ours, "node is a route reflector", "nodes are route reflectors"))
	}
	return fine("no node is a route reflector yet")
}

// peers that are not rrpool's: to routers they are fine, between nodes they are not.
func peers(f facts) *Result {
	var inside, outside []string
	for _, p := range f.snapshot.Cluster.Peers {
		switch {
		case p.Owned:
		case between(p, f.snapshot.Cluster.Nodes):
			inside = append(inside, p.Name)
		default:
			outside = append(outside, p.Name)
		}
	}
	switch {
	case len(inside) > 0:
		return fail("%s sessions between nodes of this cluster: %s", count(len(inside), "BGPPeer that is not rrpool's makes", "BGPPeers that are not rrpool's make"), iostreams.Few(inside)).
			reason("ForeignInClusterPeer").do("delete them (kubectl get bgppeers.crd.projectcalico.org), or set spec.mode: Paused and keep your own route reflection")
	case len(outside) > 0:
		return fine("%s: %s", count(len(outside), "BGPPeer that is not rrpool's leads out of the cluster, and is left alone", "BGPPeers that are not rrpool's lead out of the cluster, and are left alone"), iostreams.Few(outside))
	}
	return fine("no BGPPeers but rrpool's")
}

// between reports whether a BGPPeer is between nodes of the cluster, as the manager does.
func between(p plan.Peer, nodes []plan.Node) bool {
	if p.PeerSelector != "" {
		return true
	}
	addr, err := netip.ParseAddr(p.PeerIP)
	if at, atErr := netip.ParseAddrPort(p.PeerIP); err != nil && atErr == nil {
		addr, err = at.Addr(), nil
	}
	return err == nil && slices.ContainsFunc(nodes, func(n plan.Node) bool { return slices.Contains(n.Addresses, addr) })
}

// encapsulation of a pool in words.
func (p ipPool) encapsulation() string {
	on := func(mode string) bool { return mode != "" && mode != "Never" }
	switch {
	case on(p.vxlan):
		return "VXLAN " + p.vxlan
	case on(p.ipip):
		return "IP-in-IP " + p.ipip
	}
	return "not encapsulated"
}

func (p ipPool) inIP() bool { return strings.HasPrefix(p.encapsulation(), "IP-in-IP") }

// byFelix: Felix and not BIRD writes a pool's routes into the kernel, always with VXLAN.
func (p ipPool) byFelix(routes string) bool {
	return strings.HasPrefix(p.encapsulation(), "VXLAN") || p.inIP() && routes == "Enabled"
}

// routes: who writes the routes to pods into the kernel.
func routes(f facts) *Result {
	pools := f.calico.pools
	switch {
	case pools.hidden != "":
		return unseen("who programs the routes to pods", pools.hidden)
	case len(pools.value) == 0:
		return note("who programs the routes to pods cannot be seen: no IPPool is enabled for workloads")
	}
	var bird, felix []string
	for _, p := range pools.value {
		text := fmt.Sprintf("%s: %s", p.cidr, p.encapsulation())
		if p.byFelix(f.calico.routes.value) {
			felix = append(felix, text)
		} else {
			bird = append(bird, text)
		}
	}
	switch {
	case len(bird) == 0:
		return warn("Felix programs the routes to all pods, not BGP: route reflectors would change nothing for them").also(felix...).
			do("keep the mesh: rrpool has a use only where BGP carries routes to pods")
	case len(felix) > 0:
		return warn("Felix programs the routes to the pods of %s, not BGP: route reflectors matter for the others only", count(len(felix), "IPPool", "IPPools")).
			also(felix...).also(bird...).do("nothing, if you know that")
	case f.calico.routes.hidden != "" && slices.ContainsFunc(pools.value, ipPool.inIP):
		return unseen("who programs the routes to pods that are encapsulated", f.calico.routes.hidden).also(bird...)
	}
	return fine("BGP carries the routes to pods").also(bird...)
}

// patience is how long a reporter may take, beyond some of its periods.
const patience = time.Minute

func (r report) fresh(now time.Time) bool {
	return !r.updated.IsZero() && now.Sub(r.updated) <= 3*r.period+patience
}

func (r report) dead(now time.Time) bool {
	return r.updated.IsZero() && now.Sub(r.touched) > 3*r.period+patience
}

// reporter: calico-node writes a report when there is something new to say, so an old one
// proves nothing, but one that stays blank does.
func reporter(f facts) *Result {
	ready := map[string]bool{}
	for _, n := range f.snapshot.Cluster.Nodes {
		ready[n.Name] = n.Ready
	}
	var all, fresh int
	var dead []string
	for _, report := range f.calico.reports.value {
		if report.period == 0 || !ready[report.node] {
			continue
		}
		all++
		switch {
		case report.dead(f.now):
			dead = append(dead, report.node)
		case report.fresh(f.now):
			fresh++
		}
	}
	switch {
	case all == 0:
		return note("whether calico-node fills in reports cannot be seen: there are none, as rrpool makes them when it begins")
	case len(dead) > 0:
		return fail("calico-node does not fill in the report of %s: %s", count(len(dead), "Ready node", "Ready nodes"), iostreams.Few(dead)).
			do("look at calico-node on these nodes; restart it there if it is Ready")
	case fresh == 0:
		return note("whether calico-node still fills in reports cannot be seen: none of %d is recent, and it writes only when there is news", all)
	}
	return fine("calico-node reports sessions: %d of %d reports are recent", fresh, all)
}
