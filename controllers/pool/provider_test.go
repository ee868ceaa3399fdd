package pool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/iksserver"
)

const nextKey = "the next/key=2 & more"

// deprivation is a way to lose access to the cloud.
type deprivation struct {
	take func(*cloudEnvironment)
	// reason and remedy are what has to be said about it, logins how often an hour IAM may be asked meanwhile.
	reason, remedy string
	logins         int
	// back: what was taken can be given back without touching the Secret. later: it is felt when the token ends.
	back, later bool
}

func store(text string) func(*cloudEnvironment) {
	return func(o *cloudEnvironment) { require.NoError(o, o.client.Update(o.Context(), secret(text))) }
}

var deprivations = map[string]deprivation{
	"the key is revoked, its tokens live on": {
		func(o *cloudEnvironment) { o.server.SetAPIKeys("none of ours") },
		"CloudUnauthorized", "the API key must be valid", 13, true, true,
	},
	"the key is revoked, and its tokens": {func(o *cloudEnvironment) {
		o.server.SetAPIKeys("none of ours")
		o.server.ExpireTokens()
	}, "CloudUnauthorized", "the API key must be valid", 13, true, false},
	"IAM shows the key in its refusal": {func(o *cloudEnvironment) {
		o.server.SetAPIKeys("none of ours")
		o.server.ExpireTokens()
		o.server.Inject(iksserver.Fault{Path: "^/identity/", Status: http.StatusBadRequest, Body: fmt.Sprintf(
			`{"errorCode":"BXNIM0415E","errorMessage":%q}`, "no key "+apiKey+" apikey="+url.QueryEscape(apiKey),
		)})
	}, "CloudUnauthorized", "the API key must be valid", 13, true, false},
	"the Secret is deleted": {
		func(o *cloudEnvironment) { require.NoError(o, o.client.Delete(o.Context(), secret(""))) },
		"CredentialsMissing", "kubectl --namespace rrpool-system create secret", 0, false, false,
	},
	"the Secret is emptied":           {store(""), "CredentialsMissing", `has no value in its key "apikey"`, 0, false, false},
	"the Secret holds spaces":         {store("  \t"), "CredentialsMissing", `has no value in its key "apikey"`, 0, false, false},
	"the Secret holds an empty line":  {store("\r\n"), "CredentialsMissing", `has no value in its key "apikey"`, 0, false, false},
	"the Secret holds something else": {store("PASTE KEY HERE\n"), "CloudUnauthorized", "the API key must be valid", 13, false, false},
}

// deprived takes the access away for some hours and says what went wrong meanwhile: it
// was not said, or the key was, IAM was not left alone, or something was changed.
func (o *cloudEnvironment) deprived(d deprivation, hours int) (complaints []string) {
	o.Helper()
	complain := func(ok bool, format string, args ...any) {
		if !ok {
			complaints = append(complaints, fmt.Sprintf(format, args...))
		}
	}
	applied := slices.Clone(o.applied)
	d.take(o)
	o.pass(time.Hour) // which is how long a token is valid
	asked, writes := len(o.server.Requests()), o.writes
	complain(o.is("ProviderReady False "+d.reason), "conditions: %v", o.object().Status.Conditions)
	message := o.condition(v1alpha1.ConditionProviderReady).Message
	complain(strings.Contains(message, d.remedy), "no remedy: %s", message)
	o.pass(time.Duration(hours) * time.Hour)
	logins, others := o.count(asked)
	complain(logins <= d.logins*hours, "%d logins in %d hours", logins, hours)
	complain(others <= logins, "%d requests without access", others)
	complain(writes == o.writes, "it was said %d times more", o.writes-writes)
	complain(slices.Equal(applied, o.applied), "the data plane was changed: %v", o.applied[len(applied):])
	return append(complaints, o.leaks()...)
}

// leaks are the credentials that a user can read.
func (o *cloudEnvironment) leaks() (found []string) {
	shown := o.texts()
	for _, key := range []string{apiKey, nextKey, url.QueryEscape(apiKey), url.QueryEscape(nextKey), url.PathEscape(nextKey), "-secret"} {
		if strings.Contains(shown, key) {
			found = append(found, "it shows "+key)
		}
	}
	return found
}

