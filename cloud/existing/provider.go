// Package existing is the cloud.Provider whose workers are nodes that are there
// already. It orders no machines: its pool is the set of nodes that carry the
// label rrpool.io/pool with the pool's name, and membership is all it writes.
// Role and cluster ID are given later, by others. Which nodes belong into the
// pool is decided by controllers/plan/selection.
package existing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/selection"
)

// Nodes are the cluster's nodes as the provider needs them.
type Nodes interface {
	// List gives all nodes; Pooled and Pods are not filled in.
	List(ctx context.Context) ([]plan.Node, error)
	// SetPool writes the pool label of a node, removes it when pool is "", and
	// fails when the node is no longer the one that was listed (UID).
	SetPool(ctx context.Context, node plan.Node, pool string) error
}

// Config of a Provider.
type Config struct {
	// PoolName is the value of the pool label.
	PoolName string
	Nodes    Nodes
	// CountPods counts the pods with an address of their own, by node, of the
	// named nodes; a node that it leaves out has none. It is asked only while no
	// node reflects yet. Optional: without it control-plane nodes count as the
	// cheapest.
	CountPods func(ctx context.Context, nodes []string) (map[string]int, error)
	// Preferred nodes are chosen first, Excluded ones never; nil for no such rule.
	Preferred, Excluded labels.Selector
	// NotReadyGrace is how long a member may be NotReady and still count.
	NotReadyGrace time.Duration
	// Now is the clock, time.Now when nil.
	Now func() time.Time
}

func (c Config) check() error {
	if problems := validation.IsValidLabelValue(c.PoolName); c.PoolName == "" || len(problems) > 0 {
		return fmt.Errorf("pool name %q: it becomes the value of a node label, so it must be one and not empty: %s",
			c.PoolName, strings.Join(problems, "; "))
	}
	if c.Nodes == nil {
		return errors.New("no access to nodes is given")
	}
	if c.NotReadyGrace < 0 {
		return fmt.Errorf("spec.rollout.notReadyGrace is %s, it must not be negative", c.NotReadyGrace)
	}
	return nil
}

// Provider is a cloud.Provider for the existing nodes of one cluster. A worker's
// id is its node's name. It remembers nothing from one call to the next.
type Provider struct {
	cfg Config
	// lock lets one call write at a time. One that was abandoned by its
	// caller keeps the lock until Nodes has let go of it, so that no late write
	// meets another one.
	lock chan struct{}
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
	return &Provider{cfg: cfg, lock: make(chan struct{}, 1)}, nil
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
	return p.locked(ctx, "changing", func() (cloud.Progress, error) {
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
	return p.locked(ctx, "deleting", func() (cloud.Progress, error) {
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
		return cloud.Progress{}, cloud.Interrupted(ctx, p.op(op))
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

// locked runs do under the lock, which is held until do has really ended.
func (p *Provider) locked(ctx context.Context, doing string, do func() (cloud.Progress, error)) (cloud.Progress, error) {
	op := p.op(doing)
	if ctx.Err() != nil {
		return cloud.Progress{}, cloud.Interrupted(ctx, op)
	}
	select {
	case p.lock <- struct{}{}:
	case <-ctx.Done():
		return cloud.Progress{}, cloud.Interrupted(ctx, op)
	}
	return within(ctx, op, func() (cloud.Progress, error) {
		defer func() { <-p.lock }()
		return do()
	})
}

// within gives what do gives, or returns when ctx ends: do may then still be
// held up, and what it gives is dropped.
func within[T any](ctx context.Context, op string, do func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := do()
		answers <- answer{value, err}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, cloud.Interrupted(ctx, op)
	}
}

// deniedPause is how long to leave an apiserver alone that has refused us.
const deniedPause = time.Minute

// failure makes the typed error of a request that went wrong.
func failure(op string, err error) error {
	e := &cloud.Error{Kind: cloud.Unavailable, Op: op, Err: err}
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		e.Kind, e.RetryAfter = cloud.Unauthorized, deniedPause
		e.Message = err.Error() + " (the manager's ClusterRole must allow to list and patch nodes and to list pods: apply config/rbac)"
	case apierrors.IsTooManyRequests(err):
		e.Kind = cloud.RateLimited
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			e.RetryAfter = time.Duration(seconds) * time.Second
		}
	}
	return e
}
