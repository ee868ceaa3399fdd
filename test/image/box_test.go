//go:build linux

package image

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// boxVariable says to this program that it is inside a box, and what to run there.
const boxVariable = "RRPOOL_IMAGE_BOX"

// secretsPath is where a pod finds its service account.
const secretsPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// hostname is the pod's name.
const hostname = "rrpool-manager-0"

// box is a container: a root, and what runs in it as whom. It shares our network, so that
// the apiserver is at hand; everything else is its own.
type box struct {
	Root, Secrets string
	UID, GID      int
	Groups        bool // whether we may drop those that we are in
	Args, Env     []string
}

// randomID is one that no file of an image knows, as OpenShift gives to each namespace.
func randomID() int { return 1_000_000_000 + rand.IntN(1_000_000_000) }

// newBox makes the places to mount at, as a runtime does before it closes the root.
func newBox(t *testing.T, root, secrets string) *box {
	t.Helper()
	inside, err := os.OpenRoot(root)
	require.NoError(t, err)
	defer inside.Close() //nolint:errcheck // only a folder
	for _, dir := range []string{"proc", "dev", strings.TrimPrefix(secretsPath, "/")} {
		require.NoError(t, inside.MkdirAll(dir, 0o755))
	}
	null, err := inside.Create("dev/null")
	require.NoError(t, err)
	require.NoError(t, null.Close())
	return &box{Root: root, Secrets: secrets, UID: randomID(), GID: randomID()}
}

// contained is a program in a box.
type contained struct {
	cmd  *exec.Cmd
	log  *bytes.Buffer
	done chan error
}

// start runs what is in the box, as the first process of its own namespaces.
func (b *box) start() (*contained, error) {
	attributes, err := b.attributes()
	if err != nil {
		return nil, err
	}
	said, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	c := &contained{cmd: exec.Command("/proc/self/exe"), log: &bytes.Buffer{}, done: make(chan error, 1)}
	c.cmd.Env = []string{boxVariable + "=" + string(said)}
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	c.cmd.SysProcAttr = attributes
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the box dies with the thread that started it
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.done <- c.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("making a container's namespaces: %w", err)
	}
	return c, nil
}

// attributes map one user and one group into the box: a number of no meaning where we are
// root of the machine, and else ourselves under that number.
func (b *box) attributes() (*syscall.SysProcAttr, error) {
	mapped, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return nil, err
	}
	b.Groups = strings.Join(strings.Fields(string(mapped)), " ") == "0 0 4294967295" && os.Geteuid() == 0
	uid, gid := b.UID, b.GID
	if !b.Groups {
		uid, gid = os.Geteuid(), os.Getegid()
	}
	return &syscall.SysProcAttr{
		Cloneflags:                 unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		UidMappings:                []syscall.SysProcIDMap{{ContainerID: b.UID, HostID: uid, Size: 1}},
		GidMappings:                []syscall.SysProcIDMap{{ContainerID: b.GID, HostID: gid, Size: 1}},
		GidMappingsEnableSetgroups: b.Groups,
		AmbientCaps:                []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETPCAP},
		Pdeathsig:                  syscall.SIGKILL,
	}, nil
}

// status is what the kernel says of the program in the box, by name.
func (c *contained) status(t *testing.T) map[string]string {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	require.NoError(t, err)
	out := map[string]string{}
	for line := range strings.Lines(string(content)) {
		name, value, _ := strings.Cut(line, ":")
		out[name] = strings.Join(strings.Fields(value), " ")
	}
	return out
}
