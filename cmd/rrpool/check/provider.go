package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/selection"
	"github.com/rrpool/rrpool/controllers/pool"
)

// meshIsFine is the number of nodes up to which the mesh does well.
const meshIsFine = 100

// clients are the nodes that route reflectors would serve.
func clients(f facts) []plan.Node {
	return slices.DeleteFunc(slices.Clone(f.snapshot.Cluster.Nodes), func(n plan.Node) bool { return !n.SpeaksBGP() })
}

func size(f facts) *Result {
	if f.snapshot == nil {
		return unseen("the number of nodes", lookFirst)
	}
	switch n := len(clients(f)); {
	case n == 0:
		return nil // which check bgp says
	case n < meshIsFine:
		return note("%s BGP: up to about %d the mesh is fine as well", count(n, "node speaks", "nodes speak"), meshIsFine)
	default:
		return fine("%d nodes speak BGP", n)
	}
}

func readiness(f facts) *Result {
	if len(f.snapshot.Cluster.Nodes) == 0 {
		return nil
	}
	bad := f.nodes(func(n plan.Node) bool { return !n.Ready })
	if len(bad) > 0 {
		return warn("%s not Ready: %s", count(len(bad), "node is", "nodes are"), iostreams.Few(bad)).
			do("kubectl describe node %s; sessions with it are not waited for until it is Ready", bad[0])
	}
	return fine("all %d nodes are Ready", len(f.snapshot.Cluster.Nodes))
}

func zones(f facts) *Result {
	label, in := f.object.Spec.Topology.ZoneLabel, map[string]int{}
	without := f.nodes(func(n plan.Node) bool { return n.SpeaksBGP() && n.Zone == "" })
	for _, n := range clients(f) {
		in[n.Zone]++
	}
	var parts []string
	for _, zone := range slices.Sorted(maps.Keys(in)) {
		if zone != "" {
			parts = append(parts, fmt.Sprintf("%s (%d)", zone, in[zone]))
		}
	}
	switch {
	case len(in) == 0:
		return nil
	case len(parts) == 0:
		return warn("no node has the zone label %s: all count as one zone, and nothing is spread", label).
			do("label the nodes, or say with spec.topology.zoneLabel which label has the zone; in a cluster of one place there is nothing to do")
	case len(without) > 0:
		return warn("%s the zone label %s: %s", count(len(without), "node lacks", "nodes lack"), label, iostreams.Few(without)).
			also("zones: " + iostreams.Few(parts)).do("label them: nodes without it count as a zone of their own")
	case len(parts) == 1:
		return warn("all nodes are in one zone, %s: when it is gone, so are all route reflectors", parts[0]).
			do("nothing, if the cluster is to have one zone")
	}
	return fine("%d zones: %s", len(parts), iostreams.Few(parts))
}

func kind(f facts) *Result {
	if f.snapshot == nil {
		return unseen("where route reflectors would come from", lookFirst)
	}
	how := ""
	if f.object.Spec.Provider.Type == v1alpha1.ProviderAuto {
		how = ", as spec.provider.type is Auto"
	}
	if f.iks() {
		return fine("route reflectors are workers of IBM Cloud Kubernetes Service%s", how)
	}
	return fine("route reflectors are nodes that are there already%s", how)
}

// eligible: on existing nodes there have to be enough that can reflect, and one more.
func eligible(f facts) *Result {
	if len(clients(f)) == 0 {
		return nil
	}
	d := f.snapshot.Desired
	rules := selection.Rules{PerZone: d.Pool.SizePerZone, Zones: d.Pool.Zones, Preferred: d.Preferred, Excluded: d.Excluded}.Of(f.snapshot.Cluster.Nodes)
	want := rules.Total()
	if want == 0 {
		return note("how many route reflectors are wanted is not decided: mode %s, or a spec that is refused", f.object.Spec.Mode)
	}
	able, unfit := ableOf(f.snapshot.Cluster.Nodes, rules)
	speaking := len(clients(f))
	switch {
	case speaking <= want:
		return fail("%d route reflectors are wanted of %d nodes that speak BGP: no node would be left as their client", want, speaking).also(capped(unfit)...).
			reason("TooFewNodes").do("add nodes, or lower spec.sizing.min or spec.sizing.minPerZone")
	case able < want:
		return fail("%d of %d nodes can be route reflectors, and %d are wanted", able, len(f.snapshot.Cluster.Nodes), want).also(capped(unfit)...).reason("AwaitNodes").
			do("repair or add nodes, or lower spec.sizing.min")
	case able == want:
		return warn("%d nodes can be route reflectors, and that many are wanted: none could take the place of one that fails", able).also(capped(unfit)...).
			do("add a node, or repair those named")
	}
	return fine("%d nodes can be route reflectors, and %d are wanted", able, want)
}

