package pool_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/iksserver"
)

func size(perZone int32) func(*v1alpha1.RouteReflectorPool) {
	return func(p *v1alpha1.RouteReflectorPool) { p.Spec.Sizing.Min = 3 * perZone }
}

func (o *cloudEnvironment) asked() (n int) {
	for _, r := range o.server.Requests() {
		if r.Mutating() && r.Executed() {
			n++
		}
	}
	return n
}

// A wrong belief about the cloud is said, buys little, and leaves routing alone, however often the manager restarts.
func TestAWrongBeliefIsSaidAndBuysLittle(t *testing.T) {
	for name, tc := range map[string]struct {
		beliefs iksserver.Beliefs
		before  []func(*v1alpha1.RouteReflectorPool)
		after   func(*cloudEnvironment)
		// requests and workers are the most that are made, and ordered beyond those wanted, in a day.
		requests, workers int
		says              string
	}{
		"what was removed comes back": {
			beliefs: iksserver.Beliefs{RefillsRemoved: true}, before: []func(*v1alpha1.RouteReflectorPool){size(2)},
			after:    func(o *cloudEnvironment) { o.edit(size(1)) },
			requests: 4, workers: 3, says: "what is removed comes back",
		},
		"a removal is acknowledged, and nothing comes of it": {
			beliefs: iksserver.Beliefs{KeepsRemoved: true}, before: []func(*v1alpha1.RouteReflectorPool){size(2)},
			after:    func(o *cloudEnvironment) { o.edit(size(1)) },
			requests: 12, says: "without an effect",
		},
		"a resize to the same size brings nothing": {
			beliefs: iksserver.Beliefs{IgnoresSameSize: true}, after: func(o *cloudEnvironment) {
				o.server.RemoveWorker(clusterID, o.server.Workers(clusterID, "route-reflectors")[0].ID)
			},
			requests: 12, says: "without an effect",
		},
		"a replacement is acknowledged, and nothing comes of it": {
			beliefs: iksserver.Beliefs{KeepsReplaced: true}, after: func(o *cloudEnvironment) {
				o.server.Break(clusterID, o.server.Workers(clusterID, "route-reflectors")[0].ID, "deploy_failed", "critical", "broken")
				o.die(o.server.Workers(clusterID, "route-reflectors")[0].IP)
			},
			requests: 12, says: "without an effect",
		},
		"workers deploy, and their nodes are never Ready": {
			after: func(o *cloudEnvironment) {
				o.barren = true
				o.die(o.server.Workers(clusterID, "route-reflectors")[0].IP)
			},
			requests: 12, workers: 12, says: "the node of none became Ready and stayed so",
		},
		"workers that come are gone again": {
			beliefs: iksserver.Beliefs{LosesNew: true}, after: func(o *cloudEnvironment) {
				o.server.RemoveWorker(clusterID, o.server.Workers(clusterID, "route-reflectors")[0].ID)
			},
			requests: 22, workers: 22, says: "that no failure explains",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inCloud(t, func(o *cloudEnvironment) {
				o.server.Believe(tc.beliefs)
				before, ordered := o.asked(), o.everOrdered()
				tc.after(o)
				said := ""
				for range 12 {
					o.pass(2 * time.Hour)
					if o.is("Degraded True CloudUnexpected") {
						said = o.condition(v1alpha1.ConditionDegraded).Message
					}
					o.restart() // what was asked for in vain is remembered on the cluster
				}
				require.Contains(t, said, tc.says)
				require.LessOrEqual(t, o.asked()-before, tc.requests)
				require.LessOrEqual(t, o.everOrdered()-ordered, tc.workers)
				require.Empty(t, o.lost)
			}, tc.before...)
		})
	}
}

func (o *cloudEnvironment) everOrdered() (n int) {
	for _, of := range o.ordered {
		n += of
	}
	return n
}

// A pool that does not show its size gets its zones all the same, or says why not; none is resized for ever.
func TestAPoolWithAnotherSizeIsNotResizedForEver(t *testing.T) {
	for name, tc := range map[string]struct {
		beliefs iksserver.Beliefs
		done    bool
	}{
		"0 until it has a zone":                      {iksserver.Beliefs{ZonelessSizeIsZero: true}, true},
		"0 for good until it has a zone":             {iksserver.Beliefs{ZonelessSizeIsLost: true}, true},
		"that of all its zones":                      {iksserver.Beliefs{SizeIsTotal: true}, false},
		"zones that are acknowledged, and not added": {iksserver.Beliefs{DropsZones: true}, false},
		"taints that are acknowledged, and not set":  {iksserver.Beliefs{DropsTaints: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newCloudEnvironment(t)
				o.server.Believe(tc.beliefs)
				o.until(6*time.Hour, o.migrated)
				all := o.asked()
				if tc.done {
					require.True(t, o.migrated(), "%+v", o.object().Status)
					require.LessOrEqual(t, all, 8)
					return
				}
				require.LessOrEqual(t, all, 40)
				require.True(t, o.is("Degraded True CloudUnexpected"), "%+v", o.object().Status.Conditions)
			})
		})
	}
}

