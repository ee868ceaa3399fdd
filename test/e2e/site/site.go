//go:build linux

// Package site runs a whole installation in one process tree: a lab cluster whose nodes look like IKS workers, the server of package iksserver,
// whose workers become hosts of that cluster once they are deployed, and the manager as a process with exactly the rights of config/rbac. With
// Options.Nodes there is no cloud and no credential.
//
// The process must be inside the lab's namespaces: see lab.Main and lab.Isolate.
package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/iksserver"
	"github.com/rrpool/rrpool/test/lab"
)

// The name and id of the cluster at the cloud.
const (
	ClusterID = "cs9demo0rrpool00000"
	PoolName  = "route-reflectors"
	// APIKey is the only one that the cloud accepts. It must not be in any log, event or status of the manager.
	APIKey = "rrpool-e2e-api-key-4d8f0c" //nolint:gosec // G101: made for the test
	// Namespace of the manager.
	Namespace = "rrpool-system"
	account   = "0123456789abcdef"
)

// Options say what to build. The zero value is six workers in three zones on VPC, without a mesh password.
type Options struct {
	// Nodes of a cluster without a cloud. With them there is no cloud server, no provider ID and no credential, and the next four options have no effect.
	Nodes []lab.NodeSpec
	// Workers that run pods. Default 6.
	Workers int
	// Zones over which these workers are spread. Default 3.
	Zones int
	// Generation is iksserver.VPC or iksserver.Classic. Default VPC.
	Generation string
	// MeshPassword, when set, is the BGP password of the mesh.
	MeshPassword string
	// Bare: what a user installs is not installed: the CRD, the namespace, the rights, the credentials.
	Bare bool
	// Lab are further options of the lab.
	Lab lab.Options
	// Pods: the managers that the Runtime starts have Pods in the API, with logs.
	Pods bool
	// Progress receives a line for each thing that happens in the cloud.
	Progress func(line string)
}

// Site is a running installation.
type Site struct {
	Lab *lab.Lab
	// Cloud is nil with Options.Nodes.
	Cloud *iksserver.Server
	// Client has all rights.
	Client client.Client
	// Workers are the names of the nodes that ran pods at the start.
	Workers []string
	// Apiserver, if set, is the configuration with which later managers connect to the apiserver.
	Apiserver *rest.Config

	options  Options
	endpoint string
	server   *http.Server
	exposed  map[string]bool // the nodes on whose loopback the cloud can be reached
	kubelets map[string]*httptest.Server
	stop     context.CancelFunc
	manager  *controlplane.Process
	runtime  *Runtime
	workers  atomic.Int32 // that have an address
}

// address returns the private address of a new worker, which is the node's name, as on IKS.
func (s *Site) address(string, string) string {
	n := s.workers.Add(1)
	return fmt.Sprintf("172.20.%d.%d", 1+n/250, n%250+1)
}

// Start builds the lab, its workers and the cloud. The manager is not started, no RouteReflectorPool exists, and the mesh carries the cluster.
func Start(ctx context.Context, options Options) (*Site, error) {
	options.Workers, options.Zones = cmp.Or(options.Workers, 6), cmp.Or(options.Zones, 3)
	options.Generation = cmp.Or(options.Generation, iksserver.VPC)
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &Site{options: options, stop: stop, exposed: map[string]bool{}, kubelets: map[string]*httptest.Server{}}
	if err := s.start(ctx, background); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *Site) start(ctx, background context.Context) error {
	var err error
	o := s.options.Lab
	o.MeshPassword, o.Bare = s.options.MeshPassword, s.options.Bare
	if s.Lab, err = lab.Start(ctx, o); err != nil {
		return err
	}
	ctrllog.SetLogger(logr.Discard()) // the client's; what matters is in the manager's log
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("building the scheme: %w", err)
	}
	if s.Client, err = client.New(s.Lab.AdminConfig(), client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("making the client: %w", err)
	}
	nodes := s.options.Nodes
	if len(nodes) == 0 {
		if err := s.startCloud(background); err != nil {
			return err
		}
		nodes = s.hosts()
	}
	for _, spec := range nodes {
		if spec.Pods > 0 {
			s.Workers = append(s.Workers, spec.Name)
		}
	}
	if err := s.Lab.AddNodes(ctx, nodes...); err != nil {
		return err
	}
	if err := s.Lab.WaitMesh(ctx); err != nil {
		return err
	}
	return s.install(ctx)
}

