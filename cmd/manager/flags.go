package main

import (
	"cmp"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/rrpool/rrpool/cmd/wiring"
)

// Where the namespace comes from if the flag is not given.
const (
	namespaceVariable = "POD_NAMESPACE"
	namespaceFile     = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	namespaceDefault  = "rrpool-system"
)

// options are the flags.
type options struct {
	leaderElect  bool
	metrics      string
	metricsCerts string
	probes       string
	kubeconfig   string
	namespace    string
	tokenFile    string
	version      bool
	zap          zap.Options
}

// parse reads the flags. The error is a sentence for the user, or pflag.ErrHelp after help was written to out. With
// --version, other flags are not checked.
func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := pflag.NewFlagSet(program, pflag.ContinueOnError)
	flags.SetOutput(out)
	flags.BoolVar(&o.leaderElect, "leader-elect", true, "act only while holding the lease, so that several managers may run")
	flags.StringVar(&o.metrics, "metrics-bind-address", ":8443",
		"address for Prometheus metrics, 0 for none; HTTPS, for tokens that may get /metrics (ClusterRole rrpool-metrics-reader)")
	flags.StringVar(&o.metricsCerts, "metrics-cert-dir", "",
		"folder with tls.crt and tls.key for the metrics, read again when they change; default: a certificate signed by itself")
	flags.StringVar(&o.probes, "health-probe-bind-address", ":8081", "address for /healthz and /readyz, 0 for none")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "",
		"kubeconfig file; default: $KUBECONFIG, the pod's service account, ~/.kube/config")
	flags.StringVar(&o.namespace, "namespace", defaultNamespace(os.Getenv(namespaceVariable), namespaceFile),
		"namespace of the credentials and the lease; default: $POD_NAMESPACE, the pod's own namespace, "+namespaceDefault)
	flags.StringVar(&o.tokenFile, "iam-token-file", wiring.TokenFile,
		"file with the token of the manager's service account for audience iam, for a trusted profile; read again for each login")
	flags.BoolVar(&o.version, "version", false, "say which version this is, and end")
	zapFlags := flag.NewFlagSet("zap", flag.ContinueOnError)
	o.zap.BindFlags(zapFlags)
	flags.AddGoFlagSet(zapFlags)
	if err := flags.Parse(args); err != nil {
		return o, err //nolint:wrapcheck // pflag names the flag and the value
	}
	if o.version {
		return o, nil
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: the manager takes flags only", flags.Arg(0))
	}
	return o, o.validate()
}

func (o options) validate() error {
	if o.tokenFile == "" {
		return errors.New("--iam-token-file: name a file; it is read for a trusted profile only")
	}
	for flag, address := range map[string]string{"metrics-bind-address": o.metrics, "health-probe-bind-address": o.probes} {
		if _, _, err := net.SplitHostPort(address); err != nil && address != "0" {
			return fmt.Errorf("--%s: %q is no address: use for example \":8080\", or 0 for none", flag, address)
		}
	}
	if faults := validation.IsDNS1123Label(o.namespace); len(faults) > 0 {
		return fmt.Errorf("--namespace: %q is no namespace: %s", o.namespace, strings.Join(faults, "; "))
	}
	if o.metricsCerts != "" { // a certificate that cannot be loaded is not replaced by a self-signed one
		if _, err := tls.LoadX509KeyPair(filepath.Join(o.metricsCerts, "tls.crt"), filepath.Join(o.metricsCerts, "tls.key")); err != nil {
			return fmt.Errorf("--metrics-cert-dir: %w", err)
		}
	}
	if o.kubeconfig != "" {
		if _, err := os.Stat(o.kubeconfig); err != nil {
			return fmt.Errorf("--kubeconfig: %w", err)
		}
	}
	return nil
}

// defaultNamespace returns variable, else the content of file, which names a pod's own namespace, else namespaceDefault.
func defaultNamespace(variable, file string) string {
	content, _ := os.ReadFile(file) //nolint:gosec // G304: a constant but for tests
	return cmp.Or(variable, strings.TrimSpace(string(content)), namespaceDefault)
}
