package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/pool"
)

// onIKS makes a check that is about IBM Cloud.
func onIKS(look func(facts) *Result) func(facts) *Result {
	return func(f facts) *Result {
		if !f.iks() {
			return nil
		}
		return look(f)
	}
}

var credentials = onIKS(func(f facts) *Result {
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
})

var clusterID = onIKS(func(f facts) *Result {
	switch reason := f.obstacle(); {
	case reason == pool.ReasonClusterIDUnknown && f.provide.info.hidden != "":
		return unseen("the cluster's id at IBM Cloud", f.provide.info.hidden)
	case reason == pool.ReasonClusterIDUnknown, reason == pool.ReasonClusterIDMismatch:
		return fail("the cluster's id at IBM Cloud is not known: %s", f.snapshot.Obstacle.Message).reason(reason).do("set or correct spec.provider.iks.clusterID")
	}
	return fine("the cluster's id at IBM Cloud is known")
})

// cloudRemedies are what to do about what the cloud answers.
var cloudRemedies = map[string]string{
	"CloudUnauthorized": "give the key's identity the role Operator or Administrator on the cluster and Viewer on its resource group, or store another key",
	"CloudNotFound":     "correct spec.provider.iks.clusterID or resourceGroup",
	"CloudInvalidInput": "correct what the message names",
	"CloudUnavailable":  "check the way from this machine to IBM Cloud, a proxy, and its status page; the manager asks from within the cluster",
}

// cloudAnswers: what reading proves, and no more.
var cloudAnswers = onIKS(func(f facts) *Result {
	reason := f.obstacle()
	switch {
	case reason == "CloudUnavailable" && f.object.Spec.Provider.IKS.Endpoint == v1alpha1.EndpointPrivate:
		return unseen("whether IBM Cloud answers", f.snapshot.Obstacle.Message).reason(reason).
			do("private endpoints can be reached from IBM's network only: run this in the cluster's network")
	case reason == "CloudRateLimited":
		return warn("IBM Cloud wants to be asked less often: %s", f.snapshot.Obstacle.Message).reason(reason).do("run this again in a minute")
	case strings.HasPrefix(reason, "Cloud"):
		return fail("IBM Cloud: %s: %s", reason, f.snapshot.Obstacle.Message).reason(reason).
			do("%s", cmp.Or(cloudRemedies[reason], "see what to do about "+reason+":"))
	case f.snapshot.Pool != nil:
		return fine("IBM Cloud answers, and the key may read the cluster and its worker pools").
			also("whether the key may also order workers is only told when it does: it needs the role Operator or Administrator on the cluster, and Viewer on its resource group")
	case f.provide.key.found && f.provide.key.value:
		return note("IBM Cloud was not asked: nothing depends on it in mode %s", f.object.Spec.Mode)
	}
	return note("IBM Cloud was not asked: there is no key to ask with")
})

var workerPool = onIKS(func(f facts) *Result {
	p, reason := f.snapshot.Pool, f.obstacle()
	switch {
	case reason == pool.ReasonPoolConflict:
		return fail("the worker pool cannot be used: %s", f.snapshot.Obstacle.Message).reason(reason).
			do("choose another spec.provider.iks.poolName, or remove that pool")
	case reason == pool.ReasonPoolAutoscaled:
		return fail("the worker pool cannot be used: %s", f.snapshot.Obstacle.Message).reason(reason).
			do("disable the autoscaler for it in ConfigMap kube-system/%s", autoscalerConfig)
	case p == nil:
		return nil
	case !p.Exists:
		return fine("no worker pool has the name %s yet: rrpool would order it", p.Name)
	case len(p.Problems) > 0:
		return warn("IBM Cloud reports trouble with worker pool %s", p.Name).also(capped(p.Problems)...).
			reason(pool.ReasonPoolProblem).do("raise the quota, or free the capacity that it speaks of")
	}
	return fine("worker pool %s is rrpool's, with %s", p.Name, count(len(p.Workers), "worker", "workers"))
})

// autoscalerConfig is where the cluster autoscaler of IKS keeps what it may resize.
const (
	autoscalerConfig = "iks-ca-configmap"
	autoscalerKey    = "workerPoolsConfig.json"
)

var autoscaler = onIKS(func(f facts) *Result {
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
	return fine("the cluster autoscaler leaves worker pool %s alone", name)
})

// mostWorkers is what IBM documents as the limit of a cluster.
const mostWorkers = 500

// quota: what IBM's API does not tell cannot be checked, and is said to be so.
var quota = onIKS(func(f facts) *Result {
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
})
