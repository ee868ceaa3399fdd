package pool

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/controllers/plan"
)

// workersTimeout is how long the cloud may take for workers before that is worth
// saying: 20 minutes and more are usual.
const workersTimeout = time.Hour

// sessionTimeout is how long a step may wait for BGP before that is worth
// saying, and whether it waits for BGP at all. Under the Timer gate nothing is
// observed, so nothing can be missing.
func sessionTimeout(t *turn) (time.Duration, bool) {
	limit := t.desired.SessionTimeout
	switch t.step.Name {
	case "RemoveReflector":
		limit += t.desired.RemovalDelay
	case "AwaitSessions", "AwaitRoutes", "AwaitMesh", "ChangeClusterID", "AskReflectors",
		"StagePeers", "PromoteReflectors", "StageDemotion", "DemoteReflectors", "MoveReflectors", "NarrowPeers":
	default:
		return 0, false
	}
	return limit, limit > 0 && !t.desired.Timer
}

// late says that a wait lasts longer than it should, nil while it does not. It
// is a report: what is done stays the same.
func late(t *turn, waiting []string) *plan.Problem {
	if t.step.Problem != nil || t.paused() || len(waiting) == 0 {
		return nil
	}
	waited := t.now.Sub(t.since.Time)
	if limit, ok := sessionTimeout(t); ok && waited > limit {
		return &plan.Problem{Reason: ReasonSessionTimeout, Message: fmt.Sprintf(
			"%s has been waiting for more than %s for %s: look at calico-node on these nodes "+
				"(kubectl get pods --all-namespaces --selector k8s-app=calico-node --output wide); "+
				"nothing is removed meanwhile", t.step.Name, limit, few(waiting),
		)}
	}
	if limit := t.desired.SessionTimeout; t.step.Name == "DrainNode" && limit > 0 && waited > limit {
		return &plan.Problem{Reason: ReasonDrainBlocked, Message: drainBlocked(t, limit, waiting)}
	}
	if waited > workersTimeout && slices.Contains([]string{"EnsurePool", "RetireWorker", "ShrinkPool"}, t.step.Name) {
		return &plan.Problem{Reason: ReasonWorkersLate, Message: fmt.Sprintf(
			"%s has been waiting for more than %s for %s: look at %s; routing is left as it is meanwhile",
			t.step.Name, workersTimeout, few(waiting), whereWorkersShow(t),
		)}
	}
	return nil
}

// whereWorkersShow tells a person where to look for nodes that do not come or go.
func whereWorkersShow(t *turn) string {
	if t.busy() {
		return "the nodes (kubectl get nodes --label-columns " + PoolLabel + ")"
	}
	return "the workers of the pool in IBM Cloud (ibmcloud ks worker ls)"
}

// drainBlocked says what keeps a node from being empty. The budgets have more to
// tell than the pods.
func drainBlocked(t *turn, limit time.Duration, waiting []string) string {
	what := few(waiting)
	if len(t.blocked) > 0 {
		what += ": " + few(t.blocked)
	}
	return fmt.Sprintf("DrainNode has been waiting for more than %s for %s: let the budget allow it (more replicas, or a smaller "+
		"minAvailable), delete the pods named, or set spec.provider.existingNodes.promotion to Staged, which moves no pods; "+
		"routing is left as it is meanwhile", limit, what)
}

// since is when the wait of this turn began. It is read from the status, so that
// a restart does not begin it anew; what has been achieved does.
func since(t *turn) metav1.Time {
	before := t.object.Status.Step
	if before.Name != t.step.Name || before.Since.IsZero() || t.advanced || batchDone(t) {
		return metav1.NewTime(t.now.Truncate(time.Second))
	}
	return before.Since
}

// batchDone: all nodes of a batch were seen in order, and the next batch follows.
func batchDone(t *turn) bool {
	return len(t.step.Proven) > 0 && len(t.step.Proven)+len(t.step.Reflectors) >= len(t.step.Watch)
}

// advances: the action brings the step closer to its end.
func advances(action plan.Action) bool {
	switch action.(type) {
	case plan.RefreshStatus, plan.EnsurePool, plan.ReleasePool, plan.DrainNode:
		return false
	}
	return true
}

// waiting is what the step waits for, in the cluster and in the cloud.
func (r *Reconciler) waiting(t *turn) []string {
	waiting := t.step.WaitingFor
	if r.supply.waiting != "" && ordersPool(t) && !slices.Contains(waiting, r.supply.waiting) {
		waiting = append(slices.Clone(waiting), r.supply.waiting)
	}
	return waiting
}
