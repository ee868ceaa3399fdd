// Package fake is a cloud in memory: a pool, and workers that take a given time to come and to go.
package fake

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/poolplan"
)

// Options are the options of a Cloud.
type Options struct {
	PoolName string
	// Zones of the cluster, sorted.
	Zones []string
	// Flavor is the machine type if none is wanted.
	Flavor string
	// Now is the clock.
	Now func() time.Time
	// DeployTime and DeleteTime are how long a worker takes to come and to go.
	DeployTime, DeleteTime time.Duration
	// Pool is the pool at the start, nil for none.
	Pool *cloud.Pool
	// NodeName returns a worker's node name.
	NodeName func(zone, workerID string) string
}

// Cloud is what the providers made by Provider talk to.
type Cloud struct {
	opts Options

	mu sync.Mutex
	// pool has no name, workers and problems: state adds these. balanced says that the cloud orders a new worker in the place of a removed one.
	pool     cloud.Pool
	balanced bool
	workers  []*worker
	serial   int
}

type worker struct {
	cloud.Worker
	since time.Time
}

// New returns a cloud, with the pool of Options.Pool if that exists.
func New(o Options) *Cloud {
	c := &Cloud{opts: o}
	if in := o.Pool; in != nil && in.Exists {
		c.make(in.ID, in.Flavor, in.SizePerZone)
		c.pool.Zones, c.pool.Taints, c.pool.Autoscaled = slices.Clone(in.Zones), slices.Clone(in.Taints), in.Autoscaled
		c.pool.Owned, c.pool.Unmarked = in.Owned, in.Unmarked
		for _, w := range in.Workers {
			if w.NodeName == "" {
				w.NodeName = o.NodeName(w.Zone, w.ID) // the cloud reports it when it is deployed
			}
			c.workers = append(c.workers, &worker{Worker: w, since: o.Now()})
		}
	}
	return c
}

// make creates a pool without zones and workers.
func (c *Cloud) make(id, flavor string, size int) {
	c.pool = cloud.Pool{Exists: true, Owned: true, ID: id, Flavor: flavor, SizePerZone: size}
	c.balanced, c.workers = true, nil
}

// move updates the state of every worker to the current time.
func (c *Cloud) move() {
	now := c.opts.Now()
	c.workers = slices.DeleteFunc(c.workers, func(w *worker) bool {
		return w.State == cloud.WorkerDeleting && now.Sub(w.since) >= c.opts.DeleteTime
	})
	for _, w := range c.workers {
		if w.State == cloud.WorkerProvisioning && now.Sub(w.since) >= c.opts.DeployTime {
			w.State, w.Message = cloud.WorkerDeployed, ""
		}
	}
}

func (c *Cloud) order(zone string) {
	var id string
	for id == "" || slices.ContainsFunc(c.workers, func(w *worker) bool { return w.ID == id }) {
		c.serial++
		id = fmt.Sprintf("worker-%04d", c.serial)
	}
	c.workers = append(c.workers, &worker{since: c.opts.Now(), Worker: cloud.Worker{
		ID: id, Zone: zone, Flavor: c.pool.Flavor, State: cloud.WorkerProvisioning, Message: "ordered",
		NodeName: c.opts.NodeName(zone, id),
	}})
}

func (c *Cloud) remove(w *worker) {
	w.State, w.Message, w.since = cloud.WorkerDeleting, "", c.opts.Now()
}

// apply carries out a step as a cloud would.
func (c *Cloud) apply(s poolplan.Step, flavor string) {
	switch s.Kind {
	case poolplan.Create:
		c.serial++
		c.make(fmt.Sprintf("pool-%d", c.serial), flavor, s.Size)
	case poolplan.SetTaints:
		c.pool.Taints = s.Taints
	case poolplan.AddZone:
		c.pool.Zones = slices.Sorted(slices.Values(append(c.pool.Zones, s.Zone)))
		c.fill(s.Zone)
	case poolplan.RemoveZone:
		c.pool.Zones = slices.DeleteFunc(c.pool.Zones, func(z string) bool { return z == s.Zone })
	case poolplan.Resize:
		c.pool.SizePerZone, c.balanced = s.Size, true
		c.fill(c.pool.Zones...)
	case poolplan.Remove, poolplan.Replace: // a balanced pool orders a new worker in the place of the removed one
		c.balanced = c.balanced && s.Kind == poolplan.Replace
		i := slices.IndexFunc(c.workers, func(w *worker) bool { return w.ID == s.Worker })
		c.remove(c.workers[i])
		if c.balanced {
			c.order(c.workers[i].Zone)
		}
	case poolplan.DeletePool:
		c.pool, c.workers = cloud.Pool{}, nil
	case poolplan.None:
	}
}

// fill brings zones to the pool's size: it orders missing workers, or removes the oldest ones.
func (c *Cloud) fill(zones ...string) {
	for _, zone := range zones {
		var have []*worker
		for _, w := range c.workers {
			if w.Zone == zone && w.State != cloud.WorkerDeleting {
				have = append(have, w)
			}
		}
		for i := len(have); i < c.pool.SizePerZone; i++ {
			c.order(zone)
		}
		for _, w := range have[:max(0, len(have)-c.pool.SizePerZone)] {
			c.remove(w)
		}
	}
}

// Workers returns the workers that exist, in the order in which they came.
func (c *Cloud) Workers() []cloud.Worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.move()
	var out []cloud.Worker
	for _, w := range c.workers {
		out = append(out, w.Worker)
	}
	return out
}

// Provider is a cloud.Provider on a Cloud. A second Provider on the same Cloud is like one after a restart.
type Provider struct {
	cloud *Cloud
	// memory is guarded by cloud.mu.
	memory poolplan.Memory
}

var _ cloud.Provider = (*Provider)(nil)

// Provider returns a new provider on c.
func (c *Cloud) Provider() *Provider { return &Provider{cloud: c} }

// Name implements cloud.Provider.
func (p *Provider) Name() string { return "fake" }

// Observe implements cloud.Provider. Workers are Former if Options.Pool says so.
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
	// Workers that are ordered from now on have this flavor.
	c.pool.Flavor = cmp.Or(flavor, c.pool.Flavor)
	c.apply(step, cmp.Or(flavor, c.opts.Flavor))
	p.memory.Note(step, c.opts.Now())
	return cloud.Progress{Did: step.String()}, nil
}

// state returns what a provider sees now.
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
