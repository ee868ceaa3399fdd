package fake_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/fake"
	"github.com/rrpool/rrpool/test/providertest"
)

func TestContract(t *testing.T) {
	providertest.Run(t, func(*testing.T) (providertest.World, func() cloud.Provider) {
		w := &world{known: map[string]bool{}, Cloud: fake.New(fake.Options{
			PoolName: providertest.PoolName, Zones: []string{"zone-a", "zone-b", "zone-c"}, Flavor: "small",
			Now:        func() time.Time { return time.Unix(1_700_000_000, 0) },
			DeployTime: time.Minute, DeleteTime: time.Minute, NodeName: func(_, id string) string { return "node-of-" + id },
		})}
		return w, func() cloud.Provider { return &counted{w.Provider(), w} }
	})
}

type world struct {
	*fake.Cloud

	mu sync.Mutex
	// requests are the calls that reached the cloud, mutations its changes.
	requests, mutations int
	// known are the workers that ever were, untainted those that came without taint, failing those that are yet to fail.
	known              map[string]bool
	untainted, failing int
	failure            string
}

var _ providertest.Machines = (*world)(nil)

func (w *world) count(got cloud.Progress, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !cloud.Is(err, cloud.InvalidInput) {
		w.requests++
	}
	if got.Did != "" {
		w.mutations++
	}
	tainted := w.Tainted()
	for _, o := range w.Workers() {
		if w.known[o.ID] {
			continue
		}
		w.known[o.ID] = true
		if !tainted {
			w.untainted++
		}
		if w.failing > 0 {
			w.failing--
			w.Break(o.ID, w.failure)
		}
	}
}

func (w *world) read(n *int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *n
}

func (w *world) Mutations() int { return w.read(&w.mutations) }
func (w *world) Requests() int  { return w.read(&w.requests) }
func (w *world) Untainted() int { return w.read(&w.untainted) }

// FailWorkers implements providertest.Machines.
func (w *world) FailWorkers(n int, message string) { w.failing, w.failure = n, message }

type counted struct {
	cloud.Provider
	world *world
}

// Observe implements cloud.Provider.
func (c *counted) Observe(ctx context.Context, want cloud.PoolSpec) (cloud.Pool, error) {
	pool, err := c.Provider.Observe(ctx, want)
	c.world.count(cloud.Progress{}, err)
	return pool, err
}

// Ensure implements cloud.Provider.
func (c *counted) Ensure(ctx context.Context, want cloud.PoolSpec) (cloud.Progress, error) {
	got, err := c.Provider.Ensure(ctx, want)
	c.world.count(got, err)
	return got, err
}

// Delete implements cloud.Provider.
func (c *counted) Delete(ctx context.Context) (cloud.Progress, error) {
	got, err := c.Provider.Delete(ctx)
	c.world.count(got, err)
	return got, err
}
