// Package fake is a cloud in memory for tests: stateful, slow if asked, with
// faults, a quota and a record of what was called.
package fake

import (
	"fmt"
	"maps"
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
	// Quota is how many workers may exist; 0: any.
	Quota int
	// Pool is there from the start; nil for none.
	Pool *cloud.Pool
	// NodeName gives a worker's node name; nil for 10.<zone>.<n>.
	NodeName func(zone, workerID string) string
}

// Call is one call of a Provider method.
type Call struct {
	// Method is Observe, Ensure or Delete.
	Method string
	Want   cloud.PoolSpec
}

// Cloud is what the providers made by Provider talk to.
type Cloud struct {
	opts Options

	mu        sync.Mutex
	offset    time.Duration
	pool      *pool
	serial    int
	calls     []Call
	mutations []string
	untainted []string
	faults    []fault
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
	if c.opts.Quota > 0 && c.usable() >= c.opts.Quota {
		w.fail = fmt.Sprintf("the account is over quota: Allocated: %d, Quota: %d", c.usable(), c.opts.Quota)
	}
	if len(c.pool.taints) == 0 {
		c.untainted = append(c.untainted, w.ID)
	}
	c.pool.workers = append(c.pool.workers, w)
}

func (c *Cloud) taken(id string) bool {
	return slices.ContainsFunc(c.pool.workers, func(w *worker) bool { return w.ID == id })
}

// usable counts the workers that use up quota.
func (c *Cloud) usable() int {
	n := 0
	for _, w := range c.pool.workers {
		if w.fail == "" {
			n++
		}
	}
	return n
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
	c.mutations = append(c.mutations, s.String())
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

// fault spoils a call.
type fault struct {
	method string
	times  int
	err    *cloud.Error
	// executed: the change is made and only the answer is lost.
	executed bool
	hang     bool
}

// Advance lets d pass for the cloud and its providers.
func (c *Cloud) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
	c.move()
}

// Fail lets the next times calls of method ("" for any) end with err; times 0:
// all until ClearFaults.
func (c *Cloud) Fail(method string, times int, err *cloud.Error) {
	c.inject(fault{method: method, times: times, err: err})
}

// LoseAnswer makes the next change happen and answers Unavailable.
func (c *Cloud) LoseAnswer() {
	c.inject(fault{times: 1, executed: true, err: &cloud.Error{Kind: cloud.Unavailable, Op: "changing the pool", Message: "the answer was lost"}})
}

// Hang lets every call hang until its context ends, or ClearFaults.
func (c *Cloud) Hang() { c.inject(fault{hang: true}) }

func (c *Cloud) inject(f fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, f)
}

// ClearFaults takes all faults away; a call that hangs goes on hanging.
func (c *Cloud) ClearFaults() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = nil
}

// takeFault gives the fault for a call, before it has (executed false) or after
// it has taken effect.
func (c *Cloud) takeFault(method string, executed bool) *fault {
	for i := range c.faults {
		f := c.faults[i]
		if f.executed != executed || f.method != "" && f.method != method {
			continue
		}
		if c.faults[i].times > 0 {
			if c.faults[i].times--; c.faults[i].times == 0 {
				c.faults = slices.Delete(c.faults, i, i+1)
			}
		}
		return &f
	}
	return nil
}

// SetQuota changes how many workers may exist; 0: any.
func (c *Cloud) SetQuota(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opts.Quota = n
}

// FailWorkers lets the next n workers that are ordered fail with message.
func (c *Cloud) FailWorkers(n int, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range n {
		c.failNext = append(c.failNext, message)
	}
}

// Break puts a worker into a state.
func (c *Cloud) Break(workerID string, state cloud.WorkerState, message string) {
	c.onPool(func(p *pool) {
		for _, w := range p.workers {
			if w.ID == workerID {
				w.State, w.Message = state, message
			}
		}
	})
}

// SetAutoscaled puts the pool under an autoscaler's care, or out of it.
func (c *Cloud) SetAutoscaled(on bool) { c.onPool(func(p *pool) { p.autoscaled = on }) }

// SetTaints and SetLabels replace what is on the pool, as a person would.
func (c *Cloud) SetTaints(taints []cloud.Taint) { c.onPool(func(p *pool) { p.taints = taints }) }

// SetLabels replaces the pool's labels.
func (c *Cloud) SetLabels(labels map[string]string) {
	c.onPool(func(p *pool) { p.labels = maps.Clone(labels) })
}

func (c *Cloud) onPool(fn func(*pool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.move()
	if c.pool != nil {
		fn(c.pool)
	}
}

// AddForeignPool makes a pool of the provider's pool name that rrpool did not make.
func (c *Cloud) AddForeignPool() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serial++
	c.pool = &pool{id: "foreign", flavor: c.opts.Flavor, size: 1, zones: c.opts.Zones, balanced: true}
}

// Workers that exist, in the order they came.
func (c *Cloud) Workers() []cloud.Worker {
	var out []cloud.Worker
	c.onPool(func(p *pool) {
		for _, w := range p.workers {
			out = append(out, w.Worker)
		}
	})
	return out
}

// Calls that were made so far.
func (c *Cloud) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// Mutations that were made so far, in words.
func (c *Cloud) Mutations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.mutations)
}

// Untainted gives the workers that were ordered while the pool had no taint.
func (c *Cloud) Untainted() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.untainted)
}
