package check

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/wiring"
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
	switch n := len(clients(f)); {
	case n == 0:
		return nil // which check bgp says
	case n < meshIsFine:
		return note("nodes that speak BGP: %d; up to about %d the mesh is fine as well", n, meshIsFine)
	default:
		return fine("nodes that speak BGP: %d", n)
	}
}

func readiness(f facts) *Result {
	bad := f.nodes(func(n plan.Node) bool { return !n.Ready })
	switch all := len(f.snapshot.Cluster.Nodes); {
	case all == 0:
		return nil
	case len(bad) > 0:
		return warn("nodes that are not Ready: %s", iostreams.Few(bad)).
			do("kubectl describe node %s; sessions with it are not waited for until it is Ready", bad[0])
	default:
		return fine("all %d nodes are Ready", all)
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
		return warn("nodes without the zone label %s, which count as one zone: %s", f.object.Spec.Topology.ZoneLabel, iostreams.Few(without)).
			do("label them, or say with spec.topology.zoneLabel which label has the zone; in a cluster of one place there is nothing to do")
	case len(parts) == 1:
		return warn("all nodes are in one zone, %s: when it is gone, so are all route reflectors", parts[0]).
			do("nothing, if the cluster is to have one zone")
	}
	return fine("%d zones: %s", len(parts), iostreams.Few(parts))
}

func kind(f facts) *Result {
	are := map[bool]string{true: "workers of IBM Cloud Kubernetes Service", false: "nodes that are there already"}[f.iks()]
	return fine("route reflectors are %s (spec.provider.type: %s)", are, f.object.Spec.Provider.Type)
}

// eligible: on existing nodes there have to be enough that can reflect, and one more.
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
		others = append(others, "those that cannot: "+iostreams.Few(unfit))
	}
	switch {
	case speaking <= want:
		return fail("%d route reflectors are wanted of %d nodes that speak BGP: no node would be left as their client", want, speaking).also(others...).
			reason("TooFewNodes").do("add nodes, or lower spec.sizing.min or spec.sizing.minPerZone")
	case able < want:
		return fail("%d of %d nodes can be route reflectors, and %d are wanted", able, len(nodes), want).also(others...).
			reason("AwaitNodes").do("repair or add nodes, or lower spec.sizing.min")
	case able == want:
		return warn("%d nodes can be route reflectors, and that many are wanted: none could take the place of one that fails", able).also(others...).
			do("add a node, or repair those named")
	}
	return fine("%d nodes can be route reflectors, and %d are wanted", able, want)
}

// chosen: on existing nodes, the state of those that are chosen.
func chosen(f facts) *Result {
	p, problem := f.snapshot.Pool, f.providerProblem()
	switch {
	case problem.Reason == "CloudUnauthorized":
		return unseen("the state of the chosen nodes", problem.Message).reason(problem.Reason) // it is the user who may not
	case problem.Reason != "":
		return warn("something is wrong with the chosen nodes: %s", problem.Message).see(problem.Reason)
	case p == nil || !p.Exists:
		return nil
	}
	return fine("%s for route reflectors", iostreams.Number(len(p.Workers), "chosen node"))
}

// Of IBM Cloud the manager needs the cluster's id, then a key, then an answer. Where it stops
// at one of them, nothing is known of the next.

func clusterID(f facts) *Result {
	switch p := f.providerProblem(); {
	case !strings.HasPrefix(p.Reason, "ClusterID"):
		return fine("the cluster's id at IBM Cloud is known")
	case f.clusterInfo.hidden != "":
		return unseen("the cluster's id at IBM Cloud", f.clusterInfo.hidden)
	default:
		return refusal(p)
	}
}

func credentials(f facts) *Result {
	ref := f.object.Spec.Provider.IKS.CredentialsSecretRef
	switch p := f.providerProblem(); {
	case strings.HasPrefix(p.Reason, "ClusterID"):
		return nil
	case f.profile() != "":
		return profile(f)
	case p.Reason == pool.ReasonCredentialsUnreadable:
		return unseen("the IBM Cloud API key", p.Message).reason(p.Reason)
	case p.Reason == pool.ReasonCredentialsMissing && f.pre:
		return note("the IBM Cloud API key is not there yet: %s", p.Message)
	case p.Reason == pool.ReasonCredentialsMissing:
		return refusal(p)
	}
	return fine("Secret %s in namespace %s has an API key", ref.Name, f.namespace)
}

