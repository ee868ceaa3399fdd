package pool

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// The reasons of this package's problems. Those of the cloud are
// "Cloud" and the kind of the error.
const (
	ReasonTopologyNotSupported  = "TopologyNotSupported"
	ReasonSizingInvalid         = "SizingInvalid"
	ReasonSelectorInvalid       = "SelectorInvalid"
	ReasonCredentialsMissing    = "CredentialsMissing"
	ReasonCredentialsUnreadable = "CredentialsUnreadable"
	ReasonClusterIDUnknown      = "ClusterIDUnknown"
	ReasonClusterIDMismatch     = "ClusterIDMismatch"
	ReasonPoolConflict          = "PoolConflict"
	ReasonPoolAutoscaled        = "PoolAutoscaled"
	ReasonPoolProblem           = "PoolProblem"
	ReasonSessionTimeout        = "SessionTimeout"
	ReasonDrainBlocked          = "DrainBlocked"
	ReasonWorkersLate           = "WorkersLate"
	ReasonStepFailed            = "StepFailed"
	ReasonCalicoNodeNotRunning  = "CalicoNodeNotRunning"
	ReasonObservationFailed     = "ObservationFailed"
)

// ReasonNodeStatusCRDMissing is the datastore's reason for having no session reports.
const ReasonNodeStatusCRDMissing = "NodeStatusCRDMissing"

func selectorProblem(field string, value metav1.LabelSelector, err error) *plan.Problem {
	return &plan.Problem{
		Reason: ReasonSelectorInvalid,
		Message: fmt.Sprintf("spec.provider.existingNodes.%s: %s is not a label selector: %v: correct it",
			field, metav1.FormatLabelSelector(&value), err),
	}
}

func sizingProblem(err error) *plan.Problem {
	return &plan.Problem{Reason: ReasonSizingInvalid, Message: err.Error()}
}

func credentialsProblem(ref v1alpha1.SecretKeyRef, namespace, what string) *plan.Problem {
	return &plan.Problem{
		Reason: ReasonCredentialsMissing,
		Message: fmt.Sprintf("Secret %q in namespace %q %s: store an IBM Cloud API key there: "+
			"kubectl --namespace %s create secret generic %s --from-file=%s=<file with the key>",
			ref.Name, namespace, what, namespace, ref.Name, ref.Key),
	}
}

func clusterIDProblem(what string) *plan.Problem {
	return &plan.Problem{
		Reason: ReasonClusterIDUnknown,
		Message: fmt.Sprintf("ConfigMap %q in namespace %q %s: set spec.provider.iks.clusterID",
			clusterInfoName, clusterInfoNamespace, what),
	}
}

func mismatchProblem(configured, found, node string) *plan.Problem {
	return &plan.Problem{
		Reason: ReasonClusterIDMismatch,
		Message: fmt.Sprintf("the cluster ID is %q, but the providerID of node %s says %q: "+
			"correct spec.provider.iks.clusterID", configured, node, found),
	}
}

// cloudProblem turns an error of the provider into a reason and the cloud's own words.
func cloudProblem(err error) *plan.Problem {
	kind, message := cloud.KindOf(err), err.Error()
	var typed *cloud.Error
	if errors.As(err, &typed) && typed.Message != "" {
		message = fmt.Sprintf("%s: %s", typed.Op, typed.Message)
	}
	problem := &plan.Problem{Reason: "Cloud" + string(kind), Message: message}
	switch kind {
	case cloud.Conflict:
		problem.Reason = ReasonPoolConflict
	case "":
		problem.Reason = "Cloud" + string(cloud.Unavailable)
	case cloud.NotFound, cloud.InvalidInput, cloud.Unauthorized, cloud.QuotaExceeded, cloud.RateLimited, cloud.Unavailable:
	}
	return problem
}

// poolProblem says what is wrong with a pool as it was observed, nil for nothing.
func poolProblem(pool cloud.Pool) *plan.Problem {
	switch {
	case pool.Exists && !pool.Owned:
		return &plan.Problem{
			Reason: ReasonPoolConflict,
			Message: fmt.Sprintf("worker pool %q exists and was not created by rrpool: nothing is changed; "+
				"choose another spec.provider.iks.poolName, or remove that pool", pool.Name),
		}
	case pool.Autoscaled:
		return &plan.Problem{
			Reason: ReasonPoolAutoscaled,
			Message: fmt.Sprintf("worker pool %q is resized by the cluster autoscaler as well: "+
				"disable it for this pool in ConfigMap kube-system/iks-ca-configmap", pool.Name),
		}
	case len(pool.Problems) > 0:
		return &plan.Problem{Reason: ReasonPoolProblem, Message: few(pool.Problems)}
	}
	return nil
}

