// Package workload looks at the pods of nodes and moves them away. A pod matters here when it has an address of its
// own: it is such addresses that a node's BGP announces. It keeps no pods in memory.
package workload

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
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
