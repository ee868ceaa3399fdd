package iks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/iksserver"
)

var (
	profileByID   = v1alpha1.TrustedProfile{ID: "Profile-9f2e1c7a"}
	profileByName = v1alpha1.TrustedProfile{Name: `Größe & "Zonen" = 100% +ü/?#`}
	linked        = iksserver.TrustedProfile{ID: profileByID.ID, Name: profileByName.Name, Namespace: "rrpool-system", Account: "rrpool-manager"}
)

// profiled is a world that knows one profile, and the file with a service account's token.
type profiled struct {
	*world
	file string
	// logins are the forms that IAM got.
	logins []url.Values
}

func newProfiled(t *testing.T) *profiled {
	t.Helper()
	w := &profiled{world: newWorld(t, iksserver.VPC), file: filepath.Join(t.TempDir(), "sa-token")}
	w.SetAPIKeys("no key is used here")
	w.SetTrustedProfiles(linked)
	w.mount(t, w.saToken(time.Hour))
	return w
}

func (w *profiled) saToken(valid time.Duration) string {
	return iksserver.ServiceAccountToken("rrpool-system", "rrpool-manager", "iam", w.clock.Now().Add(valid))
}

func (w *profiled) mount(t *testing.T, token string) {
	t.Helper()
	require.NoError(t, os.WriteFile(w.file, []byte(token), 0o600))
}

func (w *profiled) provider(t *testing.T, profile v1alpha1.TrustedProfile) *iks.Provider {
	t.Helper()
	return w.world.provider(t, func(c *iks.Config) {
		c.Profile, c.TokenFile = profile, w.file
		c.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			require.Empty(t, r.Header.Get("X-Auth-Refresh-Token"), "IAM gives none")
			agent := r.Header.Get("User-Agent")
			require.Equal(t, strings.TrimSpace(agent), agent, "servers of HTTP/2 may refuse a header that ends in a space")
			if r.URL.Path == "/identity/token" {
				body, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				form, err := url.ParseQuery(string(body))
				require.NoError(t, err)
				w.logins = append(w.logins, form)
				r.Body = io.NopCloser(bytes.NewReader(body))
				require.Empty(t, r.Header.Get("Authorization"), "of a service account IAM wants nothing else")
			}
			return w.base.RoundTrip(r)
		})
	})
}

func TestATrustedProfileLogsInByItsIDOrItsName(t *testing.T) {
	for field, profile := range map[string]v1alpha1.TrustedProfile{"profile_id": profileByID, "profile_name": profileByName} {
		w := newProfiled(t)
		settle(t, w.world, w.provider(t, profile), spec(1))
		require.Equal(t, 1, w.Pools())
		token, err := os.ReadFile(w.file)
		require.NoError(t, err)
		require.Equal(t, []url.Values{{
			"grant_type": {"urn:ibm:params:oauth:grant-type:cr-token"}, "cr_token": {string(token)}, field: {profile.ID + profile.Name},
		}}, w.logins, "one login, without the key that the configuration has as well")
	}
}

// The kubelet replaces the token in the file: what was there before is of no use any more.
func TestTheServiceAccountsTokenIsReadForEachLogin(t *testing.T) {
	w := newProfiled(t)
	p := w.provider(t, profileByID)
	observe(t, p)
	w.mount(t, "")
	w.clock.Step(799 * time.Hour)
	observe(t, p) // the IAM token is good for four fifths of its 1000 hours, whatever happens to the file

	w.clock.Step(2 * time.Hour)
	next := w.saToken(time.Hour)
	w.mount(t, next+"\n")
	observe(t, p)
	require.Len(t, w.logins, 2)
	require.Equal(t, next, w.logins[1].Get("cr_token"))

	w.clock.Step(801 * time.Hour)
	require.ErrorContains(t, unseen(t, p, cloud.Unauthorized), "has expired", "the same file again, negative control")

	w.mount(t, w.saToken(time.Hour))
	observe(t, p) // a token that is there again is used without a restart
}

