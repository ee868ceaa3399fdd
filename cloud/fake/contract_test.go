package fake_test

import (
	"context"
	"testing"
	"time"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/fake"
	"github.com/rrpool/rrpool/cloud/providertest"
)

func TestContract(t *testing.T) {
	providertest.Run(t, func(*testing.T) providertest.Harness {
		c := fake.New(fake.Options{PoolName: providertest.PoolName, DeployTime: time.Minute, DeleteTime: time.Minute})
		return providertest.Harness{
			World:    world{c},
			Provider: func() cloud.Provider { return c.Provider() },
		}
	})
}

type world struct{ *fake.Cloud }

var _ providertest.Machines = world{}

func (w world) Pools() int {
	p, err := w.Provider().Observe(context.Background())
	if err == nil && p.Exists {
		return 1
	}
	return 0
}

func (w world) Untainted() int { return len(w.Cloud.Untainted()) }
func (w world) Mutations() int { return len(w.Cloud.Mutations()) }
func (w world) Requests() int  { return len(w.Calls()) }
func (w world) StripTaints()   { w.SetTaints(nil) }
func (w world) Heal()          { w.ClearFaults() }

func (w world) Break(id, message string) { w.Cloud.Break(id, cloud.WorkerFailed, message) }

func (w world) Inject(f providertest.Fault) {
	switch f {
	case providertest.ServerError:
		w.Fail("", 0, &cloud.Error{Kind: cloud.Unavailable, Op: "calling the fake cloud", Message: "out of order"})
	case providertest.Limited:
		w.Fail("", 0, &cloud.Error{Kind: cloud.RateLimited, Op: "calling the fake cloud", RetryAfter: providertest.LimitedFor})
	case providertest.Denied:
		w.Fail("", 0, &cloud.Error{Kind: cloud.Unauthorized, Op: "calling the fake cloud"})
	case providertest.Hanging:
		w.Hang()
	case providertest.LostAnswer:
		w.LoseAnswer()
	}
}
