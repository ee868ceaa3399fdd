package pool

import (
	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// costOf is what the dedicated pool costs, in whatever mode: it does until it is deleted.
// It goes by the labels of nodes, as `rrpool cost` does, so no cloud is needed for it;
// workers that are not nodes yet are not counted. Nil without a worker, and on existing
// nodes, which cost nothing extra.
func costOf(t *turn) *v1alpha1.CostStatus {
	if t.busy() {
		return nil
	}
	return cost.Status(paidFor(t.cluster.Nodes, t.object.Spec.Provider.IKS.PoolName))
}

// paidFor are the workers of the pool. Prices do not depend on the zone within a region.
func paidFor(nodes []plan.Node, poolName string) []cost.Worker {
	var out []cost.Worker
	for _, node := range nodes {
		if cost.InPool(node.Labels, poolName) {
			out = append(out, cost.WorkerOf(node.Labels, ""))
		}
	}
	return out
}

// costHourly tells an amount that is exact; any other is unknown.
func costHourly(s *sight) []reading {
	if s.known == nil || s.known.cost == nil {
		return nil
	}
	amount, err := cost.ParseDecimal(s.known.cost.Hourly)
	if err != nil {
		return nil
	}
	return []reading{{amount.Approximate(), []string{s.known.cost.Currency}}}
}
