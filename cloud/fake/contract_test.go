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
		w := &world{Cloud: fake.New(fake.Options{
			PoolName: providertest.PoolName, Zones: []string{"zone-a", "zone-b", "zone-c"}, Flavor: "small",
			Now:        func() time.Time { return time.Unix(1_700_000_000, 0) },
			DeployTime: time.Minute, DeleteTime: time.Minute, NodeName: func(_, id string) string { return "node-of-" + id },
		})}
		return w, w.provider
	})
}

// world is a fake cloud whose providers can be out of order.
type world struct {
	*fake.Cloud

	mu    sync.Mutex
	fault providertest.Fault
}

var _ providertest.Machines = (*world)(nil)

func (w *world) provider() cloud.Provider { return &faulty{Provider: w.Provider(), world: w} }

// Inject implements providertest.World.
func (w *world) Inject(f providertest.Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = f
}

// Heal implements providertest.World.
func (w *world) Heal() { w.Inject("") }

func unavailable(err error) error {
	return &cloud.Error{Kind: cloud.Unavailable, Op: "calling the fake cloud", Message: "out of order", Err: err}
}

// prevented gives the error that keeps a request from the cloud.
func (w *world) prevented(ctx context.Context) error {
	w.mu.Lock()
	fault := w.fault
	w.mu.Unlock()
	switch fault {
	case providertest.ServerError:
		return unavailable(nil)
	case providertest.Limited:
		return &cloud.Error{Kind: cloud.RateLimited, Op: "calling the fake cloud", RetryAfter: providertest.LimitedFor}
	case providertest.Denied:
		return &cloud.Error{Kind: cloud.Unauthorized, Op: "calling the fake cloud"}
	case providertest.Hanging:
		<-ctx.Done()
		return unavailable(ctx.Err())
	case providertest.LostAnswer:
	}
	return nil
}

// answered gives the answer to a call, unless it is a change whose answer gets lost.
func (w *world) answered(got cloud.Progress, err error) (cloud.Progress, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault == providertest.LostAnswer && got.Did != "" {
		w.fault = ""
		return cloud.Progress{}, unavailable(nil)
	}
	return got, err
}

// faulty is a provider of a cloud that may be out of order.
type faulty struct {
	cloud.Provider
	world *world
}

// Observe implements cloud.Provider.
func (f *faulty) Observe(ctx context.Context, want cloud.PoolSpec) (cloud.Pool, error) {
	if err := f.world.prevented(ctx); err != nil {
		return cloud.Pool{}, err
	}
	return f.Provider.Observe(ctx, want)
}

// Ensure implements cloud.Provider.
func (f *faulty) Ensure(ctx context.Context, want cloud.PoolSpec) (cloud.Progress, error) {
	if err := f.world.prevented(ctx); err != nil {
		return cloud.Progress{}, err
	}
	return f.world.answered(f.Provider.Ensure(ctx, want))
}

// Delete implements cloud.Provider.
func (f *faulty) Delete(ctx context.Context) (cloud.Progress, error) {
	if err := f.world.prevented(ctx); err != nil {
		return cloud.Progress{}, err
	}
	return f.world.answered(f.Provider.Delete(ctx))
}
