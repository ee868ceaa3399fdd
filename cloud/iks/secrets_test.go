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
	for _, login := range []struct {
		generation string
		profile    v1alpha1.TrustedProfile
	}{{generation: iksserver.VPC}, {generation: iksserver.Classic}, {iksserver.VPC, profileByID}} {
		credential := apiKey
		if login.profile.ID != "" {
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
				w := newWorld(t, login.generation)
				w.SetTrustedProfiles(linked)
				x := &tap{base: w.base, auth: map[string]bool{}}
				p := w.provider(t, func(c *iks.Config) { c.Transport, c.Profile, c.TokenFile = x, login.profile, profiled.file })
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

// proxied is set in the child of the test below.
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
