package pool_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/test/iksserver"
)

// perZone counts the workers in each zone.
func (o *cloudEnvironment) perZone() map[string]int {
	out := map[string]int{}
	for _, w := range o.server.Workers(clusterID, "route-reflectors") {
		out[w.Zone]++
	}
	return out
}

// A zone gives way to another, though workers have gone by name, which switches the cloud's rebalancing off. None is
// bought for the zone that is given up.
func TestAZoneGivesWayThoughWorkersAreMissing(t *testing.T) {
	for name, tc := range map[string]struct {
		before int32
		// gone are the zones that lose a worker by name, after is the size per zone from then on.
		gone  []string
		after int32
	}{
		"in a zone that stays": {before: 1, gone: []string{"z2"}, after: 1},
		"in both":              {before: 2, gone: []string{"z2", "z3"}, after: 2},
		"in the zone that is given up, and more grow": {before: 1, gone: []string{"z3"}, after: 2},
		"in none, and more grow":                      {before: 1, after: 2},
		"in all, and fewer are wanted":                {before: 2, gone: []string{"z1", "z2", "z3"}, after: 1},
	} {
		t.Run(name, func(t *testing.T) {
			inCloud(t, func(o *cloudEnvironment) {
				o.server.AddZone(clusterID, iksserver.Zone{ID: "z4", Subnets: []iksserver.Subnet{{ID: "sub-z4", CIDR: "10.0.0.0/24", Available: 99}}})
				bought := o.ordered["z3"]
				o.edit(func(p *v1alpha1.RouteReflectorPool) {
					p.Spec.Provider.IKS.Zones = []string{"z1", "z2", "z4"}
					size(tc.after)(p)
				})
				for _, zone := range tc.gone {
					for _, w := range o.server.Workers(clusterID, "route-reflectors") {
						if w.Zone == zone {
							o.server.RemoveWorker(clusterID, w.ID)
							break
						}
					}
				}
				o.pass(8 * time.Hour)
				require.Equal(t, map[string]int{"z1": int(tc.after), "z2": int(tc.after), "z4": int(tc.after)}, o.perZone(), "%+v", o.seenStep)
				require.Equal(t, bought, o.ordered["z3"])
				require.Empty(t, o.lost)
			}, func(p *v1alpha1.RouteReflectorPool) { p.Spec.Provider.IKS.Zones = []string{"z1", "z2", "z3"} }, size(tc.before))
		})
	}
}

// Zones are given up without others in their place, before the migration and after it, though too few reflectors may be left
// to empty them first: the pool becomes as it is wanted, within hours.
func TestZonesAreGivenUp(t *testing.T) {
	minServing := func(p *v1alpha1.RouteReflectorPool) { p.Spec.Rollout.SafetyNet.MinServing = 3 }
	for name, tc := range map[string]struct {
		zones []string
		specs []func(*v1alpha1.RouteReflectorPool)
		// onMesh: the pool is there and nothing reflects yet. lost are zones whose worker goes by name, unborn those whose worker is
		// no node.
		onMesh       bool
		lost, unborn string
		// bought is how many workers come to z2 and z3 at most.
		bought int
	}{
		"one of three": {zones: []string{"z1", "z2"}, bought: 1},
		"one of three, and its worker is no node":    {zones: []string{"z1", "z2"}, unborn: "z3", bought: 2},
		"one of three, and all are to serve":         {zones: []string{"z1", "z2"}, specs: []func(*v1alpha1.RouteReflectorPool){minServing}, bought: 2},
		"two of three":                               {zones: []string{"z1"}, bought: 2},
		"one of three, on the mesh":                  {zones: []string{"z1", "z2"}, onMesh: true, bought: 1},
		"two of three, on the mesh":                  {zones: []string{"z1"}, onMesh: true},
		"one of three, and another lacks its worker": {zones: []string{"z1", "z2"}, lost: "z2", bought: 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newCloudEnvironment(t, append(tc.specs, func(p *v1alpha1.RouteReflectorPool) { p.Spec.Provider.IKS.Zones = []string{"z1", "z2", "z3"} })...)
				if tc.onMesh {
					require.True(t, o.until(2*time.Hour, func() bool { return len(o.model.Nodes()) > 6 }))
				} else {
					o.migrate()
				}
				o.pass(time.Second)
				before := o.ordered["z2"] + o.ordered["z3"]
				o.edit(func(p *v1alpha1.RouteReflectorPool) { p.Spec.Provider.IKS.Zones = tc.zones })
				for _, w := range o.server.Workers(clusterID, "route-reflectors") {
					switch w.Zone {
					case tc.lost:
						o.server.RemoveWorker(clusterID, w.ID)
					case tc.unborn:
						o.later(func() { o.model.Leave(w.IP) })
					}
				}
				o.pass(4 * time.Hour)
				want := map[string]int{"z1": 2, "z2": 2}
				if len(tc.zones) == 1 {
					want = map[string]int{"z1": 3}
				}
				if tc.unborn != "" {
					want[tc.unborn] = 1 // what is no node is left to a person
				} else {
					require.True(t, o.migrated(), "%+v", o.seenStep)
				}
				require.Equal(t, want, o.perZone(), "%+v", o.seenStep)
				require.LessOrEqual(t, o.ordered["z2"]+o.ordered["z3"]-before, tc.bought)
				require.Empty(t, o.lost)
			})
		})
	}
}

