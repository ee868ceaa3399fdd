package fake

import (
	"time"

	"github.com/rrpool/rrpool/cloud"
)

// Advance lets d pass for the cloud and its providers.
func (c *Cloud) Advance(d time.Duration) {
	c.locked(func() {
		then := c.opts.Now().Add(d)
		c.opts.Now = func() time.Time { return then }
		c.move()
	})
}

// Break makes a worker fail.
func (c *Cloud) Break(workerID, message string) {
	c.locked(func() {
		for _, w := range c.workers {
			if w.ID == workerID {
				w.State, w.Message = cloud.WorkerFailed, message
			}
		}
	})
}

// SetAutoscaled puts the pool under an autoscaler's control, or takes it out.
func (c *Cloud) SetAutoscaled(on bool) { c.locked(func() { c.pool.Autoscaled = on }) }

// StripTaints takes the taints from the pool, if there is one.
func (c *Cloud) StripTaints() {
	c.locked(func() { c.pool.Taints = nil })
}

// Tainted reports whether the pool has taints.
func (c *Cloud) Tainted() (is bool) {
	c.locked(func() { is = len(c.pool.Taints) > 0 })
	return is
}

// AddForeignPool makes a pool of the provider's pool name that rrpool did not make.
func (c *Cloud) AddForeignPool() {
	c.locked(func() {
		c.make("foreign", c.opts.Flavor, 1)
		c.pool.Zones, c.pool.Owned = c.opts.Zones, false
	})
}

// Pools counts the pools.
func (c *Cloud) Pools() (n int) {
	c.locked(func() {
		if c.pool.Exists {
			n = 1
		}
	})
	return n
}

func (c *Cloud) locked(fn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.move()
	fn()
}
