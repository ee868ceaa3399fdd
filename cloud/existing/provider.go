// Package existing is the cloud.Provider whose workers are existing nodes. It orders no machines. Its pool is the nodes with
// the label rrpool.io/pool, and it writes only this label. controllers/plan/selection decides which nodes get the label.
package existing

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/selection"
)

// Nodes are the cluster's nodes as the provider needs them. Its calls end with ctx.
type Nodes interface {
	// List returns all nodes; Pooled and Pods are not filled in.
	List(ctx context.Context) ([]plan.Node, error)
	// SetPool writes the pool label of a node, or removes it if pool is "". It fails if the node is no longer the one that was listed (UID).
	SetPool(ctx context.Context, node plan.Node, pool string) error
}

// Config of a Provider.
type Config struct {
	// PoolName is the value of the pool label.
	PoolName string
	Nodes    Nodes
	// CountPods counts the pods with an address of their own, by node; a node that the map lacks has none.
	// It is called only while no node reflects yet. If it is nil, control-plane nodes are chosen first.
	CountPods func(ctx context.Context, nodes []string) (map[string]int, error)
	// Preferred nodes are chosen first, Excluded nodes never; nil for no such rule.
	Preferred, Excluded labels.Selector
	// NotReadyGrace is how long a member may be NotReady and still count.
	NotReadyGrace time.Duration
	// Now is the clock, time.Now when nil.
	Now func() time.Time
}

// Provider is a cloud.Provider for the existing nodes of one cluster. A worker's ID is its node's name. It keeps no state between calls.
type Provider struct {
	cfg Config
	// lock is held while a call lists the nodes and writes one.
	lock *semaphore.Weighted
}

var _ cloud.Provider = (*Provider)(nil)

// New makes a provider.
func New(cfg Config) *Provider {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Provider{cfg: cfg, lock: semaphore.NewWeighted(1)}
}

// Name implements cloud.Provider.
func (p *Provider) Name() string { return "existing" }

// Observe implements cloud.Provider with one reading request.
func (p *Provider) Observe(ctx context.Context, _ cloud.PoolSpec) (cloud.Pool, error) {
	nodes, err := p.list(ctx)
	if err != nil {
		return cloud.Pool{}, err
	}
	return p.poolOf(nodes), nil
}

// Ensure implements cloud.Provider. A node in want.Retire leaves the pool at once. A node in want.Replace leaves
// the pool when it does not count any more and enough other nodes are chosen. No other node leaves, and no node of
// these lists joins. The size is that of all zones together: if a zone has too few nodes, other zones have more.
func (p *Provider) Ensure(ctx context.Context, want cloud.PoolSpec) (cloud.Progress, error) {
	if err := checkSpec(want); err != nil {
		return cloud.Progress{}, err
	}
	return p.change(ctx, func(nodes []plan.Node) (cloud.Progress, error) {
		rules := p.rules(want, nodes)
		if unserved(nodes, rules) {
			if err := p.countPods(ctx, nodes, rules); err != nil {
				return cloud.Progress{}, err
			}
		}
		// A node that has left must not join again by the next call.
		nodes = slices.DeleteFunc(nodes, func(n plan.Node) bool {
			return !n.Pooled && (slices.Contains(want.Retire, n.Name) || slices.Contains(want.Replace, n.Name))
		})
		if n, ok := nextToLeave(nodes, func(n plan.Node) bool { return slices.Contains(want.Retire, n.Name) }); ok {
			return p.setPool(ctx, n, "")
		}
		if n, ok := selection.Next(nodes, rules); ok {
			return p.setPool(ctx, n, p.cfg.PoolName)
		}
		chosen := selection.Choose(nodes, rules)
		dead := func(n plan.Node) bool { return slices.Contains(want.Replace, n.Name) && !rules.Counts(n) }
		if n, ok := nextToLeave(nodes, dead); ok && len(chosen) >= rules.Total() {
			return p.setPool(ctx, n, "")
		}
		return stillMissing(nodes, chosen, rules), nil
	})
}

// Delete implements cloud.Provider: one member a call leaves the pool.
func (p *Provider) Delete(ctx context.Context) (cloud.Progress, error) {
	return p.change(ctx, func(nodes []plan.Node) (cloud.Progress, error) {
		if n, ok := nextToLeave(nodes, func(plan.Node) bool { return true }); ok {
			return p.setPool(ctx, n, "")
		}
		return cloud.Progress{Done: true}, nil
	})
}

