package iks_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/test/iksserver"
	"github.com/rrpool/rrpool/test/providertest"
)

func TestTheDefaultFlavorIsOfTheClustersGeneration(t *testing.T) {
	for name, c := range map[string]struct {
		classic  bool
		machines map[string]int
		want     []string
	}{
		"nothing is known":                 {want: []string{"bx2.2x8"}},
		"classic":                          {classic: true, want: []string{"u3c.2x4"}},
		"the second generation":            {machines: map[string]int{"cx2.16x32": 3}, want: []string{"bx2.2x8", "cx2.16x32"}},
		"with local disks":                 {machines: map[string]int{"bx2d.4x16": 3}, want: []string{"bx2.2x8", "bx2d.4x16"}},
		"the third generation":             {machines: map[string]int{"bx3d.8x40": 3, "cx3d.4x10": 1}, want: []string{"bx3d.4x20", "cx3d.4x10", "bx3d.8x40"}},
		"most are of the third":            {machines: map[string]int{"bx2.4x16": 2, "bx3d.4x20": 3}, want: []string{"bx3d.4x20", "bx2.4x16"}},
		"as many of the second":            {machines: map[string]int{"bx2.4x16": 3, "bx3d.4x20": 3}, want: []string{"bx2.2x8", "bx2.4x16", "bx3d.4x20"}},
		"GPUs and bare metal do not count": {machines: map[string]int{"gx3.16x80.l4": 9, "cx2d.metal.96x192": 9, "bx3d.4x20": 1}, want: []string{"bx3d.4x20"}},
		"only such":                        {machines: map[string]int{"gx3.16x80.l4": 9, "": 2, "nonsense": 1}, want: []string{"bx2.2x8"}},
		"one that nobody has documented":   {machines: map[string]int{"bxf.8x32": 2, "bxf.4x16": 1}, want: []string{"bxf.4x16", "bxf.8x32"}},
		"classic machines":                 {classic: true, machines: map[string]int{"b3c.4x16": 3, "mb4c.20x64": 3}, want: []string{"u3c.2x4", "b3c.4x16"}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, iks.DefaultFlavors(c.classic, c.machines)) })
	}
}

// In a region of the third generation alone there is no bx2.2x8. A pool that was ordered keeps its flavor, whatever the cluster's machines
// become, and so does the one that takes over from it.
func TestTheDefaultFlavorIsOneThatTheZonesHave(t *testing.T) {
	third := func(offered ...string) func(*iksserver.Cluster) {
		return func(c *iksserver.Cluster) {
			c.Pools[0].Flavor = "bx3d.8x40"
			for i := range c.Zones {
				c.Zones[i].Flavors = offered
			}
		}
	}
	for name, c := range map[string]struct {
		edit  func(*iksserver.Cluster)
		order string
	}{
		"the smallest of the generation":    {third("bx3d.8x40", "bx3d.4x20"), "bx3d.4x20"},
		"what the cluster has itself":       {third("bx3d.16x80", "bx3d.8x40"), "bx3d.8x40"},
		"the smallest that the zones offer": {third("gx3.16x80.l4", "cx4.8x16", "cx4.2x4", "cx4.4x8"), "cx4.4x8"},
		"one zone lacks the smallest":       {func(c *iksserver.Cluster) { c.Zones[1].Flavors = []string{"bx2.4x16", "bx2.8x32"} }, "bx2.4x16"},
		"what is deprecated is not chosen": {func(c *iksserver.Cluster) {
			c.Zones[0].Flavors = []string{"b2.4x16", "cx2.2x4"}
			c.Pools[0].Flavor = "b2.4x16"
		}, "cx2.2x4"},
		"every zone has something else to offer": {func(c *iksserver.Cluster) {
			c.Zones[0].Flavors, c.Zones[1].Flavors = []string{"bx3d.4x20"}, []string{"bx3d.8x40"}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, iksserver.VPC, c.edit)
			p, want := w.provider(t, nil), spec(1)
			look := want
			look.Once = true
			seen, err := p.Observe(context.Background(), look)
			if c.order == "" {
				require.ErrorContains(t, err, "has no flavor bx2.2x8")
				require.Contains(t, refusedOrder(t, w, want), "has no flavor bx2.2x8")
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.order, seen.Flavor, "plan and check say what is ordered")
			settle(t, w, p, want)
			require.Contains(t, changes(w)[0], `"flavor":"`+c.order+`"`)
			if name != "what the cluster has itself" {
				return
			}
			w.AddPool(clusterID, iksserver.Pool{Name: "new", Flavor: "bx2.4x16", SizePerZone: 9, Zones: w.zones[:3]})
			require.True(t, ensure(t, w.provider(t, nil), want).Done)
			want.Options.OperatingSystem, want.SizePerZone, want.Lasting = "RHEL_8_64", 2, 1
			require.Contains(t, ensure(t, w.provider(t, nil), want).Did, "created the pool")
			require.Contains(t, changes(w)[len(changes(w))-1], `"flavor":"`+c.order+`"`)
		})
	}
}

// A host runs machines of its own class alone, which the provider does not know.
func TestADedicatedHostNeedsAFlavor(t *testing.T) {
	w, want := newWorld(t, iksserver.VPC), spec(1)
	want.Options = cloud.PoolOptions{DedicatedHostPoolID: "dh-1"}
	require.Contains(t, refusedOrder(t, w, want), "dedicatedHostPoolID is dh-1, and no flavor is given")
	want.Flavor = "bx2.4x16"
	settle(t, w, w.provider(t, nil), want)
	want.Flavor = ""
	require.True(t, ensure(t, w.provider(t, nil), want).Done, "a pool that exists has one")
}

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
