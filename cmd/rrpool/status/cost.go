package status

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// hoursPerMonth is the month of `rrpool cost`.
const hoursPerMonth = 720

// priceView is what the pool costs per month.
type priceView struct {
	// Certainty as in `rrpool cost`; unknown has no amount.
	Certainty cost.Certainty `json:"certainty"`
	Currency  string         `json:"currency,omitempty"`
	// Monthly is a decimal, for a month of 720 hours.
	Monthly string `json:"monthly,omitempty"`
	// Source says where the price is from, or why there is none.
	Source string `json:"source"`
}

// priceOf is what the manager reports, else what the built-in book says of the pool's
// nodes. Nothing is guessed.
func priceOf(f Facts) priceView {
	reported := f.Object.Status.Cost
	switch {
	case reported != nil && reported.Monthly == "":
		return priceView{Certainty: cost.Unknown, Source: cmp.Or(reported.Source, "the manager does not know it")}
	case reported != nil:
		return priceView{cost.Exact, reported.Currency, reported.Monthly, cmp.Or(reported.Source, "the manager")}
	case existing(f.Object, f.Nodes):
		return priceView{Certainty: cost.Exact, Monthly: "0.00", Source: "the reflectors are nodes that the cluster has anyway"}
	}
	workers := workersOf(f.Object, f.Nodes)
	if len(workers) == 0 {
		return priceView{Certainty: cost.Exact, Monthly: "0.00", Source: "no worker of the pool is a node"}
	}
	book, err := cost.Builtin()
	if err != nil {
		return priceView{Certainty: cost.Unknown, Source: err.Error()}
	}
	const currency = "USD"
	report := cost.Compute(cost.Input{
		Pool: workers, Prices: cost.Shelf{book}, Currency: currency, HoursPerMonth: hoursPerMonth, Now: f.Now,
	})
	out := priceView{Certainty: report.Pool.Certainty(), Source: "the built-in prices; rrpool cost has the details"}
	if len(report.Unpriced) > 0 {
		out.Source = "no price is known of " + strings.Join(report.Unpriced, ", ") + "; rrpool cost says how to give one"
	}
	if out.Certainty != cost.Unknown {
		out.Currency, out.Monthly = currency, report.Pool.Monthly(hoursPerMonth).Round(2)
	}
	if stale := report.Old; len(stale) > 0 {
		out.Source += "; of " + stale[0].Date.Format(time.DateOnly)
	}
	return out
}

// existing: the reflectors are nodes that are there anyway.
func existing(object *v1alpha1.RouteReflectorPool, nodes []corev1.Node) bool {
	if object.Status.Provider != "" {
		return object.Status.Provider == "existing"
	}
	if kind := object.Spec.Provider.Type; kind != v1alpha1.ProviderAuto && kind != "" {
		return kind == v1alpha1.ProviderExistingNodes
	}
	return !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return strings.HasPrefix(n.Spec.ProviderID, "ibm://") })
}

// workersOf are the nodes of the dedicated pool as somebody pays for them.
func workersOf(object *v1alpha1.RouteReflectorPool, nodes []corev1.Node) []cost.Worker {
	var out []cost.Worker
	for _, node := range nodes {
		label := node.Labels[v1alpha1.PoolLabel]
		if label == "" || label != object.Spec.Provider.IKS.PoolName {
			continue
		}
		flavor := cmp.Or(node.Labels["ibm-cloud.kubernetes.io/machine-type"], node.Labels[corev1.LabelInstanceTypeStable])
		out = append(out, cost.Worker{
			Zone:   node.Labels[corev1.LabelTopologyZone],
			Region: cmp.Or(node.Labels["ibm-cloud.kubernetes.io/region"], node.Labels[corev1.LabelTopologyRegion]),
			Flavor: strings.TrimSuffix(flavor, ".encrypted"),
		})
	}
	return out
}
