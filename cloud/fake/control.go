package fake

import (
	"maps"
	"slices"
	"time"

	"github.com/rrpool/rrpool/cloud"
)

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

// SetLatency lets every call take so long, in real time.
func (c *Cloud) SetLatency(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latency = d
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

// AddForeignPool makes a pool of the provider's pool name that is somebody else's.
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
