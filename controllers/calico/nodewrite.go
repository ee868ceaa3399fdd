package calico

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// exact makes the patch a conflict if the node has changed since it was read.
	exact bool
}

// patchNode makes every write to nodes. With Calico's own etcd it writes all labels except the pool's to Calico's Node.
func (a *Adapter) patchNode(ctx context.Context, node *corev1.Node, p nodePatch) error {
	if _, pool := p.labels[v1alpha1.PoolLabel]; a.etcd != nil && len(p.labels) > 0 && !pool {
		return a.patchCalicoNode(ctx, node.Name, p)
	}
	return a.patchKubeNode(ctx, node, p)
}

// patchKubeNode makes every write to Kubernetes Nodes. The patch has the UID: if another machine has the name now, the patch is a conflict. It
// also removes our mark of a cordon from a node that a person has uncordoned.
func (a *Adapter) patchKubeNode(ctx context.Context, node *corev1.Node, p nodePatch) error {
	notes := map[string]any{}
	if metav1.HasAnnotation(node.ObjectMeta, cordonedAnnotation) && !node.Spec.Unschedulable && p.unschedulable == nil {
		notes[cordonedAnnotation] = nil
	}
	maps.Copy(notes, p.annotations)
	meta := map[string]any{"uid": node.UID}
	if len(p.labels) > 0 {
		meta["labels"] = p.labels
	}
	if len(notes) > 0 {
		meta["annotations"] = notes
	}
	if p.exact {
		meta["resourceVersion"] = node.ResourceVersion
	}
	body := map[string]any{"metadata": meta}
	if p.unschedulable != nil {
		body["spec"] = map[string]any{"unschedulable": *p.unschedulable}
	}
	patch, err := json.Marshal(body)
	if err = errors.Join(err, a.store.writable(), a.cfg.Permit(ctx)); err != nil {
		return fmt.Errorf("patching node %q: %w", node.Name, err)
	}
	out := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	if err := a.cfg.Writer.Patch(ctx, out, client.RawPatch(types.MergePatchType, patch)); err != nil {
		a.recent.doubted.Store(node.Name, nil)
		return fmt.Errorf("patching node %q: %w", node.Name, err)
	}
	a.recent.keep(out)
	return nil
}

// readDoubted reads the Nodes whose last write failed, past the cache: the write may have been made, and the cache may not show it for a while.
func (a *Adapter) readDoubted(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	for name := range a.recent.doubted.Range {
		var live corev1.NodeList // the manager has the right to list Nodes, not to get one
		if err := cmp.Or(a.cfg.Live, a.cfg.Nodes).List(ctx, &live, client.MatchingFields{"metadata.name": name.(string)}); err != nil {
			return fmt.Errorf("reading node %q after a write that failed: %w", name, err)
		}
		for i := range live.Items {
			a.recent.keep(&live.Items[i])
		}
		a.recent.doubted.Delete(name)
	}
	return nil
}

// node reads a Node from the cache, or takes our own last write if that is newer, and joins it with Calico's Node.
func (a *Adapter) node(ctx context.Context, scope plan.DatastoreOptions, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	if err := errors.Join(a.readDoubted(ctx), a.refreshCalicoNode(ctx, name)); err != nil {
		return nil, err
	}
	if err := a.cfg.Nodes.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return nil, fmt.Errorf("reading node %q: %w", name, err)
	}
	_, j, err := a.joinAll(ctx)
	return j.joined(a.recent.latest(node), scope), err
}

// recentNodes has our writes to Nodes that have not arrived in the cache.
type recentNodes struct {
	// written are Nodes by name, and doubted the names of those whose last write failed.
	written, doubted sync.Map
}

func (r *recentNodes) keep(n *corev1.Node) { r.written.Store(n.Name, n) }

// latest returns the newer of the cached Node and the one that we have written.
func (r *recentNodes) latest(cached *corev1.Node) *corev1.Node {
	written, ok := r.written.Load(cached.Name)
	if !ok {
		return cached
	}
	if ours := written.(*corev1.Node); ours.UID == cached.UID && older(cached.ResourceVersion, ours.ResourceVersion) {
		return ours
	}
	r.written.CompareAndDelete(cached.Name, written)
	return cached
}

// applyToNode makes one change to a Node, in one write. Removing something from a node that no longer exists counts as no change.
func (a *Adapter) applyToNode(ctx context.Context, scope plan.DatastoreOptions, action plan.Action) (bool, error) {
	at := rfc3339(a.cfg.Now())
	switch act := action.(type) {
	case plan.SetReflector:
		return a.changeNode(ctx, scope, act.Node, func(n *corev1.Node) *nodePatch { return rolePatch(n, scope, act, at) })
	case plan.CordonNode:
		return a.changeNode(ctx, scope, act.Node, func(n *corev1.Node) *nodePatch { return cordonPatch(n, at) })
	case plan.ClearReflector:
		return ignoreMissing(a.changeNode(ctx, scope, act.Node, func(n *corev1.Node) *nodePatch { return clearRolePatch(n, scope) }))
	case plan.SetRack:
		return ignoreMissing(a.changeNode(ctx, scope, act.Node, func(n *corev1.Node) *nodePatch { return labelPatch(n, plan.RackLabel, act.Rack) }))
	case plan.UncordonNode:
		return ignoreMissing(a.changeNode(ctx, scope, act.Node, uncordonPatch))
	default:
		return false, fmt.Errorf("applying %T: not an action of the datastore", action)
	}
}

