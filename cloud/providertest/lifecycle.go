package providertest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
)

func leavesAlone(t *testing.T, h Harness) {
	p := h.Provider()
	settle(t, h, p, h.spec(2))
	observe(t, p)
	changes, requests := h.World.Mutations(), h.World.Requests()
	for range 5 {
		got := step(t, h, p, h.spec(2))
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
	settleEach(t, h, h.Provider, h.spec(1))
	whole(t, h, h.Provider(), 1, zoneCount)
	settleEach(t, h, h.Provider, h.spec(2))
	whole(t, h, h.Provider(), 2, zoneCount)
	want := h.spec(1)
	seen := map[string]bool{}
	for _, w := range h.World.Workers() {
		if !seen[w.Zone] {
			want.Retire = append(want.Retire, w.ID)
		}
		seen[w.Zone] = true
	}
	settleEach(t, h, h.Provider, want)
	whole(t, h, h.Provider(), 1, zoneCount)
}

func losesAnswers(t *testing.T, h Harness) {
	p := h.Provider()
	lost := 0
	for range 60 {
		h.World.Inject(LostAnswer)
		before := h.World.Mutations()
		got, err := p.Ensure(context.Background(), h.spec(1))
		changes := h.World.Mutations() - before
		require.LessOrEqual(t, changes, 1)
		wellMade(t, h)
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
	once := zoneCount
	if h.machines() != nil {
		once += 2
	}
	require.Equal(t, once, lost, "created and tainted once where that is done, each zone once")
}

func grows(t *testing.T, h Harness) {
	p := h.Provider()
	settle(t, h, p, h.spec(1))
	before := ids(h.World.Workers())
	settle(t, h, p, h.spec(3))
	whole(t, h, p, 3, zoneCount)
	require.Subset(t, ids(h.World.Workers()), before, "those that were there stay")
}

func shrinks(t *testing.T, h Harness) {
	p := h.Provider()
	settle(t, h, p, h.spec(2))
	// The newest of each zone goes: no cloud would choose it.
	newest := map[string]string{}
	for _, w := range observe(t, p).Workers {
		newest[w.Zone] = w.ID
	}
	want := h.spec(1)
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
	settle(t, h, p, h.spec(2))
	before, all := h.World.Mutations(), ids(h.World.Workers())
	for range 5 {
		got := step(t, h, p, h.spec(1))
		require.False(t, got.Done)
		require.Contains(t, got.WaitingFor, "retired")
		h.World.Advance(while)
	}
	require.Equal(t, before, h.World.Mutations())

	// One zone of three: still not.
	want := h.spec(1)
	want.Retire = all[:1]
	until(t, h, p, want)
	h.World.Advance(while)
	until(t, h, p, want)
	require.ElementsMatch(t, all[1:], ids(h.World.Workers()))
	require.Equal(t, 2, observe(t, p).SizePerZone)
}

func listedZones(t *testing.T, h Harness) {
	p := h.Provider()
	zones := observe(t, p).ClusterZones
	want := h.spec(1)
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

func deletes(t *testing.T, h Harness) {
	p := h.Provider()
	got, err := p.Delete(context.Background())
	require.NoError(t, err)
	require.True(t, got.Done, "no pool is done")
	settle(t, h, p, h.spec(1))
	before, once := h.World.Mutations(), zoneCount
	if h.machines() != nil {
		once = 1
	}
	for range 10 {
		changes := h.World.Mutations()
		got, err = p.Delete(context.Background())
		require.NoError(t, err)
		check(t, h, got, h.World.Mutations()-changes)
		if got.Done {
			break
		}
		h.World.Advance(while)
	}
	require.True(t, got.Done)
	require.Zero(t, h.World.Pools())
	require.Equal(t, before+once, h.World.Mutations())
	require.False(t, observe(t, p).Exists)
	settle(t, h, p, h.spec(1))
	whole(t, h, p, 1, zoneCount)
}