// regain gives access back with another key, or the same.
func (o *cloudEnvironment) regain(key string) {
	o.server.ClearFaults()
	o.server.SetAPIKeys(key)
	if key == apiKey {
		return
	}
	if o.client.Update(o.Context(), secret(key+"\n")) != nil {
		require.NoError(o, o.client.Create(o.Context(), secret(key+"\n")))
	}
	o.pushed <- struct{}{} // the Secret is watched
}

// TestAccessLostAndRegained: without access to the cloud a migrated cluster stays as it
// is, and one that migrates waits. A new key is taken up at once, an old one that is
// good again within minutes, both without a restart; no key is ever shown.
func TestAccessLostAndRegained(t *testing.T) {
	for name, d := range deprivations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := newCloudEnvironment(t)
				if !d.later {
					require.True(t, o.until(time.Hour, o.at("EnsurePool")))
					require.Empty(t, o.deprived(d, 1), "while the pool is ordered")
					o.regain(nextKey)
					o.pass(time.Minute)
					require.False(t, o.is("ProviderReady False "+d.reason), "%v", o.object().Status.Conditions)
				}
				o.migrate()
				o.regain(apiKey)
				store(apiKey)(o)
				o.pass(time.Minute)
				require.Empty(t, o.deprived(d, 2), "at rest")
				o.expect("Ready True Steady")
				key, within := nextKey, time.Minute
				if d.back {
					key, within = apiKey, 6*time.Minute
				}
				o.regain(key)
				o.pass(within)
				o.expect("Ready True Steady", "ProviderReady True PoolReady", "Degraded False AsExpected")
				require.Empty(t, o.lost)
				require.Empty(t, o.leaks())
				require.Len(t, o.server.Pools(clusterID), 2)
				require.Empty(t, o.server.Untainted("route-reflectors"))
			})
		})
	}
}

// TestAKeyIsRotated: with both keys valid for a moment nothing is noticed at all, and a
// key that is stored anew with a line break is no new one.
func TestAKeyIsRotated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newCloudEnvironment(t)
		o.migrate()
		o.pass(10 * time.Minute)
		writes, said, asked := o.writes, len(o.emitted), len(o.server.Requests())
		store(apiKey + "\n")(o)
		o.pass(5 * time.Minute)
		logins, _ := o.count(asked)
		require.Zero(t, logins, "the same key")
		o.server.SetAPIKeys(apiKey, nextKey)
		store(nextKey)(o)
		o.pass(2 * time.Minute)
		o.server.SetAPIKeys(nextKey)
		o.server.ExpireTokens()
		o.pass(40 * time.Minute)
		logins, _ = o.count(asked)
		require.LessOrEqual(t, logins, 2)
		require.Equal(t, writes, o.writes)
		require.Len(t, o.emitted, said)
		o.expect("Ready True Steady", "ProviderReady True PoolReady")
		require.Empty(t, o.leaks())
	})
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
		logins, others := o.count(asked)
		require.InDelta(t, 3, logins, 1, "once, and then as its token ends")
		require.Positive(t, others)
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
		require.Empty(t, o.leaks())
		require.NotContains(t, o.texts(), token)
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

// talkative is a provider that shows a key that is not, or no longer, the present one.
type talkative struct{ cloud.Provider }

func (p talkative) Observe(ctx context.Context) (cloud.Pool, error) {
	out, err := p.Provider.Observe(ctx)
	if err != nil {
		err = &cloud.Error{Kind: cloud.KindOf(err), Op: "logging in with " + nextKey}
	}
	return out, err
}

// TestAManagerThatShowsTheKeyIsFoundOut is what the trials above are worth.
func TestAManagerThatShowsTheKeyIsFoundOut(t *testing.T) {
	for name, c := range map[string]struct {
		provider func(cloud.Provider) cloud.Provider
		want     string
	}{
		"it shows a key":       {func(p cloud.Provider) cloud.Provider { return talkative{p} }, "it shows " + nextKey},
		"it logs in too often": {func(p cloud.Provider) cloud.Provider { return eager{p} }, "logins in 1 hours"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := newCloudEnvironment(t)
				o.wrap = c.provider
				o.migrate()
				require.Contains(t, strings.Join(o.deprived(deprivations["the key is revoked, and its tokens"], 1), "\n"), c.want)
			})
		})
	}
}

// A list of workers that lacks one of the pool for a while takes no reflector away.
func TestAWorkerThatIsNotListedStaysAReflector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newCloudEnvironment(t)
		o.migrate()
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