// profile: whether the manager has what the trusted profile logs in with. IAM knows the rest.
func profile(f facts) *Result {
	d, mounted, wanted := f.deployment, "", ""
	if d.found {
		mounted, wanted = tokenFiles(d.value.Spec.Template.Spec)
	}
	uses := fmt.Sprintf("trusted profile %s is used, and no API key", f.profile())
	switch {
	case d.hidden != "":
		return unseen("whether the manager has the token that trusted profile "+f.profile()+" logs in with", d.hidden)
	case !d.found:
		return note("%s; the manager, which mounts the token that it logs in with, is not seen", uses)
	case mounted != wanted:
		return fail("%s, and the manager does not have the token that it logs in with: it reads %s, and a token for audience %s is mounted %s",
			uses, wanted, iks.TokenAudience, cmp.Or(mounted, "nowhere")).
			do("install the manager with config/overlays/iks/components/trusted-profile, or with the chart's value credentials.trustedProfile: docs/install.md")
	}
	return fine("%s; the manager mounts the token that it logs in with", uses).
		also("whether the profile is linked to the manager's service account is known only when it logs in: condition ProviderReady of rrpool status")
}

// tokenFiles are where a service account's token for IAM is mounted in the manager, "" for nowhere, and where it is read.
func tokenFiles(pod corev1.PodSpec) (mounted, wanted string) {
	manager := pod.Containers[0]
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.StringVar(&wanted, wiring.TokenFileFlag, wiring.TokenFile, "")
	_ = flags.Parse(manager.Args) // the manager itself refuses what is wrong
	for _, volume := range pod.Volumes {
		for _, source := range ptr.Deref(volume.Projected, corev1.ProjectedVolumeSource{}).Sources {
			token := ptr.Deref(source.ServiceAccountToken, corev1.ServiceAccountTokenProjection{})
			for _, mount := range manager.VolumeMounts {
				if token.Audience == iks.TokenAudience && mount.Name == volume.Name && mount.SubPath == "" {
					mounted = path.Join(mount.MountPath, token.Path)
				}
			}
		}
	}
	return mounted, wanted
}

// cloudAnswers: what reading proves, and no more.
func cloudAnswers(f facts) *Result {
	switch p := f.providerProblem(); {
	case p.Reason == "CloudUnavailable" && f.object.Spec.Provider.IKS.Endpoint == v1alpha1.EndpointPrivate:
		return unseen("whether IBM Cloud answers", p.Message).reason(p.Reason).
			do("private endpoints can be reached from IBM's network only: run this in the cluster's network")
	case p.Reason == "CloudRateLimited":
		return warn("IBM Cloud wants to be asked less often: %s", p.Message).reason(p.Reason).do("run this again in a minute")
	case strings.HasPrefix(p.Reason, "Cloud"):
		return refusal(p)
	case f.snapshot.Pool != nil:
		return fine("IBM Cloud answers, and the key may read the cluster and its worker pools").
			also("whether the key may also order workers is known only when it does: it needs the role Operator or Administrator on the cluster, and Viewer on its resource group")
	case p.Reason == "" && f.profile() != "":
		return note("IBM Cloud was not asked: only the manager's pods have the token that trusted profile %s logs in with", f.profile()).
			also("what IBM Cloud answers the manager is in condition ProviderReady: rrpool status")
	case p.Reason == "":
		return note("IBM Cloud was not asked: nothing depends on it in mode %s", f.object.Spec.Mode)
	}
	return nil
}

