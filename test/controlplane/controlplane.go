// Package controlplane runs a real etcd and kube-apiserver, for tests and for the demonstration, both built from their Go modules. No controllers
// run: default service accounts are not created, nodes are not marked Ready, and garbage is not collected.
package controlplane

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/rrpool/rrpool/test/programs"
)

const loopback = "127.0.0.1"

// readyTimeout is how long the apiserver may take to be ready.
const readyTimeout = 4 * time.Minute

// Options configure a control plane. The zero value is for tests on loopback.
type Options struct {
	// Dir keeps the certificate, data and logs. Default: a temporary folder that Stop removes.
	Dir string
	// Host is the address that clients use, and that the certificate is for. If set, the apiserver listens on all addresses. Default: 127.0.0.1.
	Host string
	// AuditReads: reads are recorded, for Requests. Writes always are.
	AuditReads bool
	// CRDs are folders of CustomResourceDefinitions to install. Folders that do not exist are skipped.
	CRDs []string
	// APIServerFlags are further flags of the apiserver.
	APIServerFlags []string
}

// ControlPlane is a running etcd and kube-apiserver with RBAC.
type ControlPlane struct {
	options   Options
	temporary bool
	port      string // the apiserver's
	etcdURL   string
	admin     *rest.Config
	etcd      *Process
	apiserver *Process
	sockets   []int // each reserves a port
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
	return InstallCRDs(c.admin, c.options.CRDs...)
}

// complete fills in every default.
func (c *ControlPlane) complete(ctx context.Context) (err error) {
	o := &c.options
	if err := programs.Build(ctx, os.Stderr, "etcd", "kube-apiserver"); err != nil {
		return fmt.Errorf("preparing the control plane: %w", err)
	}
	if c.port, err = c.holdPort(); err != nil {
		return err
	}
	o.Host = cmp.Or(o.Host, loopback)
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "rrpool-controlplane-"); err != nil {
			return fmt.Errorf("making a folder: %w", err)
		}
		c.temporary = true
	}
	return nil
}

// holdPort returns a TCP port on loopback that is reserved until Stop: another process could take a free port before the server listens, or while
// it restarts. The port is bound to a socket that does not listen, so the kernel assigns it to no other process, and a server with SO_REUSEPORT
// can listen there.
func (c *ControlPlane) holdPort() (string, error) {
	socket, err := newSocket()
	if err == nil {
		c.sockets = append(c.sockets, socket)
		err = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}
	if err == nil {
		err = unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	var address unix.Sockaddr
	if err == nil {
		address, err = unix.Getsockname(socket)
	}
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	return strconv.Itoa(address.(*unix.SockaddrInet4).Port), nil //nolint:forcetypeassert // as it was bound
}

// newSocket returns a socket that child processes do not inherit: they would hold the port after Stop.
func newSocket() (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(socket)
	}
	return socket, err
}

func (c *ControlPlane) writeFiles() error {
	names := []string{"localhost", "kubernetes.default.svc"}
	certificates, key, err := cert.GenerateSelfSignedCertKey(c.options.Host, []net.IP{net.ParseIP(loopback)}, names)
	if err != nil {
		return fmt.Errorf("making the apiserver's certificate: %w", err)
	}
	signing, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return fmt.Errorf("making the service account key: %w", err)
	}
	token := rand.Text()
	for name, content := range map[string][]byte{
		"apiserver.crt": certificates, "apiserver.key": key, "service-account.key": signing,
		"tokens.csv": []byte(token + ",admin,admin,system:masters\n"), "audit-policy.yaml": []byte(auditPolicy(c.options.AuditReads)),
	} {
		if err := os.WriteFile(c.path(name), content, 0o600); err != nil {
			return fmt.Errorf("writing %q: %w", name, err)
		}
	}
	c.admin = &rest.Config{
		Host: "https://" + net.JoinHostPort(c.options.Host, c.port), BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: certificates},
		QPS: -1, // no limit
	}
	return nil
}

func (c *ControlPlane) startEtcd() error {
	client, err := c.holdPort()
	if err != nil {
		return err
	}
	peer, err := c.holdPort()
	if err != nil {
		return err
	}
	c.etcdURL = "http://127.0.0.1:" + client
	peerURL, listen := "http://127.0.0.1:"+peer, c.etcdURL
	if c.options.Host != loopback {
		listen = "http://0.0.0.0:" + client
	}
	c.etcd, err = c.run("etcd", "--data-dir="+c.path("etcd"), "--unsafe-no-fsync", "--log-level=warn", "--socket-reuse-port",
		"--listen-client-urls="+listen, "--advertise-client-urls="+c.etcdURL,
		"--listen-peer-urls="+peerURL, "--initial-advertise-peer-urls="+peerURL, "--initial-cluster=default="+peerURL)
	return err
}

func (c *ControlPlane) run(program string, args ...string) (*Process, error) {
	return StartProcess(exec.Command(programs.Path(program), args...), c.path(program+".log"), nil) //nolint:gosec // G204: built by us
}

// StartAPIServer starts the apiserver after KillAPIServer, at the same address and with the same users, and waits until it is ready.
func (c *ControlPlane) StartAPIServer(ctx context.Context) (err error) {
	if c.apiserver, err = c.run("kube-apiserver", c.apiserverFlags()...); err != nil {
		return err
	}
	return c.waitReady(ctx)
}

// EtcdURL returns the URL of etcd, which may hold Calico's own objects too.
func (c *ControlPlane) EtcdURL() string {
	return strings.Replace(c.etcdURL, loopback, c.options.Host, 1)
}

// KillAPIServer kills the apiserver; etcd keeps the data.
func (c *ControlPlane) KillAPIServer() { c.apiserver.Kill() }

