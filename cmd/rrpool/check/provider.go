package check

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
	"github.com/rrpool/rrpool/controllers/plan/selection"
)

// meshIsFine is the number of nodes below which the mesh is no problem.
const meshIsFine = 100

// clients returns the nodes that speak BGP, which route reflectors would serve.
func clients(f facts) []plan.Node {
	return slices.DeleteFunc(slices.Clone(f.snapshot.Cluster.Nodes), func(n plan.Node) bool { return !n.SpeaksBGP() })
}

func size(f facts) *Result {
	switch n := len(clients(f)); {
	case n == 0:
		return nil // check bgp reports that no node speaks BGP
	case n < meshIsFine:
		return note("nodes that speak BGP: %d; up to about %d the mesh is fine as well", n, meshIsFine)
	default:
		return fine("nodes that speak BGP: %d", n)
	}
}

func zones(f facts) *Result {
	in := map[string]int{}
	for _, n := range clients(f) {
		in[n.Zone]++
	}
	var parts []string
	for _, zone := range slices.Sorted(maps.Keys(in)) {
		parts = append(parts, fmt.Sprintf("%s (%d)", cmp.Or(zone, "none"), in[zone]))
	}
	switch {
	case len(in) == 0:
		return nil
	case in[""] > 0:
		without := f.nodes(func(n plan.Node) bool { return n.SpeaksBGP() && n.Zone == "" })
		return warn("nodes without the zone label %s, which count as one zone: %s", f.object.Spec.Topology.ZoneLabel, plan.Few(without)).
			do("label them, or say with spec.topology.zoneLabel which label has the zone; in a cluster of one place there is nothing to do")
	case len(parts) == 1:
		return warn("all nodes are in one zone, %s: when it is gone, so are all route reflectors", parts[0]).
			do("nothing, if the cluster is to have one zone")
	}
	return fine("%d zones: %s", len(parts), plan.Few(parts))
}

// eligible checks that enough existing nodes can be route reflectors, and at least one more as a replacement.
func eligible(f facts) *Result {
	nodes, d, speaking := f.snapshot.Cluster.Nodes, f.snapshot.Desired, len(clients(f))
	if speaking == 0 {
		return nil
	}
	rules := selection.Rules{PerZone: d.Pool.SizePerZone, Zones: d.Pool.Zones, Preferred: d.Preferred, Excluded: d.Excluded}.Of(nodes)
	want := rules.Total()
	if want == 0 {
		return note("how many route reflectors are wanted is not decided: mode %s, or a spec that is refused", f.object.Spec.Mode)
	}
	var unfit []string
	for _, n := range nodes {
		if !rules.Counts(n) && !rules.Eligible(n) {
			unfit = append(unfit, fmt.Sprintf("%s (%s)", n.Name, cmp.Or(rules.Unfit(n), "it is not Ready")))
		}
	}
	able, others := len(nodes)-len(unfit), []string{}
	if len(unfit) > 0 {
		others = append(others, "those that cannot: "+plan.Few(unfit))
	}
	switch {
	case speaking <= want:
		return fail("%d route reflectors are wanted of %d nodes that speak BGP: no node would be left as their client", want, speaking).also(others...).
			reason(reason.TooFewNodes).do("add nodes, or lower spec.sizing.min or spec.sizing.minPerZone")
	case able < want:
		return fail("%d of %d nodes can be route reflectors, and %d are wanted", able, len(nodes), want).also(others...).
			reason("AwaitNodes").do("repair or add nodes, or lower spec.sizing.min")
	case able == want:
		return warn("%d nodes can be route reflectors, and that many are wanted: none could take the place of one that fails", able).also(others...).
			do("add a node, or repair those named")
	}
	return fine("%d nodes can be route reflectors, and %d are wanted", able, want)
}

