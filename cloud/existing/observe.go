package existing

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/selection"
)

// list returns the nodes, sorted by name, with their membership.
func (p *Provider) list(ctx context.Context) ([]plan.Node, error) {
	nodes, err := p.cfg.Nodes.List(ctx)
	if err != nil {
		return nil, failure("listing nodes", err)
	}
	nodes = slices.Clone(nodes)
	for i := range nodes {
		nodes[i].Pooled = nodes[i].Labels[v1alpha1.PoolLabel] == p.cfg.PoolName
	}
	slices.SortFunc(nodes, func(a, b plan.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes, nil
}

// rules returns the rules of selection for want. If want names no zones, the rules are for every zone.
func (p *Provider) rules(want cloud.PoolSpec, nodes []plan.Node) selection.Rules {
	r := selection.Rules{
		PerZone: want.SizePerZone, Zones: want.Zones,
		Preferred: p.cfg.Preferred, Excluded: p.cfg.Excluded, Lost: func(n plan.Node) bool { return p.isLost(n) || p.isStuck(n) },
	}
	if len(r.Zones) == 0 {
		r.Zones = plan.Zones(nodes, plan.Node.SpeaksBGP)
	}
	return r.Of(nodes)
}

func (p *Provider) isLost(n plan.Node) bool {
	return plan.IsLost(n, p.cfg.Now().Sub(n.ReadyChanged), p.cfg.NotReadyGrace)
}

// isStuck reports whether calico-node has been failing for NotReadyGrace or longer on a node that does not have the role.
func (p *Provider) isStuck(n plan.Node) bool {
	return !n.IsOurs() && n.CalicoNode.Failing() && p.cfg.Now().Sub(n.CalicoNode.Since) >= p.cfg.NotReadyGrace
}

// poolOf returns the pool that the nodes make up.
func (p *Provider) poolOf(nodes []plan.Node) cloud.Pool {
	pool := cloud.Pool{
		Owned: true, ID: p.cfg.PoolName, Name: p.cfg.PoolName,
		Zones:        plan.Zones(nodes, func(n plan.Node) bool { return n.Pooled }),
		ClusterZones: plan.Zones(nodes, plan.Node.SpeaksBGP),
	}
	rules, staying := p.rules(cloud.PoolSpec{}, nodes), 0
	for _, n := range nodes {
		if !n.Pooled {
			continue
		}
		w := p.worker(n, rules)
		pool.Workers = append(pool.Workers, w)
		if w.State == cloud.WorkerFailed {
			pool.Problems = append(pool.Problems, fmt.Sprintf("%s: %s", place(n), w.Message))
		}
		if rules.Unfit(n) == "" { // Ready or not: an outage must not make the pool smaller
			staying++
		}
	}
	slices.Sort(pool.Problems)
	pool.Exists = len(pool.Workers) > 0
	if zones := max(len(pool.ClusterZones), 1); pool.Exists {
		// Most likely this size was asked for. It is rounded to the nearest, so that a substitute or a lost node changes nothing.
		pool.SizePerZone = max(1, (2*staying+zones-1)/(2*zones))
	}
	return pool
}

func (p *Provider) worker(n plan.Node, rules selection.Rules) cloud.Worker {
	w := cloud.Worker{ID: n.Name, NodeName: n.Name, Zone: n.Zone, State: cloud.WorkerDeployed}
	switch reason := rules.Unfit(n); {
	case reason != "":
		w.State, w.Message = cloud.WorkerFailed, reason
	case p.isLost(n):
		w.State, w.Message = cloud.WorkerFailed, fmt.Sprintf("it has been NotReady for %s or longer", p.cfg.NotReadyGrace)
	case p.isStuck(n):
		w.State, w.Message = cloud.WorkerFailed, fmt.Sprintf("calico-node has not been Ready there for %s or longer", p.cfg.NotReadyGrace)
	case !n.Ready:
		w.State, w.Message = cloud.WorkerUnhealthy, "it is NotReady"
	}
	return w
}

// place names a node and where it is.
func place(n plan.Node) string {
	if n.Zone == "" {
		return fmt.Sprintf("node %s", n.Name)
	}
	return fmt.Sprintf("node %s in zone %s", n.Name, n.Zone)
}
