package contract

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
)

func creates(t *testing.T, h Harness) {
	p := h.Provider()
	require.NotEmpty(t, p.Name())
	pool := observe(t, p)
	require.False(t, pool.Exists)
	require.Len(t, pool.ClusterZones, zoneCount)
	require.IsNonDecreasing(t, pool.ClusterZones)

	step(t, h, p, spec(1))
	pool = observe(t, p)
	require.True(t, pool.Exists)
	require.True(t, pool.Owned, "a pool is ours from its first moment, or a crash would lose it")
	require.Empty(t, pool.Zones)
	require.Empty(t, h.World.Workers(), "no zone, no worker")

	for range 10 {
		pool = observe(t, p)
		if len(pool.Zones) > 0 {
			require.NotEmpty(t, pool.Taints, "taints before zones")
		}
		step(t, h, p, spec(1))
	}
	require.Len(t, pool.Zones, zoneCount)
	settle(t, h, p, spec(1))
	whole(t, h, p, 1, zoneCount)
	require.Equal(t, spec(1).Taints, observe(t, p).Taints)
}

func rests(t *testing.T, h Harness) {
	p := h.Provider()
	settle(t, h, p, spec(2))
	observe(t, p)
	changes, requests := h.World.Mutations(), h.World.Requests()
	for range 5 {
		got := step(t, h, p, spec(2))
		require.True(t, got.Done)
	}
	require.LessOrEqual(t, h.World.Requests()-requests, 5*2)
	requests = h.World.Requests()
	for range 5 {
		observe(t, p)
	}
	require.LessOrEqual(t, h.World.Requests()-requests, 5*2)
	require.Equal(t, changes, h.World.Mutations())
}

func crashes(t *testing.T, h Harness) {
	drive := func(want cloud.PoolSpec) {
		for range 60 {
			got := step(t, h, h.Provider(), want)
			if got.Done {
				return
			}
			if got.Did == "" {
				h.World.Advance(while)
			}
		}
		require.Fail(t, "never done")
	}
	drive(spec(1))
	whole(t, h, h.Provider(), 1, zoneCount)
	drive(spec(2))
	whole(t, h, h.Provider(), 2, zoneCount)
	want := spec(1)
	seen := map[string]bool{}
	for _, w := range h.World.Workers() {
		if !seen[w.Zone] {
			want.Retire = append(want.Retire, w.ID)
		}
		seen[w.Zone] = true
	}
	drive(want)
	whole(t, h, h.Provider(), 1, zoneCount)
}

func losesAnswers(t *testing.T, h Harness) {
	p := h.Provider()
	lost := 0
	for range 60 {
		h.World.Inject(LostAnswer)
		before := h.World.Mutations()
		got, err := p.Ensure(context.Background(), spec(1))
		changes := h.World.Mutations() - before
		require.LessOrEqual(t, changes, 1)
		require.Zero(t, h.World.Untainted())
		require.LessOrEqual(t, h.World.Pools(), 1)
		h.World.Heal()
		if changes == 1 {
			lost++
			require.True(t, cloud.Is(err, cloud.Unavailable), "%v", err)
			continue
		}
		require.NoError(t, err)
		if got.Done {
			break
		}
		h.World.Advance(while)
	}
	whole(t, h, p, 1, zoneCount)
	require.Equal(t, 2+zoneCount, lost, "created once, tainted once, each zone once")
}

func grows(t *testing.T, h Harness) {
	p := h.Provider()
	settle(t, h, p, spec(1))
	before := ids(h.World.Workers())
	settle(t, h, p, spec(3))
	whole(t, h, p, 3, zoneCount)
	require.Subset(t, ids(h.World.Workers()), before, "those that were there stay")
}

