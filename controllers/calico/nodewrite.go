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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/topology"
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
	if hasKey(node.Annotations, cordonedAnnotation) && !node.Spec.Unschedulable && p.unschedulable == nil {
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

// changedUnreadable reports whether a node has other unreadable annotations than last time.
func (r *recentNodes) changedUnreadable(node, bad string) bool {
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

// setReflector gives a node label, cluster ID and mark in one patch. Selectors may ask
// for the label's value, so another one is put right, whoever wrote it.
func (a *Adapter) setReflector(ctx context.Context, scope plan.Scope, act plan.SetReflector) (bool, error) {
	node, err := a.node(ctx, act.Node)
	if err != nil {
		return false, err
	}
	seat := act.Slot
	if seat == "" {
		seat = topology.SlotSingle
	}
	if now := nodeOf(node, scope); now.Slot == seat && now.Marked && now.ClusterID == act.ClusterID {
		return false, nil
	}
	return true, a.patchNode(ctx, node, nodePatch{
		labels:      map[string]any{scope.RoleLabel: seat},
		annotations: map[string]any{clusterIDAnnotation: act.ClusterID, sinceAnnotation: rfc3339(a.now())},
	})
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
	return true, a.patchNode(ctx, node, nodePatch{
		labels:      map[string]any{scope.RoleLabel: nil},
		annotations: map[string]any{clusterIDAnnotation: nil, sinceAnnotation: nil},
	})
}

// setRack writes the rack label of a node in one patch, or removes it where the rack
// is "". A node that is gone is in no rack and needs none.
func (a *Adapter) setRack(ctx context.Context, act plan.SetRack) (bool, error) {
	node, err := a.node(ctx, act.Node)
	if isMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	now, labelled := node.Labels[plan.RackLabel]
	if labelled == (act.Rack != "") && now == act.Rack {
		return false, nil
	}
	value := any(act.Rack)
	if act.Rack == "" {
		value = nil
	}
	return true, a.patchNode(ctx, node, nodePatch{labels: map[string]any{plan.RackLabel: value}})
}

// cordon keeps new pods off a node and marks that as ours, in one patch. A node
// that is cordoned already is left as it is: whoever did it undoes it. The patch
// is for the node as it was read, so that a person who cordons it in the same
// moment keeps that cordon.
func (a *Adapter) cordon(ctx context.Context, name string) (bool, error) {
	node, err := a.node(ctx, name)
	if err != nil {
		return false, err
	}
	if node.Spec.Unschedulable {
		return false, nil
	}
	return true, a.patchNode(ctx, node, nodePatch{
		annotations:   map[string]any{cordonedAnnotation: rfc3339(a.now())},
		unschedulable: ptr.To(true), exact: true,
	})
}

// uncordon undoes cordon, in one patch. A node without our mark is left alone, and
// one that a person has uncordoned only loses the mark.
func (a *Adapter) uncordon(ctx context.Context, name string) (bool, error) {
	node, err := a.node(ctx, name)
	if isMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !hasKey(node.Annotations, cordonedAnnotation) {
		return false, nil
	}
	p := nodePatch{annotations: map[string]any{cordonedAnnotation: nil}, exact: true}
	if node.Spec.Unschedulable {
		p.unschedulable = ptr.To(false)
	}
	return true, a.patchNode(ctx, node, p)
}

// Nodes are the nodes of the cluster for whoever chooses among them, with the zone
// and role of a scope.
type Nodes struct {
	adapter *Adapter
	scope   plan.Scope
}

// Nodes gives the nodes as Observe does, and nothing else.
func (a *Adapter) Nodes(scope plan.Scope) Nodes { return Nodes{adapter: a, scope: scope} }

// List gives all nodes, sorted by name, without their blocks. It makes no request.
func (n Nodes) List(ctx context.Context) ([]plan.Node, error) {
	return n.adapter.observeNodes(ctx, n.scope)
}

// SetPool writes the pool label of a node in one patch, or removes it where pool
// is "". An error that IsConflict means that another machine bears the name now.
func (n Nodes) SetPool(ctx context.Context, node plan.Node, pool string) error {
	live, err := n.adapter.node(ctx, node.Name)
	if isMissing(err) && pool == "" {
		return nil
	}
	if err != nil {
		return err
	}
	if string(live.UID) != node.UID {
		return changed("Node("+node.Name+")", "another machine bears the name now")
	}
	value := any(pool)
	if pool == "" {
		value = nil
	}
	if now, ok := live.Labels[v1alpha1.PoolLabel]; ok == (pool != "") && now == pool {
		return nil
	}
	return n.adapter.patchNode(ctx, live, nodePatch{labels: map[string]any{v1alpha1.PoolLabel: value}})
}
