package iks_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/cloud/poolplan"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/iksserver"
	"github.com/rrpool/rrpool/test/providertest"
)

func everyOption(generation string) cloud.PoolOptions {
	if generation == iksserver.Classic {
		return cloud.PoolOptions{
			OperatingSystem: "UBUNTU_20_64",
			Networks:        map[string]cloud.Network{"dal12": {PrivateVLAN: "7"}, "dal13": {PrivateVLAN: "8", PublicVLAN: "9"}},
		}
	}
	return cloud.PoolOptions{
		OperatingSystem: "UBUNTU_20_64", SecurityGroups: []string{"r006-a", "r006-b"}, Networks: map[string]cloud.Network{"us-south-2": {SubnetID: "own-us-south-2"}},
		WorkerVolumeEncryption: cloud.WorkerVolumeEncryption{KMSInstanceID: "kms-1", RootKeyID: "key-1", KMSAccountID: "account1"}, DedicatedHostPoolID: "dh-1",
	}
}

// newWorldOf has what everyOption names, and a pool that was ordered with it.
func newWorldOf(t *testing.T, generation string) (*world, *iks.Provider, cloud.PoolSpec) {
	t.Helper()
	w := newWorld(t, generation, func(c *iksserver.Cluster) {
		for i := range c.Zones {
			z := &c.Zones[i]
			z.Subnets = append(z.Subnets, iksserver.Subnet{ID: "own-" + z.ID, Available: 9})
			z.VLANs = append(z.VLANs, iksserver.VLAN{ID: "7", Type: "private"}, iksserver.VLAN{ID: "8", Type: "private"}, iksserver.VLAN{ID: "9", Type: "public"})
		}
	})
	p, want := w.provider(t, nil), spec(1)
	if want.Options = everyOption(generation); generation == iksserver.VPC {
		want.Flavor = "bx2.2x8" // a dedicated host needs one
	}
	settle(t, w, p, want)
	return w, p, want
}

func TestOptionsAreOrdered(t *testing.T) {
	for generation, bodies := range map[string][]string{
		iksserver.VPC: {
			`{"cluster":"` + clusterID + `","hostPool":"dh-1","entitlement":"","flavor":"bx2.2x8","labels":{"rrpool.io/options":"5eff64c7bd335dfc","rrpool.io/pool":"route-reflectors"},` +
				`"name":"route-reflectors","operatingSystem":"UBUNTU_20_64","vpcID":"r006-vpc","workerCount":1,"zones":[],` +
				`"workerVolumeEncryption":{"kmsInstanceID":"kms-1","workerVolumeCRKID":"key-1","kmsAccountID":"account1"},"securityGroupIDs":["r006-a","r006-b"]}`,
			`"id":"us-south-1","subnetID":"sub-us-south-1"`, `"id":"us-south-2","subnetID":"own-us-south-2"`, `"id":"us-south-3","subnetID":"sub-us-south-3"`,
		},
		iksserver.Classic: {
			`{"name":"route-reflectors","sizePerZone":1,"machineType":"u3c.2x4","isolation":"public","labels":{"rrpool.io/options":"d4764ef849e74a3f","rrpool.io/pool":"route-reflectors"},` +
				`"operatingSystem":"UBUNTU_20_64","entitlement":"","diskEncryption":true,"zones":[]}`,
			`{"privateVlan":"10010","publicVlan":"20010","id":"dal10"}`, `{"privateVlan":"7","publicVlan":"","id":"dal12"}`, `{"privateVlan":"8","publicVlan":"9","id":"dal13"}`,
		},
	} {
		t.Run(generation, func(t *testing.T) {
			w, p, want := newWorldOf(t, generation)
			pool := observe(t, p)
			have := pool.Options
			for _, body := range bodies {
				require.Contains(t, strings.Join(changes(w), "\n"), body)
			}
			// The cloud reports them, but for security groups, and the zones that were not chosen.
			for zone, n := range want.Options.Networks {
				require.Equal(t, n, have.Networks[zone])
			}
			have.Networks, have.SecurityGroups = want.Options.Networks, want.Options.SecurityGroups
			require.Equal(t, want.Options, have)
		})
	}
}

