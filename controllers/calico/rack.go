package calico

import (
	"context"

	"github.com/rrpool/rrpool/controllers/plan"
)

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
