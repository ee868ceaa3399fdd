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
	standing, ok := h.World.(Standing)
	if !ok {
		return fmt.Errorf("the world %T implements neither Machines nor Standing", h.World)
	}
	p, nodes := h.Provider(), standing.Nodes()
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
	require.NotEmpty(t, p.Name())
	pool := observe(t, p)
	require.False(t, pool.Exists)
	require.Len(t, pool.ClusterZones, zoneCount)
	require.IsNonDecreasing(t, pool.ClusterZones)
	for n := 1; n <= 2*zoneCount; n++ {
		got := step(t, h, p, h.spec(2))
		require.NotEmpty(t, got.Did)
		pool = observe(t, p)
		require.True(t, pool.Exists)
		require.True(t, pool.Owned)
		require.Len(t, pool.Workers, n)
		require.Len(t, pool.Zones, min(n, zoneCount), "every zone has one before any has two")
	}
	require.True(t, step(t, h, p, h.spec(2)).Done)
	whole(t, h, p, 2, zoneCount)
}

func refusesOrders(t *testing.T, h Harness) {
	p, requests := h.Provider(), h.World.Requests()
	flavored, tainted, labelled, twice := h.spec(1), h.spec(1), h.spec(1), h.spec(1)
	flavored.Flavor = "bx2.16x64"
	tainted.Taints = []cloud.Taint{{Key: "rrpool.io/dedicated", Value: "route-reflector", Effect: "NoExecute"}}
	labelled.Labels = map[string]string{"team": "network"}
	twice.Zones = []string{"a", "b", "a"}
	for _, want := range []cloud.PoolSpec{flavored, tainted, labelled, twice} {
		_, err := p.Ensure(context.Background(), want)
		require.True(t, cloud.Is(err, cloud.InvalidInput), "%+v: %v", want, err)
	}
	require.Equal(t, requests, h.World.Requests())
}

func substitutesFirst(t *testing.T, h Harness) {
	p := h.Provider()
	settle(t, h, p, h.spec(1))
	victim := h.World.Workers()[0]
	h.World.Break(victim.ID, "dead")
	want := h.spec(1)
	want.Replace = []string{victim.ID}
	step(t, h, p, want)
	require.Contains(t, ids(h.World.Workers()), victim.ID)
	require.Len(t, h.World.Workers(), zoneCount+1)
	step(t, h, p, want)
	require.NotContains(t, ids(h.World.Workers()), victim.ID)
	whole(t, h, p, 1, zoneCount)
	require.True(t, step(t, h, p, want).Done, "named for longer than it is there")
}

func leaves(t *testing.T, h Harness) {
	p := h.Provider()
	settle(t, h, p, h.spec(1))
	for left := zoneCount - 1; left >= 0; left-- {
		got, err := p.Delete(context.Background())
		require.NoError(t, err)
		check(t, h, got, 1)
		require.Len(t, h.World.Workers(), left)
	}
	got, err := p.Delete(context.Background())
	require.NoError(t, err)
	require.True(t, got.Done)
}
