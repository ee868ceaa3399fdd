package iks_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/test/iksserver"
	"github.com/rrpool/rrpool/test/providertest"
)

// IBM documents how an operating system is changed: it is set on the pool, and then the workers are replaced.
func TestWorkersOfAnotherOperatingSystemThanTheirPoolAreOutdated(t *testing.T) {
	want := spec(1)
	want.Options.OperatingSystem = "UBUNTU_20_64"
	w, p := settled(t, iksserver.VPC, want)
	look := func(want cloud.PoolSpec) cloud.Pool {
		pool, err := p.Observe(context.Background(), want)
		require.NoError(t, err)
		return pool
	}
	pool := look(want)
	require.Empty(t, pool.Problems)
	require.Empty(t, pool.Workers[0].Outdated)
	w.SetOperatingSystem(clusterID, providertest.PoolName, "UBUNTU_24_64")
	pool = look(want)
	require.Equal(t, "UBUNTU_20_64 to UBUNTU_24_64", pool.Workers[0].Outdated)
	require.False(t, pool.Workers[0].Former, "no second pool is made for it")
	require.Contains(t, strings.Join(pool.Problems, " "), "now its operatingSystem is UBUNTU_24_64 and not UBUNTU_20_64: change the spec, or put the pool back")
	mutations := w.Mutations()
	require.True(t, ensure(t, p, want).Done)
	require.Equal(t, mutations, w.Mutations())

	want.Options.OperatingSystem = "UBUNTU_24_64"
	pool = look(want)
	require.Empty(t, pool.Problems)
	require.Equal(t, "UBUNTU_20_64 to UBUNTU_24_64", pool.Workers[0].Outdated)
	w.ReplaceWorker(clusterID, pool.Workers[0].ID)
	settle(t, w, p, want)
	old := 0
	for _, w := range look(want).Workers {
		if w.Outdated != "" {
			old++
		}
	}
	require.Equal(t, 2, old, "the one that was replaced has the pool's")
}

// One that the cloud writes in other words with its workers makes them outdated, which orders nothing by itself.
func TestAnOperatingSystemInOtherWordsBuysNothing(t *testing.T) {
	w := newWorld(t, iksserver.VPC)
	w.Believe(iksserver.Beliefs{OtherSystems: true})
	p := w.provider(t, nil)
	settle(t, w, p, spec(1))
	mutations := w.Mutations()
	pool := observe(t, p)
	require.Equal(t, "Ubuntu 24 to UBUNTU_24_64", pool.Workers[0].Outdated)
	require.True(t, ensure(t, p, spec(1)).Done)
	require.Equal(t, mutations, w.Mutations())
}

// While the master is updated the state of workers is unknown, as IBM documents. Nothing is wrong with them then.
func TestTheStateOfWorkersIsUnknownWhileTheMasterIsUpdated(t *testing.T) {
	for _, generation := range both {
		for name, worker := range map[string][2]string{"state": {"unknown", "normal"}, "health": {"", "unknown"}} {
			t.Run(generation+" "+name, func(t *testing.T) {
				w, p := settled(t, generation, spec(1))
				w.Server.Break(clusterID, w.Workers()[0].ID, worker[0], worker[1], "unknown")
				w.SetMasterStatus(clusterID, "Version update in progress. (8 minutes ago)")
				w.Advance(5 * time.Minute)
				pool := observe(t, p)
				require.Empty(t, pool.Problems)
				require.Equal(t, cloud.WorkerDeployed, pool.Workers[0].State)
				for _, status := range []string{"Ready", "Version update cancelled", ""} {
					w.SetMasterStatus(clusterID, status)
					w.Advance(5 * time.Minute)
					pool = observe(t, p)
					require.Equal(t, cloud.WorkerUnhealthy, pool.Workers[0].State, status)
					require.Len(t, pool.Problems, 1)
				}
			})
		}
	}
}

// Physical machines have no isolation, and where all machines of a classic cluster are on hosts of its own, so are these.
func TestTheIsolationOfAClassicPool(t *testing.T) {
	for name, c := range map[string]struct{ flavor, others, want string }{
		"shared": {want: "public"}, "physical": {flavor: "mb4c.20x64", others: "private"}, "hosts of its own": {others: "private", want: "private"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, iksserver.Classic, func(c2 *iksserver.Cluster) {
				c2.Pools[0].Isolation = c.others
				c2.Pools = append(c2.Pools, iksserver.Pool{Name: "metal", Flavor: "mb4c.20x64", SizePerZone: 1, Zones: c2.Pools[0].Zones, Isolation: "public"})
			})
			want := spec(1)
			want.Flavor = c.flavor
			require.Contains(t, ensure(t, w.provider(t, nil), want).Did, "created the pool")
			require.Contains(t, changes(w)[0], `"isolation":"`+c.want+`"`)
		})
	}
}
