package pool_test

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// workers are those of the pool that are there now.
func (o *cloudEnvironment) workers() []string {
	var out []string
	for _, w := range o.server.Workers(clusterID, "route-reflectors") {
		out = append(out, w.ID)
	}
	return out
}

// A newer version is told. With Rolling all workers are replaced, and the pool is never smaller than wanted.
func TestOutdatedWorkersAreReplacedOneAfterTheOther(t *testing.T) {
	t.Setenv("RRPOOL_IKS_PROFILE", "") // it counts what a cloud with other faults, or without versions, does not show
	synctest.Test(t, func(t *testing.T) {
		o := newCloudEnvironment(t)
		o.migrate()
		before := o.workers()
		o.server.SetVersion(clusterID, "1.32.1_1520")
		o.pass(time.Hour)
		require.Equal(t, before, o.workers(), "Manual only tells")
		require.Contains(t, o.condition("ProviderReady").Message, "outdated, with spec.provider.iks.updateWorkers Manual: "+before[0]+" (1.31.1_1500 to 1.32.1_1520)")

		o.edit(func(p *v1alpha1.RouteReflectorPool) { p.Spec.Provider.IKS.UpdateWorkers = v1alpha1.UpdateRolling })
		fewest := 99
		require.True(t, o.until(3*time.Hour, func() bool {
			fewest = min(fewest, len(o.reflectors()))
			return o.migrated() && len(o.workers()) == 3 && !slices.ContainsFunc(o.workers(), func(w string) bool { return slices.Contains(before, w) })
		}), "%+v", o.seenStep)
		require.Equal(t, 3, fewest, "a substitute comes before each that goes")
		require.Empty(t, o.lost)
		require.NotContains(t, o.applied, plan.RestoreMesh{}.String())
		require.Empty(t, o.server.Untainted("route-reflectors"))
		writes := o.writes
		o.pass(time.Hour)
		o.expect("Ready True Steady", "ProviderReady True PoolReady", "Degraded False AsExpected")
		require.NotContains(t, o.condition("ProviderReady").Message, "outdated")
		require.Equal(t, writes, o.writes, "it stays so")
	})
}

// cordon sets or takes back a person's cordon.
func (o *cloudEnvironment) cordon(name string, cordoned bool) {
	o.later(func() { o.model.Edit(name, func(n *plan.Node) { n.Cordoned = cordoned }) })
}

// A reflector that a person has cordoned is relieved before it goes, and costs nothing more once it has gone.
func TestACordonedReflectorIsRelievedBeforeItGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newCloudEnvironment(t)
		o.migrate()
		first := o.server.Workers(clusterID, "route-reflectors")[0]
		o.cordon(first.IP, true)
		require.True(t, o.until(time.Hour, func() bool {
			return o.migrated() && len(o.workers()) == 6 && !slices.Contains(o.reflectors(), first.IP)
		}), "%+v", o.seenStep)
		require.Contains(t, o.seenStep.Reason, "node "+first.IP+" is cordoned")
		o.pass(12 * time.Hour)
		require.Len(t, o.workers(), 6, "a person may be at work on it")
		require.Contains(t, o.workers(), first.ID)

		o.server.RemoveWorker(clusterID, first.ID)
		require.True(t, o.until(2*time.Hour, func() bool { return o.migrated() && len(o.workers()) == 3 }), "%+v", o.seenStep)
		require.Len(t, o.reflectors(), 3)
		require.Empty(t, o.lost)
	})
}

