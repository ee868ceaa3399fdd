package iks

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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
	if err := p.complete(ctx, g, &v.pool); err != nil {
		return nil, view{}, err
	}
	p.describe(&v)
	if v.pool.id != "" && v.pool.owned() {
		if err := p.inspect(ctx, g, &v); err != nil {
			return nil, view{}, err
		}
	}
	return g, v, nil
}

// complete fills in what the listing left out. Our own pool is only believed whole.
func (p *Provider) complete(ctx context.Context, g generation, o *pool) error {
	if o.id == "" || o.owned() && o.sized && o.zones != nil {
		return nil
	}
	whole, err := p.single(ctx, g, o.id)
	if err != nil {
		return err
	}
	if whole.owned() && !whole.sized {
		return p.implausible("worker pool %q has no size", o.name)
	}
	whole.deleting = whole.deleting || o.deleting
	*o = whole
	p.taints.see(o.id, o.taints, p.cfg.Now())
	return nil
}

// sort tells our pool from the others.
func (p *Provider) sort(all []pool) (view, error) {
	var v view
	if len(all) == 0 {
		// A cluster that is up has a pool. Believing this would make a second one.
		return v, p.implausible("it lists no worker pool at all")
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
	v.zones = slices.Sorted(maps.Keys(zones))
	return v, nil
}

// describe is the pool in the words of the port.
func (p *Provider) describe(v *view) {
	v.state = poolplan.State{
		Pool: cloud.Pool{Name: p.cfg.PoolName, ClusterZones: v.zones}, Labels: v.pool.labels, Deleting: v.pool.deleting,
		Memory: p.memory, Now: p.cfg.Now(),
	}
	if v.pool.id != "" {
		s := &v.state.Pool
		s.Exists, s.Owned, s.ID, s.Flavor = true, v.pool.owned(), v.pool.id, v.pool.flavor
		s.SizePerZone, s.Zones, s.Taints, s.Autoscaled = v.pool.size, slices.Sorted(maps.Keys(v.pool.zones)), v.pool.taints, v.pool.autoscaled
		s.Problems = poolProblems(v.pool)
	}
}

// inspect reads the workers, and the taints where the listing has none.
func (p *Provider) inspect(ctx context.Context, g generation, v *view) error {
	s := &v.state.Pool
	var err error
	if s.Workers, err = p.workersOf(ctx, g, s.ID, false); err != nil {
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
	if v.pool.deleting {
		return nil
	}
	return p.readTaints(ctx, g, v)
}

// readTaints takes the taints of the listing when it has some, else those of the
// pool's own answer.
func (p *Provider) readTaints(ctx context.Context, g generation, v *view) error {
	now, s := p.cfg.Now(), &v.state.Pool
	if len(v.pool.taints) > 0 {
		p.taints.see(s.ID, v.pool.taints, now)
	} else if p.taints.stale(s.ID, v.pool.taints, now) {
		got, err := p.single(ctx, g, s.ID)
		if err != nil {
			return err
		}
		p.taints.see(s.ID, got.taints, now)
	}
	taints, known := p.taints.of(s.ID, now)
	s.Taints, s.TaintsUnknown = taints, !known
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
		if err := p.readCluster(ctx); err != nil {
			return nil, err
		}
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

func (p *Provider) readCluster(ctx context.Context) error {
	var got containerv2.ClusterInfo
	op := fmt.Sprintf("reading cluster %q", p.cfg.ClusterID)
	if err := p.v2(ctx, op, http.MethodGet, to("/v2/getCluster?cluster=%s&v1-compatible", p.cfg.ClusterID), nil, &got); err != nil {
		return err
	}
	if got.ID == "" || got.Provider == "" {
		return p.implausible("the cluster has no id or provider")
	}
	if p.cfg.ClusterID != got.ID && p.cfg.ClusterID != got.Name {
		return p.implausible("asked for cluster %q, it answers for %q", p.cfg.ClusterID, got.ID)
	}
	if got.ResourceGroupID != "" {
		if err := checkID("resource group", got.ResourceGroupID); err != nil {
			return p.implausible("%v", err)
		}
	}
	p.facts = &facts{
		provider: got.Provider, group: got.ResourceGroupID, zones: got.WorkerZones, vpcs: got.Vpcs, at: p.cfg.Now(),
	}
	return nil
}
