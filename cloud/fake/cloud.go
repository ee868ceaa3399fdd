// Package fake is a cloud in memory: it keeps a pool and its workers, which take
// as long to come and to go as it is asked for.
package fake

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/poolplan"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// Options of a Cloud. The zero value is usable.
type Options struct {
	// PoolName is "route-reflectors" when empty.
	PoolName string
	// Zones of the cluster; zone-a, zone-b and zone-c when empty.
	Zones []string
	// Flavor when none is wanted; "small" when empty.
	Flavor string
	// Now is the clock; when nil it stands still but for Advance.
	Now func() time.Time
	// DeployTime and DeleteTime are how long a worker takes to come and to go.
	DeployTime, DeleteTime time.Duration
	// Pool is there from the start; nil for none.
	Pool *cloud.Pool
	// NodeName gives a worker's node name; nil for 10.<zone>.<n>.
	NodeName func(zone, workerID string) string
}

// Cloud is what the providers made by Provider talk to.
type Cloud struct {
	opts Options

	mu        sync.Mutex
	offset    time.Duration
	pool      *pool
	serial    int
	requests  int
	mutations int
	untainted int
	failNext  []string
}

type pool struct {
	id, flavor string
	size       int
	zones      []string
	labels     map[string]string
	taints     []cloud.Taint
	autoscaled bool
	balanced   bool
	workers    []*worker
}

type worker struct {
	cloud.Worker
	since time.Time
	fail  string
}

// New makes a cloud without the pool.
func New(o Options) *Cloud {
	if o.PoolName == "" {
		o.PoolName = "route-reflectors"
	}
	if len(o.Zones) == 0 {
		o.Zones = []string{"zone-a", "zone-b", "zone-c"}
	}
	if o.Flavor == "" {
		o.Flavor = "small"
	}
	if o.Now == nil {
		o.Now = func() time.Time { return time.Unix(1_700_000_000, 0) }
	}
	o.Zones = slices.Sorted(slices.Values(o.Zones))
	return &Cloud{opts: o, pool: adopt(o)}
}

// adopt makes a pool like the one that is described.
func adopt(o Options) *pool {
	in := o.Pool
	if in == nil || !in.Exists {
		return nil
	}
	p := &pool{
		id: in.ID, flavor: in.Flavor, size: in.SizePerZone, zones: slices.Clone(in.Zones), taints: slices.Clone(in.Taints),
		autoscaled: in.Autoscaled, balanced: true,
	}
	if in.Owned {
		p.labels = map[string]string{poolplan.ManagedByLabel: poolplan.ManagedBy, v1alpha1.PoolLabel: o.PoolName}
	}
	for _, w := range in.Workers {
		if w.NodeName == "" && o.NodeName != nil {
			w.NodeName = o.NodeName(w.Zone, w.ID) // the cloud reports it when it is deployed
		}
		p.workers = append(p.workers, &worker{Worker: w, since: o.Now()})
	}
	return p
}

func (c *Cloud) now() time.Time { return c.opts.Now().Add(c.offset) }

// move takes every worker to where it should be by now.
func (c *Cloud) move() {
	if c.pool == nil {
		return
	}
	now := c.now()
	c.pool.workers = slices.DeleteFunc(c.pool.workers, func(w *worker) bool {
		return w.State == cloud.WorkerDeleting && now.Sub(w.since) >= c.opts.DeleteTime
	})
	for _, w := range c.pool.workers {
		if w.State != cloud.WorkerProvisioning || now.Sub(w.since) < c.opts.DeployTime {
			continue
		}
		w.State, w.Message = cloud.WorkerDeployed, ""
		if w.fail != "" {
			w.State, w.Message = cloud.WorkerFailed, w.fail
		}
	}
}

func (c *Cloud) order(zone string) {
	c.serial++
	for c.taken(fmt.Sprintf("worker-%04d", c.serial)) {
		c.serial++
	}
	w := &worker{since: c.now(), Worker: cloud.Worker{
		ID: fmt.Sprintf("worker-%04d", c.serial), Zone: zone, Flavor: c.pool.flavor,
		State: cloud.WorkerProvisioning, Message: "ordered",
	}}
	w.NodeName = fmt.Sprintf("10.%d.0.%d", slices.Index(c.opts.Zones, zone), c.serial)
	if c.opts.NodeName != nil {
		w.NodeName = c.opts.NodeName(zone, w.ID)
	}
	if len(c.failNext) > 0 {
		w.fail, c.failNext = c.failNext[0], c.failNext[1:]
	}
	if len(c.pool.taints) == 0 {
		c.untainted++
	}
	c.pool.workers = append(c.pool.workers, w)
}

func (c *Cloud) taken(id string) bool {
	return slices.ContainsFunc(c.pool.workers, func(w *worker) bool { return w.ID == id })
}

func (p *pool) live(zone string) []*worker {
	var out []*worker
	for _, w := range p.workers {
		if w.Zone == zone && w.State != cloud.WorkerDeleting {
			out = append(out, w)
		}
	}
	return out
}

func (c *Cloud) remove(w *worker) { w.State, w.Message, w.since = cloud.WorkerDeleting, "", c.now() }

// apply makes the change, as a cloud would.
func (c *Cloud) apply(s poolplan.Step, flavor string) {
	c.mutations++
	switch s.Kind {
	case poolplan.Create:
		c.serial++
		c.pool = &pool{id: fmt.Sprintf("pool-%d", c.serial), flavor: flavor, size: s.Size, labels: s.Labels, balanced: true}
	case poolplan.SetLabels:
		c.pool.labels = s.Labels
	case poolplan.SetTaints:
		c.pool.taints = s.Taints
	case poolplan.AddZone:
		c.pool.zones = slices.Sorted(slices.Values(append(c.pool.zones, s.Zone)))
		for range c.pool.size {
			c.order(s.Zone)
		}
	case poolplan.RemoveZone:
		c.pool.zones = slices.DeleteFunc(c.pool.zones, func(z string) bool { return z == s.Zone })
	case poolplan.Resize:
		c.resize(s.Size)
	case poolplan.Remove, poolplan.Replace:
		c.removeNamed(s)
	case poolplan.DeletePool:
		c.pool = nil
	case poolplan.None:
	}
}

// resize fills every zone up, or takes the oldest away.
func (c *Cloud) resize(size int) {
	c.pool.size, c.pool.balanced = size, true
	for _, z := range c.pool.zones {
		have := c.pool.live(z)
		for i := len(have); i < size; i++ {
			c.order(z)
		}
		for i := size; i < len(have); i++ {
			c.remove(have[i-size])
		}
	}
}

func (c *Cloud) removeNamed(s poolplan.Step) {
	for _, w := range slices.Clone(c.pool.workers) {
		if w.ID != s.Worker {
			continue
		}
		c.remove(w)
		if s.Kind == poolplan.Remove {
			c.pool.balanced = false
		} else if c.pool.balanced {
			c.order(w.Zone)
		}
	}
}

// Advance lets d pass for the cloud and its providers.
func (c *Cloud) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
	c.move()
}

// Workers that exist, in the order they came.
func (c *Cloud) Workers() []cloud.Worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.move()
	if c.pool == nil {
		return nil
	}
	var out []cloud.Worker
	for _, w := range c.pool.workers {
		out = append(out, w.Worker)
	}
	return out
}
