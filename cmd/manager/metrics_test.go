package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The metrics on the manager's own port, with the rights of config/rbac: for those only
// who show a token that may read them, and over TLS only.
func TestOnlyWhoMayReadTheMetricsDoes(t *testing.T) {
	besideOthers(t)
	plane := auditedPlane(t)
	admin := adminOf(t, plane)
	cluster(t, admin)
	letRead(t, admin, "prometheus")
	config := plane.ServiceAccountConfig(testNamespace, "rrpool-manager")
	certificate, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", nil, nil) // it signs itself
	require.NoError(t, err)
	certs := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(certs, "tls.crt"), certificate, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(certs, "tls.key"), key, 0o600))
	manager := start(t, config, nil, "--metrics-cert-dir="+certs)
	for name, tc := range map[string]struct {
		token string
		code  int
		says  string
	}{
		"no token":                        {"", http.StatusUnauthorized, "Unauthorized"},
		"a made-up token":                 {"made-up", http.StatusInternalServerError, "Authentication failed"},
		"the token of one without rights": {tokenOf(t, admin, "passer-by"), http.StatusForbidden, "Authorization denied"},
		"the token of one who may read":   {tokenOf(t, admin, "prometheus"), http.StatusOK, "rrpool_leader"},
	} {
		for range 2 { // the second time it is remembered
			await(t, 2*time.Minute, func(c *assert.CollectT) {
				code, body := get(c, manager.metrics, tc.token)
				require.Equal(c, tc.code, code, "%s: %s", name, body)
				require.Contains(c, body, tc.says, name)
				require.Equal(c, tc.code == http.StatusOK, strings.Contains(body, "rrpool_leader"), name)
			})
		}
	}

	// Without TLS nothing is exported.
	response, err := http.Get("http" + strings.TrimPrefix(manager.metrics, "https"))
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, response.StatusCode)
	require.NotContains(t, string(body), "rrpool_")

	// The certificate is the one that was given, and a client can hold the manager to it.
	authority, err := os.ReadFile(filepath.Join(certs, "tls.crt"))
	require.NoError(t, err)
	trusted := x509.NewCertPool()
	require.True(t, trusted.AppendCertsFromPEM(authority))
	careful := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}}}
	answer, err := careful.Get(manager.metrics)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	_, err = http.Get(manager.metrics) //nolint:bodyclose // negative control: there is no answer
	require.ErrorContains(t, err, "certificate")
}

// A client that floods the port with guesses gets few questions to the apiserver, and while that does not answer none is let in.
func TestGuessesDoNotReachTheApiserverAllAtOnce(t *testing.T) {
	asked := atomic.Int32{}
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusBadRequest)
	}))
	defer broken.Close()
	filter, err := onlyReaders(&rest.Config{Host: broken.URL}, nil)
	require.NoError(t, err)
	guarded, err := filter(logr.Discard(), http.NotFoundHandler())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	codes := make(chan int)
	for i := range 50 {
		go func() {
			request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", http.NoBody)
			request.Header.Set("Authorization", fmt.Sprint("Bearer guess-", i))
			answer := httptest.NewRecorder()
			guarded.ServeHTTP(answer, request)
			codes <- answer.Code
		}()
	}
	for range 50 {
		require.Equal(t, http.StatusInternalServerError, <-codes)
	}
	require.Positive(t, asked.Load())
	require.Less(t, asked.Load(), int32(25), "10 at once, then 5 a second")
}

func letRead(t *testing.T, admin client.Client, account string) {
	t.Helper()
	const role = "rrpool-metrics-reader"
	for _, object := range decode(t, filepath.Join("..", "..", "config", "rbac", "metrics_reader.yaml")) {
		require.NoError(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), object)))
	}
	require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: testNamespace, Name: account}},
	}))
}

// tokenOf is a token of a service account, which is made.
func tokenOf(t *testing.T, admin client.Client, account string) string {
	t.Helper()
	owner := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: account}}
	require.NoError(t, admin.Create(t.Context(), owner))
	var token authenticationv1.TokenRequest
	require.NoError(t, admin.SubResource("token").Create(t.Context(), owner, &token))
	return token.Status.Token
}

// get asks with a token, if there is one; whose certificate it is does not matter.
func get(c *assert.CollectT, url, token string) (code int, body string) {
	code, body, err := fetch(context.Background(), url, token)
	require.NoError(c, err)
	return code, body
}

func fetch(ctx context.Context, url, token string) (code int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), err
}