// changeNode makes the patch that edit returns for a node. If edit returns nil, it does nothing.
func (a *Adapter) changeNode(ctx context.Context, scope plan.DatastoreOptions, name string, edit func(*corev1.Node) *nodePatch) (bool, error) {
	node, err := a.node(ctx, scope, name)
	if err != nil {
		return false, err
	}
	p := edit(node)
	if p == nil {
		return false, nil
	}
	return true, a.patchNode(ctx, node, *p)
}

// ignoreMissing turns the error that a node does not exist into no change.
func ignoreMissing(did bool, err error) (bool, error) {
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return did, err
}

// rolePatch sets the role's label, cluster ID and mark. It also corrects a
// wrong value of the label, whoever wrote it: BGPPeers may select by the value.
func rolePatch(n *corev1.Node, scope plan.DatastoreOptions, act plan.SetReflector, at string) *nodePatch {
	slot := cmp.Or(act.Slot, topology.SlotSingle)
	if now := nodeOf(n, scope); now.Slot == slot && now.Marked && now.ClusterID == act.ClusterID {
		return nil
	}
	return &nodePatch{
		labels:      map[string]any{scope.RoleLabel: slot},
		annotations: map[string]any{clusterIDAnnotation: act.ClusterID, sinceAnnotation: at},
	}
}

// clearRolePatch removes the role's label, cluster ID and mark.
func clearRolePatch(n *corev1.Node, scope plan.DatastoreOptions) *nodePatch {
	if now := nodeOf(n, scope); !now.HasRoleLabel && !now.Marked && now.ClusterID == "" {
		return nil
	}
	return &nodePatch{
		labels:      map[string]any{scope.RoleLabel: nil},
		annotations: map[string]any{clusterIDAnnotation: nil, sinceAnnotation: nil},
	}
}

// labelPatch sets a label, or removes it where the value is "".
func labelPatch(n *corev1.Node, key, value string) *nodePatch {
	now, labelled := n.Labels[key]
	switch {
	case labelled == (value != "") && now == value:
		return nil
	case value == "":
		return &nodePatch{labels: map[string]any{key: nil}}
	}
	return &nodePatch{labels: map[string]any{key: value}}
}

// cordonPatch cordons a node and marks the cordon as ours. A node that is cordoned already is left alone. The patch is exact: if a person cordons
// the node at the same moment, that cordon is not marked as ours.
func cordonPatch(n *corev1.Node, at string) *nodePatch {
	if n.Spec.Unschedulable {
		return nil
	}
	return &nodePatch{annotations: map[string]any{cordonedAnnotation: at}, unschedulable: ptr.To(true), exact: true}
}

// uncordonPatch undoes cordonPatch. A node without our mark is left alone. A node that a person has uncordoned only loses the mark.
func uncordonPatch(n *corev1.Node) *nodePatch {
	if !metav1.HasAnnotation(n.ObjectMeta, cordonedAnnotation) {
		return nil
	}
	p := &nodePatch{annotations: map[string]any{cordonedAnnotation: nil}, exact: true}
	if n.Spec.Unschedulable {
		p.unschedulable = ptr.To(false)
	}
	return p
}

// Nodes gives a provider the nodes of the cluster to choose among.
type Nodes struct {
	adapter *Adapter
	scope   plan.DatastoreOptions
}

// Nodes returns access to the nodes as Observe maps them.
func (a *Adapter) Nodes(scope plan.DatastoreOptions) Nodes { return Nodes{adapter: a, scope: scope} }

// List returns all nodes, sorted by name, without their blocks. It makes no request.
func (n Nodes) List(ctx context.Context) ([]plan.Node, error) {
	nodes, _, err := n.adapter.observeNodes(ctx, n.scope)
	n.adapter.addCalicoNodes(nodes, false)
	return nodes, err
}

// SetPool sets the pool label of a node in one patch, or removes it where pool is "". IsConflict(err) means that another machine has the name now.
func (n Nodes) SetPool(ctx context.Context, node plan.Node, pool string) error {
	live, err := n.adapter.node(ctx, n.scope, node.Name)
	if apierrors.IsNotFound(err) && pool == "" {
		return nil
	}
	if err != nil {
		return err
	}
	if string(live.UID) != node.UID {
		return changed("Node", node.Name, "another machine bears the name now")
	}
	if p := labelPatch(live, v1alpha1.PoolLabel, pool); p != nil {
		return n.adapter.patchNode(ctx, live, *p)
	}
	return nil
}