// What is left to the provider is as it is, and for what differs a second pool takes over. A pool that was ordered with these very options has them.
func TestWorkersWithOtherOptions(t *testing.T) {
	for generation, others := range map[string]map[string]func(*cloud.PoolOptions){
		iksserver.VPC: {
			"operatingSystem is UBUNTU_20_64 and not UBUNTU_24_64": func(o *cloud.PoolOptions) { o.OperatingSystem = "UBUNTU_24_64" },
			"rootKeyID is key-1 and not key-2":                     func(o *cloud.PoolOptions) { o.WorkerVolumeEncryption.RootKeyID = "key-2" },
			"dedicatedHostPoolID is dh-1 and not dh-2":             func(o *cloud.PoolOptions) { o.DedicatedHostPoolID = "dh-2" },
			"subnetID in zone us-south-2 is own-us-south-2 and not sub-us-south-2": func(o *cloud.PoolOptions) {
				o.Networks = map[string]cloud.Network{"us-south-2": {SubnetID: "sub-us-south-2"}}
			},
			"subnetID in zone us-south-1 is sub-us-south-1 and not own-us-south-1": func(o *cloud.PoolOptions) { o.Networks["us-south-1"] = cloud.Network{SubnetID: "own-us-south-1"} },
			"": func(o *cloud.PoolOptions) { *o = cloud.PoolOptions{} },
		},
		iksserver.Classic: {
			"operatingSystem is UBUNTU_20_64 and not UBUNTU_24_64": func(o *cloud.PoolOptions) { o.OperatingSystem = "UBUNTU_24_64" },
			"privateVLAN in zone dal12 is 7 and not 8":             func(o *cloud.PoolOptions) { o.Networks = map[string]cloud.Network{"dal12": {PrivateVLAN: "8"}} },
			"publicVLAN in zone dal13 is 9 and not 10":             func(o *cloud.PoolOptions) { o.Networks["dal13"] = cloud.Network{PrivateVLAN: "8", PublicVLAN: "10"} },
			"": func(o *cloud.PoolOptions) { *o = cloud.PoolOptions{} },
		},
	} {
		for message, edit := range others {
			t.Run(generation+" "+message, func(t *testing.T) {
				w, p, want := newWorldOf(t, generation)
				edit(&want.Options)
				told := func(message string) {
					pool, err := p.Observe(context.Background(), want)
					require.NoError(t, err)
					require.Equal(t, 1, pool.SizePerZone)
					require.Equal(t, message != "", pool.Workers[0].Former)
					require.Equal(t, message, pool.Workers[0].Outdated)
				}
				told(message)
				want.SizePerZone, want.Lasting = 2, 1
				if message == "" {
					return
				}
				require.Equal(t, "created the pool, without zones (pool route-reflectors-b)", ensure(t, p, want).Did)
				labels, _ := w.Labels(clusterID, secondPool)
				w.SetPoolLabels(clusterID, providertest.PoolName, labels)
				require.Equal(t, [2]string{"route-reflectors", poolplan.Fingerprint(want)}, [2]string{labels[v1alpha1.PoolLabel], labels[v1alpha1.OptionsLabel]})
				told("")
			})
		}
	}
}

// Without the entitlement of its cluster, the licences of a pool's workers are billed once more.
func TestThePoolHasTheEntitlementOfItsCluster(t *testing.T) {
	for _, generation := range both {
		for _, entitlement := range []string{"", "cloud_pak"} {
			w := newWorld(t, generation, func(c *iksserver.Cluster) { c.Type, c.Entitlement = "openshift", entitlement })
			settle(t, w, w.provider(t, nil), spec(1))
			require.Contains(t, changes(w)[0], `"entitlement":"`+entitlement+`"`)
		}
	}
}

// Five are as many as a worker can have, with the cluster's own one. A pool that exists is as it is.
func TestAWorkerHasFiveSecurityGroups(t *testing.T) {
	w, want := newWorld(t, iksserver.VPC), spec(1)
	want.Options.SecurityGroups = []string{"r-1", "r-2", "r-3", "r-4", "r-5"}
	require.Contains(t, refusedOrder(t, w, want), "name 4 at most")
	four := want
	four.Options.SecurityGroups = want.Options.SecurityGroups[:4]
	settle(t, w, w.provider(t, nil), four)
}