// notRunning says on which reflectors calico-node is not running, nil for none.
func notRunning(reflectors []rollout.Reflector) *plan.Problem {
	var names []string
	for _, r := range reflectors {
		if r.NotRunning {
			names = append(names, r.Node)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return &plan.Problem{
		Reason: ReasonCalicoNodeNotRunning,
		Message: rollout.NotRunning(names, len(reflectors)) +
			": look at its pods (kubectl get pods --all-namespaces --selector k8s-app=calico-node --output wide)",
	}
}

// few joins the first three items.
func few(items []string) string {
	const limit = 3
	if len(items) <= limit {
		return strings.Join(items, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(items[:limit], "; "), len(items)-limit)
}

// capped is few for the list in the status.
func capped(items []string) []string {
	const limit = maxWaiting
	var out []string
	for i, item := range items {
		if i == limit {
			return append(out, fmt.Sprintf("and %d more", len(items)-limit))
		}
		out = append(out, short(item))
	}
	return out
}

// workersTimeout is how long the cloud may take for workers before that is worth
// saying: 20 minutes and more are usual.
const workersTimeout = time.Hour

// sessionTimeout is how long a step may wait for BGP before that is worth
// saying, and whether it waits for BGP at all. Under the Timer gate nothing is
// observed, so nothing can be missing.
func sessionTimeout(s *scope) (time.Duration, bool) {
	limit := s.desired.SessionTimeout
	switch s.step.Name {
	case "RemoveReflector":
		limit += s.desired.RemovalDelay
	case "AwaitSessions", "AwaitRoutes", "AwaitMesh", "ChangeClusterID", "AskReflectors",
		"StagePeers", "PromoteReflectors", "StageDemotion", "DemoteReflectors", "MoveReflectors", "NarrowPeers":
	default:
		return 0, false
	}
	return limit, limit > 0 && !s.desired.Timer
}

// waitProblem says that a wait lasts longer than it should, nil while it does not. It
// is a report: what is done stays the same.
func waitProblem(s *scope, waiting []string) *plan.Problem {
	if s.step.Problem != nil || s.paused() || len(waiting) == 0 {
		return nil
	}
	waited := s.now.Sub(s.since.Time)
	if limit, ok := sessionTimeout(s); ok && waited > limit {
		return &plan.Problem{Reason: ReasonSessionTimeout, Message: fmt.Sprintf(
			"%s has been waiting for more than %s for %s: look at calico-node on these nodes "+
				"(kubectl get pods --all-namespaces --selector k8s-app=calico-node --output wide); "+
				"nothing is removed meanwhile", s.step.Name, limit, few(waiting),
		)}
	}
	if limit := s.desired.SessionTimeout; s.step.Name == "DrainNode" && limit > 0 && waited > limit {
		return &plan.Problem{Reason: ReasonDrainBlocked, Message: drainBlocked(s, limit, waiting)}
	}
	if waited > workersTimeout && slices.Contains([]string{"EnsurePool", "RetireWorker", "ShrinkPool"}, s.step.Name) {
		return &plan.Problem{Reason: ReasonWorkersLate, Message: fmt.Sprintf(
			"%s has been waiting for more than %s for %s: look at %s; routing is left as it is meanwhile",
			s.step.Name, workersTimeout, few(waiting), whereWorkersShow(s),
		)}
	}
	return nil
}

// whereWorkersShow says where to look for nodes that do not come or go.
func whereWorkersShow(s *scope) string {
	if s.inPlace() {
		return "the nodes (kubectl get nodes --label-columns " + PoolLabel + ")"
	}
	return "the workers of the pool in IBM Cloud (ibmcloud ks worker ls)"
}

// drainBlocked says what keeps a node from being empty. The budgets say more than
// the pods.
func drainBlocked(s *scope, limit time.Duration, waiting []string) string {
	what := few(waiting)
	if len(s.blockedPods) > 0 {
		what += ": " + few(s.blockedPods)
	}
	return fmt.Sprintf("DrainNode has been waiting for more than %s for %s: let the budget allow it (more replicas, or a smaller "+
		"minAvailable), delete the pods named, or set spec.provider.existingNodes.promotion to Staged, which moves no pods; "+
		"routing is left as it is meanwhile", limit, what)
}

// since is when this wait began. It is read from the status, so that
// a restart does not begin it anew; what has been achieved does.
func since(s *scope) metav1.Time {
	before := s.object.Status.Step
	if before.Name != s.step.Name || before.Since.IsZero() || s.advanced || batchDone(s) {
		return metav1.NewTime(s.now.Truncate(time.Second))
	}
	return before.Since
}

// batchDone: all nodes of a batch were seen in order, and the next batch follows.
func batchDone(s *scope) bool {
	return len(s.step.Proven) > 0 && len(s.step.Proven)+len(s.step.Reflectors) >= len(s.step.Watch)
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
func (r *Reconciler) waiting(s *scope) []string {
	waiting := s.step.WaitingFor
	if r.poolClient.waiting != "" && ordersPool(s) && !slices.Contains(waiting, r.poolClient.waiting) {
		waiting = append(slices.Clone(waiting), r.poolClient.waiting)
	}
	return waiting
}
