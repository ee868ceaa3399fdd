//go:build linux

package image

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

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
