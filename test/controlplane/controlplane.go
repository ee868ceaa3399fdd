// Package controlplane runs a real etcd and kube-apiserver, for tests and for the demonstration, both built from their Go modules.
// No controllers run: default service accounts are not created, nodes are not marked Ready, and garbage is not collected.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/rrpool/rrpool/test/programs"
)

// readyTimeout is how long the apiserver may take to answer; a busy two-core machine needs a fraction of it.
const readyTimeout = 4 * time.Minute

// Options say how to run a control plane. The zero value is right for tests on loopback.
type Options struct {
	// Log receives progress, such as "building kube-apiserver". Default: discarded.
	Log io.Writer
	// Dir keeps certificates, data and logs. Default: a temporary folder that Stop removes.
	Dir string
	// BindAddress is where the apiserver listens. Default: 127.0.0.1.
	BindAddress string
	// Host is the address that clients use, and that the certificate names. Default: BindAddress, or 127.0.0.1 for 0.0.0.0.
	Host string
	// Port is the apiserver's port. Default: a free one.
	Port int
	// Names are further addresses and DNS names for the certificate.
	Names []string
	// Audit records requests for Writes and Requests. Default: nothing.
	Audit AuditLevel
	// CRDs are folders of CustomResourceDefinitions to install. Folders that do not exist are skipped.
	CRDs []string
	// APIServerFlags are passed on, last.
	APIServerFlags []string
}

// ControlPlane is a running etcd and kube-apiserver with RBAC.
type ControlPlane struct {
	options   Options
	temporary bool
	etcdURL   string
	authority *authority
	admin     *rest.Config
	etcd      *process
	apiserver *process
	ports     []*port
}

// Start runs a control plane and returns when it is ready to serve, its system namespaces and CRDs included.
func Start(ctx context.Context, options Options) (*ControlPlane, error) {
	c := &ControlPlane{options: options}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the control plane: %w", err), c.Stop())
	}
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context) error {
	if err := c.complete(ctx); err != nil {
		return err
	}
	if err := c.writeFiles(); err != nil {
		return err
	}
	if err := c.startEtcd(); err != nil {
		return err
	}
	if err := c.StartAPIServer(ctx); err != nil {
		return err
	}
	return InstallCRDs(ctx, c.admin, c.options.CRDs...)
}

// complete fills in every default.
func (c *ControlPlane) complete(ctx context.Context) (err error) {
	o := &c.options
	if o.Log == nil {
		o.Log = io.Discard
	}
	if err := programs.Build(ctx, o.Log, "etcd", "kube-apiserver"); err != nil {
		return fmt.Errorf("preparing the control plane: %w", err)
	}
	o.completeAddress()
	if o.Port == 0 {
		if o.Port, err = c.port(); err != nil {
			return err
		}
	}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "rrpool-controlplane-"); err != nil {
			return fmt.Errorf("making a folder: %w", err)
		}
		c.temporary = true
	}
	return nil
}

// port gives one that is ours until Stop.
func (c *ControlPlane) port() (int, error) {
	p, err := holdPort()
	if err != nil {
		return 0, err
	}
	c.ports = append(c.ports, p)
	return p.number, nil
}

// completeAddress fills in where the apiserver listens and where it is found.
func (o *Options) completeAddress() {
	if o.BindAddress == "" {
		o.BindAddress = "127.0.0.1"
	}
	if o.Host == "" {
		o.Host = o.BindAddress
		if ip := net.ParseIP(o.BindAddress); ip != nil && ip.IsUnspecified() {
			o.Host = "127.0.0.1"
		}
	}
}

func (c *ControlPlane) writeFiles() (err error) {
	if c.authority, err = newAuthority(); err != nil {
		return err
	}
	names := append([]string{"localhost", "127.0.0.1", "kubernetes.default.svc", c.options.Host}, c.options.Names...)
	serving, err := c.authority.serving(names)
	if err != nil {
		return err
	}
	signing, err := newSigningKey()
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"ca.crt": c.authority.pem(), "apiserver.crt": serving.certificate, "apiserver.key": serving.key,
		"service-account.pub": signing.certificate, "service-account.key": signing.key,
		"audit-policy.yaml": []byte(c.options.Audit.policy()),
	} {
		if err := os.WriteFile(c.path(name), content, 0o600); err != nil {
			return fmt.Errorf("writing %q: %w", name, err)
		}
	}
	if c.admin, err = c.UserConfig("admin", "system:masters"); err != nil {
		return err
	}
	c.admin.QPS, c.admin.Burst = -1, 0 // no client-side limit
	return nil
}

func (c *ControlPlane) startEtcd() error {
	client, err := c.port()
	if err != nil {
		return err
	}
	peer, err := c.port()
	if err != nil {
		return err
	}
	c.etcdURL = "http://127.0.0.1:" + strconv.Itoa(client)
	peerURL := "http://127.0.0.1:" + strconv.Itoa(peer)
	c.etcd, err = startProcess("etcd", programs.Path("etcd"), c.options.Dir, []string{
		"--data-dir=" + c.path("etcd"), "--unsafe-no-fsync", "--log-level=warn", "--socket-reuse-port",
		"--listen-client-urls=" + c.etcdURL, "--advertise-client-urls=" + c.etcdURL,
		"--listen-peer-urls=" + peerURL, "--initial-advertise-peer-urls=" + peerURL, "--initial-cluster=default=" + peerURL,
	})
	return err
}

// StartAPIServer starts the apiserver after StopAPIServer, at the same address and with the same users, and waits until it is ready.
func (c *ControlPlane) StartAPIServer(ctx context.Context) (err error) {
	c.apiserver, err = startProcess("kube-apiserver", programs.Path("kube-apiserver"), c.options.Dir, c.apiserverFlags())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return c.waitReady(ctx)
}

