package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cmd/version"
)

func TestDefaults(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	o, err := parse(nil, &bytes.Buffer{})
	require.NoError(t, err)
	require.True(t, o.leaderElect)
	require.Equal(t, ":8443", o.metrics)
	require.Empty(t, o.metricsCerts)
	require.Equal(t, ":8081", o.probes)
	require.Equal(t, "rrpool-system", o.namespace)
	require.Equal(t, "/var/run/secrets/tokens/sa-token", o.tokenFile)
}

func TestEveryFlag(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	o, err := parse([]string{
		"--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=127.0.0.1:0",
		"--kubeconfig=" + file, "--namespace=other", "--iam-token-file=/token", "--zap-log-level=debug", "--zap-encoder=console",
	}, &bytes.Buffer{})
	require.NoError(t, err)
	require.False(t, o.leaderElect)
	require.Equal(t, "other", o.namespace)
	require.Equal(t, file, o.kubeconfig)
	require.Equal(t, "0", o.metrics)
	require.Equal(t, "/token", o.tokenFile)
	require.NotNil(t, o.zap.Level)
}

func TestBadFlagsAreNamed(t *testing.T) {
	for name, tc := range map[string]struct{ flag, says string }{
		"an address without a port":     {"--metrics-bind-address=localhost", `--metrics-bind-address: "localhost" is no address`},
		"an empty probe address":        {"--health-probe-bind-address=", `--health-probe-bind-address: "" is no address`},
		"a file that is not there":      {"--kubeconfig=/nonexistent/x", "--kubeconfig: stat /nonexistent/x"},
		"a namespace that cannot exist": {"--namespace=A_b", `--namespace: "A_b" is no namespace`},
		"no file with a token":          {"--iam-token-file=", "--iam-token-file: name a file"},
		"no certificate in the folder":  {"--metrics-cert-dir=/nonexistent", "--metrics-cert-dir: open /nonexistent/tls.crt"},
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

// An apiserver must prove who it is.
func TestAKubeconfigThatTrustsAnyServerIsRefused(t *testing.T) {
	for setting, says := range map[string]string{"insecure-skip-tls-verify: true": "insecure-skip-tls-verify", "insecure-skip-tls-verify: false": ""} {
		file := filepath.Join(t.TempDir(), "config")
		require.NoError(t, os.WriteFile(file, []byte("clusters: [{name: c, cluster: {server: 'https://h', "+setting+"}}]\n"+
			"contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"), 0o600))
		_, err := clusterConfig(file)
		if says == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, says)
	}
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

	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, []byte("clusters: [{name: c, cluster: {server: 'https://h'}}]\n"+
		"contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"), 0o600))
	config, err := clusterConfig(file)
	require.NoError(t, err)
	require.Regexp(t, `^rrpool-manager/\S+ \(\w+/\w+\)$`, config.UserAgent)
}