// Where a tenth more nodes would need a larger pool, sizing keeps what is there, but not what is there for a while only.
func TestSubstitutesAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newCloudEnvironment(t, func(p *v1alpha1.RouteReflectorPool) {
			p.Spec.Sizing.Method = v1alpha1.SizingStepping
			p.Spec.Sizing.Steps = []v1alpha1.SizingStep{{UpToNodes: 6, Reflectors: 3}, {UpToNodes: 100, Reflectors: 6}}
		})
		o.migrate()
		for i, restarts := range []bool{false, true} {
			o.cordon(o.reflectors()[0], true)
			require.True(t, o.until(time.Hour, func() bool { return o.migrated() && len(o.workers()) == 6 }), "%+v", o.seenStep)
			if restarts {
				o.restart()
			}
			o.pass(time.Hour)
			require.Len(t, o.workers(), 6)
			require.Len(t, o.reflectors(), 3, "%d", i)
			for _, n := range o.model.Nodes() {
				o.cordon(n.Name, false)
			}
			require.True(t, o.until(time.Hour, func() bool { return o.migrated() && len(o.workers()) == 3 }), "%+v", o.seenStep)
		}

		// What was wanted before is kept, cordoned or not, and the manager may restart.
		o.model.Join(plan.Node{Name: "10.0.0.7", Zone: "z1", Ready: true, Created: time.Now(), ReadyChanged: time.Now(), Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.7")}, ProviderID: "ibm://account///" + clusterID + "/w7"})
		require.True(t, o.until(time.Hour, func() bool { return o.migrated() && len(o.reflectors()) == 6 }), "%+v", o.seenStep)
		o.later(func() { o.model.Leave("10.0.0.7") })
		o.pass(time.Hour)
		o.restart()
		o.cordon(o.reflectors()[0], true)
		require.True(t, o.until(time.Hour, func() bool { return o.migrated() && len(o.workers()) == 9 }), "%+v", o.seenStep)
		o.restart()
		o.pass(time.Hour)
		require.Len(t, o.reflectors(), 6)
	})
}

// A second version comes out while substitutes for the first are there: they are replaced as well, a day later. What a
// person has cordoned is left to that person.
func TestSubstitutesBecomeOutdatedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newCloudEnvironment(t, func(p *v1alpha1.RouteReflectorPool) { p.Spec.Provider.IKS.UpdateWorkers = v1alpha1.UpdateRolling })
		o.migrate()
		first := o.server.Workers(clusterID, "route-reflectors")[0]
		o.cordon(first.IP, true)
		require.True(t, o.until(time.Hour, func() bool { return o.migrated() && len(o.workers()) == 6 }), "%+v", o.seenStep)
		before := slices.DeleteFunc(o.workers(), func(w string) bool { return w == first.ID })
		o.server.SetVersion(clusterID, "1.32.1_1520")
		o.pass(20 * time.Hour)
		require.Subset(t, o.workers(), before)
		o.pass(12 * time.Hour)
		require.Contains(t, o.workers(), first.ID, "a person may be at work on it")
		o.cordon(first.IP, false)
		require.True(t, o.until(30*time.Hour, func() bool {
			return o.migrated() && len(o.workers()) == 3 && !slices.ContainsFunc(o.workers(), func(w string) bool { return w == first.ID || slices.Contains(before, w) })
		}), "%+v", o.seenStep)
		require.Empty(t, o.lost)
	})
}

// IBM refuses substitutes: nothing else is held up, only the zone that needs one is tried again, ever more slowly, and
// nothing is left of it afterwards.
func TestRefusedSubstitutesAreAFewOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newCloudEnvironment(t)
		o.migrate()
		o.server.SetQuota(9)
		before, first := maps.Clone(o.ordered), o.server.Workers(clusterID, "route-reflectors")[0]
		o.cordon(first.IP, true)
		o.pass(4 * time.Hour)
		for zone, orders := range o.ordered {
			most := 1
			if zone == first.Zone {
				most = 7 // and one every 80 minutes
			}
			require.LessOrEqual(t, orders-before[zone], most, "%s: %v", zone, o.ordered)
		}
		require.Len(t, slices.DeleteFunc(slices.Clone(o.emitted), func(e string) bool { return !strings.HasPrefix(e, "Warning") }), 1, "it is told once")
		o.expect("Degraded True PoolProblem", "ProviderReady False PoolProblem")
		require.Contains(t, o.condition("Degraded").Message, "insufficient infrastructure quota")
		require.Contains(t, o.object().Status.Step.Reason, "node "+first.IP+" is cordoned")

		o.edit(func(p *v1alpha1.RouteReflectorPool) { p.Spec.Topology.ClusterID = "244.0.0.9" })
		require.True(t, o.until(time.Hour, func() bool { return o.seenStep.Name == "EnsurePool" && o.clusterIDs()["244.0.0.9"] == 3 }), "%+v", o.seenStep)

		o.server.SetQuota(0)
		require.True(t, o.until(2*time.Hour, func() bool { return o.migrated() && !slices.Contains(o.reflectors(), first.IP) }), "%+v", o.seenStep)
		o.cordon(first.IP, false)
		require.True(t, o.until(time.Hour, func() bool { return o.migrated() && len(o.workers()) == 3 }), "%+v", o.seenStep)
		o.pass(10 * time.Minute)
		o.expect("Ready True Steady", "ProviderReady True PoolReady", "Degraded False AsExpected")
		require.Empty(t, o.lost)
	})
}