func shrinks(t *testing.T, h Harness) {
	p := h.Provider()
	settle(t, h, p, spec(2))
	// The newest of each zone goes: no cloud would choose it.
	newest := map[string]string{}
	for _, w := range observe(t, p).Workers {
		newest[w.Zone] = w.ID
	}
	want := spec(1)
	for _, id := range newest {
		want.Retire = append(want.Retire, id)
	}
	var stay []string
	for _, w := range h.World.Workers() {
		if newest[w.Zone] != w.ID {
			stay = append(stay, w.ID)
		}
	}
	settle(t, h, p, want)
	require.ElementsMatch(t, stay, ids(h.World.Workers()))
	whole(t, h, p, 1, zoneCount)
}

func doesNotChoose(t *testing.T, h Harness) {
	p := h.Provider()
	settle(t, h, p, spec(2))
	before, all := h.World.Mutations(), ids(h.World.Workers())
	for range 5 {
		got := step(t, h, p, spec(1))
		require.False(t, got.Done)
		require.Contains(t, got.WaitingFor, "retired")
		h.World.Advance(while)
	}
	require.Equal(t, before, h.World.Mutations())

	// One zone of three: still not.
	want := spec(1)
	want.Retire = all[:1]
	until(t, h, p, want)
	h.World.Advance(while)
	until(t, h, p, want)
	require.ElementsMatch(t, all[1:], ids(h.World.Workers()))
	require.Equal(t, 2, observe(t, p).SizePerZone)
}

func retaints(t *testing.T, h Harness) {
	p := h.Provider()
	step(t, h, p, spec(1))
	for len(observe(t, p).Zones) == 0 {
		step(t, h, p, spec(1))
	}
	h.World.StripTaints()
	h.World.Advance(while)
	settle(t, h, p, spec(1))
	require.Equal(t, spec(1).Taints, observe(t, p).Taints)
	whole(t, h, p, 1, zoneCount)
	// The same for an instance that has just started.
	h.World.StripTaints()
	settle(t, h, h.Provider(), spec(1))
	require.Equal(t, spec(1).Taints, observe(t, h.Provider()).Taints)
}

func listedZones(t *testing.T, h Harness) {
	p := h.Provider()
	zones := observe(t, p).ClusterZones
	want := spec(1)
	want.Zones = zones[:2]
	settle(t, h, p, want)
	whole(t, h, p, 1, 2)

	want.Zones = zones[:1]
	got := until(t, h, p, want)
	require.Contains(t, got.WaitingFor, zones[1], "a zone with a worker in it is not dropped")
	for _, w := range h.World.Workers() {
		if w.Zone == zones[1] {
			want.Retire = append(want.Retire, w.ID)
		}
	}
	settle(t, h, p, want)
	whole(t, h, p, 1, 1)
}

func otherFlavor(t *testing.T, h Harness) {
	p := h.Provider()
	settle(t, h, p, spec(1))
	other := spec(1)
	other.Flavor = "bx2.16x64"
	_, err := p.Ensure(context.Background(), other)
	require.True(t, cloud.Is(err, cloud.InvalidInput), "%v", err)
	h.World.Break(h.World.Workers()[0].ID, "dead")
	other.Replace = []string{h.World.Workers()[0].ID}
	got := step(t, h, p, other)
	require.NotEmpty(t, got.Did, "what is dead is replaced all the same")
}

func deletes(t *testing.T, h Harness) {
	p := h.Provider()
	got, err := p.Delete(context.Background())
	require.NoError(t, err)
	require.True(t, got.Done, "no pool is done")
	settle(t, h, p, spec(1))
	before := h.World.Mutations()
	for range 10 {
		if got, err = p.Delete(context.Background()); got.Done {
			break
		}
		require.NoError(t, err)
		h.World.Advance(while)
	}
	require.True(t, got.Done)
	require.Zero(t, h.World.Pools())
	require.Equal(t, before+1, h.World.Mutations())
	require.False(t, observe(t, p).Exists)
	settle(t, h, p, spec(1))
	whole(t, h, p, 1, zoneCount)
}
