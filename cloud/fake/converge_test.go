package fake_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/fake"
	"github.com/rrpool/rrpool/cloud/providertest"
)

// TestAnyOrderOfEventsEndsWell lets sizes change, workers fail, answers get lost and the provider restart, in any
// order; then a caller that names the workers to go gets the pool it wants, and no other worker ever goes.
func TestAnyOrderOfEventsEndsWell(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newWorld(fake.Options{DeployTime: time.Minute, DeleteTime: 3 * time.Minute})
		p := c.provider()
		size := 1
		named := map[string]bool{}
		step := func() bool { return sensibly(t, c, p, size, named) }
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			switch rapid.IntRange(0, 6).Draw(t, "event") {
			case 0:
				size = rapid.IntRange(1, 3).Draw(t, "size")
			case 1:
				p = c.provider()
			case 2:
				c.Inject(providertest.LostAnswer)
			case 3:
				if all := c.Workers(); len(all) > 0 {
					c.Break(rapid.SampledFrom(all).Draw(t, "worker").ID, "dead")
				}
			case 4:
				c.StripTaints()
			default:
				step()
				c.Advance(time.Duration(rapid.IntRange(0, 300).Draw(t, "seconds")) * time.Second)
			}
		}
		c.Heal()
		for range 200 {
			if step() {
				require.Len(t, c.Workers(), 3*size)
				return
			}
			c.Advance(time.Minute)
		}
		require.Fail(t, "never done")
	})
}

// sensibly makes one call as a sensible caller would, and says whether all is done.
func sensibly(t *rapid.T, c *world, p cloud.Provider, size int, named map[string]bool) bool {
	pool, err := p.Observe(context.Background())
	require.NoError(t, err)
	want := demand(pool, size)
	for _, id := range append(want.Retire, want.Replace...) {
		named[id] = true
	}
	before := c.Workers()
	got, err := p.Ensure(context.Background(), want)
	if err != nil {
		require.True(t, cloud.Is(err, cloud.Unavailable), "%v", err)
	}
	for _, w := range gone(before, c.Workers()) {
		require.True(t, named[w], "%s was not named", w)
	}
	require.Zero(t, c.Untainted())
	return got.Done
}

// demand is what a sensible caller asks for.
func demand(pool cloud.Pool, size int) cloud.PoolSpec {
	want := cloud.PoolSpec{SizePerZone: size, Taints: []cloud.Taint{{Key: "k", Value: "v", Effect: "NoExecute"}}}
	kept := map[string]int{}
	for _, w := range pool.Workers {
		switch {
		case w.State == cloud.WorkerFailed:
			want.Replace = append(want.Replace, w.ID)
		case w.State == cloud.WorkerDeleting:
		case kept[w.Zone] >= size:
			want.Retire = append(want.Retire, w.ID)
		default:
			kept[w.Zone]++
		}
	}
	return want
}

// gone gives the workers that are deleting or gone after, and were not before.
func gone(before, after []cloud.Worker) []string {
	alive := map[string]bool{}
	for _, w := range after {
		alive[w.ID] = w.State != cloud.WorkerDeleting
	}
	var out []string
	for _, w := range before {
		if w.State != cloud.WorkerDeleting && !alive[w.ID] {
			out = append(out, w.ID)
		}
	}
	return out
}
