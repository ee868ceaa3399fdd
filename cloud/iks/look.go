package iks

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/IBM-Cloud/bluemix-go/api/container/containerv2"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/poolplan"
)

// look observes everything that a change depends on.
func (p *Provider) look(ctx context.Context) (generation, view, error) {
	g, err := p.generation(ctx)
	if err != nil {
		return nil, view{}, err
	}
	all, err := g.pools(ctx)
	if err != nil {
		return nil, view{}, err
	}
	v, err := p.sort(all)
	if err != nil {
		return nil, view{}, err
	}
	if v.pool.id != "" && v.pool.owned() {
		if err := p.inspect(ctx, g, &v); err != nil {
			return nil, view{}, err
		}
	}
	return g, v, nil
}

// sort tells our pool from the others.
func (p *Provider) sort(all []pool) (view, error) {
	var v view
	if len(all) == 0 {
		// A cluster that is up has a pool. Believing this would make a second one.
		return v, p.senseless("it lists no worker pool at all")
	}
	slices.SortFunc(all, func(a, b pool) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.id, b.id)) })
	zones := map[string]bool{}
	for _, o := range all {
		switch {
		case o.name != p.cfg.PoolName:
			v.others = append(v.others, o)
			for z := range o.zones {
				zones[z] = true
			}
		case v.pool.id != "":
			return v, &cloud.Error{
				Kind: cloud.Conflict, Op: p.op("observing"),
				Message: fmt.Sprintf("there are two pools of this name, %s and %s; delete one", v.pool.id, o.id),
			}
		default:
			v.pool = o
		}
	}
	if len(zones) == 0 {
		for _, z := range p.facts.zones {
			zones[z] = true
		}
	}
	v.state = poolplan.State{
		Pool: cloud.Pool{Name: p.cfg.PoolName}, Labels: v.pool.labels, Deleting: v.pool.deleting,
		Memory: p.memory, Now: p.cfg.Now(),
	}
	for z := range zones {
		v.state.ClusterZones = append(v.state.ClusterZones, z)
	}
	slices.Sort(v.state.ClusterZones)
	if v.pool.id != "" {
		s := &v.state.Pool
		s.Exists, s.Owned, s.ID, s.Flavor = true, v.pool.owned(), v.pool.id, v.pool.flavor
		s.SizePerZone, s.Zones, s.Taints, s.Autoscaled = v.pool.size, v.pool.zoneIDs(), v.pool.taints, v.pool.autoscaled
		s.Problems = poolProblems(v.pool)
	}
	return v, nil
}

// inspect reads the workers, and the taints where the listing has none.
func (p *Provider) inspect(ctx context.Context, g generation, v *view) error {
	s := &v.state.Pool
	var err error
	if s.Workers, err = g.workers(ctx, s.ID, false); err != nil {
		return err
	}
	slices.SortFunc(s.Workers, func(a, b cloud.Worker) int { return strings.Compare(a.ID, b.ID) })
	for i := range s.Workers {
		w := &s.Workers[i]
		w.Message = p.session.scrub(w.Message)
		if w.State == cloud.WorkerFailed || w.State == cloud.WorkerUnhealthy {
			s.Problems = append(s.Problems, fmt.Sprintf("worker %s in zone %s: %s: %s", w.ID, w.Zone, w.State, w.Message))
		}
	}
	slices.Sort(s.Problems)
	if v.pool.taintsKnown || v.pool.deleting {
		return nil
	}
	known, ok := p.taints[s.ID]
	if !ok || p.cfg.Now().Sub(known.at) >= taintsLife {
		taints, err := p.readTaints(ctx, s.ID)
		if err != nil {
			return err
		}
		known = confirmed{taints: taints, at: p.cfg.Now()}
		p.taints[s.ID] = known
	}
	s.Taints = known.taints
	return nil
}

func poolProblems(o pool) []string {
	var out []string
	if !o.owned() {
		out = append(out, fmt.Sprintf("pool %s is not rrpool's: it lacks the label %s=%s", o.name, ManagedByLabel, ManagedBy))
	}
	if o.autoscaled {
		out = append(out, fmt.Sprintf("pool %s is resized by an autoscaler; exclude it from the autoscaler's configuration", o.name))
	}
	return out
}

// generation finds out which API the cluster speaks.
func (p *Provider) generation(ctx context.Context) (generation, error) {
	if p.facts == nil || p.cfg.Now().Sub(p.facts.at) >= factsLife {
		path, err := address("/v2/getCluster?cluster=%s&v1-compatible", p.cfg.ClusterID)
		if err != nil {
			return nil, p.invalid(err)
		}
		var got containerv2.ClusterInfo
		op := fmt.Sprintf("reading cluster %q", p.cfg.ClusterID)
		if err := p.session.do(ctx, p.v2(op, http.MethodGet, path, nil, &got)); err != nil {
			return nil, err
		}
		if got.ID == "" || got.Provider == "" {
			return nil, p.senseless("the cluster has no id or provider")
		}
		if p.cfg.ClusterID != got.ID && p.cfg.ClusterID != got.Name {
			return nil, p.senseless("asked for cluster %q, it tells of %q", p.cfg.ClusterID, got.ID)
		}
		p.facts = &facts{provider: got.Provider, zones: got.WorkerZones, vpcs: got.Vpcs, at: p.cfg.Now()}
	}
	switch p.facts.provider {
	case providerVPC:
		return vpc{p}, nil
	case providerClassic:
		return classic{p}, nil
	}
	return nil, &cloud.Error{
		Kind: cloud.InvalidInput, Op: fmt.Sprintf("reading cluster %q", p.cfg.ClusterID),
		Message: fmt.Sprintf("clusters of the provider %q are not supported, only %s and %s", p.facts.provider, providerVPC, providerClassic),
	}
}