// A restart in an outage, in which reflectors are gone as well, does not change what size is wanted.
func TestARestartInAnOutageKeepsTheSize(t *testing.T) {
	inCloud(t, func(o *cloudEnvironment) {
		wanted := 0
		o.decide = func(seen rollout.Observed, want rollout.Desired, now time.Time) rollout.Step {
			wanted = want.Pool.SizePerZone
			return rollout.Next(seen, want, now)
		}
		o.pass(25 * time.Hour)
		require.Equal(t, 2, wanted)
		o.fail("10.0.0.1", "10.0.0.2", "10.0.0.3")
		gone := map[string]bool{}
		for _, w := range o.server.Workers(clusterID, "route-reflectors") {
			if !gone[w.Zone] {
				gone[w.Zone] = true
				o.server.RemoveWorker(clusterID, w.ID)
			}
		}
		for range 10 {
			o.pass(time.Minute)
			require.Equal(t, 2, wanted)
			o.restart()
		}
	}, func(p *v1alpha1.RouteReflectorPool) {
		p.Spec.Sizing.Method, p.Spec.Sizing.Ratio = v1alpha1.SizingLinear, "1"
	})
}

// A cluster that somebody runs on IBM's machines has nodes that are no workers of IKS, and is told what to set.
func TestAClusterOnIBMsMachinesIsToldToUseExistingNodes(t *testing.T) {
	for form, told := range map[string]bool{"ibm:///eu-de/0717_%s": true, "ibm://account///c1/%s": false} {
		e := newEnvironment(t)
		for i := range e.calico.cluster.Nodes {
			e.calico.cluster.Nodes[i].ProviderID = fmt.Sprintf(form, e.calico.cluster.Nodes[i].Name)
		}
		require.NoError(t, e.client.Delete(t.Context(), clusterInfo(clusterID)))
		require.NoError(t, e.reconcile())
		message := e.condition(v1alpha1.ConditionProviderReady).Message
		require.Contains(t, message, "set spec.provider.iks.clusterID")
		require.Equal(t, told, strings.Contains(message, "spec.provider.type: ExistingNodes"), message)
	}
}

// The manager's memory is lost after every so many looks, whatever goes on: a first migration, a worker that breaks, more and fewer
// reflectors. No route and no worker too many comes of it, and it gets there as soon as that ends, or is seldom enough.
func TestMemoryThatIsLostAtAnyStepCostsWaitsOnly(t *testing.T) {
	for _, every := range []int{1, 40} {
		t.Run(fmt.Sprint(every), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, turns := newCloudEnvironment(t), 0
				pass := func(hours int) {
					o.until(time.Duration(hours)*time.Hour, func() bool {
						if turns++; every > 0 && turns%every == 0 {
							o.restart()
						}
						return false
					})
				}
				pass(2)
				if workers := o.server.Workers(clusterID, "route-reflectors"); len(workers) > 0 {
					o.server.Break(clusterID, workers[0].ID, "deploy_failed", "critical", "broken")
					o.die(workers[0].IP)
				}
				pass(2)
				o.edit(size(2))
				pass(2)
				o.edit(size(1))
				pass(2)
				if every = 0; !o.migrated() {
					pass(3)
				}
				require.True(t, o.migrated() && len(o.reflectors()) == 3, "%+v", o.seenStep)
				require.LessOrEqual(t, o.everOrdered(), 6+3+1+3, "six of another pool, three, one for the broken one, three more")
				require.Empty(t, o.lost)
			})
		})
	}
}