// PauseEtcd suspends etcd, as a disk that hangs does: the apiserver runs on without its data.
func (c *ControlPlane) PauseEtcd() error { return c.etcd.Signal(syscall.SIGSTOP) }

// ResumeEtcd undoes PauseEtcd.
func (c *ControlPlane) ResumeEtcd() error { return c.etcd.Signal(syscall.SIGCONT) }

// Stop ends both processes and removes a temporary folder. It may be called again.
func (c *ControlPlane) Stop() error {
	c.apiserver.Kill()
	if c.etcd.Running() {
		_ = c.etcd.Signal(syscall.SIGCONT) // a suspended process cannot end in order
		_ = c.etcd.Stop(syscall.SIGTERM)
	}
	var errs []error
	for _, socket := range c.sockets {
		errs = append(errs, unix.Close(socket))
	}
	c.sockets = nil
	if c.temporary {
		errs = append(errs, os.RemoveAll(c.options.Dir))
	}
	return errors.Join(errs...)
}

func (c *ControlPlane) path(name string) string { return filepath.Join(c.options.Dir, name) }

func (c *ControlPlane) apiserverFlags() []string {
	o := c.options
	listen, advertise := loopback, []string{"--advertise-address=192.0.2.1", "--endpoint-reconciler-type=none"}
	if o.Host != loopback {
		// In a network namespace without a default route the apiserver cannot guess what to advertise.
		listen, advertise = "0.0.0.0", []string{"--advertise-address=" + o.Host}
	}
	flags := []string{
		"--etcd-servers=" + c.etcdURL, "--bind-address=" + listen, "--secure-port=" + c.port, "--permit-port-sharing",
		"--cert-dir=" + o.Dir, "--audit-policy-file=" + c.path("audit-policy.yaml"), "--audit-log-path=" + c.path("audit.log"), "--audit-log-mode=blocking",
		"--audit-log-maxsize=100000", // in MB, so large that the log is never rotated
		"--tls-cert-file=" + c.path("apiserver.crt"), "--tls-private-key-file=" + c.path("apiserver.key"),
		"--token-auth-file=" + c.path("tokens.csv"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + c.path("service-account.key"),
		"--service-account-signing-key-file=" + c.path("service-account.key"),
		"--service-cluster-ip-range=10.255.0.0/24", "--authorization-mode=RBAC", "--allow-privileged=true",
		// No controller creates default service accounts, or removes the not-ready taint of new nodes.
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
	}
	return slices.Concat(flags, advertise, o.APIServerFlags)
}

// waitReady waits until the apiserver is ready and has created the system namespaces.
func (c *ControlPlane) waitReady(ctx context.Context) error {
	client, err := discovery.NewDiscoveryClientForConfig(c.admin)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	for _, path := range []string{"/readyz", "/api/v1/namespaces/kube-system", "/api/v1/namespaces/default"} {
		var last error
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, readyTimeout, true, func(ctx context.Context) (bool, error) {
			if !c.apiserver.Running() {
				return false, errors.New("it ended by itself")
			}
			last = client.RESTClient().Get().AbsPath(path).Do(ctx).Error()
			return last == nil, nil
		})
		if err != nil {
			return fmt.Errorf("waiting for kube-apiserver: %w\n%s", errors.Join(err, last), Tail(c.path("kube-apiserver.log")))
		}
	}
	return nil
}

// shared is the control plane of ForTest.
var shared struct {
	start sync.Once
	plane *ControlPlane
	err   error
}

// ForTest returns the control plane that all tests of a binary share, with Calico's and rrpool's CRDs and AuditReads. The first call starts it.
// The package needs a TestMain that calls Main, which stops it. Tests must give their objects distinct names and delete them; a test that stops
// the apiserver should Start its own.
func ForTest(tb testing.TB) *ControlPlane {
	tb.Helper()
	shared.start.Do(func() {
		var calico string
		if calico, shared.err = CalicoCRDs(tb.Context()); shared.err == nil {
			shared.plane, shared.err = Start(tb.Context(), Options{AuditReads: true, CRDs: []string{calico, OwnCRDs()}})
		}
	})
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

// StopShared stops what ForTest started, for a TestMain that does not call Main.
func StopShared() error {
	if shared.plane == nil {
		return nil
	}
	return shared.plane.Stop()
}

// AdminConfig returns a copy of the configuration of a user who may do everything, without a client-side rate limit.
func (c *ControlPlane) AdminConfig() *rest.Config { return rest.CopyConfig(c.admin) }

// UserConfig returns a configuration with which the admin acts as a user with these groups, and may do only what RBAC grants that user.
func (c *ControlPlane) UserConfig(user string, groups ...string) *rest.Config {
	config := rest.CopyConfig(c.admin)
	config.QPS, config.Burst = 0, 0 // client-go's default limits
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return config
}

// ServiceAccountConfig returns a configuration with the user name and groups of a service account. The ServiceAccount object need not exist.
func (c *ControlPlane) ServiceAccountConfig(namespace, name string) *rest.Config {
	return c.UserConfig(ServiceAccountUser(namespace, name), "system:serviceaccounts", "system:serviceaccounts:"+namespace)
}

// ServiceAccountUser returns the user name of a service account in audit events.
func ServiceAccountUser(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

// WriteKubeconfig writes a configuration to a kubeconfig file that only its owner may read.
func WriteKubeconfig(path string, config *rest.Config) error {
	const name = "rrpool"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{
		Token: config.BearerToken, Impersonate: config.Impersonate.UserName, ImpersonateGroups: config.Impersonate.Groups,
	}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	return clientcmd.WriteToFile(*file, path)
}