// StopAPIServer takes the API away in order; etcd keeps the data. It fails when the apiserver has ended by itself before.
func (c *ControlPlane) StopAPIServer() error {
	if c.apiserver.exited() {
		return fmt.Errorf("kube-apiserver has ended by itself:\n%s", tail(c.path("kube-apiserver.log")))
	}
	c.apiserver.stop()
	return nil
}

// KillAPIServer takes the API away as a crash does.
func (c *ControlPlane) KillAPIServer() { c.apiserver.kill() }

// PauseEtcd lets etcd stand still, as on a disk that hangs: the apiserver runs on, and answers nothing that needs its data.
func (c *ControlPlane) PauseEtcd() error { return c.etcd.signal(syscall.SIGSTOP) }

// ResumeEtcd lets etcd go on after PauseEtcd.
func (c *ControlPlane) ResumeEtcd() error { return c.etcd.signal(syscall.SIGCONT) }

// Stop ends both processes and removes the folder when it was a temporary one. It is safe to call again.
func (c *ControlPlane) Stop() error {
	_ = c.etcd.signal(syscall.SIGCONT) // else it could not end in order
	c.apiserver.kill()
	c.etcd.stop()
	var errs []error
	for _, p := range c.ports {
		errs = append(errs, p.release())
	}
	c.ports = nil
	if c.temporary {
		errs = append(errs, os.RemoveAll(c.options.Dir))
	}
	return errors.Join(errs...)
}

// Dir is the folder with the logs (etcd.log, kube-apiserver.log, audit.log) and the certificates.
func (c *ControlPlane) Dir() string { return c.options.Dir }

func (c *ControlPlane) path(name string) string { return filepath.Join(c.options.Dir, name) }

func (c *ControlPlane) apiserverFlags() []string {
	o := c.options
	flags := []string{
		"--etcd-servers=" + c.etcdURL,
		"--bind-address=" + o.BindAddress, "--secure-port=" + strconv.Itoa(o.Port), "--permit-port-sharing", "--cert-dir=" + o.Dir,
		"--tls-cert-file=" + c.path("apiserver.crt"), "--tls-private-key-file=" + c.path("apiserver.key"),
		"--client-ca-file=" + c.path("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + c.path("service-account.pub"),
		"--service-account-signing-key-file=" + c.path("service-account.key"),
		"--service-cluster-ip-range=10.255.0.0/24", "--authorization-mode=RBAC", "--allow-privileged=true",
		// Without controllers nobody would create the default service accounts, or take the not-ready taint off new nodes.
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
	}
	// In a network namespace without a default route the apiserver cannot guess what to advertise.
	if ip := net.ParseIP(o.Host); ip != nil && !ip.IsLoopback() {
		flags = append(flags, "--advertise-address="+o.Host)
	} else {
		flags = append(flags, "--advertise-address=192.0.2.1", "--endpoint-reconciler-type=none")
	}
	if o.Audit != AuditNone {
		flags = append(flags, "--audit-policy-file="+c.path("audit-policy.yaml"), "--audit-log-path="+c.path("audit.log"),
			"--audit-log-mode=blocking")
	}
	return append(flags, o.APIServerFlags...)
}

// waitReady polls until the apiserver calls itself ready and has made the namespaces that everyone takes for granted.
func (c *ControlPlane) waitReady(ctx context.Context) error {
	client, err := rest.HTTPClientFor(c.admin)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	defer client.CloseIdleConnections()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for _, path := range []string{"/readyz", "/api/v1/namespaces/kube-system", "/api/v1/namespaces/default"} {
		for {
			lastErr := get(ctx, client, c.admin.Host+path)
			if lastErr == nil {
				break
			}
			select {
			case <-ticker.C:
			case <-c.apiserver.done:
				return fmt.Errorf("kube-apiserver ended by itself:\n%s", tail(c.path("kube-apiserver.log")))
			case <-ctx.Done():
				return fmt.Errorf("waiting for kube-apiserver: %w: %w\n%s", ctx.Err(), lastErr, tail(c.path("kube-apiserver.log")))
			}
		}
	}
	return nil
}

// tail returns the end of a log, for errors.
func tail(path string) string {
	data, err := os.ReadFile(path) //nolint:gosec // G304: our folder
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}

// shared is the one control plane of a test binary.
var shared struct {
	sync.Mutex
	plane *ControlPlane
	err   error
}

// ForTest returns the control plane that all tests of a binary share, with Calico's and our CRDs and AuditAll. The first call
// starts it. The package needs a TestMain that calls Main, or it is cleaned up only as far as the kernel does it. Objects are the
// test's own to name apart and to clean up; a test that stops the apiserver should Start its own.
func ForTest(tb testing.TB) *ControlPlane {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.plane == nil && shared.err == nil {
		shared.plane, shared.err = startShared(tb.Context())
	}
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.plane
}

// Main is for TestMain: it runs the tests, stops what ForTest started, and ends the process.
func Main(m *testing.M) {
	code := m.Run()
	if err := StopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// StopShared stops what ForTest started, for a TestMain that has more to do than Main.
func StopShared() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.plane == nil {
		return nil
	}
	err := shared.plane.Stop()
	shared.plane = nil
	return err
}

func startShared(ctx context.Context) (*ControlPlane, error) {
	calico, err := CalicoCRDs(ctx)
	if err != nil {
		return nil, err
	}
	return Start(ctx, Options{Log: os.Stderr, Audit: AuditAll, CRDs: []string{calico, OwnCRDs()}})
}
