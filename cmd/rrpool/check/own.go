package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// The names of config/manager, and remedies of more than one check.
const (
	managerName      = status.ManagerName
	managerContainer = "manager"
	applyDefinition  = "kubectl apply --server-side -k config/crd"
	installFirst     = "install rrpool (docs/operations.md), or say with --namespace where it is; rrpool check --pre says whether it can be installed"
	describeManager  = "kubectl --namespace %s describe pods --selector app.kubernetes.io/name=rrpool"
	readLogs         = "see whether it runs: kubectl --namespace %s logs --selector app.kubernetes.io/name=rrpool --prefix"
)

// lookFirst is why a check was not made that needs to see the cluster.
const lookFirst = "nodes and Calico's objects cannot be seen, see above"

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
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("RouteReflectorPool")) // which the client drops
	object.Status = v1alpha1.RouteReflectorPoolStatus{}                              // which only the manager writes
	if _, err := crd.Complete(object); err != nil {
		return fail("the RouteReflectorPool is not valid: %s", strings.ReplaceAll(err.Error(), "\n", "; ")).do("correct it: kubectl edit routereflectorpool %s", p.value.Name)
	}
	return fine("the RouteReflectorPool is valid, with mode %s", p.value.Spec.Mode)
}

// fileObject: a file that is valid may still not be able to replace what is in the cluster.
func fileObject(f facts) *Result {
	if p := f.own.pool; p.found && p.value.Status.Pool != "" {
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

// conditions are what the manager reports of the object that is in the cluster.
func conditions(f facts) *Result {
	if !f.own.pool.found {
		return nil
	}
	object := f.own.pool.value
	get := func(kind string) (metav1.Condition, string) {
		c := ptr.Deref(meta.FindStatusCondition(object.Status.Conditions, kind), metav1.Condition{Status: metav1.ConditionUnknown})
		return c, c.Reason + ": " + plan.Unlinked(c.Message, c.Reason)
	}
	ready, says := get(v1alpha1.ConditionReady)
	degraded, problem := get(v1alpha1.ConditionDegraded)
	progressing, _ := get(v1alpha1.ConditionProgressing)
	switch {
	case ready.Reason == "":
		return warn("the manager has not said anything about the RouteReflectorPool yet").do(readLogs, f.namespace)
	case object.Status.ObservedGeneration < object.Generation:
		return warn("the manager has not looked at the RouteReflectorPool since it was last changed").do(readLogs, f.namespace)
	case degraded.Status == metav1.ConditionTrue:
		return fail("the manager reports a problem: %s", problem).see(degraded.Reason)
	case ready.Status == metav1.ConditionUnknown:
		return fail("the manager could not find out the state: %s", says).see(ready.Reason)
	case ready.Status == metav1.ConditionTrue:
		return fine("the manager says Ready: %s: %s", ready.Reason, ready.Message)
	case progressing.Status == metav1.ConditionTrue:
		return fine("the manager is progressing: %s: %s", progressing.Reason, progressing.Message)
	}
	return note("the manager says not Ready: %s", says)
}

// explained are refusals of the manager that another check explains.
var explained = []string{"CalicoNotInstalled", "BGPDisabled", "NodeStatusCRDMissing", "MixedASNumbers", "ForeignReflector", "ForeignInClusterPeer", "TooFewNodes"}

// decision is what the manager would do next, or why it would not.
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
	return fail("the manager would refuse: %s: %s", step.Problem.Reason, step.Problem.Message).see(step.Problem.Reason)
}

// definition: the kind exists, in the version that this program uses.
func definition(f facts) *Result {
	d := f.own.definition
	switch {
	case d.hidden != "" && f.own.pool.served:
		return unseen("the RouteReflectorPool is known, but its definition", d.hidden)
	case d.hidden != "":
		return unseen("whether rrpool's CRD is installed", d.hidden)
	case !d.found && f.pre:
		return note("rrpool's CRD is not installed yet")
	case !d.found:
		return fail("rrpool's CRD %s is not installed", definitionName).do("install it: %s", applyDefinition)
	}
	i := slices.IndexFunc(d.value.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == v1alpha1.GroupVersion.Version && v.Served
	})
	if i < 0 {
		return fail("rrpool's CRD does not serve version %s", v1alpha1.GroupVersion.Version).do("install that of this version: %s", applyDefinition)
	}
	if refusal := unestablished(d.value); refusal != "" {
		return fail("rrpool's CRD is not established: %s", refusal).do("correct what it says, and apply it again: %s", applyDefinition)
	}
	if missing := missingFields(d.value.Spec.Versions[i].Schema); len(missing) > 0 {
		return fail("rrpool's CRD is of an older version: it does not have %s", iostreams.Few(missing)).do("install that of this version: %s", applyDefinition)
	}
	return fine("rrpool's CRD serves %s", v1alpha1.GroupVersion)
}

// unestablished is why the apiserver does not serve a definition, "" where it does.
func unestablished(d *apiextensionsv1.CustomResourceDefinition) (refusal string) {
	for _, c := range d.Status.Conditions {
		if c.Status != apiextensionsv1.ConditionTrue {
			refusal = cmp.Or(refusal, c.Message)
		} else if c.Type == apiextensionsv1.Established {
			return ""
		}
	}
	return cmp.Or(refusal, "the apiserver has not said why")
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
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&object.Spec)
	if err != nil {
		return nil
	}
	out := lacking(in.OpenAPIV3Schema.Properties["spec"], fields, "spec")
	slices.Sort(out)
	return out
}

func lacking(schema apiextensionsv1.JSONSchemaProps, fields map[string]any, path string) (out []string) {
	for name, value := range fields {
		property, known := schema.Properties[name]
		if inner, nested := value.(map[string]any); !known {
			out = append(out, path+"."+name)
		} else if nested {
			out = append(out, lacking(property, inner, path+"."+name)...)
		}
	}
	return out
}

func manager(f facts) *Result {
	m := f.own.manager
	if m.hidden != "" || !m.found {
		return undeployed(f)
	}
	wanted, available, image := ptr.Deref(m.value.Spec.Replicas, 1), m.value.Status.AvailableReplicas, "no container "+managerContainer
	for _, c := range m.value.Spec.Template.Spec.Containers {
		if c.Name == managerContainer {
			image = "image " + c.Image
		}
	}
	switch {
	case wanted == 0:
		return fail("the manager is scaled to 0: nothing is decided, and the safety net does not work").
			do("kubectl --namespace %s scale deployment %s --replicas=2", f.namespace, managerName)
	case available == 0:
		return fail("the manager does not run: 0 of %d available (%s)", wanted, image).do(describeManager, f.namespace)
	case available < wanted:
		return warn("%d of %d managers are available (%s): one acts, the others stand by", available, wanted, image).do(describeManager, f.namespace)
	}
	return fine("the manager runs: %d of %d available (%s)", available, wanted, image)
}

// undeployed: a manager without a Deployment may run under another name or outside of the
// cluster. Then it holds the lease.
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
	out := fail("there is no Deployment %s in namespace %s", managerName, f.namespace).do("%s", installFirst)
	switch {
	case holder.hidden != "":
		out.also("whether a manager runs elsewhere could not be checked: " + holder.hidden)
	case holder.found:
		out.also(holder.value.Message)
	}
	return out
}