// startCloud serves the IBM Cloud APIs on loopback: elsewhere no API key would be sent to it without TLS.
func (s *Site) startCloud(background context.Context) error {
	s.Cloud = iksserver.New(iksserver.Config{
		APIKeys: []string{APIKey}, Profile: iksserver.Chosen(),
		Delays:     iksserver.Delays{Pending: time.Second, Provisioning: 2 * time.Second, Deploying: 2 * time.Second, Deleting: 2 * time.Second},
		AllocateIP: s.address,
		OnDeployed: func(w iksserver.Worker) { s.join(background, w) },
		OnDeleted:  func(w iksserver.Worker) { s.leave(background, w) },
	})
	s.Cloud.AddCluster(s.cluster())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("opening the cloud's port: %w", err)
	}
	s.endpoint = "http://" + listener.Addr().String()
	s.server = &http.Server{Handler: s.Cloud, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.server.Serve(listener) }()
	go s.Cloud.Run(background, 200*time.Millisecond)
	return nil
}

// cloudOn serves the cloud on a node's loopback, for managers that run there. The second call for a node does nothing.
func (s *Site) cloudOn(node string) error {
	if s.Cloud == nil || s.exposed[node] {
		return nil
	}
	listener, err := s.listenOn(node, strings.TrimPrefix(s.endpoint, "http://"))
	if err != nil {
		return err
	}
	s.exposed[node] = true
	go func() { _ = s.server.Serve(listener) }()
	return nil
}

// listenOn listens in a node's network namespace.
func (s *Site) listenOn(node, address string) (listener net.Listener, err error) {
	err = s.Lab.Enter(node, func() (err error) {
		listener, err = net.Listen("tcp", address)
		return err
	})
	return listener, err
}

// Stop ends everything.
func (s *Site) Stop() error {
	s.stop()
	var errs []error
	s.runtime.Stop()
	s.KillManager()
	for _, kubelet := range s.kubelets {
		kubelet.Close()
	}
	if s.Cloud != nil {
		s.Cloud.Close()
	}
	if s.server != nil {
		errs = append(errs, s.server.Close())
	}
	if s.Lab != nil {
		errs = append(errs, s.Lab.Stop())
	}
	return errors.Join(errs...)
}

// Dump writes everything that explains a failure into dir.
func (s *Site) Dump(dir string) error {
	log, err := s.ManagerLog()
	return errors.Join(err, s.Lab.Dump(dir), os.WriteFile(filepath.Join(dir, "manager.log"), []byte(log), 0o600))
}

func (s *Site) progress(format string, args ...any) {
	s.options.Progress(fmt.Sprintf(format, args...))
}

// patience is how long a whole test may take on a slow machine.
const patience = 40 * time.Minute

// ForTest starts a site that is stopped at the end of the test, and dumped if the test has failed. The package needs a TestMain that calls
// programs.Build and lab.Main.
func ForTest(tb testing.TB, options Options) (context.Context, *Site) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	tb.Cleanup(cancel)
	begun := time.Now()
	options.Progress = func(line string) { tb.Logf("%6.1fs cloud: %s", time.Since(begun).Seconds(), line) }
	s, err := Start(ctx, options)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if log, err := s.ManagerLog(); err == nil && strings.Contains(log, APIKey) {
			tb.Error("the manager's log holds the API key")
		}
		if tb.Failed() {
			dir := filepath.Join(os.TempDir(), "rrpool-failures", strings.ReplaceAll(tb.Name(), "/", "_"), options.Lab.Name)
			tb.Logf("everything about the failure is in %s (%v)", dir, s.Dump(dir))
		}
		if err := s.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return ctx, s
}