// An option that the cluster's generation does not have is refused before anything is ordered, and a pool that exists is kept whole.
func TestOptionsOfTheOtherGeneration(t *testing.T) {
	for generation, wrong := range map[string]map[string]cloud.PoolOptions{
		iksserver.VPC: {
			"no networks.privateVLAN in zone us-south-1 (1), networks.publicVLAN in zone us-south-1 (2): leave it out": {Networks: map[string]cloud.Network{"us-south-1": {PrivateVLAN: "1", PublicVLAN: "2"}}},
			"networks names zone us-south-4, which is none of the pool's (us-south-1, us-south-2, us-south-3)":         {Networks: map[string]cloud.Network{"us-south-4": {SubnetID: "s"}}},
		},
		iksserver.Classic: {
			"no securityGroups (r006-a, r006-b)":               {SecurityGroups: []string{"r006-a", "r006-b"}},
			"no workerVolumeEncryption (key-1)":                {WorkerVolumeEncryption: cloud.WorkerVolumeEncryption{KMSInstanceID: "kms-1", RootKeyID: "key-1"}},
			"no dedicatedHostPoolID (dh-1)":                    {DedicatedHostPoolID: "dh-1"},
			"no networks.subnetID in zone dal10 (s): leave it": {Networks: map[string]cloud.Network{"dal10": {SubnetID: "s"}}},
		},
	} {
		for message, options := range wrong {
			t.Run(generation+" "+message, func(t *testing.T) {
				w := newWorld(t, generation)
				p := w.provider(t, nil)
				refused := func(want cloud.PoolSpec) {
					t.Helper()
					want.Options = options
					before := w.Mutations()
					err := refused(t, p, want, cloud.InvalidInput)
					require.ErrorContains(t, err, message)
					require.Equal(t, before, w.Mutations())
				}
				refused(spec(1))
				settle(t, w, p, spec(1))
				refused(spec(1))
				if strings.Contains(message, "not a valid") {
					return
				}
				more := spec(1)
				more.Zones = w.zones[:2]
				w = newWorld(t, generation)
				p = w.provider(t, nil)
				settle(t, w, p, more)
				more.Zones, more.Options = w.zones[:3], options
				refused(more)
				more.Zones, more.SizePerZone = w.zones[:2], 2
				require.NotEmpty(t, ensure(t, p, more).Did, "a pool that exists grows all the same")
			})
		}
	}
}

// refusedOrder makes a call that has to be refused before anything is ordered, and gives the words.
func refusedOrder(t *testing.T, w *world, want cloud.PoolSpec) string {
	t.Helper()
	before := w.Mutations()
	err := refused(t, w.provider(t, nil), want, cloud.InvalidInput)
	require.Equal(t, before, w.Mutations())
	return err.Error()
}

func TestAnUnknownFlavorIsRefusedWithThoseThatExist(t *testing.T) {
	for generation, c := range map[string]struct{ flavor, others, deprecated string }{
		iksserver.VPC:     {"bx2.4x17", "there are bx2.4x16, cx2.8x16, bx2.8x32, bx2.16x64, gx3.16x80.l4, and 3 more", "b2.4x16"},
		iksserver.Classic: {"nonsense", "there are u3c.2x4, b3c.4x16, bx2.4x16, ms3c.4x32.1.9tb.ssd, b3c.16x64, and 1 more", "u2c.2x4"},
	} {
		w := newWorld(t, generation)
		want := spec(1)
		want.Flavor = c.flavor
		text := refusedOrder(t, w, want)
		require.Contains(t, text, "zone "+w.zones[0]+" has no flavor "+c.flavor+": choose another flavor")
		require.Contains(t, text, c.others)
		want.Flavor = c.deprecated // is not offered, and may be ordered
		settle(t, w, w.provider(t, nil), want)
	}
}

