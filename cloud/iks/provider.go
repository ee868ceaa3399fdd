package iks

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/IBM-Cloud/bluemix-go/api/container/containerv2"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/poolplan"
)

// How long what was read stays true enough. Nothing is changed on such old
// knowledge but the choice of API and of zones.
const (
	factsLife  = time.Hour
	taintsLife = 10 * time.Minute
)

// The providers of clusters that are supported, in IBM's words.
const (
	providerVPC     = "vpc-gen2"
	providerClassic = "classic"
)

// Provider is a cloud.Provider for one cluster and one pool name.
type Provider struct {
	cfg     Config
	session *session
	// lock makes calls take turns: only so is "look, then change" one thing.
	lock chan struct{}

	// The rest is a memory of answers, guarded by lock; all of it can be lost.
	facts  *facts
	taints map[string]confirmed
	memory poolplan.Memory
}

var _ cloud.Provider = (*Provider)(nil)

// facts of the cluster that hardly change.
type facts struct {
	provider string
	zones    []string
	vpcs     []string
	at       time.Time
}

type confirmed struct {
	taints []cloud.Taint
	at     time.Time
}

// view is one look at the cloud.
type view struct {
	// pool is ours, or the one that bears our name; id "" when there is none.
	pool   pool
	others []pool
	state  poolplan.State
}

// Name implements cloud.Provider.
func (p *Provider) Name() string { return "iks" }

// Format implements fmt.Formatter: no verb shows what is inside, which is secret.
func (p *Provider) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "iks(cluster %s, pool %s)", p.cfg.ClusterID, p.cfg.PoolName)
}

// Observe implements cloud.Provider. At rest it makes two reading requests.
func (p *Provider) Observe(ctx context.Context) (cloud.Pool, error) {
	if err := p.enter(ctx); err != nil {
		return cloud.Pool{}, err
	}
	defer p.leave()
	_, v, err := p.look(ctx)
	return v.state.Pool, err
}

// Ensure implements cloud.Provider.
func (p *Provider) Ensure(ctx context.Context, want cloud.PoolSpec) (cloud.Progress, error) {
	if err := p.checkSpec(want); err != nil {
		return cloud.Progress{}, err
	}
	if err := p.enter(ctx); err != nil {
		return cloud.Progress{}, err
	}
	defer p.leave()
	g, v, err := p.look(ctx)
	if err != nil {
		return cloud.Progress{}, err
	}
	if want.Flavor == "" {
		want.Flavor = p.cfg.Flavor
	}
	want.Flavor = plain(want.Flavor)
	step, err := poolplan.Next(v.state, want)
	if err != nil || step.Kind == poolplan.None {
		return step.Progress, err
	}
	if step.Kind == poolplan.AddZone {
		// A zone brings workers: the taints are read once more, right before.
		taints, err := p.readTaints(ctx, v.pool.id)
		if err != nil {
			return cloud.Progress{}, err
		}
		p.taints[v.pool.id] = confirmed{taints: taints, at: p.cfg.Now()}
		if !poolplan.Tainted(taints, want.Taints) {
			return cloud.Progress{WaitingFor: "the cloud to confirm the pool's taints"}, nil
		}
	}
	return p.take(ctx, g, step, want, v)
}

// Delete implements cloud.Provider.
func (p *Provider) Delete(ctx context.Context) (cloud.Progress, error) {
	if err := p.enter(ctx); err != nil {
		return cloud.Progress{}, err
	}
	defer p.leave()
	g, v, err := p.look(ctx)
	if err != nil {
		return cloud.Progress{}, err
	}
	step, err := poolplan.NextDelete(v.state)
	if err != nil || step.Kind == poolplan.None {
		return step.Progress, err
	}
	return p.take(ctx, g, step, cloud.PoolSpec{}, v)
}

// take makes the one change.
func (p *Provider) take(ctx context.Context, g generation, step poolplan.Step, want cloud.PoolSpec, v view) (cloud.Progress, error) {
	err := p.apply(ctx, g, step, want, v)
	if err == nil || cloud.Is(err, cloud.Unavailable) {
		// It may have been done although the answer was lost.
		p.memory.Note(step, g.substitutes(), p.cfg.Now())
	}
	if err == nil {
		return cloud.Progress{Did: step.String()}, nil
	}
	gone := step.Kind == poolplan.Remove || step.Kind == poolplan.Replace || step.Kind == poolplan.DeletePool
	if gone && cloud.Is(err, cloud.NotFound) {
		return cloud.Progress{WaitingFor: "the cloud to list what is gone no more"}, nil
	}
	return cloud.Progress{}, err
}

// enter waits for our turn, or for the end of ctx.
func (p *Provider) enter(ctx context.Context) error {
	if ctx.Err() == nil {
		select {
		case p.lock <- struct{}{}:
			return nil
		case <-ctx.Done():
		}
	}
	return &cloud.Error{Kind: cloud.Unavailable, Op: p.op("observing"), Message: "interrupted", Err: ctx.Err()}
}

func (p *Provider) leave() { <-p.lock }

func (p *Provider) checkSpec(want cloud.PoolSpec) error {
	for _, z := range want.Zones {
		if err := checkID("zone", z); err != nil {
			return p.invalid(err)
		}
	}
	if want.Flavor != "" {
		if err := checkID("flavor", want.Flavor); err != nil {
			return p.invalid(err)
		}
	}
	return poolplan.Validate(want)
}

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
	if s.Workers, err = g.workers(ctx, s.ID); err != nil {
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

// create makes the pool. A name that is taken although the listing did not show
// it is most likely our own pool, whose creation was answered too late.
func (p *Provider) create(ctx context.Context, g generation, step poolplan.Step, want cloud.PoolSpec, v view) error {
	flavor := cmp.Or(want.Flavor, g.defaultFlavor())
	err := g.create(ctx, p.cfg.PoolName, flavor, step.Size, step.Labels, v.others)
	if !cloud.Is(err, cloud.Conflict) || !strings.Contains(err.Error(), codeNameTaken) {
		return err
	}
	return &cloud.Error{
		Kind: cloud.Unavailable, Op: p.op("creating"), RetryAfter: rateLimitPause, Err: err,
		Message: "the name is taken, but the pool is not listed yet",
	}
}
