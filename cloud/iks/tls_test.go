package iks_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/iks"
)

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
