package providertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
)

// ordersNothing fails for a provider that orders machines: one who takes what is
// there refuses a flavor and taints, does without them, and brings no worker that
// was not a node before. It needs a harness of its own.
func ordersNothing(ctx context.Context, h Harness) error {
	existing, ok := h.World.(ExistingNodes)
	if !ok {
		return fmt.Errorf("the world %T implements neither Machines nor ExistingNodes", h.World)
	}
	p, nodes := h.Provider(), existing.Nodes()
	ordered := cloud.PoolSpec{SizePerZone: 1, Flavor: "big", Taints: []cloud.Taint{{Key: "a", Value: "b", Effect: "NoExecute"}}}
	if _, err := p.Ensure(ctx, ordered); !cloud.Is(err, cloud.InvalidInput) {
		return fmt.Errorf("a flavor and a taint were not refused, the error is of kind %q", cloud.KindOf(err))
	}
	for range 60 {
		got, err := p.Ensure(ctx, cloud.PoolSpec{SizePerZone: 1})
		if err != nil {
			return fmt.Errorf("asking for one existing node per zone: %w", err)
		}
		for _, w := range h.World.Workers() {
			if !slices.Contains(nodes, w.NodeName) {
				return fmt.Errorf("worker %s is none of the nodes that were there", w.ID)
			}
		}
		if got.Done {
			return nil
		}
	}
	return errors.New("never done")
}

func joins(t *testing.T, h Harness) {
	p := h.Provider()
	noPoolYet(t, p)
	for n := 1; n <= 2*zoneCount; n++ {
		got := step(t, h, p, h.spec(2))
		require.NotEmpty(t, got.Did)
		pool := observe(t, p)
		require.True(t, pool.Exists)
		require.True(t, pool.Owned)
		require.Len(t, pool.Workers, n)
		require.Len(t, pool.Zones, min(n, zoneCount), "every zone has one before any has two")
	}
	require.True(t, step(t, h, p, h.spec(2)).Done)
	whole(t, h, p, 2, zoneCount)
}

func substitutesFirst(t *testing.T, h Harness) {
	p := h.Provider()
	settle(t, h, p, h.spec(1))
	dead := h.World.Workers()[0]
	h.World.Break(dead.ID, "dead")
	want := h.spec(1)
	want.Replace = []string{dead.ID}
	step(t, h, p, want)
	require.Contains(t, ids(h.World.Workers()), dead.ID)
	require.Len(t, h.World.Workers(), zoneCount+1)
	step(t, h, p, want)
	require.NotContains(t, ids(h.World.Workers()), dead.ID)
	whole(t, h, p, 1, zoneCount)
	require.True(t, step(t, h, p, want).Done, "named for longer than it is there")
}