// What is believed of making a pool is wrong: that is said, no worker is paid for, and none is left.
func TestABeliefAboutANewPoolIsSaidAndBuysNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		beliefs iksserver.Beliefs
		// says is the reason of Degraded and words of it, "" where it makes no difference; left: a pool without workers stays.
		says    [2]string
		left    bool
		ordered int
	}{
		"without zones it cannot be made":      {beliefs: iksserver.Beliefs{RefusesZoneless: true}, says: [2]string{"CloudInvalidInput", "needs a zone"}},
		"without zones it has workers at once": {beliefs: iksserver.Beliefs{FillsZoneless: true}, says: [2]string{"WorkersLate", "lacks the taint"}, ordered: 3},
		"its zones are null":                   {beliefs: iksserver.Beliefs{NullZones: true}, ordered: 3},
		"it takes no taints without workers":   {beliefs: iksserver.Beliefs{RefusesEarlyTaints: true}, says: [2]string{"CloudInvalidInput", "no workers to taint"}},
		"it does not keep its labels":          {beliefs: iksserver.Beliefs{DropsLabels: true}, says: [2]string{"PoolConflict", ourPool}, left: true},
		"it cannot be asked for":               {beliefs: iksserver.Beliefs{NoSinglePool: true}, says: [2]string{"CloudUnavailable", "404"}},
		"flavors have other names in lists":    {beliefs: iksserver.Beliefs{OtherFlavors: true}, says: [2]string{"CloudInvalidInput", "bx2-2x8"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newCloudEnvironment(t, deletingThePool)
				o.server.Believe(tc.beliefs)
				before, pools := o.everOrdered(), len(o.server.Pools(clusterID))
				if o.until(6*time.Hour, o.migrated); tc.says[0] == "" {
					require.True(t, o.migrated(), "%+v", o.object().Status)
				} else {
					require.Contains(t, o.degraded(), tc.says[0])
					require.Contains(t, o.degraded(), tc.says[1])
				}
				require.Equal(t, before+tc.ordered, o.everOrdered())
				o.server.Believe(iksserver.Beliefs{DropsLabels: tc.beliefs.DropsLabels})
				o.delete()
				require.True(t, o.until(3*time.Hour, o.gone))
				require.Empty(t, o.server.Workers(clusterID, ourPool))
				require.Equal(t, tc.left, len(o.server.Pools(clusterID)) > pools)
				require.Empty(t, o.lost)
			})
		})
	}
}

// A pool that gives way to another keeps its last worker: it goes with the pool.
func TestTheLastWorkerThatCannotBeRemovedGoesWithItsPool(t *testing.T) {
	inCloud(t, func(o *cloudEnvironment) {
		o.server.Believe(iksserver.Beliefs{KeepsLast: true})
		o.edit(func(p *v1alpha1.RouteReflectorPool) { p.Spec.Provider.IKS.Flavor = "bx2.4x16" })
		require.True(t, o.until(6*time.Hour, func() bool { return o.migrated() && len(o.server.Workers(clusterID, ourPool)) == 0 }), "%+v", o.object().Status)
		require.NotContains(t, o.server.Pools(clusterID), ourPool)
		require.Len(t, o.server.Workers(clusterID, ourPool+"-b"), 3)
		require.Empty(t, o.lost)
	})
}

// The add-on was removed while it managed the pool, and took its ConfigMap along: the message says how to get out of that, and what
// was done meanwhile goes on afterwards.
func TestAnAutoscalerWhoseAddOnWasRemoved(t *testing.T) {
	inCloud(t, func(o *cloudEnvironment) {
		o.server.SetAutoscaled(clusterID, ourPool, true)
		o.pass(10 * time.Minute)
		require.Contains(t, o.degraded(), "PoolAutoscaled: ")
		for _, words := range []string{
			"ConfigMap kube-system/iks-ca-configmap", "where that is gone, as the add-on was removed before, reinstall the add-on",
			"ibmcloud ks cluster addon enable cluster-autoscaler", "disable the pool there, and only then remove the add-on",
		} {
			require.Contains(t, o.degraded(), words)
		}
		o.server.SetAutoscaled(clusterID, ourPool, false)
		require.True(t, o.until(time.Hour, func() bool { return o.degraded() == "" }))
		require.Empty(t, o.lost)
	})
}

func twoZones(p *v1alpha1.RouteReflectorPool) { p.Spec.Provider.IKS.Zones = []string{"z1", "z2"} }

// A worker that never goes, of a zone that stays or of one that is given up, does not keep workers from other zones.
func TestADeletionThatNeverEndsHoldsUpNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		edit  func(*v1alpha1.RouteReflectorPool)
		zones int
	}{
		"of a pool that shrinks":     {size(1), 3},
		"of a zone that is given up": {twoZones, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inCloud(t, func(o *cloudEnvironment) {
				o.edit(tc.edit)
				var stuck iksserver.Worker
				see := func() map[string][]string {
					live := map[string][]string{}
					for _, w := range o.server.Workers(clusterID, ourPool) {
						switch {
						case w.State == "deployed":
							live[w.Zone] = append(live[w.Zone], w.ID)
						case w.State == "deleting" && stuck.ID == "":
							stuck = w
							o.server.Hold(clusterID, w.ID)
							o.server.Break(clusterID, w.ID, "deleting", "critical", "Incorrect account for worker")
						}
					}
					return live
				}
				require.True(t, o.until(3*time.Hour, func() bool { see(); return stuck.ID != "" }))
				o.pass(time.Hour)
				for zone, workers := range see() {
					if zone != stuck.Zone {
						for _, id := range workers { // a person removes all of them
							o.server.RemoveWorker(clusterID, id)
						}
						break
					}
				}
				require.True(t, o.until(2*time.Hour, func() bool { return len(see()) == tc.zones && o.migrated() }), "%+v %+v", see(), o.object().Status)
				require.Contains(t, o.condition(v1alpha1.ConditionDegraded).Message, "Incorrect account")
				require.Empty(t, o.lost)
			}, size(2))
		})
	}
}
