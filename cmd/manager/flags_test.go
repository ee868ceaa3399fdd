package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/rrpool/rrpool/cmd/version"
)

func TestFlags(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	o, err := parse(nil, &bytes.Buffer{})
	require.NoError(t, err)
	o.zap = zap.Options{}
	require.Equal(t, options{
		leaderElect: true, metrics: ":8443", probes: ":8081", namespace: "rrpool-system", tokenFile: "/var/run/secrets/tokens/sa-token",
	}, o)
	o, err = parse([]string{
		"--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=127.0.0.1:0",
		"--kubeconfig=/dev/null", "--namespace=other", "--iam-token-file=/token", "--zap-log-level=debug", "--zap-encoder=console",
	}, &bytes.Buffer{})
	require.NoError(t, err)
	require.NotNil(t, o.zap.Level)
	o.zap = zap.Options{}
	require.Equal(t, options{metrics: "0", probes: "127.0.0.1:0", kubeconfig: "/dev/null", namespace: "other", tokenFile: "/token"}, o)
}

func TestBadFlagsAreNamed(t *testing.T) {
	for name, tc := range map[string]struct{ flag, says string }{
		"an address without a port":     {"--metrics-bind-address=localhost", `--metrics-bind-address: "localhost" is no address`},
		"an empty probe address":        {"--health-probe-bind-address=", `--health-probe-bind-address: "" is no address`},
		"a namespace that cannot exist": {"--namespace=A_b", `--namespace: "A_b" is no namespace`},
		"no file with a token":          {"--iam-token-file=", "--iam-token-file: name a file"},
		"no certificate in the folder":  {"--metrics-cert-dir=/nonexistent", "--metrics-cert-dir: open /nonexistent/tls.crt"},
		"a file that is not there":      {"--kubeconfig=/nonexistent/x", "--kubeconfig: stat /nonexistent/x"},
		"an argument":                   {"start", `unexpected argument "start"`},
		"a log level of no meaning":     {"--zap-log-level=loud", "--zap-log-level"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse([]string{tc.flag}, &bytes.Buffer{})
			require.ErrorContains(t, err, tc.says)
		})
	}
}

func TestNamespaceOfThePod(t *testing.T) {
	file := filepath.Join(t.TempDir(), "namespace")
	require.NoError(t, os.WriteFile(file, []byte("from-file\n"), 0o600))
	require.Equal(t, "from-env", defaultNamespace("from-env", file))
	require.Equal(t, "from-file", defaultNamespace("", file))
	require.Equal(t, "rrpool-system", defaultNamespace("", file+"-missing"))
}

// kubeconfig writes one of a cluster with these settings.
func kubeconfig(t *testing.T, settings string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, []byte("clusters: [{name: c, cluster: {server: 'https://h', "+settings+"}}]\n"+
		"contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"), 0o600))
	return file
}

// An apiserver must prove who it is.
func TestAKubeconfigThatTrustsAnyServerIsRefused(t *testing.T) {
	_, err := clusterConfig(kubeconfig(t, "insecure-skip-tls-verify: true"))
	require.ErrorContains(t, err, "insecure-skip-tls-verify")
}

// A manager says which version it is: when it is asked, whatever other flags say, and in
// its log, to the servers and to whoever reads their audit logs.
func TestItSaysWhichVersionItIs(t *testing.T) {
	var out, faults bytes.Buffer
	require.Zero(t, run([]string{"--version", "--namespace=A_b"}, &out, &faults, tuning{}))
	require.Empty(t, faults.String())
	require.Regexp(t, `^rrpool-manager \S+ \(.*go1\.\d+\S*, \w+/\w+\)\n$`, out.String())

	empty := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	said, err := launch(t, nil, "--kubeconfig="+empty).ended()
	require.Error(t, err, "there is no cluster")
	require.Contains(t, said, `"msg":"starting","version":"`+version.Get().Version+`"`)

	config, err := clusterConfig(kubeconfig(t, "insecure-skip-tls-verify: false"))
	require.NoError(t, err)
	require.Regexp(t, `^rrpool-manager/\S+ \(\w+/\w+\)$`, config.UserAgent)
}
