package pool_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/test/iksserver"
)

const nextKey = "the next/key=2 & more"

func store(text string) func(*cloudEnvironment) {
	return func(o *cloudEnvironment) {
		if o.client.Update(o.Context(), secret(text)) != nil {
			require.NoError(o, o.client.Create(o.Context(), secret(text)))
		}
		o.later(func() {}) // the Secret is watched
	}
}

// refuse lets IAM know these keys only, and the cloud forget all logins.
func refuse(o *cloudEnvironment, known ...string) {
	o.server.SetAPIKeys(known...)
	o.server.ExpireTokens()
}

var deprivations = map[string]loss{
	"the key is revoked, its tokens live on": {
		func(o *cloudEnvironment) { o.server.SetAPIKeys("none of ours") },
		func(o *cloudEnvironment) { o.server.SetAPIKeys(apiKey) }, "CloudUnauthorized", "the API key must be valid", 13,
	},
	"the key is revoked, and its tokens": {
		func(o *cloudEnvironment) { refuse(o, "none of ours") },
		func(o *cloudEnvironment) { refuse(o, apiKey) }, "CloudUnauthorized", "the API key must be valid", 13,
	},
	"the key is revoked, and another comes": {func(o *cloudEnvironment) { refuse(o, nextKey) }, store(nextKey + "\n"), "CloudUnauthorized", "the API key must be valid", 13},
	"the Secret is deleted": {
		func(o *cloudEnvironment) { require.NoError(o, o.client.Delete(o.Context(), secret(""))) },
		store(apiKey), "CredentialsMissing", "kubectl --namespace rrpool-system create secret", 0,
	},
	"the Secret is emptied":           {store(""), store(apiKey), "CredentialsMissing", `has no value in its key "apikey"`, 0},
	"the Secret holds an empty line":  {store("\r\n"), store(apiKey), "CredentialsMissing", `has no value in its key "apikey"`, 0},
	"the Secret holds something else": {store("PASTE KEY HERE\n"), store(apiKey), "CloudUnauthorized", "the API key must be valid", 13},
}

// TestAccessLostAndRegained: without access to the cloud a migrated cluster stays as it is. A new key is taken up
// without a restart, and so is an old one that is good again.
func TestAccessLostAndRegained(t *testing.T) { nothingDepends(t, deprivations) }

// TestAKeyIsRotated: with both keys valid for a moment nothing is noticed at all, and a
// key that is stored anew with a line break is no new one.
func TestAKeyIsRotated(t *testing.T) {
	inCloud(t, func(o *cloudEnvironment) {
		t := o.TB
		o.pass(10 * time.Minute)
		writes, said, asked := o.writes, len(o.emitted), len(o.server.Requests())
		store(apiKey + "\n")(o)
		o.pass(5 * time.Minute)
		require.Zero(t, o.logins(asked), "the same key")
		o.server.SetAPIKeys(apiKey, nextKey)
		store(nextKey)(o)
		o.pass(2 * time.Minute)
		refuse(o, nextKey)
		o.pass(40 * time.Minute)
		require.LessOrEqual(t, o.logins(asked), 2)
		require.Equal(t, writes, o.writes)
		require.Len(t, o.emitted, said)
		o.expect("Ready True Steady", "ProviderReady True PoolReady")
	})
}

func (o *cloudEnvironment) logins(skip int) (n int) {
	for _, r := range o.server.Requests()[skip:] {
		if r.Token() {
			n++
		}
	}
	return n
}

// TestAKeyGivesWayToATrustedProfile, and back, in a migrated cluster that notices nothing. While the token of the service
// account is missing that is said, nothing is changed, and a file that comes back is used without a restart.
func TestAKeyGivesWayToATrustedProfile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sa-token")
	synctest.Test(t, func(t *testing.T) {
		o := newCloudEnvironment(t)
		o.reconciler.TokenFile = file
		o.migrate()
		o.pass(10 * time.Minute)
		token := iksserver.ServiceAccountToken("rrpool-system", "rrpool-manager", "iam", time.Now().Add(24*time.Hour))
		require.NoError(t, os.WriteFile(file, []byte(token), 0o600))
		o.server.SetTrustedProfiles(iksserver.TrustedProfile{ID: "Profile-1", Namespace: "rrpool-system", Account: "rrpool-manager"})
		o.server.SetAPIKeys("none of ours")
		writes, applied := o.writes, slices.Clone(o.applied)

		o.edit(func(p *v1alpha1.RouteReflectorPool) { p.Spec.Provider.IKS.Credentials.TrustedProfile.ID = "Profile-1" })
		require.NoError(t, o.client.Delete(t.Context(), secret("")))
		asked := len(o.server.Requests())
		o.pass(2 * time.Hour)
		o.expect("Ready True Steady", "ProviderReady True PoolReady")
		require.InDelta(t, 3, o.logins(asked), 1, "once, and then as its token ends")
		require.LessOrEqual(t, o.writes-writes, 1, "but for the generation that was observed")

		require.NoError(t, os.Remove(file))
		o.pass(2 * time.Hour)
		o.expect("Ready True Steady", "ProviderReady False CloudUnauthorized")
		message := o.condition(v1alpha1.ConditionProviderReady).Message
		for _, words := range []string{`trusted profile "Profile-1"`, file, "no such file", "mount it for audience iam"} {
			require.Contains(t, message, words)
		}
		require.NoError(t, os.WriteFile(file, []byte(token), 0o600))
		o.pass(6 * time.Minute)
		o.expect("ProviderReady True PoolReady")

		o.server.SetTrustedProfiles()
		o.server.SetAPIKeys(nextKey)
		require.NoError(t, o.client.Create(t.Context(), secret(nextKey)))
		o.edit(func(p *v1alpha1.RouteReflectorPool) { p.Spec.Provider.IKS.Credentials = v1alpha1.IKSCredentials{} })
		o.pass(2 * time.Minute)
		o.expect("Ready True Steady", "ProviderReady True PoolReady")
		require.Equal(t, applied, o.applied)
		require.Empty(t, o.lost)
		require.NotContains(t, fmt.Sprintf("%+v %v", o.object(), o.emitted), token)
	})
}