// A flavor that one of several zones lacks is found before the pool is made, and in a zone that comes later before that zone is added.
func TestAFlavorThatOneZoneLacks(t *testing.T) {
	for _, generation := range both {
		w := newWorld(t, generation)
		further := iksserver.Zone{ID: w.zones[3], Flavors: []string{"huge.64x512"}, Subnets: []iksserver.Subnet{{ID: "s", Available: 9}}}
		addZone(w, further)
		want := spec(1)
		want.Zones = w.zones
		require.Contains(t, refusedOrder(t, w, want), "zone "+w.zones[3]+" has no flavor")
		settle(t, w, w.provider(t, nil), spec(1))
		require.Contains(t, refusedOrder(t, w, want), "zone "+w.zones[3]+" has no flavor")
		require.Contains(t, refusedOrder(t, w, want), "there are huge.64x512")
	}
}

func TestAnUnknownZoneIsRefusedWithThoseOfTheCluster(t *testing.T) {
	for _, generation := range both {
		w := newWorld(t, generation)
		addZone(w, iksserver.Zone{ID: w.zones[3]})
		want := spec(1)
		want.Zones = []string{w.zones[0], "dal15"}
		text := refusedOrder(t, w, want)
		require.True(t, strings.HasSuffix(text, "there is no zone dal15: correct zones; the cluster has "+strings.Join(w.zones[:3], ", ")), text)
		w.Server.Inject(iksserver.Fault{Path: "ones$", Status: http.StatusOK, Body: `[{"id":"eu-de-1","name":"eu-de-1"}]`, Times: 1, Method: http.MethodGet})
		require.Contains(t, refusedOrder(t, w, want), "there is no zone dal15")
		settle(t, w, w.provider(t, nil), spec(1))
		want.Zones = append(slices.Clone(w.zones[:3]), "dal15")
		require.Contains(t, refusedOrder(t, w, want), "there is no zone dal15")
	}
}

// A zone that exists in another region cannot be added to any pool of the cluster, so no other zone is ordered for its sake.
func TestAZoneOfAnotherRegionIsRefused(t *testing.T) {
	for generation, far := range map[string]string{iksserver.VPC: "us-east-1", iksserver.Classic: "wdc04"} {
		for _, listed := range []bool{true, false} {
			w := newWorld(t, generation)
			w.AddCluster(iksserver.Cluster{ID: "far", Name: "far", Provider: generation, Zones: []iksserver.Zone{zone(generation, far)}})
			if !listed {
				w.Server.Inject(iksserver.Fault{Method: http.MethodGet, Path: "ones$", Status: http.StatusInternalServerError})
			}
			addZone(w, zone(generation, w.zones[3]))
			want := spec(1)
			want.Zones = append(slices.Clone(w.zones[:2]), far)
			require.Contains(t, refusedOrder(t, w, want), "zone "+far+" is in another region than the cluster")
			want.Zones = w.zones[:1]
			settle(t, w, w.provider(t, nil), want)
			want.Zones = append(slices.Clone(w.zones), far)
			require.Contains(t, refusedOrder(t, w, want), "zone "+far+" is in another region than the cluster", "and no other is added either")
			want.Zones = w.zones
			settle(t, w, w.provider(t, nil), want)
		}
	}
}

// Some listings have ids, some names, and classic ones the flavors of encrypted disks beside the others. Cores count before memory.
func TestWhatAListingHolds(t *testing.T) {
	for _, generation := range both {
		for _, flavor := range []string{"b.4x4", "id", "d.4x8.encrypted"} {
			w := newWorld(t, generation)
			w.Server.Inject(iksserver.Fault{Path: "Flavors$|machine-types$", Status: http.StatusOK, Body: `[{"id":"b.8x16"},{"id":"id","name":"b.2x4"},` +
				`{"name":"b.4x32"},{"name":"c.4x8.encrypted"},{"name":"d.4x8.encrypted"},{"name":"a.4x8"},{"name":"c.4x8"}]`})
			want := spec(1)
			want.Flavor = flavor
			if flavor != "b.4x4" {
				require.Equal(t, "created the pool, without zones", ensure(t, w.provider(t, nil), want).Did)
				continue
			}
			text := refusedOrder(t, w, want)
			require.True(t, strings.HasSuffix(text, "there are a.4x8, c.4x8, d.4x8, b.4x32, b.8x16, and 1 more"), text)
		}
	}
}