func TestAProfileThatCannotLogInSaysWhy(t *testing.T) {
	other := func(namespace, account, audience string) func(*profiled) string {
		return func(w *profiled) string {
			return iksserver.ServiceAccountToken(namespace, account, audience, w.clock.Now().Add(time.Hour))
		}
	}
	const link = "it must be linked to service account rrpool-manager in namespace rrpool-system of this cluster"
	for name, c := range map[string]struct {
		profile v1alpha1.TrustedProfile
		token   func(*profiled) string // nil: there is no file
		says    []string
		asked   int
		file    bool // is what is wrong
	}{
		"no file":                    {profileByID, nil, []string{"no such file", "mount it for audience iam", "docs/install.md"}, 0, true},
		"an empty file":              {profileByName, func(*profiled) string { return " \n" }, []string{"is empty", "mount it for audience iam"}, 0, true},
		"a file with something else": {profileByID, func(*profiled) string { return "not-a-token-and-secret" }, []string{"must hold the token of a service account"}, 1, true},
		"JSON that is no token":      {profileByID, func(*profiled) string { return "a.e30.c" }, []string{"must hold the token of a service account"}, 1, true},
		"a token that has expired":   {profileByID, func(w *profiled) string { return w.saToken(-time.Second) }, []string{"has expired: the kubelet renews it, but not in a mount with subPath"}, 1, true},
		"a token for the apiserver":  {profileByID, other("rrpool-system", "rrpool-manager", "https://kubernetes.default"), []string{`must be for audience iam, and is for ["https://kubernetes.default"]`}, 1, true},
		"a profile that is not there": {
			v1alpha1.TrustedProfile{Name: "another"},
			func(w *profiled) string { return w.saToken(time.Hour) },
			[]string{"not eligible", link, "Operator or Administrator role"},
			1, false,
		},
		"a service account that is not linked": {profileByID, other("rrpool-system", "default", "iam"), []string{"must be linked to service account default in namespace rrpool-system"}, 1, false},
		"a namespace that is not linked":       {profileByID, other("staging", "rrpool-manager", "iam"), []string{"must be linked to service account rrpool-manager in namespace staging"}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newProfiled(t)
			require.NoError(t, os.Remove(w.file))
			token := "never"
			if c.token != nil {
				token = c.token(w)
				w.mount(t, token)
			}
			err := unseen(t, w.provider(t, c.profile), cloud.Unauthorized)
			require.GreaterOrEqual(t, cloud.RetryAfter(err), time.Minute)
			for _, words := range c.says {
				require.ErrorContains(t, err, words)
			}
			require.ErrorContains(t, err, fmt.Sprintf("trusted profile %q", c.profile.ID+c.profile.Name))
			require.Equal(t, c.file, strings.Contains(err.Error(), w.file), "%v", err)
			require.NotContains(t, err.Error(), "API key")
			require.NotContains(t, err.Error(), token)
			require.Len(t, w.logins, c.asked)
			reads, changes, _ := w.Counts()
			require.Zero(t, reads+changes, "nothing is asked without a token")
		})
	}
}

// Once IAM has let the profile in, its link is not what is missing.
func TestAProfileWithoutItsRolesIsToldApart(t *testing.T) {
	w := newProfiled(t)
	w.Server.Inject(iksserver.Fault{Path: "^/v2/", Status: http.StatusForbidden, Body: `{"code":"E0003","description":"no permission"}`})
	err := unseen(t, w.provider(t, profileByID), cloud.Unauthorized)
	require.ErrorContains(t, err, `trusted profile "Profile-9f2e1c7a" must have the Operator or Administrator role on the cluster`)
	require.NotContains(t, err.Error(), "linked")
}

// tap keeps what was sent and got, so that the test knows every secret.
type tap struct {
	base http.RoundTripper
	mu   sync.Mutex
	auth map[string]bool
	echo bool
}

func (x *tap) RoundTrip(r *http.Request) (*http.Response, error) {
	secrets := []string{r.Header.Get("Authorization"), r.Header.Get("X-Auth-Refresh-Token")}
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, fmt.Errorf("reading: %w", err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		secrets = append(secrets, string(body))
	}
	x.mu.Lock()
	for _, s := range secrets[:2] {
		if strings.HasPrefix(s, "Basic ") {
			continue // a public constant
		}
		x.auth[strings.TrimPrefix(s, "Bearer ")] = true
	}
	echo := x.echo
	x.mu.Unlock()
	if echo && !strings.HasPrefix(r.URL.Path, "/identity") || echo && len(x.auth) > 3 {
		return nil, errors.New("proxy refuses " + strings.Join(secrets, " "))
	}
	return x.base.RoundTrip(r)
}