func workerPool(f facts) *Result {
	p, problem := f.snapshot.Pool, f.providerProblem()
	switch {
	case problem.Reason == pool.ReasonPoolConflict, problem.Reason == pool.ReasonPoolAutoscaled:
		return refusal(problem)
	case p == nil:
		return nil
	case !p.Exists:
		return fine("no worker pool has the name %s yet: rrpool would order it", p.Name)
	case len(p.Problems) > 0:
		return warn("IBM Cloud reports problems with worker pool %s", p.Name).also(p.Problems...).see(pool.ReasonPoolProblem)
	}
	found := fine("worker pool %s is rrpool's, with %s", p.Name, iostreams.Number(len(p.Workers), "worker"))
	for _, w := range p.Workers {
		if w.Outdated != "" {
			found = found.also(fmt.Sprintf("worker %s is outdated: %s; spec.provider.iks.updateWorkers is %s", w.ID, w.Outdated, cmp.Or(f.object.Spec.Provider.IKS.UpdateWorkers, v1alpha1.UpdateManual)))
		}
	}
	return found
}

// autoscalerConfig is where the cluster autoscaler of IKS keeps what it may resize.
const (
	autoscalerConfig = "iks-ca-configmap"
	autoscalerKey    = "workerPoolsConfig.json"
)

func autoscaler(f facts) *Result {
	config, name := f.autoscaler, f.object.Spec.Provider.IKS.PoolName
	switch {
	case config.hidden != "":
		return unseen("whether the cluster autoscaler resizes the pool", config.hidden)
	case !config.found:
		return fine("the cluster autoscaler is not installed")
	}
	var pools []struct {
		Name    string
		Enabled bool
	}
	if err := json.Unmarshal([]byte(cmp.Or(config.value.Data[autoscalerKey], "[]")), &pools); err != nil {
		return unseen("whether the cluster autoscaler resizes the pool", fmt.Sprintf("key %s of ConfigMap kube-system/%s is no JSON: correct it", autoscalerKey, autoscalerConfig))
	}
	for _, p := range pools {
		if p.Name == name && p.Enabled {
			return fail("the cluster autoscaler resizes worker pool %s as well", name).reason(pool.ReasonPoolAutoscaled).
				do("disable it for this pool in ConfigMap kube-system/%s", autoscalerConfig)
		}
	}
	return fine("the cluster autoscaler does not resize worker pool %s", name)
}

// updatesConfig limits how many workers of a classic cluster IBM updates at once, by label; updatesRule is ours in it.
const (
	updatesConfig = "ibm-cluster-update-configuration"
	updatesRule   = "rrpool.json"
)

// classic: the nodes are on IBM's classic infrastructure, as their label says.
func (f facts) classic() bool {
	return f.iks() && slices.ContainsFunc(f.snapshot.Cluster.Nodes, func(n plan.Node) bool { return n.Labels["ibm-cloud.kubernetes.io/iaas-provider"] == "softlayer" })
}

// updates: an update of all workers must not take two reflectors at once. IBM's percentage may be rounded up.
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
	if config.found {
		for _, text := range config.value.Data {
			var r rule
			if json.Unmarshal([]byte(text), &r) == nil && r.NodeSelectorKey == v1alpha1.PoolLabel && r.NodeSelectorValue == name && r.MaxUnavailablePercentage*size <= 100 {
				return fine("an update takes the workers of pool %s one at a time", name)
			}
		}
	}
	ours, _ := json.Marshal(rule{100 / size, v1alpha1.PoolLabel, name}) //nolint:errchkjson // strings and a number
	patch, _ := json.Marshal(map[string]any{"data": map[string]string{updatesRule: string(ours)}})
	command := "kubectl --namespace kube-system patch configmap " + updatesConfig + " --type merge --patch '" + string(patch) + "'"
	if !config.found {
		command = "kubectl --namespace kube-system create configmap " + updatesConfig + " --from-literal '" + updatesRule + "=" + string(ours) + "'"
	}
	return warn("an update of all workers (ibmcloud ks worker update) takes up to a fifth of them at once, all route reflectors among them").
		do("limit it to one worker of the pool at a time: %s; a reload of workers ignores that, so reload them one by one", command)
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
	return note("how many more workers your account may have cannot be seen: IBM's API does not say").
		also("an order beyond the quota fails with CloudQuotaExceeded or PoolProblem, and the mesh carries the cluster meanwhile")
}