// nextToLeave returns the first member of the pool for which so returns true.
func nextToLeave(nodes []plan.Node, so func(plan.Node) bool) (plan.Node, bool) {
	i := slices.IndexFunc(nodes, func(n plan.Node) bool { return n.Pooled && so(n) })
	if i < 0 {
		return plan.Node{}, false
	}
	return nodes[i], true
}

// change runs do with the nodes, one call at a time.
func (p *Provider) change(ctx context.Context, do func([]plan.Node) (cloud.Progress, error)) (cloud.Progress, error) {
	if p.lock.Acquire(ctx, 1) != nil {
		return cloud.Progress{}, cloud.Interrupted(ctx, fmt.Sprintf("changing pool %q", p.cfg.PoolName))
	}
	defer p.lock.Release(1)
	nodes, err := p.list(ctx)
	if err != nil {
		return cloud.Progress{}, err
	}
	return do(nodes)
}

// setPool writes the pool label of a node, unless ctx has ended meanwhile.
func (p *Provider) setPool(ctx context.Context, n plan.Node, pool string) (cloud.Progress, error) {
	into := "into"
	if pool == "" {
		into = "from"
	}
	op := fmt.Sprintf("taking node %s %s pool %q", n.Name, into, p.cfg.PoolName)
	if ctx.Err() != nil {
		return cloud.Progress{}, cloud.Interrupted(ctx, op)
	}
	if err := p.cfg.Nodes.SetPool(ctx, n, pool); err != nil {
		return cloud.Progress{}, failure(op, err)
	}
	return cloud.Progress{Did: fmt.Sprintf("took %s %s the pool", place(n), into)}, nil
}

// countPods fills in the number of pods of the nodes that may join.
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
		if count := counts[nodes[i].Name]; rules.Eligible(nodes[i]) {
			nodes[i].Pods = &count
		}
	}
	return nil
}

// failure returns the cloud.Error for a request that failed.
func failure(op string, err error) error {
	e := &cloud.Error{Kind: cloud.Unavailable, Op: op, Err: err}
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		e.Kind, e.RetryAfter = cloud.Unauthorized, time.Minute
		e.Message = err.Error() + " (the manager's ClusterRole must allow to list and patch nodes and to list pods: apply config/rbac)"
	case apierrors.IsTooManyRequests(err):
		e.Kind = cloud.RateLimited
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			e.RetryAfter = time.Duration(seconds) * time.Second
		}
	}
	return e
}

// unserved reports whether no node counts and no Ready node is a reflector, so that the next node to join is the first reflector.
// Reflectors that are to leave, for example because all are cordoned, carry the routes of the next ones, so pods need not be counted.
func unserved(nodes []plan.Node, rules selection.Rules) bool {
	return !slices.ContainsFunc(nodes, func(n plan.Node) bool {
		return rules.Counts(n) || n.Ready && n.Marked && n.HasRoleLabel
	})
}

// checkSpec refuses options that existing nodes cannot be given.
func checkSpec(want cloud.PoolSpec) error {
	if want.SizePerZone < 1 {
		return cloud.InvalidSpec("size per zone is %d, it must be at least 1", want.SizePerZone)
	}
	if want.Flavor != "" || len(want.Taints) > 0 || !reflect.ValueOf(want.Options).IsZero() {
		return cloud.InvalidSpec("a flavor, taints or options are given, but existing nodes stay as they are; leave these empty")
	}
	return nil
}

// stillMissing says what is missing when nothing can be changed. The plan says why other nodes cannot be chosen.
func stillMissing(nodes, chosen []plan.Node, rules selection.Rules) cloud.Progress {
	var missing []string
	if total := rules.Total(); len(chosen) < max(total, 1) {
		missing = append(missing, fmt.Sprintf("nodes that can be chosen: %d of %d are there", len(chosen), total))
	}
	for _, n := range nodes {
		stays := n.Ready && slices.ContainsFunc(chosen, func(c plan.Node) bool { return c.Name == n.Name })
		if n.Pooled && !stays {
			missing = append(missing, place(n)+" to be Ready and fit, or retired")
		}
	}
	if len(missing) == 0 {
		return cloud.Progress{Done: true}
	}
	return cloud.Progress{WaitingFor: cloud.Capped(missing, "; ")}
}
