package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Eviction is what one attempt to empty a node came to.
type Eviction struct {
	// Evicted counts the pods that have been asked to go.
	Evicted int
	// Blocked says of each pod that may not go now, why: "namespace/name: the disruption budget …", sorted.
	Blocked []string
}

// Evictable names the pods that Evict has yet to move away from a node: those that
// may be evicted, and those that are on their way out. Staying are those that it
// leaves there because no controller would create them again. Both are sorted.
func (p *Pods) Evictable(ctx context.Context, node string) (moving, staying []string, err error) {
	going, left, err := p.sort(ctx, node)
	if err != nil {
		return nil, nil, fmt.Errorf("looking at the pods of node %q: %w", node, err)
	}
	return names(going), names(left), nil
}

// Evict asks the pods of a node to go, once, and does not wait for them. Pods of DaemonSets, mirror pods and those
// in the host's network stay, as a drain would let them; pods without a controller stay because they would be lost.
// Each gets the grace period that it has itself. PodDisruptionBudgets hold. The error names the pods that could not
// be asked; the others were. When the apiserver falls silent, or time runs out, the rest is left for the next time.
func (p *Pods) Evict(ctx context.Context, node string) (Eviction, error) {
	moving, _, err := p.sort(ctx, node)
	if err != nil {
		return Eviction{}, fmt.Errorf("evicting the pods of node %q: %w", node, err)
	}
	var out Eviction
	var failed []error
	for i := range moving {
		pod := &moving[i]
		name := cache.MetaObjectToName(pod).String()
		if pod.DeletionTimestamp != nil {
			continue
		}
		err := p.evict(ctx, pod)
		switch {
		case err == nil:
			out.Evicted++
		case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
			// It is gone, or another one bears its name.
		case apierrors.IsTooManyRequests(err):
			out.Blocked = append(out.Blocked, name+": "+why(err))
		case !silence(err) || out.Evicted == 0:
			failed = append(failed, fmt.Errorf("evicting pod %q from node %q: %w", name, node, err))
		}
		if silence(err) {
			break // the others next time
		}
	}
	slices.Sort(out.Blocked)
	return out, errors.Join(failed...)
}

// silence: the apiserver has not answered, or our time is up, and asking for one pod more would end the same way.
func silence(err error) bool {
	var status apierrors.APIStatus
	return err != nil && !errors.As(err, &status)
}

// sort divides a node's pods into those that can move and those that would be lost. What
// belongs to the node is neither.
func (p *Pods) sort(ctx context.Context, node string) (moving, staying []corev1.Pod, err error) {
	err = p.visit(ctx, []string{node}, func(pod *corev1.Pod) {
		owner := metav1.GetControllerOf(pod)
		_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
		switch {
		case pod.Spec.HostNetwork || mirror || owner != nil && owner.Kind == "DaemonSet":
		case owner == nil && pod.DeletionTimestamp == nil:
			staying = append(staying, *pod)
		default:
			moving = append(moving, *pod)
		}
	})
	return moving, staying, err
}

// evict asks one pod to go. A refusal is not tried again here, whatever the
// apiserver proposes: the caller has more to do than to wait.
func (p *Pods) evict(ctx context.Context, pod *corev1.Pod) error {
	request := p.core.RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("eviction")
	err := request.MaxRetries(0).Body(&policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	}).Do(ctx).Error()
	return err //nolint:wrapcheck // the caller looks at its kind
}

// why is the apiserver's reason for keeping a pod where it is; it names the PodDisruptionBudget.
func why(err error) string {
	if cause, ok := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause); ok {
		return cause.Message
	}
	return err.Error()
}
