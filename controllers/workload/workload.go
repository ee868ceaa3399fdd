// Package workload looks at the pods of nodes and moves them away. A pod matters here when it has an address of its
// own: it is such addresses that a node's BGP announces. It keeps no pods in memory.
package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const (
	// fewNodes are asked for one by one; for more, all pods are listed once.
	fewNodes = 32
	// page is how many pods one request brings.
	page = 500
	// memory is how long counts are as good as new: who comes first does not depend on a pod more or less. Counts
	// that took long are good for lasting times as long, so that a large cluster's apiserver has pauses.
	memory  = 15 * time.Second
	lasting = 4
)

// Pods are the pods of a cluster. They are safe for concurrent use.
type Pods struct {
	core typedv1.CoreV1Interface
	now  func() time.Time

	mu      sync.Mutex
	counted map[string]int
	until   time.Time
}

// New makes Pods. It sends no request yet.
func New(config *rest.Config, web *http.Client) (*Pods, error) {
	core, err := typedv1.NewForConfigAndClient(config, web)
	if err != nil {
		return nil, fmt.Errorf("creating the client for pods: %w", err)
	}
	return &Pods{core: core, now: time.Now}, nil
}

// Count gives, for each of the named nodes, how many pods with an address of their
// own run there. It may be 15 seconds old, or four times as old as the count took.
func (p *Pods) Count(ctx context.Context, nodes []string) (map[string]int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if out, ok := p.remembered(nodes); ok {
		return out, nil
	}
	began, counts := p.now(), make(map[string]int, len(nodes))
	for _, node := range nodes {
		counts[node] = 0
	}
	err := p.visit(ctx, nodes, func(pod *corev1.Pod) {
		if _, asked := counts[pod.Spec.NodeName]; asked && !pod.Spec.HostNetwork {
			counts[pod.Spec.NodeName]++
		}
	})
	if err != nil {
		return nil, fmt.Errorf("counting the pods of %d nodes: %w", len(nodes), err)
	}
	ended := p.now()
	p.counted, p.until = counts, ended.Add(max(memory, lasting*ended.Sub(began)))
	return maps.Clone(counts), nil
}

// remembered answers from memory when that is fresh and has all nodes.
func (p *Pods) remembered(nodes []string) (map[string]int, bool) {
	if !p.now().Before(p.until) {
		return nil, false
	}
	out := make(map[string]int, len(nodes))
	for _, node := range nodes {
		count, ok := p.counted[node]
		if !ok {
			return nil, false
		}
		out[node] = count
	}
	return out, true
}

// visit shows all pods of the nodes that have not finished, and maybe others. Those
// of one node are few, and are asked for without a limit: the apiserver then finds
// them by an index in memory, while with one older ones read all pods from etcd.
func (p *Pods) visit(ctx context.Context, nodes []string, see func(*corev1.Pod)) error {
	if len(nodes) > fewNodes {
		return p.list(ctx, fields.OneTermNotEqualSelector("spec.nodeName", ""), page, see)
	}
	for _, node := range nodes {
		if err := p.list(ctx, fields.OneTermEqualSelector("spec.nodeName", node), 0, see); err != nil {
			return err
		}
	}
	return nil
}

// list goes through the pods that a selector names, so many at a time (0 for all),
// so that a large cluster is never in memory as a whole.
func (p *Pods) list(ctx context.Context, which fields.Selector, limit int64, see func(*corev1.Pod)) error {
	options := metav1.ListOptions{
		Limit: limit,
		FieldSelector: fields.AndSelectors(which,
			fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
			fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
		).String(),
	}
	for {
		found, err := p.core.Pods(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return fmt.Errorf("listing pods: %w", err)
		}
		for i := range found.Items {
			see(&found.Items[i])
		}
		if options.Continue = found.Continue; options.Continue == "" {
			return nil
		}
	}
}

// names are the sorted names of pods.
func names(pods []corev1.Pod) []string {
	var out []string
	for i := range pods {
		out = append(out, cache.MetaObjectToName(&pods[i]).String())
	}
	slices.Sort(out)
	return out
}

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
