// Package controlplane runs a real etcd and kube-apiserver, for tests and for the demonstration, both built from their Go modules.
// No controllers run: default service accounts are not created, nodes are not marked Ready, and garbage is not collected.
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

// readyTimeout is how long the apiserver may take to answer; a loaded two-core machine needs a fraction of it.
const readyTimeout = 4 * time.Minute

// Options say how to run a control plane. The zero value is right for tests on loopback.
type Options struct {
	// Dir keeps the certificate, data and logs. Default: a temporary folder that Stop removes.
	Dir string
	// Host is the address that clients use, and that the certificate names; the apiserver listens on all. Default: 127.0.0.1, and there only.
	Host string
	// AuditReads records reads for Requests. Writes are recorded in any case.
	AuditReads bool
	// CRDs are folders of CustomResourceDefinitions to install. Folders that do not exist are skipped.
	CRDs []string
	// APIServerFlags are passed on, last.
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
	sockets   []int // that hold ports
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

// holdPort gives a TCP port on loopback that no other process gets until Stop. One that is merely free now could be taken before its server
// listens, which takes an apiserver seconds, and again whenever that is restarted. It is bound, so that the kernel gives it to no other
// process, and not listening, so that no connection comes here. A server that shares its port (SO_REUSEPORT) can listen there.
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

// newSocket makes one that no child inherits: a child would hold the port longer than we do.
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
		QPS: -1, // no limit on our side
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

// EtcdURL is where etcd listens, for Calico's objects as well where they are not in the apiserver.
func (c *ControlPlane) EtcdURL() string {
	return strings.Replace(c.etcdURL, loopback, c.options.Host, 1)
}

// KillAPIServer takes the API away as a crash does; etcd keeps the data.
func (c *ControlPlane) KillAPIServer() { c.apiserver.Kill() }

// PauseEtcd lets etcd stand still, as on a disk that hangs: the apiserver runs on, and answers nothing that needs its data.
func (c *ControlPlane) PauseEtcd() error { return c.etcd.Signal(syscall.SIGSTOP) }

// ResumeEtcd lets etcd go on after PauseEtcd.
func (c *ControlPlane) ResumeEtcd() error { return c.etcd.Signal(syscall.SIGCONT) }

// Stop ends both processes and removes the folder when it was a temporary one. It is safe to call again.
func (c *ControlPlane) Stop() error {
	c.apiserver.Kill()
	if c.etcd.Running() {
		_ = c.etcd.Signal(syscall.SIGCONT) // else it could not end in order
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
		"--audit-log-maxsize=100000", // in MB: what is rotated would not be counted
		"--tls-cert-file=" + c.path("apiserver.crt"), "--tls-private-key-file=" + c.path("apiserver.key"),
		"--token-auth-file=" + c.path("tokens.csv"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + c.path("service-account.key"),
		"--service-account-signing-key-file=" + c.path("service-account.key"),
		"--service-cluster-ip-range=10.255.0.0/24", "--authorization-mode=RBAC", "--allow-privileged=true",
		// Without controllers there are no default service accounts, and new nodes would keep the not-ready taint.
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
	}
	return slices.Concat(flags, advertise, o.APIServerFlags)
}

// waitReady waits until the apiserver calls itself ready and has made the namespaces that every cluster has.
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

// shared is the one control plane of a test binary.
var shared struct {
	start sync.Once
	plane *ControlPlane
	err   error
}

// ForTest returns the control plane that all tests of a binary share, with Calico's and our CRDs and AuditReads. The first call
// starts it. The package needs a TestMain that calls Main, or it is cleaned up only as far as the kernel does it. Objects are the
// test's own to name apart and to clean up; a test that stops the apiserver should Start its own.
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

// StopShared stops what ForTest started, for a TestMain that has more to do than Main.
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
	config.QPS, config.Burst = 0, 0 // the limits that clients have by themselves
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return config
}

// ServiceAccountConfig returns a configuration that the apiserver takes for the service account's own: the same
// user name and groups as its token would give. The ServiceAccount object need not exist.
func (c *ControlPlane) ServiceAccountConfig(namespace, name string) *rest.Config {
	return c.UserConfig(ServiceAccountUser(namespace, name), "system:serviceaccounts", "system:serviceaccounts:"+namespace)
}

// ServiceAccountUser is the user name of a service account, as audit events have it.
func ServiceAccountUser(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

// WriteKubeconfig writes a configuration of ours to a kubeconfig file that only its owner may read.
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