// ableOf counts the nodes that can reflect, and says of the others why not.
func ableOf(nodes []plan.Node, rules selection.Rules) (able int, unfit []string) {
	for _, n := range nodes {
		if rules.Counts(n) || rules.Eligible(n) {
			able++
			continue
		}
		unfit = append(unfit, n.Name+": "+cmp.Or(rules.Unfit(n), "it is not Ready"))
	}
	return able, unfit
}

// chosen: on existing nodes, the state of those that are chosen.
func chosen(f facts) *Result {
	p, problem := f.snapshot.Pool, f.providerProblem()
	reason := problem.Reason
	switch {
	case reason == "CloudUnauthorized":
		return unseen("the state of the chosen nodes", problem.Message).reason(reason) // it is the user who may not
	case reason != "":
		return warn("something is wrong with the chosen nodes: %s", problem.Message).see(reason)
	case p == nil || !p.Exists:
		return nil
	}
	return fine("%s chosen for route reflectors", count(len(p.Workers), "node is", "nodes are"))
}

// capped is few for details.
func capped(lines []string) []string {
	const most = 5
	if len(lines) <= most {
		return lines
	}
	return append(slices.Clone(lines[:most]), fmt.Sprintf("and %d more", len(lines)-most))
}

func credentials(f facts) *Result {
	ref, k := f.object.Spec.Provider.IKS.CredentialsSecretRef, f.provide.key
	create := fmt.Sprintf("kubectl --namespace %s create secret generic %s --from-file=%s=<file with the key>", f.namespace, ref.Name, ref.Key)
	switch {
	case k.hidden != "":
		return unseen("the IBM Cloud API key", k.hidden)
	case !k.found && f.pre:
		return note("the IBM Cloud API key is not there yet: Secret %s in namespace %s", ref.Name, f.namespace).do("after installing: %s", create)
	case !k.found:
		return fail("there is no IBM Cloud API key: Secret %s in namespace %s does not exist", ref.Name, f.namespace).
			reason(pool.ReasonCredentialsMissing).do("%s", create)
	case !k.value:
		return fail("there is no IBM Cloud API key: Secret %s in namespace %s has no value in its key %s", ref.Name, f.namespace, ref.Key).
			reason(pool.ReasonCredentialsMissing).do("delete the Secret and store it anew: %s", create)
	}
	return fine("Secret %s in namespace %s has an API key", ref.Name, f.namespace)
}

func clusterID(f facts) *Result {
	problem := f.providerProblem()
	switch reason := problem.Reason; {
	case reason == pool.ReasonClusterIDUnknown && f.provide.info.hidden != "":
		return unseen("the cluster's id at IBM Cloud", f.provide.info.hidden)
	case reason == pool.ReasonClusterIDUnknown, reason == pool.ReasonClusterIDMismatch:
		return fail("the cluster's id at IBM Cloud is not known: %s", problem.Message).reason(reason).do("set or correct spec.provider.iks.clusterID")
	}
	return fine("the cluster's id at IBM Cloud is known")
}

// cloudRemedies are what to do about what the cloud answers.
var cloudRemedies = map[string]string{
	"CloudUnauthorized": "give the key's identity the role Operator or Administrator on the cluster and Viewer on its resource group, or store another key",
	"CloudNotFound":     "correct spec.provider.iks.clusterID or resourceGroup",
	"CloudInvalidInput": "correct what the message names",
	"CloudUnavailable":  "check the way from this machine to IBM Cloud, a proxy, and its status page; the manager asks from within the cluster",
}

