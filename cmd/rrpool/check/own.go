package check

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

func own() group {
	return group{"rrpool", []check{
		{"crd", definition},
		{"manager", manager},
		{"object", object},
		{"conditions", conditions},
		{"decision", decision},
	}}
}

func object(f facts) *Result {
	p := f.own.pool
	switch {
	case f.file != "":
		return fileObject(f)
	case p.hidden != "":
		return unseen("whether there is a RouteReflectorPool", p.hidden)
	case !p.found && f.pre:
		return note("what follows is for a RouteReflectorPool that is all defaults")
	case !p.found:
		return note("there is no RouteReflectorPool, so rrpool does nothing yet; what follows is for one that is all defaults")
	}
	wish := p.value.DeepCopy()
	wish.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("RouteReflectorPool")) // which is lost on the way
	wish.Status = v1alpha1.RouteReflectorPoolStatus{}                              // which nobody but the manager writes
	if _, err := crd.Complete(wish); err != nil {
		return fail("the RouteReflectorPool is not valid: %s", oneLine(err)).do("correct it: kubectl edit routereflectorpool %s", p.value.Name)
	}
	return fine("the RouteReflectorPool is valid, with mode %s", p.value.Spec.Mode)
}

// fileObject: the file was read and is valid; what is left is whether it can take the
// place of what is there.
func fileObject(f facts) *Result {
	p := f.own.pool
	if p.found && p.value.Status.Pool != "" {
		have, want := p.value.Spec.Provider, f.object.Spec.Provider
		switch {
		case have.Type != want.Type:
			return fail("%s: spec.provider.type: %s cannot become %s while the pool %s exists", f.file, have.Type, want.Type, p.value.Status.Pool).
				do("keep the type, or go back first: docs/operations.md, Delete")
		case have.IKS.PoolName != want.IKS.PoolName:
			return fail("%s: spec.provider.iks.poolName: %s cannot become %s while that pool exists", f.file, have.IKS.PoolName, want.IKS.PoolName).
				do("keep the name, or go back first: docs/operations.md, Delete")
		}
	}
	return fine("%s is valid, with mode %s; what follows is for it", f.file, f.object.Spec.Mode)
}

// conditions: what the manager itself says of the object that is in the cluster.
func conditions(f facts) *Result {
	if !f.own.pool.found {
		return nil
	}
	status := f.own.pool.value.Status
	get := func(kind string) metav1.Condition {
		if c := meta.FindStatusCondition(status.Conditions, kind); c != nil {
			return *c
		}
		return metav1.Condition{Status: metav1.ConditionUnknown}
	}
	ready, degraded, progressing := get(v1alpha1.ConditionReady), get(v1alpha1.ConditionDegraded), get(v1alpha1.ConditionProgressing)
	switch {
	case ready.Reason == "":
		return warn("the manager has not said anything about the RouteReflectorPool yet").
			do("see whether it runs: kubectl --namespace %s logs --selector app.kubernetes.io/name=rrpool --prefix", f.namespace)
	case status.ObservedGeneration < f.own.pool.value.Generation:
		return warn("the manager has not looked at the RouteReflectorPool since it was last changed").
			do("see whether it runs: kubectl --namespace %s logs --selector app.kubernetes.io/name=rrpool --prefix", f.namespace)
	case degraded.Status == metav1.ConditionTrue:
		return fail("the manager is in trouble: %s: %s", degraded.Reason, plan.Unlinked(degraded.Message, degraded.Reason)).reason(degraded.Reason).do("see what to do about %s:", degraded.Reason)
	case ready.Status == metav1.ConditionUnknown:
		return fail("the manager cannot tell how things are: %s: %s", ready.Reason, plan.Unlinked(ready.Message, ready.Reason)).reason(ready.Reason).do("see what to do about %s:", ready.Reason)
	case ready.Status == metav1.ConditionTrue:
		return fine("the manager says Ready: %s: %s", ready.Reason, ready.Message)
	case progressing.Status == metav1.ConditionTrue:
		return fine("the manager is on its way: %s: %s", progressing.Reason, progressing.Message)
	}
	return note("the manager says not Ready: %s: %s", ready.Reason, plan.Unlinked(ready.Message, ready.Reason))
}

// told are refusals of the manager that a check of their own explains.
var told = []string{
	"CalicoNotInstalled", "BGPDisabled", "NodeStatusCRDMissing", "MixedASNumbers", "ForeignReflector", "ForeignInClusterPeer",
	"TooFewNodes",
}

// decision: what the manager would do next, or why it would not.
func decision(f facts) *Result {
	if f.snapshot == nil {
		return unseen("what the manager would do", lookFirst)
	}
	step := f.snapshot.Step
	switch {
	case step.Problem == nil && step.Name == rollout.Steady:
		return fine("the manager would change nothing: %s", step.Reason)
	case step.Problem == nil:
		return fine("the next step would be %s: %s", step.Name, step.Reason)
	case slices.Contains(told, step.Problem.Reason):
		return nil
	}
	return fail("the manager would refuse: %s: %s", step.Problem.Reason, step.Problem.Message).
		reason(step.Problem.Reason).do("see what to do about %s:", step.Problem.Reason)
}

// lookFirst is why a check was not made that needs to see the cluster.
const lookFirst = "nodes and Calico's objects cannot be seen, see above"

func oneLine(err error) string { return strings.Join(strings.Split(err.Error(), "\n"), "; ") }
