package iks

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

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
	// lock lets one call at a time look and then change.
	lock chan struct{}

	// The rest is a memory of answers, guarded by lock; all of it can be lost.
	facts  *facts
	taints taintMemory
	memory poolplan.Memory
}

var _ cloud.Provider = (*Provider)(nil)

// facts of the cluster that hardly change.
type facts struct {
	provider string
	// group is the id of the cluster's resource group, "" when it is not said.
	group string
	zones []string
	vpcs  []string
	at    time.Time
}

// view is one look at the cloud.
type view struct {
	// pool is ours, or the one that bears our name; id "" when there is none.
	pool   pool
	others []pool
	// zones of the cluster, sorted.
	zones []string
	state poolplan.State
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
	waiting, err := p.confirm(ctx, g, step, want, v)
	if err != nil || waiting != "" {
		return cloud.Progress{WaitingFor: waiting}, err
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
	if err == nil && step.Progress.Done {
		return p.confirmNone(ctx, g)
	}
	if err != nil || step.Kind == poolplan.None {
		return step.Progress, err
	}
	return p.take(ctx, g, step, cloud.PoolSpec{}, v)
}

// take makes the one change.
func (p *Provider) take(ctx context.Context, g generation, step poolplan.Step, want cloud.PoolSpec, v view) (cloud.Progress, error) {
	err := p.apply(ctx, g, step, want, v)
	gone := cloud.Is(err, cloud.NotFound) && takesAway(step.Kind)
	if err == nil || gone || cloud.Is(err, cloud.Unavailable) {
		// It may have been done although the answer was lost.
		p.memory.Note(step, g.substitutes(), p.cfg.Now())
	}
	if err == nil {
		return cloud.Progress{Did: step.String()}, nil
	}
	if gone {
		return cloud.Progress{WaitingFor: "the cloud to list what is gone no more"}, nil
	}
	return cloud.Progress{}, err
}

func takesAway(k poolplan.Kind) bool {
	return k == poolplan.Remove || k == poolplan.Replace || k == poolplan.RemoveZone || k == poolplan.DeletePool
}

// enter takes the lock, or returns when ctx ends.
func (p *Provider) enter(ctx context.Context) error {
	if ctx.Err() == nil {
		select {
		case p.lock <- struct{}{}:
			return nil
		case <-ctx.Done():
		}
	}
	return cloud.Interrupted(ctx, p.op("observing"))
}

func (p *Provider) leave() { <-p.lock }

func (p *Provider) checkSpec(want cloud.PoolSpec) error {
	ids := route{}.with("zone", want.Zones...)
	if want.Flavor != "" {
		ids = ids.with("flavor", want.Flavor)
	}
	if ids.err != nil {
		return cloud.InvalidSpec("%s", p.session.scrub(ids.err.Error()))
	}
	return poolplan.Validate(want)
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