func listings(w *world) int {
	return len(slices.DeleteFunc(w.Server.Requests(), func(r iksserver.Request) bool {
		return !strings.HasSuffix(r.Path, "Flavors") && !strings.HasSuffix(r.Path, "machine-types") && !strings.HasSuffix(strings.ToLower(r.Path), "zones") || r.Mutating()
	}))
}

// Whatever becomes of a listing, the order is made, and it is said that nothing was checked. At rest nothing is listed.
func TestAListingThatFailsHoldsNothingUp(t *testing.T) {
	for _, generation := range both {
		for name, fault := range map[string]iksserver.Fault{
			"it fails":        {Status: http.StatusInternalServerError, Body: "<html>"},
			"it is not found": {Status: http.StatusNotFound, Body: `{"code":"E1","description":"no such path"}`},
			"it is empty":     {Status: http.StatusOK, Body: "[]"},
			"it is senseless": {Status: http.StatusOK, Body: `[{"id":7}]`},
			"it names none":   {Status: http.StatusOK, Body: `[{}]`},
		} {
			t.Run(generation+" "+name, func(t *testing.T) {
				w := newWorld(t, generation)
				addZone(w, zone(generation, w.zones[3]))
				w.Server.Inject(fault.On(http.MethodGet, "Flavors$|machine-types$|ones$"))
				p, want := w.provider(t, nil), spec(1)
				want.Zones = w.zones
				did := ensure(t, p, want).Did
				require.Contains(t, did, "created the pool, without zones (not knowing whether all zones have flavor ")
				settle(t, w, p, want)
				require.Len(t, w.Workers(), 4)
				before := listings(w)
				require.Positive(t, before)
				require.True(t, ensure(t, p, want).Done)
				require.Equal(t, before, listings(w))
			})
		}
	}
}

// A listing that hangs costs an order ten seconds of the caller's twenty, and no order is taken for made that was not.
func TestAListingThatHangs(t *testing.T) {
	for _, generation := range both {
		synctest.Test(t, func(t *testing.T) {
			w := newEnvironment(t, generation, iksserver.Documented)
			w.Inject(iksserver.Fault{Path: "Flavors$|machine-types$", Hang: true})
			start := time.Now()
			short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := w.provider.Ensure(short, w.wanted(1, 3))
			require.True(t, cloud.Is(err, cloud.Unavailable), "%v", err)
			require.Equal(t, 5*time.Second, time.Since(start))
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			got, err := w.provider.Ensure(ctx, w.wanted(1, 3))
			require.NoError(t, err)
			require.Contains(t, got.Did, "created the pool")
			require.Equal(t, 15*time.Second, time.Since(start))
		})
	}
}

func TestTheListingsOfAnOrderAreFew(t *testing.T) {
	for _, generation := range both {
		w := newWorld(t, generation)
		settle(t, w, w.provider(t, nil), spec(1))
		require.Equal(t, 6, listings(w), "a flavor in each zone, at the order and when the zone is added; no zones, as others have them")
	}
}