func TestNoSecretEverShows(t *testing.T) {
	var logged bytes.Buffer
	defer log.SetOutput(log.Writer())
	log.SetOutput(&logged)
	profiled := newProfiled(t) // whose file serves all worlds: their clocks begin alike
	for _, profile := range []v1alpha1.TrustedProfile{{}, profileByID} {
		credential := apiKey
		if profile.ID != "" {
			credential = profiled.saToken(time.Hour)
		}
		echo := "you sent " + credential + " and " + url.QueryEscape(credential) + " and token-00000001-secret refresh-token-00000001-secret"
		faults := spoiled()
		for _, status := range []int{400, 401, 403, 404, 409, 418, 422, 429, 500, 503} {
			faults[fmt.Sprintf("echo %d", status)] = iksserver.Fault{Status: status, Body: echo}
			faults[fmt.Sprintf("echo JSON %d", status)] = iksserver.Fault{Status: status, Body: fmt.Sprintf(
				`{"code":"E1","errorCode":"E2","incidentID":%q,"description":%q,"errorMessage":%q}`, echo, echo, echo,
			)}
		}
		faults["echo 200"] = iksserver.Fault{Status: 200, Body: echo}
		faults["none"] = iksserver.Fault{Path: "nowhere"}
		for name, fault := range faults {
			for _, path := range []string{"/identity/token", "/v2/getCluster", poolList, workerList, "set|create"} {
				w := newWorld(t, iksserver.VPC)
				w.SetTrustedProfiles(linked)
				x := &tap{base: w.base, auth: map[string]bool{}}
				p := w.provider(t, func(c *iks.Config) { c.Transport, c.Profile, c.TokenFile = x, profile, profiled.file })
				_, _ = p.Observe(context.Background(), cloud.PoolSpec{})
				w.Server.Inject(fault.On("", path))
				w.ExpireTokens()
				var texts []string
				for range 4 {
					_, err := p.Ensure(context.Background(), spec(1))
					texts = append(texts, fmt.Sprint(err), fmt.Sprintf("%+v %#v", err, err))
					for ; err != nil; err = errors.Unwrap(err) {
						texts = append(texts, fmt.Sprintf("%v %#v", err, err))
					}
				}
				x.echo = true
				pool, err := p.Observe(context.Background(), cloud.PoolSpec{})
				texts = append(texts, fmt.Sprintf("%+v %#v %v", pool, err, err),
					fmt.Sprintf("%v %+v %#v %s %d", p, p, p, p, p), p.Name(), logged.String())
				all := strings.Join(texts, "\n")
				for secret := range x.auth {
					if secret != "" {
						require.NotContains(t, all, secret, "%s on %s", name, path)
					}
				}
				require.NotContains(t, all, credential, "%s on %s", name, path)
				require.NotContains(t, all, url.QueryEscape(credential), "%s on %s", name, path)
			}
		}
	}
	require.Empty(t, logged.String(), "the SDK logs nothing")
}

// A server that cannot prove who it is gets no request, so no key; nothing in the environment changes that. What
// waits there is the same server that a client who trusts its certificate talks to.
func TestAServerOfAnUnknownAuthorityIsNotTalkedTo(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(server.Close)
	for k, v := range map[string]string{"IBMCLOUD_SSL_DISABLE": "true", "BLUEMIX_SSL_DISABLE": "true", "GODEBUG": "x509ignoreCN=0"} {
		t.Setenv(k, v)
	}
	config := iks.Config{
		ClusterID: "c", PoolName: "rr", APIKey: "k", CSEndpoint: server.URL, IAMEndpoint: server.URL,
	}
	p, err := iks.New(config)
	require.NoError(t, err)
	err = unseen(t, p, cloud.Unavailable)
	require.ErrorContains(t, err, "certificate")
	require.Zero(t, requests.Load())

	// Negative control.
	config.Transport = server.Client().Transport
	p, err = iks.New(config)
	require.NoError(t, err)
	_, err = p.Observe(context.Background(), cloud.PoolSpec{})
	require.Error(t, err)
	require.NotZero(t, requests.Load())
}

// In the clear, a key goes nowhere but to this machine.
func TestAKeyGoesOutEncryptedOnly(t *testing.T) {
	for address, plain := range map[string]bool{
		"http://containers.cloud.ibm.com/global": false, "http://10.0.0.1": false, "http://localhost.example.com": false,
		"https://containers.cloud.ibm.com/global": true, "http://127.0.0.1:1": true, "http://localhost:1": true, "http://[::1]:1": true,
	} {
		for _, edit := range []func(*iks.Config){
			func(c *iks.Config) { c.CSEndpoint = address },
			func(c *iks.Config) { c.IAMEndpoint = address },
		} {
			config := iks.Config{ClusterID: "c", PoolName: "rr", APIKey: "k"}
			edit(&config)
			_, err := iks.New(config)
			if plain {
				require.NoError(t, err, address)
				continue
			}
			require.True(t, cloud.Is(err, cloud.InvalidInput), "%s: %v", address, err)
			require.ErrorContains(t, err, "https", address)
		}
	}
}

const proxied = "RRPOOL_TEST_PROXIED"

// The proxy of the environment is used for IBM Cloud, and sees a name and no more. Go reads
// those variables once in a process, so this takes another one.
func TestTheProxyOfTheEnvironmentIsATunnel(t *testing.T) {
	if os.Getenv(proxied) != "" {
		p, err := iks.New(iks.Config{ClusterID: "c", PoolName: "rr", APIKey: "hush"})
		require.NoError(t, err)
		_ = unseen(t, p, cloud.Unavailable)
		return
	}
	var asked, headers string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, headers = r.Method+" "+r.RequestURI, fmt.Sprint(r.Header)
		w.WriteHeader(http.StatusForbidden)
	}))
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTheProxyOfTheEnvironmentIsATunnel$")
	child.Env = append(os.Environ(), proxied+"=1", "HTTPS_PROXY="+proxy.URL, "NO_PROXY=")
	out, err := child.CombinedOutput()
	proxy.Close()
	require.NoError(t, err, string(out))
	require.Equal(t, "CONNECT iam.cloud.ibm.com:443", asked)
	require.NotContains(t, headers, "hush")
}
