package check

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
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
	object := p.value.DeepCopy()
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("RouteReflectorPool")) // which is lost on the way
	object.Status = v1alpha1.RouteReflectorPoolStatus{}                              // which only the manager writes
	if _, err := crd.Complete(object); err != nil {
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
		return fail("the manager reports a problem: %s: %s", degraded.Reason, plan.Unlinked(degraded.Message, degraded.Reason)).reason(degraded.Reason).do("see what to do about %s:", degraded.Reason)
	case ready.Status == metav1.ConditionUnknown:
		return fail("the manager could not find out the state: %s: %s", ready.Reason, plan.Unlinked(ready.Message, ready.Reason)).reason(ready.Reason).do("see what to do about %s:", ready.Reason)
	case ready.Status == metav1.ConditionTrue:
		return fine("the manager says Ready: %s: %s", ready.Reason, ready.Message)
	case progressing.Status == metav1.ConditionTrue:
		return fine("the manager is progressing: %s: %s", progressing.Reason, progressing.Message)
	}
	return note("the manager says not Ready: %s: %s", ready.Reason, plan.Unlinked(ready.Message, ready.Reason))
}

// explained are refusals of the manager that another check explains.
var explained = []string{
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
	case slices.Contains(explained, step.Problem.Reason):
		return nil
	}
	return fail("the manager would refuse: %s: %s", step.Problem.Reason, step.Problem.Message).
		reason(step.Problem.Reason).do("see what to do about %s:", step.Problem.Reason)
}

// lookFirst is why a check was not made that needs to see the cluster.
const lookFirst = "nodes and Calico's objects cannot be seen, see above"

func oneLine(err error) string { return strings.Join(strings.Split(err.Error(), "\n"), "; ") }

const applyDefinition = "kubectl apply --server-side -k config/crd"

// definition: the kind exists, in the version that this program speaks.
func definition(f facts) *Result {
	d := f.own.definition
	switch {
	case d.hidden != "" && f.own.served:
		return unseen("the RouteReflectorPool is known, but its definition", d.hidden)
	case d.hidden != "":
		return unseen("whether rrpool's CRD is installed", d.hidden)
	case !d.found && f.pre:
		return note("rrpool's CRD is not installed yet")
	case !d.found:
		return fail("rrpool's CRD %s is not installed", definitionName).do("install it: %s", applyDefinition)
	}
	i := slices.IndexFunc(d.value.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == v1alpha1.GroupVersion.Version
	})
	switch {
	case i < 0 || !d.value.Spec.Versions[i].Served:
		return fail("rrpool's CRD does not serve version %s", v1alpha1.GroupVersion.Version).do("install that of this version: %s", applyDefinition)
	case !established(d.value):
		return fail("rrpool's CRD is not established: %s", refusal(d.value)).do("correct what it says, and apply it again: %s", applyDefinition)
	}
	if missing := missingFields(d.value.Spec.Versions[i].Schema); len(missing) > 0 {
		return fail("rrpool's CRD is of an older version: it does not have %s", iostreams.Few(missing)).do("install that of this version: %s", applyDefinition)
	}
	return fine("rrpool's CRD serves %s", v1alpha1.GroupVersion)
}

func established(d *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(d.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

func refusal(d *apiextensionsv1.CustomResourceDefinition) string {
	for _, c := range d.Status.Conditions {
		if c.Status != apiextensionsv1.ConditionTrue && c.Message != "" {
			return c.Message
		}
	}
	return "the apiserver has not said why"
}

// missingFields are fields that this program sets by default and the definition lacks.
func missingFields(in *apiextensionsv1.CustomResourceValidation) []string {
	if in == nil || in.OpenAPIV3Schema == nil {
		return []string{"spec"}
	}
	object, err := crd.Default()
	if err != nil {
		return nil
	}
	var fields map[string]any
	content, err := json.Marshal(object.Spec)
	if err == nil {
		err = json.Unmarshal(content, &fields)
	}
	if err != nil {
		return nil
	}
	out := lacking(in.OpenAPIV3Schema.Properties["spec"], fields, "spec")
	slices.Sort(out)
	return out
}

func lacking(schema apiextensionsv1.JSONSchemaProps, fields map[string]any, path string) []string {
	var out []string
	for name, value := range fields {
		property, known := schema.Properties[name]
		inner, nested := value.(map[string]any)
		switch {
		case !known:
			out = append(out, path+"."+name)
		case nested:
			out = append(out, lacking(property, inner, path+"."+name)...)
		}
	}
	return out
}

// managerName is that of the Deployment in config/manager, and managerContainer of its
// container.
const (
	managerName      = status.ManagerName
	managerContainer = "manager"
)

// lookForHolder looks who holds the manager's lease.
func (g *gatherer) lookForHolder(ctx context.Context) seen[status.Manager] {
	holder, err := status.FindHolder(ctx, g.Connection, g.namespace, g.now)
	switch {
	case err == nil:
		return seen[status.Manager]{value: holder, found: true}
	case apierrors.IsNotFound(err):
		return seen[status.Manager]{}
	}
	return seen[status.Manager]{hidden: g.hide(err, "get", "leases.coordination.k8s.io")}
}

func manager(f facts) *Result {
	m := f.own.manager
	if m.hidden != "" || !m.found {
		return undeployed(f)
	}
	wanted, available := int32(1), m.value.Status.AvailableReplicas
	if m.value.Spec.Replicas != nil {
		wanted = *m.value.Spec.Replicas
	}
	image := imageOf(m.value)
	switch {
	case wanted == 0:
		return fail("the manager is scaled to 0: nothing is decided, and the safety net does not work").
			do("kubectl --namespace %s scale deployment %s --replicas=2", f.namespace, managerName)
	case available == 0:
		return fail("the manager does not run: 0 of %d available (%s)", wanted, image).
			do("kubectl --namespace %s describe pods --selector app.kubernetes.io/name=rrpool", f.namespace)
	case available < wanted:
		return warn("%d of %d managers are available (%s): one acts, the others stand by", available, wanted, image).
			do("kubectl --namespace %s describe pods --selector app.kubernetes.io/name=rrpool", f.namespace)
	}
	return fine("the manager runs: %d of %d available (%s)", available, wanted, image)
}

// undeployed: no Deployment is seen. A manager may run all the same, under another name or
// outside of the cluster: then it holds the lease.
func undeployed(f facts) *Result {
	m, holder := f.own.manager, f.own.holder
	runs := holder.found && holder.value.Status == status.Running
	switch {
	case m.hidden != "" && runs:
		return unseen(fmt.Sprintf("%s; its Deployment %s", holder.value.Message, managerName), m.hidden)
	case m.hidden != "":
		return unseen("whether the manager runs", m.hidden)
	case runs:
		return warn("%s; there is no Deployment %s in namespace %s", holder.value.Message, managerName, f.namespace).
			do("if the manager runs elsewhere or under another name there is nothing to do, but its version and its replicas cannot be seen from here")
	case f.pre:
		return note("the manager is not installed yet")
	}
	out := fail("there is no Deployment %s in namespace %s", managerName, f.namespace).
		do("install rrpool (docs/operations.md), or say with --namespace where it is; rrpool check --pre says whether it can be installed")
	switch {
	case holder.hidden != "":
		out.also("whether a manager runs elsewhere could not be checked: " + holder.hidden)
	case holder.found:
		out.also(holder.value.Message)
	}
	return out
}

func imageOf(d *appsv1.Deployment) string {
	for _, c := range d.Spec.Template.Spec.Containers {
		if c.Name == managerContainer {
			return "image " + c.Image
		}
	}
	return "no container " + managerContainer
}
