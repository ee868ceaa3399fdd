package pool

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// cloudProblem returns an error of the provider as a problem, in the cloud's own words.
func cloudProblem(err error) *plan.Problem {
	message := err.Error()
	var typed *cloud.Error
	if errors.As(err, &typed) && typed.Message != "" {
		message = fmt.Sprintf("%s: %s", typed.Op, typed.Message)
	}
	kind := cmp.Or(cloud.KindOf(err), cloud.Unavailable)
	if kind == cloud.Conflict {
		return plan.Problemf(reason.PoolConflict, "%s", message)
	}
	return plan.Problemf("Cloud"+string(kind), "%s", message)
}

// poolProblem returns what is wrong with an observed pool, nil for nothing.
func poolProblem(pool cloud.Pool) *plan.Problem {
	switch {
	case pool.Exists && !pool.Owned:
		return plan.Problemf(reason.PoolConflict, "worker pool %q exists and was not created by rrpool: nothing is changed; "+
			"choose another spec.provider.iks.poolName, or remove that pool", pool.Name)
	case pool.Autoscaled:
		return plan.Problemf(reason.PoolAutoscaled, "worker pool %q is resized by the cluster autoscaler as well: "+
			"disable it for this pool in ConfigMap kube-system/iks-ca-configmap; where that is gone, as the add-on was removed before, reinstall the add-on "+
			"(ibmcloud ks cluster addon enable cluster-autoscaler), disable the pool there, and only then remove the add-on", pool.Name)
	case len(pool.Problems) > 0:
		return plan.Problemf(reason.PoolProblem, "%s", few(pool.Problems))
	}
	return nil
}

// lookAtCalicoNode is the command that shows where calico-node runs.
const lookAtCalicoNode = "kubectl get pods --all-namespaces --selector k8s-app=calico-node --output wide"

// unrouted returns the problem that calico-node does not run on reflectors, or
// else that nodes have no reflector while the mesh is off; nil for neither.
func unrouted(s *Scope) *plan.Problem {
	var names []string
	for _, r := range s.Step.Reflectors {
		if r.NotRunning {
			names = append(names, r.Node)
		}
	}
	switch {
	case len(names) > 0:
		return plan.Problemf(reason.CalicoNodeNotRunning, "%s: look at its pods (%s)", rollout.NotRunning(names, len(s.Step.Reflectors)), lookAtCalicoNode)
	case len(s.Step.Unserved) > 0 && !s.Cluster.BGP.MeshOn():
		return plan.Problemf(reason.NodesUnserved, "%s; the mesh is off: look at calico-node there (%s), and whether TCP port 179 is open",
			rollout.Unserved(s.Step.Unserved), lookAtCalicoNode)
	}
	return nil
}

// few joins the first three items, and says how many more there are.
func few(items []string) string { return strings.Join(capped(items, 3), "; ") }

// capped returns the first items as the API accepts them, and an item that says how many more there are.
func capped(items []string, limit int) []string {
	var out []string
	for i, item := range items {
		if i == limit {
			return append(out, fmt.Sprintf("and %d more", len(items)-limit))
		}
		out = append(out, apiText(item))
	}
	return out
}

// waitProblem returns the problem that a wait takes longer than it should, nil for none. It is only reported: no step depends on it.
func waitProblem(s *Scope, waiting []string) *plan.Problem {
	if len(waiting) == 0 && has[plan.EnsurePool](s.Step) { // nothing else is awaited, but the pool is not as wanted yet
		waiting = []string{s.Step.Reason}
	}
	if s.Step.Problem != nil || s.paused() || len(waiting) == 0 {
		return nil
	}
	if s.Step.Awaits == rollout.AwaitsOwner {
		return plan.Problemf(reason.MeshReversed, "%s: let what describes the BGPConfiguration have nodeToNodeMeshEnabled: false without nodeMeshPassword, or ignore both and its "+
			"annotations rrpool.io/*; to try at once, set spec.mode to Paused and back", s.Step.Reason)
	}
	if s.Step.Timeout == 0 || s.now.Sub(s.since.Time) <= s.Step.Timeout {
		return nil
	}
	return lateProblem(s, waiting)
}

