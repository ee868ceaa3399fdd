// Package workload counts the pods of nodes and evicts them. It counts only pods with an
// address of their own: a node announces such addresses by BGP. It keeps no pods in memory.
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
	// fewNodes is the largest number of nodes whose pods are listed node by node. For more nodes, all pods are listed once.
	fewNodes = 32
	// page is how many pods one request returns.
	page = 500
	// countAge is how long counts are reused: single pods do not change the order of nodes. If counting took long,
	// the counts are reused for countPause times as long as it took, so that a large cluster's apiserver has pauses.
	countAge   = 15 * time.Second
	countPause = 4
)

// Pods gives access to the pods of a cluster. It is safe for concurrent use.
type Pods struct {
	core typedv1.CoreV1Interface
	now  func() time.Time

	mu      sync.Mutex
	counted map[string]int
	until   time.Time
}

// New returns Pods. It sends no request.
func New(config *rest.Config, web *http.Client) (*Pods, error) {
	core, err := typedv1.NewForConfigAndClient(config, web)
	if err != nil {
		return nil, fmt.Errorf("creating the client for pods: %w", err)
	}
	return &Pods{core: core, now: time.Now}, nil
}

// Count returns how many pods with an address of their own run on each of the named
// nodes. Counts may be as old as countAge, or countPause times as old as counting took.
func (p *Pods) Count(ctx context.Context, nodes []string) (map[string]int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if out, ok := p.lastCount(nodes); ok {
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
	p.counted, p.until = counts, ended.Add(max(countAge, countPause*ended.Sub(began)))
	return maps.Clone(counts), nil
}

// lastCount returns the counts of the last list, and false if they are too old or lack a node.
func (p *Pods) lastCount(nodes []string) (map[string]int, bool) {
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

// visit calls see for all running and pending pods of the nodes, and maybe for pods of other nodes. The pods of a single node are few
// and listed without a limit: the apiserver then uses an index in memory. With a limit, older apiservers read all pods from etcd.
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

// list calls see for the running and pending pods that a selector matches. It requests limit pods
// at a time, 0 for all at once, which would take much memory for all pods of a large cluster.
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

// names returns the sorted names of pods.
func names(pods []corev1.Pod) []string {
	var out []string
	for i := range pods {
		out = append(out, cache.MetaObjectToName(&pods[i]).String())
	}
	slices.Sort(out)
	return out
}

// Eviction is the result of one call of Evict.
type Eviction struct {
	// Evicted counts the pods whose eviction was accepted.
	Evicted int
	// Blocked is why other pods cannot be evicted now, sorted: "namespace/name: the disruption budget …".
	Blocked []string
}

// Evictable returns the names of the pods that have to leave a node, including terminating ones, and
// of the pods that Evict leaves there because no controller would create them again. Both are sorted.
func (p *Pods) Evictable(ctx context.Context, node string) (moving, staying []string, err error) {
	going, left, err := p.sort(ctx, node)
	if err != nil {
		return nil, nil, fmt.Errorf("looking at the pods of node %q: %w", node, err)
	}
	return names(going), names(left), nil
}

// Evict evicts the pods of a node once, and does not wait until they are gone. As in a drain, pods of DaemonSets, mirror pods and pods in
// the host's network stay. Pods without a controller stay because they would be lost. Grace periods of pods and PodDisruptionBudgets apply.
// The error names the pods whose eviction failed. If the apiserver does not answer, or ctx ends, the next call evicts the remaining pods.
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
			// The pod is gone, or a new pod has its name.
		case apierrors.IsTooManyRequests(err):
			out.Blocked = append(out.Blocked, name+": "+why(err))
		case !unanswered(err) || out.Evicted == 0:
			failed = append(failed, fmt.Errorf("evicting pod %q from node %q: %w", name, node, err))
		}
		if unanswered(err) {
			break
		}
	}
	slices.Sort(out.Blocked)
	return out, errors.Join(failed...)
}

// unanswered reports whether err is no answer of the apiserver: the apiserver is silent or ctx has ended, so the next request would fail too.
func unanswered(err error) bool {
	var status apierrors.APIStatus
	return err != nil && !errors.As(err, &status)
}

// sort divides a node's pods into those that can move and those that would be
// lost. It leaves out pods that belong to the node, such as those of DaemonSets.
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

// evict evicts one pod. It does not retry, even if the apiserver proposes a retry.
func (p *Pods) evict(ctx context.Context, pod *corev1.Pod) error {
	request := p.core.RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("eviction")
	err := request.MaxRetries(0).Body(&policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	}).Do(ctx).Error()
	return err //nolint:wrapcheck // the caller looks at its type
}

// why returns the apiserver's reason for refusing an eviction, which names the PodDisruptionBudget.
func why(err error) string {
	if cause, ok := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause); ok {
		return cause.Message
	}
	return err.Error()
}
