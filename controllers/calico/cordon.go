package calico

import (
	"context"

	"k8s.io/utils/ptr"
)

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
	if !has(node.Annotations, cordonedAnnotation) {
		return false, nil
	}
	p := nodePatch{annotations: map[string]any{cordonedAnnotation: nil}, exact: true}
	if node.Spec.Unschedulable {
		p.unschedulable = ptr.To(false)
	}
	return true, a.patchNode(ctx, node, p)
}
