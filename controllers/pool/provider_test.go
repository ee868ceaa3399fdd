package pool_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
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
	synctest.Test(t, func(t *testing.T) {
		o := newCloudEnvironment(t)
		o.migrate()
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

// logins counts those since the first skip requests.
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
