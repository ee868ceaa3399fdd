package fake

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/poolplan"
)

// Provider is a cloud.Provider on a Cloud. Each remembers as little as a real
// one, so a second Provider is what a restart would bring.
type Provider struct {
	cloud *Cloud
	// memory is guarded by cloud.mu.
	memory poolplan.Memory
}

var _ cloud.Provider = (*Provider)(nil)

// Provider makes a provider on c.
func (c *Cloud) Provider() *Provider { return &Provider{cloud: c} }

// Name implements cloud.Provider.
func (p *Provider) Name() string { return "fake" }

// Observe implements cloud.Provider. Workers are Former if they were described as such.
func (p *Provider) Observe(context.Context, cloud.PoolSpec) (cloud.Pool, error) {
	p.cloud.mu.Lock()
	defer p.cloud.mu.Unlock()
	return p.state().Pool, nil
}

// Ensure implements cloud.Provider.
func (p *Provider) Ensure(_ context.Context, want cloud.PoolSpec) (cloud.Progress, error) {
	if err := poolplan.Validate(want); err != nil {
		return cloud.Progress{}, err
	}
	return p.change(want.Flavor, func(s poolplan.State) (poolplan.Step, error) { return poolplan.Next(s, want) })
}

// Delete implements cloud.Provider.
func (p *Provider) Delete(context.Context) (cloud.Progress, error) {
	return p.change("", poolplan.NextDelete)
}

func (p *Provider) change(flavor string, next func(poolplan.State) (poolplan.Step, error)) (cloud.Progress, error) {
	c := p.cloud
	c.mu.Lock()
	defer c.mu.Unlock()
	step, err := next(p.state())
	if err != nil || step.Kind == poolplan.None {
		return step.Progress, err
	}
	// Workers that are ordered from now on have it.
	c.pool.Flavor = cmp.Or(flavor, c.pool.Flavor)
	c.apply(step, cmp.Or(flavor, c.opts.Flavor))
	p.memory.Note(step, c.opts.Now())
	return cloud.Progress{Did: step.String()}, nil
}

// state is what a provider can see by now.
func (p *Provider) state() poolplan.State {
	c := p.cloud
	c.move()
	s := poolplan.State{Pool: c.pool, Memory: p.memory, Now: c.opts.Now()}
	s.Name, s.ClusterZones, s.Zones = c.opts.PoolName, slices.Clone(c.opts.Zones), slices.Clone(c.pool.Zones)
	if s.Exists && !s.Owned {
		s.Problems = []string{"pool " + c.opts.PoolName + " is not rrpool's"}
		return s
	}
	if s.Autoscaled {
		s.Problems = append(s.Problems, "pool "+c.opts.PoolName+" is resized by an autoscaler")
	}
	for _, w := range c.workers {
		s.Workers = append(s.Workers, w.Worker)
		if w.State == cloud.WorkerFailed || w.State == cloud.WorkerUnhealthy {
			s.Problems = append(s.Problems, fmt.Sprintf("worker %s in zone %s: %s: %s", w.ID, w.Zone, w.State, w.Message))
		}
	}
	slices.SortFunc(s.Workers, func(a, b cloud.Worker) int { return strings.Compare(a.ID, b.ID) })
	slices.Sort(s.Problems)
	return s
}