// The subnets of the other pools come first, unless they are full: a worker that is ordered into one never comes.
func TestAFullSubnetIsNotTaken(t *testing.T) {
	full := func(further ...iksserver.Subnet) *world {
		return newWorld(t, iksserver.VPC, func(c *iksserver.Cluster) {
			c.Zones[0].Subnets = append([]iksserver.Subnet{{ID: "full"}}, further...)
		})
	}
	want := spec(1)
	w := full(iksserver.Subnet{ID: "some", Available: 4000})
	settle(t, w, w.provider(t, nil), want)
	require.Contains(t, strings.Join(changes(w), "\n"), `"subnetID":"some"`)
	require.NotContains(t, strings.Join(changes(w), "\n"), `"subnetID":"full"`)

	for name, tc := range map[string]struct {
		w   *world
		own map[string]cloud.Network
	}{
		"all are full":              {full(), nil},
		"the one that is asked for": {full(iksserver.Subnet{ID: "some", Available: 4000}), map[string]cloud.Network{"us-south-1": {SubnetID: "full"}}},
	} {
		t.Run(name, func(t *testing.T) {
			want := spec(1)
			want.Zones, want.Options.Networks = []string{"us-south-1"}, tc.own
			require.Contains(t, refusedOrder(t, tc.w, want), "spec.provider.iks.networks")
			want.Zones = append(want.Zones, "us-south-2")
			require.Contains(t, refusedOrder(t, tc.w, want), "spec.provider.iks.networks", "and no other zone is ordered before")
		})
	}

	// Two workers do not come into one address; more of them, and the one that takes the place of one without an address, neither.
	few := newWorld(t, iksserver.VPC, func(c *iksserver.Cluster) { c.Zones[0].Subnets = []iksserver.Subnet{{ID: "few", Available: 1}} })
	two := spec(2)
	two.Zones = []string{"us-south-1"}
	require.Contains(t, refusedOrder(t, few, two), "for each of 2 workers")
	p := few.provider(t, nil)
	one := two
	one.SizePerZone = 1
	settle(t, few, p, one)
	ordered := few.Mutations()
	three := two
	three.SizePerZone = 3
	require.ErrorContains(t, refused(t, p, three, cloud.InvalidInput), "subnet few in zone us-south-1 has 1 free addresses, for 2 workers")
	require.Equal(t, ordered, few.Mutations())
	few.Server.Inject(rewrite("getSubnets$", 0, edited(func(o map[string]any) {
		if o["id"] == "few" {
			o["availableIPv4AddressCount"] = 0
		}
	})))
	one.Replace = []string{few.Workers()[0].ID}
	few.Server.Inject(iksserver.Fault{Path: workerList, Times: 1, Spoil: edited(func(o map[string]any) { o["networkInterfaces"] = []any{} })})
	require.ErrorContains(t, refused(t, p, one, cloud.InvalidInput), "for 1 workers")
	require.Equal(t, ordered, few.Mutations())
	few.Advance(time.Hour)
	require.Contains(t, ensure(t, p, one).Did, "replaced worker", "it frees the address that it has")

	w = full()
	w.Server.Inject(iksserver.Fault{Path: "getSubnets$", Status: http.StatusInternalServerError})
	settle(t, w, w.provider(t, nil), want) // a listing that fails holds nothing up
}

// One subnet that is full keeps workers neither from other zones of the pool nor from one that is to be added.
func TestAFullSubnetHoldsUpNoOtherZone(t *testing.T) {
	w := newWorld(t, iksserver.VPC)
	p := w.provider(t, nil)
	want := spec(1)
	want.Zones = w.zones[:3]
	settle(t, w, p, want)
	w.Server.Inject(rewrite("getSubnets$", 0, edited(func(o map[string]any) {
		if o["id"] == "sub-us-south-1" {
			o["availableIPv4AddressCount"] = 0
		}
	})))
	remove := func(zone string) {
		for _, o := range w.Workers() {
			if zone == "" || o.Zone == zone {
				w.RemoveWorker(clusterID, o.ID)
			}
		}
		w.Advance(10 * time.Minute)
	}
	remove("")
	require.Empty(t, w.Workers())
	require.Contains(t, ensure(t, p, want).Did, "asked for 1 workers per zone (in us-south-1 the subnet has too few free addresses)")
	require.NotEmpty(t, w.Workers())

	w.Advance(10 * time.Minute)
	remove("us-south-1")
	addZone(w, zone(iksserver.VPC, "us-south-4"))
	want.Zones = w.zones
	before := w.Mutations()
	require.ErrorContains(t, refused(t, p, want, cloud.InvalidInput), "subnet sub-us-south-1 in zone us-south-1 has 0 free addresses")
	require.Equal(t, before, w.Mutations())
	require.Contains(t, ensure(t, p, want).Did, "added zone us-south-4")
	w.Advance(5 * time.Minute)
	require.ErrorContains(t, refused(t, p, want, cloud.InvalidInput), "has 0 free addresses", "it is still said")
	require.Equal(t, before+1, w.Mutations())
	w.ClearFaults()
	w.Advance(10 * time.Minute)
	settle(t, w, p, want)
}