// A command has no token of the manager's: it does not ask the cloud, and takes nothing for a problem.
func TestACommandDoesNotLogInForATrustedProfile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newCloudEnvironment(t, func(p *v1alpha1.RouteReflectorPool) { p.Spec.Provider.IKS.Credentials.TrustedProfile.Name = "rrpool" })
		scope, err := o.reconciler.Look(t.Context(), o.object())
		require.NoError(t, err)
		require.Nil(t, scope.ProviderProblem)
		require.Nil(t, scope.Pool)
		require.Empty(t, o.server.Requests())

		o.reconciler.TokenFile = "/nowhere"
		scope, err = o.reconciler.Look(t.Context(), o.object())
		require.NoError(t, err)
		require.Equal(t, "CloudUnauthorized", scope.ProviderProblem.Reason, "the manager, negative control")
	})
}

// A list of workers that lacks one of the pool for a while takes no reflector away.
func TestAWorkerThatIsNotListedStaysAReflector(t *testing.T) {
	inCloud(t, func(o *cloudEnvironment) {
		t := o.TB
		o.pass(10 * time.Minute)
		applied, before := slices.Clone(o.applied), o.reflectors()
		require.Len(t, before, 3)
		workers := o.server.Workers("c1", "route-reflectors")
		gone := false
		o.server.Inject(iksserver.Fault{Method: http.MethodGet, Path: "orkers$", Spoil: func(body []byte) []byte {
			var all []map[string]any
			if err := json.Unmarshal(body, &all); err != nil {
				return body
			}
			for i, w := range all {
				if id, _ := w["id"].(string); strings.Contains(id, "-route-r-") {
					gone = true
					out, err := json.Marshal(slices.Delete(all, i, i+1))
					require.NoError(t, err)
					return out
				}
			}
			return body
		}})
		o.pass(40 * time.Minute)
		require.True(t, gone, "no list lacked anything: %v", o.server.Requests()[len(o.server.Requests())-5:])
		require.Equal(t, "EnsurePool", o.seenStep.Name, "the lack is seen")
		require.Equal(t, applied, o.applied)
		require.Equal(t, before, o.reflectors())
		o.server.ClearFaults()
		o.pass(20 * time.Minute)
		require.Equal(t, applied, o.applied)
		require.Empty(t, o.lost)
		require.Equal(t, workers, o.server.Workers("c1", "route-reflectors"), "that the same size is asked for again orders nothing")
	})
}

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
	inCloud(t, func(o *cloudEnvironment) {
		t := o.TB
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
	inCloud(t, func(o *cloudEnvironment) {
		t := o.TB
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
	inCloud(t, func(o *cloudEnvironment) {
		t := o.TB
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
		if n.HasRoleLabel {
			out[n.ClusterID]++
		}
	}
	return out
}

// Another flavor is another pool at IBM Cloud. The workers of it take over one after the other, whatever updateWorkers says, and
// the pool is never smaller than wanted, also when the manager restarts all the time and the flavor changes again under way.
func TestAnotherFlavorRollsThePool(t *testing.T) {
	for name, flavors := range map[string][]string{"one change": {"bx2.4x16"}, "back under way": {"bx2.4x16", "bx2.2x8"}, "a third one": {"bx2.4x16", "bx2.8x32"}} {
		for _, profile := range []string{"documented", "sparse"}[len(flavors)-1:] {
			t.Run(profile+", "+name, func(t *testing.T) {
				t.Setenv("RRPOOL_IKS_PROFILE", profile)
				inCloud(t, func(o *cloudEnvironment) {
					t := o.TB
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
