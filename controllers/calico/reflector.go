package calico

import (
	"context"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// setReflector gives a node label, cluster ID and mark in one patch. Selectors may ask
// for the label's value, so another one is put right, whoever wrote it.
func (a *Adapter) setReflector(ctx context.Context, scope plan.Scope, act plan.SetReflector) (bool, error) {
	node, err := a.node(ctx, act.Node)
	if err != nil {
		return false, err
	}
	seat := act.Seat
	if seat == "" {
		seat = topology.SeatSingle
	}
	if now := nodeOf(node, scope); now.Seat == seat && now.Marked && now.ClusterID == act.ClusterID {
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
