package calico

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/controllers/plan"
)

// roleValue is the value of the role label. Selectors ask for the key only.
const roleValue = "true"

// setReflector gives a node label, cluster ID and mark in one patch.
func (a *Adapter) setReflector(ctx context.Context, scope plan.Scope, act plan.SetReflector) (bool, error) {
	node, err := a.node(ctx, act.Node)
	if err != nil {
		return false, err
	}
	if now := nodeOf(node, scope); now.RoleLabel && now.Marked && now.ClusterID == act.ClusterID {
		return false, nil
	}
	return true, a.patchRole(ctx, node,
		map[string]any{scope.RoleLabel: roleValue},
		map[string]any{clusterIDAnnotation: act.ClusterID, sinceAnnotation: rfc3339(a.now())})
}

// clearReflector takes label, cluster ID and mark from a node in one patch. A
// node that is gone has none of them.
func (a *Adapter) clearReflector(ctx context.Context, scope plan.Scope, act plan.ClearReflector) (bool, error) {
	node, err := a.node(ctx, act.Node)
	if isMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if now := nodeOf(node, scope); !now.RoleLabel && !now.Marked && now.ClusterID == "" {
		return false, nil
	}
	return true, a.patchRole(ctx, node,
		map[string]any{scope.RoleLabel: nil},
		map[string]any{clusterIDAnnotation: nil, sinceAnnotation: nil})
}

// patchRole is the only write to Nodes. With the UID in it, a node that has come
// back with another machine under the same name is a conflict.
func (a *Adapter) patchRole(ctx context.Context, node *corev1.Node, labels, annotations map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": node.UID, "labels": labels, "annotations": annotations,
	}})
	if err != nil {
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
