package fake

import (
	"slices"

	"github.com/rrpool/rrpool/cloud"
)

// FailWorkers lets the next n workers that are ordered fail with message.
func (c *Cloud) FailWorkers(n int, message string) {
	c.locked(func() { c.failNext = append(c.failNext, slices.Repeat([]string{message}, n)...) })
}

// Break makes a worker fail.
func (c *Cloud) Break(workerID, message string) {
	c.locked(func() {
		for _, w := range c.pool.workers {
			if w.ID == workerID {
				w.State, w.Message = cloud.WorkerFailed, message
			}
		}
	})
}

// SetAutoscaled puts the pool under an autoscaler's control, or takes it out.
func (c *Cloud) SetAutoscaled(on bool) { c.locked(func() { c.pool.autoscaled = on }) }

// StripTaints takes the taints from the pool, if there is one.
func (c *Cloud) StripTaints() {
	c.locked(func() {
		if c.pool != nil {
			c.pool.taints = nil
		}
	})
}

// AddForeignPool makes a pool of the provider's pool name that rrpool did not make.
func (c *Cloud) AddForeignPool() {
	c.locked(func() {
		c.pool = &pool{id: "foreign", flavor: c.opts.Flavor, size: 1, zones: c.opts.Zones, balanced: true}
	})
}

// Pools counts the pools.
func (c *Cloud) Pools() (n int) {
	c.locked(func() {
		if c.pool != nil {
			n = 1
		}
	})
	return n
}

// Mutations counts the changes so far.
func (c *Cloud) Mutations() (n int) {
	c.locked(func() { n = c.mutations })
	return n
}

// Requests counts the calls that reached the cloud.
func (c *Cloud) Requests() (n int) {
	c.locked(func() { n = c.requests })
	return n
}

// Untainted counts the workers that were ordered while the pool had no taint.
func (c *Cloud) Untainted() (n int) {
	c.locked(func() { n = c.untainted })
	return n
}

func (c *Cloud) locked(fn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.move()
	fn()
}