// A service that counts no free addresses says 0 for all subnets: the order will tell.
func TestSubnetsWithoutACountAreTaken(t *testing.T) {
	for _, own := range []string{"", "own-us-south-2"} {
		w := newWorld(t, iksserver.VPC, func(c *iksserver.Cluster) {
			for i := range c.Zones {
				c.Zones[i].Subnets = []iksserver.Subnet{{ID: "own-" + c.Zones[i].ID}}
			}
		})
		want := spec(1)
		if own != "" {
			want.Options.Networks = map[string]cloud.Network{"us-south-2": {SubnetID: own}}
		}
		settle(t, w, w.provider(t, nil), want)
		require.Contains(t, strings.Join(changes(w), "\n"), `"subnetID":"own-us-south-2"`)
	}
}

// OpenShift does not run on every flavor, and the cluster is one by its type or its version.
func TestAFlavorWithoutOpenShiftIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		edit    func(*iksserver.Cluster)
		refused bool
	}{
		"by type":    {func(c *iksserver.Cluster) { c.Type = "openshift" }, true},
		"by version": {func(c *iksserver.Cluster) { c.Version = "4.20.1_1550_openshift" }, true},
		"Kubernetes": {func(*iksserver.Cluster) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, iksserver.VPC, tc.edit, func(c *iksserver.Cluster) {
				for i := range c.Zones {
					c.Zones[i].NotOpenShift = []string{"bx2.2x8", "cx2.2x4"}
				}
			})
			want := spec(1)
			want.Flavor = "bx2.2x8"
			if !tc.refused {
				settle(t, w, w.provider(t, nil), want)
				return
			}
			text := refusedOrder(t, w, want)
			require.Contains(t, text, "has no flavor bx2.2x8 for OpenShift: choose another flavor")
			require.NotContains(t, text, "cx2.2x4")
			settle(t, w, w.provider(t, nil), spec(1))
			require.Contains(t, changes(w)[0], `"flavor":"bx2.4x16"`, "where it is left to rrpool, one that OpenShift runs on")
		})
	}
}

// While a cluster is deleted its workers vanish, ours among them, like lost ones. They are not ordered again, and what is there can be removed.
func TestNoWorkerIsOrderedForAClusterThatIsOnItsWayOut(t *testing.T) {
	for _, generation := range both {
		for state, says := range map[string]string{
			"deleting": "delete this object", "deleted": "delete this object", "delete_failed": "delete this object", "aborted": "delete this object",
			"unsupported": "update the cluster's master", "warning": "", "critical": "", "updating": "", "Quux": "",
		} {
			t.Run(generation+" "+state, func(t *testing.T) {
				w, p := settled(t, generation, spec(2))
				w.SetClusterState(clusterID, state)
				more, dead, zones, less := spec(3), spec(2), spec(2), spec(2)
				addZone(w, zone(generation, w.zones[3]))
				zones.Zones, dead.Replace, less.Retire = w.zones, []string{w.Workers()[0].ID}, []string{w.Workers()[1].ID}
				if says == "" {
					require.NotEmpty(t, ensure(t, p, dead).Did)
					return
				}
				before := w.Mutations()
				for name, want := range map[string]cloud.PoolSpec{"grow": more, "replace": dead, "another zone": zones} {
					err := refused(t, p, want, cloud.Unexpected)
					require.ErrorContains(t, err, "is "+state, name)
					require.ErrorContains(t, err, says, name)
				}
				require.Equal(t, before, w.Mutations())
				require.NotEmpty(t, ensure(t, p, less).Did)
				w.Advance(10 * time.Minute)
				progress, err := p.Delete(t.Context())
				require.NoError(t, err)
				require.NotEmpty(t, progress.Did)

				w = newWorld(t, generation, func(c *iksserver.Cluster) { c.State = state })
				_ = refused(t, w.provider(t, nil), spec(1), cloud.Unexpected)
				require.Zero(t, w.Mutations())
			})
		}
	}
}
