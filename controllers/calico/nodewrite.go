package calico

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodePatch is what one patch changes in a Node; nil values remove keys.
type nodePatch struct {
	labels, annotations map[string]any
	// unschedulable is written when not nil.
	unschedulable *bool
	// exact: the node must be as it was read, or the patch is a conflict.
	exact bool
}

// patchNode is the only write to Nodes. With the UID in it, a node that has come
// back with another machine under the same name is a conflict. A mark on a node
// that a person has uncordoned goes with whatever is written.
func (a *Adapter) patchNode(ctx context.Context, node *corev1.Node, p nodePatch) error {
	if has(node.Annotations, cordonedAnnotation) && !node.Spec.Unschedulable && p.unschedulable == nil {
		p.annotations = maps.Clone(p.annotations)
		if p.annotations == nil {
			p.annotations = map[string]any{}
		}
		p.annotations[cordonedAnnotation] = nil
	}
	meta := map[string]any{"uid": node.UID}
	if len(p.labels) > 0 {
		meta["labels"] = p.labels
	}
	if len(p.annotations) > 0 {
		meta["annotations"] = p.annotations
	}
	if p.exact {
		meta["resourceVersion"] = node.ResourceVersion
	}
	body := map[string]any{"metadata": meta}
	if p.unschedulable != nil {
		body["spec"] = map[string]any{"unschedulable": *p.unschedulable}
	}
	patch, err := json.Marshal(body)
	if err = errors.Join(err, a.permit(ctx)); err != nil {
		return fmt.Errorf("patching node %q: %w", node.Name, err)
	}
	out := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	if err := a.writer.Patch(ctx, out, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("patching node %q: %w", node.Name, err)
	}
	a.recent.keep(out)
	return nil
}

// node reads a Node, from the cache or as we have written it last.
func (a *Adapter) node(ctx context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	if err := a.nodes.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return nil, fmt.Errorf("reading node %q: %w", name, err)
	}
	return a.recent.latest(node), nil
}

// recentNodes bridges the moment between a write and its arrival in the cache.
type recentNodes struct {
	mu      sync.Mutex
	written map[string]*corev1.Node
	bad     map[string]string
}

func (r *recentNodes) keep(n *corev1.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.written == nil {
		r.written = map[string]*corev1.Node{}
	}
	r.written[n.Name] = n
}

// latest gives the newer of what is cached and what was written.
func (r *recentNodes) latest(cached *corev1.Node) *corev1.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	ours := r.written[cached.Name]
	if ours == nil {
		return cached
	}
	if ours.UID == cached.UID && older(cached.ResourceVersion, ours.ResourceVersion) {
		return ours
	}
	delete(r.written, cached.Name)
	return cached
}

// news reports whether a node has other unreadable annotations than last time.
func (r *recentNodes) news(node, bad string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bad[node] == bad {
		return false
	}
	if r.bad == nil {
		r.bad = map[string]string{}
	}
	r.bad[node] = bad
	return bad != ""
}