// provider checks where route reflectors come from, and whether IBM Cloud answers.
func provider(f facts) *Result {
	spec, p := f.object.Spec, f.snapshot.Pool
	switch problem := f.snapshot.ProviderProblem; {
	case problem != nil:
		return f.unavailable(*problem)
	case !f.iks():
		return fine("route reflectors are nodes that are there already (spec.provider.type: %s)", spec.Provider.Type)
	case p == nil && spec.Provider.IKS.Credentials.TrustedProfile != (v1alpha1.TrustedProfile{}):
		return note("route reflectors are workers of IBM Cloud Kubernetes Service, which was not asked: only the manager's pods have the token of its trusted profile").
			also("what IBM Cloud answers the manager is in condition ProviderReady: rrpool status")
	case p == nil:
		return note("route reflectors are workers of IBM Cloud Kubernetes Service, which was not asked: nothing depends on it in mode %s", spec.Mode)
	case !p.Exists:
		return fine("route reflectors are workers of IBM Cloud Kubernetes Service, which answers: no worker pool has the name %s yet, and rrpool would order it (flavor %s)", p.Name, cmp.Or(p.Flavor, "unknown")).
			also("whether zones, subnets and options can be had, whether the key may order workers, and how many more the account may have, is known only when rrpool orders them")
	}
	return fine("route reflectors are workers of IBM Cloud Kubernetes Service, which answers: worker pool %s is rrpool's, with %s", p.Name, iostreams.Number(len(p.Workers), "worker"))
}

// unavailable returns the result for a problem of the provider. It is an error only
// if the manager stops at the problem: some problems pass, or are only this user's.
func (f facts) unavailable(p plan.Problem) *Result {
	switch {
	case p.Reason == reason.CredentialsMissing && f.pre:
		return note("the IBM Cloud API key is not there yet: %s", p.Message)
	case p.Reason == reason.CredentialsUnreadable, !f.iks() && p.Reason == reason.CloudUnauthorized:
		return unseen("where route reflectors come from", p.Message).reason(p.Reason)
	case p.Reason == reason.CloudUnavailable && f.object.Spec.Provider.IKS.Endpoint == v1alpha1.EndpointPrivate:
		return unseen("whether IBM Cloud answers", p.Message).reason(p.Reason).
			do("private endpoints can be reached from IBM's network only: run this in the cluster's network")
	case f.snapshot.Stops() == nil:
		return warn("%s: %s", p.Reason, p.Message).see(p.Reason)
	}
	return refusal(p)
}

// updatesConfig is the ConfigMap that limits how many workers of a classic
// cluster IBM updates at once. A limit applies to the nodes with a label.
const updatesConfig = "ibm-cluster-update-configuration"

// classic reports whether a node has the label of IBM's classic infrastructure.
func (f facts) classic() bool {
	return f.iks() && slices.ContainsFunc(f.snapshot.Cluster.Nodes, func(n plan.Node) bool { return n.Labels["ibm-cloud.kubernetes.io/iaas-provider"] == "softlayer" })
}

// updates checks that an update of all workers takes one reflector at a time.
// As IBM may round up, the percentage must not exceed one worker of the pool.
func updates(f facts) *Result {
	type rule struct {
		MaxUnavailablePercentage           int
		NodeSelectorKey, NodeSelectorValue string
	}
	config, name, size := f.updates, f.object.Spec.Provider.IKS.PoolName, 3
	if p := f.snapshot.Pool; p != nil {
		size = max(size, len(p.Workers))
	}
	if config.hidden != "" {
		return unseen("how many workers IBM updates at once", config.hidden)
	}
	for _, text := range config.value.Data {
		var r rule
		if json.Unmarshal([]byte(text), &r) == nil && r.NodeSelectorKey == v1alpha1.PoolLabel && r.NodeSelectorValue == name && r.MaxUnavailablePercentage*size <= 100 {
			return fine("an update takes the workers of pool %s one at a time", name)
		}
	}
	ours, _ := json.Marshal(rule{100 / size, v1alpha1.PoolLabel, name}) //nolint:errchkjson // strings and a number
	return warn("an update of all workers (ibmcloud ks worker update) takes up to a fifth of them at once, all route reflectors among them").
		do("limit it to one worker of the pool at a time, by a key rrpool.json of ConfigMap kube-system/%s: %s; a reload of workers ignores that, so reload them one by one", updatesConfig, ours)
}