// lateProblem returns what to do about a wait that has taken longer than the step's Timeout.
func lateProblem(s *Scope, waiting []string) *plan.Problem {
	step, limit := s.Step.Name, s.Step.Timeout
	switch s.Step.Awaits {
	case rollout.AwaitsSessions:
		rights := ""
		if slices.ContainsFunc(waiting, func(what string) bool { return strings.HasPrefix(what, "a status report from ") }) {
			rights = ", and whether its service account may get, list, watch and update caliconodestatuses"
		}
		return plan.Problemf(reason.SessionTimeout, "%s has been waiting for more than %s for %s: look at calico-node on these nodes (%s)%s; "+
			"nothing is removed meanwhile", step, limit, few(waiting), lookAtCalicoNode, rights)
	case rollout.AwaitsBGP:
		return plan.Problemf(reason.BGPUnknown, "whether calico-node runs BIRD is not known: %s; and for more than %s none of these has come: %s; nothing is changed or "+
			"ordered: let BIRD run (CALICO_NETWORKING_BACKEND=bird), or delete this object where something else carries the routes", s.Cluster.BGPUnknown, limit, few(waiting))
	case rollout.AwaitsPods:
		pods := few(waiting)
		if len(s.blockedPods) > 0 { // a PodDisruptionBudget keeps them
			pods += ": " + few(s.blockedPods)
		}
		return plan.Problemf(reason.DrainBlocked, "%s has been waiting for more than %s for %s: let the budget allow it (more replicas, "+
			"or a smaller minAvailable), delete the pods named, or set spec.provider.existingNodes.promotion to Staged, which moves no pods; "+
			"routing is left as it is meanwhile", step, limit, pods)
	case rollout.AwaitsWorkers:
		where := "the workers of the pool in IBM Cloud (ibmcloud ks worker ls)"
		if s.inPlace() {
			where = "the nodes (kubectl get nodes --label-columns " + v1alpha1.PoolLabel + ")"
		}
		return plan.Problemf(reason.WorkersLate, "%s has been waiting for more than %s for %s: look at %s; routing is left as it is meanwhile",
			step, limit, few(waiting), where)
	case rollout.AwaitsOwner: // waitProblem reports this without a Timeout
	case rollout.AwaitsPeering:
		return plan.Problemf(reason.WorkersLate, "%s has been waiting for more than %s for %s: look at what its conditions say (kubectl describe clusterpeering); "+
			"the worker stays, and costs, meanwhile", step, limit, few(waiting))
	}
	return nil
}

// strayLabelProblem returns the problem that others put the role label on nodes again and again, nil for none.
func strayLabelProblem(s *Scope) *plan.Problem {
	label := s.object.Spec.BGP.NodeLabel
	return plan.ProblemIf(len(s.Step.Labelled) > 0, reason.LabelReturns, "others put the label %s on nodes that are no route reflectors, as often as rrpool removes it: %s: "+
		"find what does (kubectl get nodes -l %s --show-managed-fields -o yaml) and stop it; rrpool removes it ever more seldom", label, few(s.Step.Labelled), label)
}

// since returns when the present wait began. The status keeps this time, so that a restart of the manager does not reset it. Progress resets it.
func since(s *Scope) metav1.Time {
	before := s.object.Status.Step
	// All nodes of a batch are proven: the wait for the next batch begins.
	batchDone := len(s.Step.Proven) > 0 && len(s.Step.Proven)+len(s.Step.Reflectors) >= len(s.Step.Watch)
	if before.Name != s.Step.Name || before.Since.IsZero() || s.advanced || batchDone {
		return metav1.NewTime(s.now.Truncate(time.Second))
	}
	return before.Since
}

// advances reports whether the action brings the step closer to its end.
func advances(action plan.Action) bool {
	switch action.(type) {
	case plan.RefreshStatus, plan.EnsurePool, plan.ReleasePool, plan.DrainNode:
		return false
	}
	return true
}

// waiting returns what the step waits for, in the cluster and in the cloud.
func (r *Reconciler) waiting(s *Scope) []string {
	waiting := s.Step.WaitingFor
	if awaited := r.poolClient.awaits(); awaited != "" && has[plan.EnsurePool](s.Step) && !slices.Contains(waiting, awaited) {
		waiting = append(slices.Clone(waiting), awaited)
	}
	return waiting
}
