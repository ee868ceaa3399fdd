package existing

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/selection"
)

// Provider is a cloud.Provider for the existing nodes of one cluster. A worker's
// id is its node's name. It remembers nothing from one call to the next.
type Provider struct {
	cfg Config
	// turn makes calls that may write take turns. One that was abandoned by its
	// caller keeps its turn until Nodes has let go of it, so that no late write
	// meets another one.
	turn chan struct{}
}

var _ cloud.Provider = (*Provider)(nil)

// New makes a provider.
func New(cfg Config) (*Provider, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("configuring the provider of existing nodes: %w", err)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Provider{cfg: cfg, turn: make(chan struct{}, 1)}, nil
}

// Name implements cloud.Provider.
func (p *Provider) Name() string { return "existing" }

// Observe implements cloud.Provider with one reading request.
func (p *Provider) Observe(ctx context.Context) (cloud.Pool, error) {
	return within(ctx, p.op("observing"), func() (cloud.Pool, error) {
		nodes, err := p.list(ctx)
		if err != nil {
			return cloud.Pool{}, err
		}
		return p.poolOf(nodes), nil
	})
}

// Ensure implements cloud.Provider. A node that want.Retire names leaves the
// pool at once. One that want.Replace names leaves it if it does not count any
// more, and not before nodes enough for want count without it. Nobody else ever
// leaves, and who is named does not join. Size counts over all zones: a zone with
// too few nodes lends its share to the others.
func (p *Provider) Ensure(ctx context.Context, want cloud.PoolSpec) (cloud.Progress, error) {
	if err := p.checkSpec(want); err != nil {
		return cloud.Progress{}, err
	}
	return p.inTurn(ctx, "changing", func() (cloud.Progress, error) {
		nodes, err := p.list(ctx)
		if err != nil {
			return cloud.Progress{}, err
		}
		rules := p.rules(want, nodes)
		if unserved(nodes, rules) {
			if err := p.countPods(ctx, nodes, rules); err != nil {
				return cloud.Progress{}, err
			}
		}
		s := next(nodes, rules, want)
		if s.node.Name == "" {
			return s.progress, nil
		}
		return p.take(ctx, s)
	})
}

// Delete implements cloud.Provider: one member a call leaves the pool.
func (p *Provider) Delete(ctx context.Context) (cloud.Progress, error) {
	return p.inTurn(ctx, "deleting", func() (cloud.Progress, error) {
		nodes, err := p.list(ctx)
		if err != nil {
			return cloud.Progress{}, err
		}
		if i := slices.IndexFunc(nodes, func(n plan.Node) bool { return n.Pooled }); i >= 0 {
			return p.take(ctx, step{node: nodes[i]})
		}
		return cloud.Progress{Done: true}, nil
	})
}

// list gives the nodes, sorted by name, with their membership.
func (p *Provider) list(ctx context.Context) ([]plan.Node, error) {
	nodes, err := p.cfg.Nodes.List(ctx)
	if err != nil {
		return nil, failure("listing nodes", err)
	}
	return p.marked(nodes), nil
}

// take makes the one change, unless the caller has left meanwhile.
func (p *Provider) take(ctx context.Context, s step) (cloud.Progress, error) {
	op, pool, did := fmt.Sprintf("taking node %s into", s.node.Name), p.cfg.PoolName, fmt.Sprintf("took %s into the pool", place(s.node))
	if !s.join {
		op, pool, did = fmt.Sprintf("taking node %s from", s.node.Name), "", fmt.Sprintf("took %s from the pool", place(s.node))
	}
	if ctx.Err() != nil {
		return cloud.Progress{}, interrupted(ctx, p.op(op))
	}
	if err := p.cfg.Nodes.SetPool(ctx, s.node, pool); err != nil {
		return cloud.Progress{}, failure(p.op(op), err)
	}
	return cloud.Progress{Did: did}, nil
}

// countPods fills in the pods of the nodes that could join.
func (p *Provider) countPods(ctx context.Context, nodes []plan.Node, rules selection.Rules) error {
	var names []string
	for _, n := range nodes {
		if rules.Eligible(n) {
			names = append(names, n.Name)
		}
	}
	if p.cfg.CountPods == nil || len(names) == 0 {
		return nil
	}
	counts, err := p.cfg.CountPods(ctx, names)
	if err != nil {
		return failure("counting the pods of the nodes", err)
	}
	for i := range nodes {
		if rules.Eligible(nodes[i]) {
			count := counts[nodes[i].Name]
			nodes[i].Pods = &count
		}
	}
	return nil
}

func (p *Provider) op(doing string) string { return fmt.Sprintf("%s pool %q", doing, p.cfg.PoolName) }
