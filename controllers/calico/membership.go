package calico

import (
	"context"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

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
