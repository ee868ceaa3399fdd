package check

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/controllers/plan"
)

// sinceReports is the first Calico that has CalicoNodeStatus.
var sinceReports = version.MustParseGeneric("3.21")

func network() group {
	return group{"Calico", []check{
		{"calico", present},
		{"datastore", datastore},
		{"calico-version", calicoVersion},
		{"calico-node", calicoNode},
		{"bgp", speaking},
		{"node-status", nodeStatus},
		{"reporter", reporter},
		{"mesh", mesh},
		{"password", passwords},
		{"as-numbers", asNumbers},
		{"reflectors", reflectors},
		{"peers", peers},
		{"routes", routes},
	}}
}

// withCalico makes a check of what can only be where Calico is.
func withCalico(look func(facts) *Result) func(facts) *Result {
	return func(f facts) *Result {
		if f.snapshot == nil || f.problem("CalicoNotInstalled") != nil {
			return nil
		}
		return look(f)
	}
}

func present(f facts) *Result {
	if f.snapshot == nil {
		return unseen("Calico's BGP", lookFirst)
	}
	if p := f.problem("CalicoNotInstalled"); p != nil {
		return fail("%s", p.Message).reason(p.Reason).do("install Calico with the Kubernetes datastore")
	}
	return fine("Calico is there: the API has its BGPPeers and BGPConfigurations")
}

// datastoreVariable tells calico-node where Calico keeps its objects; without it that is etcd.
const datastoreVariable = "DATASTORE_TYPE"

var datastore = withCalico(func(f facts) *Result {
	store, known := "", false
	for _, c := range containers(f.calico.nodes) {
		for _, variable := range c.Env {
			if variable.Name == datastoreVariable && variable.ValueFrom == nil {
				store, known = variable.Value, true
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
})

var calicoVersion = withCalico(func(f facts) *Result {
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
})

// calicoNodeLabel marks calico-node's DaemonSet in every way to install Calico.
const calicoNodeLabel = "calico-node"

// calicoNamespaces are where calico-node is: by manifest, and by the operator.
var calicoNamespaces = []string{"calico-system", "kube-system"}

var calicoNode = withCalico(func(f facts) *Result {
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
})

var nodeStatus = withCalico(func(f facts) *Result {
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
})

var mesh = withCalico(func(f facts) *Result {
	bgp := f.snapshot.Cluster.BGP
	switch {
	case bgp.MeshOn():
		return fine("the node-to-node mesh is on")
	case bgp.Saved != nil || bgp.SavedAbsent:
		return fine("the node-to-node mesh is off, by rrpool, which has kept how it was")
	}
	return warn("the node-to-node mesh is off, and not by rrpool: routes depend on the BGPPeers that are there").
		do("switch it on before the migration: kubectl patch bgpconfigurations.crd.projectcalico.org default --type=merge -p '{\"spec\":{\"nodeToNodeMeshEnabled\":true}}'")
})

var speaking = withCalico(func(f facts) *Result {
	if p := f.problem("BGPDisabled"); p != nil {
		return fail("%s", p.Message).reason(p.Reason).do("enable BGP, or keep the cluster as it is: without BGP it has no use for route reflectors")
	}
	var silent []string
	nodes := f.snapshot.Cluster.Nodes
	for _, n := range nodes {
		if !n.SpeaksBGP() && n.Ready {
			silent = append(silent, n.Name)
		}
	}
	switch {
	case len(nodes) == 0:
		return fail("the cluster has no nodes").do("add some")
	case len(silent) > 0:
		return warn("%s no BGP address: %s", count(len(silent), "Ready node has", "Ready nodes have"), iostreams.Few(silent)).
			do("look at calico-node there; such a node gets no session, and is left out")
	}
	return fine("BGP is enabled: every Ready node has a BGP address")
})

// asOf is the AS number of a node.
func asOf(n plan.Node, bgp plan.BGPConfig) uint32 {
	if n.ASN != 0 {
		return n.ASN
	}
	return bgp.ASN
}
