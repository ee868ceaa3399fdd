// Command manager is the rrpool controller: flags and wiring, nothing else.
package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/rrpool/rrpool/cmd/version"
	"github.com/rrpool/rrpool/cmd/wiring"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/controllers/peering"
	"github.com/rrpool/rrpool/controllers/pool"
	"github.com/rrpool/rrpool/controllers/workload"
)

// The names under which the manager is known to the cluster.
const (
	program     = "rrpool-manager"
	leaseName   = program
	eventSource = "rrpool.io/manager"
)

// collectAt is the value of GOGC unless the user sets another. It is less
// than Go's 100, as an observation of a large cluster leaves much garbage.
const collectAt = 35

// leaseDuration is client-go's default.
const leaseDuration = 15 * time.Second

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, tuning{})) }

// tuning replaces the manager's clock and lease duration in tests.
type tuning struct {
	// now is the clock. wait converts a duration by that clock to real time.
	now  func() time.Time
	wait func(time.Duration) time.Duration
	// lease is how long a lease lasts that is not renewed; 0 means leaseDuration.
	lease time.Duration
}

// run returns the exit code: 0 after a normal end, help or version, 1 after a failure, 2 for wrong flags.
func run(args []string, stdout, stderr io.Writer, pace tuning) int {
	o, err := parse(args, stderr)
	if errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "%s: %v (--help lists all flags)\n", program, err)
		return 2
	}
	this := version.Get()
	if o.version {
		_, _ = fmt.Fprintln(stdout, this.Of(program))
		return 0
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	logger := setUpLogging(&o.zap)
	logger.Info("starting", "version", this.Version, "revision", this.Revision, "go", this.Go, "platform", this.Platform)
	if err := serve(ctrl.SetupSignalHandler(), o, pace); err != nil {
		logger.Error(err, "the manager stopped")
		return 1
	}
	return 0
}

// serve runs the manager until ctx ends or the lease is lost.
func serve(ctx context.Context, o options, pace tuning) error {
	config, err := clusterConfig(o.kubeconfig)
	if err != nil {
		return err
	}
	pace.lease = cmp.Or(pace.lease, leaseDuration)
	lock, err := newLease(config, o.namespace, pace.lease*2/3)
	if err != nil {
		return err
	}
	mgr, err := newManager(config, o, pace, lock)
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	if err := connect(mgr, o, pace, lock.Identity()); err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running the manager: %w", err)
	}
	return nil
}

// setUpLogging makes one log of what four libraries write: controller-runtime and client-go at every
// level and, at debug level only, the cloud's SDK and the warnings and errors of Calico's library.
func setUpLogging(o *zap.Options) logr.Logger {
	logger := zap.New(zap.UseFlagOptions(o))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	calico.RedirectLogs(logger.WithName("libcalico"))
	log.SetFlags(0)
	log.SetOutput(slog.NewLogLogger(logr.ToSlogHandler(logger.WithName("sdk").V(1)), slog.LevelInfo).Writer())
	return logger
}

func clusterConfig(kubeconfig string) (*rest.Config, error) {
	find := ctrl.GetConfig
	if kubeconfig != "" {
		find = func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", kubeconfig) }
	}
	config, err := find()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster (--kubeconfig=%q): %w", kubeconfig, err)
	}
	if config.Insecure {
		return nil, errors.New("the kubeconfig says insecure-skip-tls-verify: any machine could be that apiserver; give certificate-authority instead")
	}
	config.UserAgent = version.UserAgent(program)
	return config, nil
}

func newManager(config *rest.Config, o options, pace tuning, lock *lease) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	utilruntime.Must(errors.Join(
		corev1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme), networkingv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme),
	))
	all := ctrl.Options{
		Scheme:                              scheme,
		LeaderElection:                      o.leaderElect,
		LeaderElectionID:                    leaseName,
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       true,
		LeaseDuration:                       &pace.lease, // this and the next two are in the proportions of client-go's defaults
		RenewDeadline:                       ptr.To(pace.lease * 2 / 3),
		RetryPeriod:                         ptr.To(pace.lease * 2 / 15),
		Metrics: server.Options{ // TLS only, and only for those that may read the metrics
			BindAddress:    o.metrics,
			SecureServing:  true,
			CertDir:        o.metricsCerts,
			FilterProvider: onlyReaders,
			TLSOpts: []func(*tls.Config){func(c *tls.Config) {
				c.MinVersion = tls.VersionTLS12
				c.NextProtos = []string{"http/1.1"} // HTTP/2 is not needed
			}},
		},
		HealthProbeBindAddress: o.probes,
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Node{}:   {Transform: pool.SlimNode},
				&corev1.Secret{}: {Namespaces: map[string]cache.Config{o.namespace: {}}},
			},
		},
	}
	return ctrl.NewManager(config, all) //nolint:wrapcheck // the caller wraps
}

// onlyReaders lets a request read the metrics if its token may get the path /metrics by RBAC. It asks the
// apiserver by a client of its own, so that many guessed tokens do not hold up the manager's requests.
func onlyReaders(config *rest.Config, _ *http.Client) (server.Filter, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.Timeout = 5, 10, 10*time.Second
	reviews, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("guarding the metrics: %w", err)
	}
	return filters.WithAuthenticationAndAuthorization(config, reviews) //nolint:wrapcheck // the caller wraps
}

// connect wires datastore, provider, reconciler and probes.
func connect(mgr ctrl.Manager, o options, pace tuning, self string) error {
	var leading func(context.Context) error
	if o.leaderElect {
		leading = (&leaseCheck{reader: mgr.GetAPIReader(), namespace: o.namespace, self: self, now: time.Now}).check
	}
	adapter, err := calico.New(calico.Config{
		RestConfig: mgr.GetConfig(),
		Nodes:      mgr.GetCache(),
		Live:       mgr.GetAPIReader(),
		Writer:     mgr.GetClient(),
		Log:        mgr.GetLogger().WithName("calico"),
		Now:        pace.now,
		Permit:     leading,
	})
	if err != nil {
		return fmt.Errorf("connecting to Calico: %w", err)
	}
	pods, err := workload.New(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("connecting to the cluster's pods: %w", err)
	}
	exported := wiring.Metrics(metrics.Registry)
	reconciler := &pool.Reconciler{
		Client:    mgr.GetClient(),
		Live:      mgr.GetAPIReader(),
		Datastore: adapter,
		Providers: wiring.Providers(adapter, pods, version.UserAgent(program), pace.now),
		Platforms: wiring.Platforms,
		Workload:  pods,
		Namespace: o.namespace,
		TokenFile: o.tokenFile,
		Recorder:  mgr.GetEventRecorder(eventSource),
		Leading:   leading,
		Metrics:   exported,
		Now:       pace.now,
		Wait:      pace.wait,
	}
	if err := pool.SetupWithManager(mgr, reconciler, adapter); err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	err = peering.SetupWithManager(mgr, &peering.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Datastore: adapter, Namespace: o.namespace, Host: mgr.GetConfig().Host,
		Recorder: mgr.GetEventRecorder(eventSource), Leading: leading, Wait: pace.wait,
	})
	if err != nil {
		return fmt.Errorf("setting up ClusterPeerings: %w", err)
	}
	return errors.Join(
		mgr.Add(adapter),
		mgr.Add(manager.RunnableFunc(func(context.Context) error { // this runs once the manager is the leader, or at once without leader election
			exported.Lead()
			return nil
		})),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("caches", func(*http.Request) error {
			if !adapter.Synced() { // the adapter starts once the manager's own caches are filled
				return errors.New("not all objects have been listed yet")
			}
			return nil
		}),
	)
}
