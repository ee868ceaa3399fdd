//go:build linux

package image

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/test/controlplane"
)

const (
	// secretsPath is where a pod finds its service account.
	secretsPath = "/var/run/secrets/kubernetes.io/serviceaccount"
	// hostname is the pod's name.
	hostname = "rrpool-manager-0"
)

// box is a container: a root, and who runs in it. It shares our network, so that the apiserver is at hand.
type box struct {
	root     string
	uid, gid int
	// asRoot: we are root of the machine, so that the user is a real one and the capabilities can be dropped; else the user is ourselves
	// under that number, in a user namespace.
	asRoot bool
}

// newBox mounts what a container has, read-only. The user and the group are such as no file of an image knows, as OpenShift gives to each
// namespace. The mounts are in the namespace of lab.Main.
func newBox(t *testing.T, root, secrets string) *box {
	t.Helper()
	mapped, err := os.ReadFile("/proc/self/uid_map")
	require.NoError(t, err)
	b := &box{root: t.TempDir(), uid: 1_000_000_000 + rand.IntN(1_000_000_000), gid: 1_000_000_000 + rand.IntN(1_000_000_000)}
	b.asRoot = strings.Join(strings.Fields(string(mapped)), " ") == "0 0 4294967295" && os.Geteuid() == 0
	for _, dir := range []string{"proc", "dev", secretsPath} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, "dev", "null"), nil, 0o600))
	at := func(path string) string { return filepath.Join(b.root, path) }
	for _, m := range []struct {
		from, to string
		flags    uintptr
	}{
		{root, b.root, unix.MS_BIND},
		{"/proc", at("proc"), unix.MS_BIND | unix.MS_REC},
		{"/dev/null", at("dev/null"), unix.MS_BIND},
		{secrets, at(secretsPath), unix.MS_BIND},
		{"", at(secretsPath), unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"", b.root, unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV},
	} {
		require.NoError(t, unix.Mount(m.from, m.to, "", m.flags, ""), "%+v", m)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(b.root, unix.MNT_DETACH)) })
	return b
}

// start runs a program as the first process of its own namespace. What it says is in the file.
func (b *box) start(command, env []string, log string) (*controlplane.Process, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Env = "/", env
	return controlplane.StartProcess(cmd, log, func(start func() error) error {
		runtime.LockOSThread() // never unlocked: the box dies with the thread that started it, and has its name and its limits
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Chroot: b.root, Pdeathsig: syscall.SIGKILL, Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWIPC,
			Credential: &syscall.Credential{Uid: uint32(b.uid), Gid: uint32(b.gid), NoSetGroups: !b.asRoot},
		}
		if !b.asRoot {
			cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: b.uid, HostID: os.Geteuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: b.gid, HostID: os.Getegid(), Size: 1}}
		}
		if err := confine(); err != nil {
			return err
		}
		return start()
	})
}

// confine limits what a program that this thread starts can have, as the Deployment says it.
func confine() error {
	if err := unix.Unshare(unix.CLONE_NEWUTS); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(hostname)); err != nil {
		return err
	}
	for capability := range uintptr(unix.CAP_LAST_CAP + 1) {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil {
			return err
		}
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// status is what the kernel says of a process, by name.
func status(t *testing.T, pid int) map[string]string {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	out := map[string]string{}
	for line := range strings.Lines(string(content)) {
		name, value, _ := strings.Cut(line, ":")
		out[name] = strings.Join(strings.Fields(value), " ")
	}
	return out
}

const (
	namespace = "rrpool-system"
	scraper   = "prometheus"
)

// cluster is one that the manager is installed in, as config says.
type cluster struct {
	plane      *controlplane.ControlPlane
	client     *kubernetes.Clientset
	deployment appsv1.Deployment
	secrets    string // the folder that the kubelet mounts
}

func repository(elements ...string) string {
	return filepath.Join(append([]string{"..", ".."}, elements...)...)
}

// install applies config/rbac, and reads config/manager.
func install(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{plane: controlplane.ForTest(t)}
	var err error
	c.client, err = kubernetes.NewForConfig(c.plane.AdminConfig())
	require.NoError(t, err)
	admin, err := client.New(c.plane.AdminConfig(), client.Options{})
	require.NoError(t, err)
	for _, path := range []string{"manager/namespace.yaml", "rbac/service_account.yaml", "rbac/role.yaml", "rbac/bindings.yaml", "rbac/metrics_reader.yaml"} {
		path = repository("config", path)
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		objects, err := controlplane.Objects(content)
		require.NoError(t, err, path)
		for _, o := range objects {
			require.NoError(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), o)), path)
		}
	}
	content, err := os.ReadFile(repository("config", "manager", "deployment.yaml"))
	require.NoError(t, err)
	require.NoError(t, sigsyaml.UnmarshalStrict(content, &c.deployment))
	for _, o := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: scraper}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: scraper},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "rrpool-metrics-reader"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: scraper}},
		},
	} {
		require.NoError(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), o)))
	}
	c.secrets = t.TempDir()
	for name, content := range map[string]string{
		"ca.crt": string(c.plane.AdminConfig().CAData), "namespace": namespace,
		"token": c.token(t, c.deployment.Spec.Template.Spec.ServiceAccountName),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(c.secrets, name), []byte(content), 0o644))
	}
	require.NoError(t, os.Chmod(c.secrets, 0o755))
	return c
}

// token is one that the apiserver issues to a service account, as it does for a pod.
func (c *cluster) token(t *testing.T, account string) string {
	t.Helper()
	granted, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return granted.Status.Token
}

// container is the manager's; what the kubelet would have to do for it and this test does not is a failure.
func (c *cluster) container(t *testing.T) corev1.Container {
	t.Helper()
	pod := c.deployment.Spec.Template.Spec
	require.Len(t, pod.Containers, 1)
	require.Empty(t, pod.InitContainers)
	require.Empty(t, pod.Volumes)
	manager := pod.Containers[0]
	require.Empty(t, manager.Command, "the image says what runs")
	require.True(t, *manager.SecurityContext.ReadOnlyRootFilesystem)
	require.Equal(t, []corev1.Capability{"ALL"}, manager.SecurityContext.Capabilities.Drop)
	return manager
}

func (c contents) command(manager corev1.Container) []string {
	return slices.Concat(c.config.Config.Entrypoint, manager.Args)
}

// environment is the image's, the pod's, and what every container finds of the cluster.
func (c *cluster) environment(t *testing.T, image contents, manager corev1.Container) []string {
	t.Helper()
	server, err := url.Parse(c.plane.AdminConfig().Host)
	require.NoError(t, err)
	env := append([]string{"HOSTNAME=" + hostname}, image.config.Config.Env...)
	env = append(env, "KUBERNETES_SERVICE_HOST="+server.Hostname(), "KUBERNETES_SERVICE_PORT="+server.Port())
	for _, v := range manager.Env {
		value := v.Value
		if v.ValueFrom != nil {
			require.Equal(t, "metadata.namespace", v.ValueFrom.FieldRef.FieldPath, v.Name)
			value = c.deployment.Namespace
		}
		env = append(env, v.Name+"="+value)
	}
	return env
}

func (c *cluster) leader(ctx context.Context) (string, error) {
	lease, err := c.client.CoordinationV1().Leases(namespace).Get(ctx, "rrpool-manager", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return "", err
	}
	return *lease.Spec.HolderIdentity, nil
}