// cloudAnswers: what reading proves, and no more.
func cloudAnswers(f facts) *Result {
	problem := f.providerProblem()
	reason := problem.Reason
	switch {
	case reason == "CloudUnavailable" && f.object.Spec.Provider.IKS.Endpoint == v1alpha1.EndpointPrivate:
		return unseen("whether IBM Cloud answers", problem.Message).reason(reason).
			do("private endpoints can be reached from IBM's network only: run this in the cluster's network")
	case reason == "CloudRateLimited":
		return warn("IBM Cloud wants to be asked less often: %s", problem.Message).reason(reason).do("run this again in a minute")
	case strings.HasPrefix(reason, "Cloud"):
		return fail("IBM Cloud: %s: %s", reason, problem.Message).reason(reason).
			do("%s", cmp.Or(cloudRemedies[reason], "see what to do about "+reason+":"))
	case f.snapshot.Pool != nil:
		return fine("IBM Cloud answers, and the key may read the cluster and its worker pools").
			also("whether the key may also order workers is known only when it does: it needs the role Operator or Administrator on the cluster, and Viewer on its resource group")
	case f.provide.key.found && f.provide.key.value:
		return note("IBM Cloud was not asked: nothing depends on it in mode %s", f.object.Spec.Mode)
	}
	return note("IBM Cloud was not asked: there is no key to ask with")
}

func workerPool(f facts) *Result {
	p, problem := f.snapshot.Pool, f.providerProblem()
	reason := problem.Reason
	switch {
	case reason == pool.ReasonPoolConflict:
		return fail("the worker pool cannot be used: %s", problem.Message).reason(reason).
			do("choose another spec.provider.iks.poolName, or remove that pool")
	case reason == pool.ReasonPoolAutoscaled:
		return fail("the worker pool cannot be used: %s", problem.Message).reason(reason).
			do("disable the autoscaler for it in ConfigMap kube-system/%s", autoscalerConfig)
	case p == nil:
		return nil
	case !p.Exists:
		return fine("no worker pool has the name %s yet: rrpool would order it", p.Name)
	case len(p.Problems) > 0:
		return warn("IBM Cloud reports problems with worker pool %s", p.Name).also(capped(p.Problems)...).
			reason(pool.ReasonPoolProblem).do("raise the quota, or free the capacity that it speaks of")
	}
	return fine("worker pool %s is rrpool's, with %s", p.Name, count(len(p.Workers), "worker", "workers"))
}

// autoscalerConfig is where the cluster autoscaler of IKS keeps what it may resize.
const (
	autoscalerConfig = "iks-ca-configmap"
	autoscalerKey    = "workerPoolsConfig.json"
)

func autoscaler(f facts) *Result {
	a, name := f.provide.autoscaled, f.object.Spec.Provider.IKS.PoolName
	switch {
	case a.hidden != "":
		return unseen("whether the cluster autoscaler resizes the pool", a.hidden)
	case !a.found:
		return fine("the cluster autoscaler is not installed")
	case slices.Contains(a.value, name):
		return fail("the cluster autoscaler resizes worker pool %s as well", name).reason(pool.ReasonPoolAutoscaled).
			do("disable it for this pool in ConfigMap kube-system/%s", autoscalerConfig)
	}
	return fine("the cluster autoscaler does not resize worker pool %s", name)
}

// mostWorkers is what IBM documents as the limit of a cluster.
const mostWorkers = 500

// quota: what IBM's API does not report cannot be checked, and the message says so.
func quota(f facts) *Result {
	more := f.snapshot.Desired.Pool.SizePerZone * len(f.snapshot.Desired.Pool.Zones)
	if f.snapshot.Pool != nil {
		more -= len(f.snapshot.Pool.Workers)
	}
	if total := len(f.snapshot.Cluster.Nodes) + more; more > 0 && total > mostWorkers {
		return fail("with %d more workers the cluster would have %d, and IBM allows %d", more, total, mostWorkers).
			do("remove workers, or lower spec.sizing.max")
	}
	return note("how many more workers your account may have cannot be seen: IBM's API does not tell").
		also("an order beyond the quota fails with CloudQuotaExceeded or PoolProblem, and the mesh carries the cluster meanwhile")
}
