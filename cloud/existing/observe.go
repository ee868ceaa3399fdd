package existing

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/selection"
)

// marked gives the nodes sorted by name, with their membership filled in.
func (p *Provider) marked(nodes []plan.Node) []plan.Node {
	nodes = slices.Clone(nodes)
	for i := range nodes {
		nodes[i].Pooled = nodes[i].Labels[v1alpha1.PoolLabel] == p.cfg.PoolName
	}
	slices.SortFunc(nodes, func(a, b plan.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes
}

// rules for want; no zones in it means every zone.
func (p *Provider) rules(want cloud.PoolSpec, nodes []plan.Node) selection.Rules {
	r := selection.Rules{
		PerZone: want.SizePerZone, Zones: want.Zones,
		Preferred: p.cfg.Preferred, Excluded: p.cfg.Excluded, Lost: p.lost,
	}
	if len(r.Zones) == 0 {
		r.Zones = zonesOf(nodes, plan.Node.SpeaksBGP)
	}
	return r.Of(nodes)
}

// lost nodes have been NotReady for longer than the grace.
func (p *Provider) lost(n plan.Node) bool {
	return !n.Ready && p.cfg.Now().Sub(n.ReadyChanged) > p.cfg.NotReadyGrace
}

// zonesOf gives the zones of the nodes that are so, sorted.
func zonesOf(nodes []plan.Node, so func(plan.Node) bool) []string {
	zones := map[string]bool{}
	for _, n := range nodes {
		if so(n) {
			zones[n.Zone] = true
		}
	}
	return slices.Sorted(maps.Keys(zones))
}

// poolOf is the pool that the nodes make up.
func (p *Provider) poolOf(nodes []plan.Node) cloud.Pool {
	pool := cloud.Pool{
		Owned: true, ID: p.cfg.PoolName, Name: p.cfg.PoolName,
		Zones:        zonesOf(nodes, func(n plan.Node) bool { return n.Pooled }),
		ClusterZones: zonesOf(nodes, plan.Node.SpeaksBGP),
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
		if rules.Unfit(n) == "" {
			staying++
		}
	}
	slices.Sort(pool.Problems)
	pool.Exists = len(pool.Workers) > 0
	if pool.Exists {
		pool.SizePerZone = sizeOf(staying, len(pool.ClusterZones))
	}
	return pool
}

// sizeOf is the size per zone that so many members were most likely asked for:
// their number by zones, to the nearest, and down from halfway. For a moment a pool has one
// member more, which is to replace another, or one less, whose node is gone; with
// three zones neither shows as another size, or a pool that is kept large
// because of a margin would grow or shrink by it. Members that are merely NotReady, for
// however long, count: an outage must not make the pool smaller. Those that are
// unfit do not, as they do not come back by themselves.
func sizeOf(members, zones int) int {
	zones = max(zones, 1)
	return max(1, (2*members+zones-1)/(2*zones))
}

func (p *Provider) worker(n plan.Node, rules selection.Rules) cloud.Worker {
	w := cloud.Worker{ID: n.Name, NodeName: n.Name, Zone: n.Zone, State: cloud.WorkerDeployed}
	switch reason := rules.Unfit(n); {
	case reason != "":
		w.State, w.Message = cloud.WorkerFailed, reason
	case p.lost(n):
		w.State, w.Message = cloud.WorkerFailed, fmt.Sprintf("it has been NotReady for longer than %s", p.cfg.NotReadyGrace)
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