// clusterIDs counts the reflectors of each.
func (o *cloudEnvironment) clusterIDs() map[string]int {
	out := map[string]int{}
	for _, n := range o.model.Nodes() {
		if n.RoleLabel {
			out[n.ClusterID]++
		}
	}
	return out
}

// Another flavor is another pool at IBM Cloud. The workers of it take over one after the other, whatever updateWorkers says, and
// the pool is never smaller than wanted, also when the manager is killed all the time and the flavor changes again under way.
func TestAnotherFlavorRollsThePool(t *testing.T) {
	for _, profile := range []string{"documented", "sparse"} {
		for name, flavors := range map[string][]string{"one change": {"bx2.4x16"}, "back under way": {"bx2.4x16", "bx2.2x8"}, "a third one": {"bx2.4x16", "bx2.8x32"}} {
			t.Run(profile+", "+name, func(t *testing.T) {
				t.Setenv("RRPOOL_IKS_PROFILE", profile)
				synctest.Test(t, func(t *testing.T) {
					o := newCloudEnvironment(t)
					o.migrate()
					fewest, most, turns := 99, 0, 0
					all := func() (out []string) {
						for _, p := range []string{"route-reflectors", "route-reflectors-b"} {
							for _, w := range o.server.Workers(clusterID, p) {
								out = append(out, w.Flavor)
							}
						}
						return out
					}
					watched := func(over func() bool) func() bool {
						return func() bool {
							fewest, most, turns = min(fewest, len(o.reflectors())), max(most, len(all())), turns+1
							if turns%50 == 0 {
								o.restart()
							}
							return over()
						}
					}
					for i, flavor := range flavors {
						o.edit(func(p *v1alpha1.RouteReflectorPool) { p.Spec.Provider.IKS.Flavor = flavor })
						if i < len(flavors)-1 { // one worker has gone
							require.True(t, o.until(5*time.Hour, watched(func() bool { return len(o.server.Workers(clusterID, "route-reflectors")) < 3 })), "%+v", o.seenStep)
						}
					}
					last := flavors[len(flavors)-1]
					require.True(t, o.until(9*time.Hour, watched(func() bool {
						return o.migrated() && slices.Equal(all(), []string{last, last, last}) && len(o.server.Pools(clusterID)) == 2
					})), "%+v %v %v", o.seenStep, all(), o.server.Pools(clusterID))
					require.Equal(t, 3, fewest, "a substitute comes before each that goes")
					require.LessOrEqual(t, most, 7, "three substitutes, and one that goes")
					require.Empty(t, o.lost)
					require.NotContains(t, o.applied, plan.RestoreMesh{}.String())
					require.Empty(t, append(o.server.Untainted("route-reflectors"), o.server.Untainted("route-reflectors-b")...))
					writes := o.writes
					o.pass(time.Hour)
					o.expect("Ready True Steady", "ProviderReady True PoolReady", "Degraded False AsExpected")
					require.Equal(t, writes, o.writes, "it stays so")
				})
			})
		}
	}
}
