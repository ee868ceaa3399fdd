package check

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/rrpool/rrpool/cmd/rrpool/status"
)

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
	runs := holder.found && holder.value.Pulse == status.Running
	switch {
	case m.hidden != "" && runs:
		return unseen(fmt.Sprintf("%s; its Deployment %s", holder.value.Message, managerName), m.hidden)
	case m.hidden != "":
		return unseen("whether the manager runs", m.hidden)
	case runs:
		return warn("%s; there is no Deployment %s in namespace %s", holder.value.Message, managerName, f.namespace).
			do("if the manager runs elsewhere or under another name there is nothing to do, but nobody can see from here which version it is and how many stand by")
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
