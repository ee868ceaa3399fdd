package fake_test

import (
	"context"
	"testing"
	"time"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/contract"
	"github.com/rrpool/rrpool/cloud/fake"
)

func TestContract(t *testing.T) {
	contract.Run(t, func(*testing.T) contract.Harness {
		c := fake.New(fake.Options{PoolName: contract.PoolName, DeployTime: time.Minute, DeleteTime: time.Minute})
		return contract.Harness{
			World:    world{c},
			Provider: func() cloud.Provider { return c.Provider() },
		}
	})
}

type world struct{ *fake.Cloud }

var _ contract.Machines = world{}

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

func (w world) Inject(f contract.Fault) {
	switch f {
	case contract.ServerError:
		w.Fail("", 0, &cloud.Error{Kind: cloud.Unavailable, Op: "calling the fake cloud", Message: "out of order"})
	case contract.Limited:
		w.Fail("", 0, &cloud.Error{Kind: cloud.RateLimited, Op: "calling the fake cloud", RetryAfter: contract.LimitedFor})
	case contract.Denied:
		w.Fail("", 0, &cloud.Error{Kind: cloud.Unauthorized, Op: "calling the fake cloud"})
	case contract.Hanging:
		w.Hang()
	case contract.LostAnswer:
		w.LoseAnswer()
	}
}
