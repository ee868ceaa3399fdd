//go:build linux

package image

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// enter is what this program does inside a box: close it, drop everything, and become
// what is to run. It gives the exit code where that fails.
func enter(spec string) int {
	runtime.LockOSThread() // capabilities are a thread's
	var b box
	err := json.Unmarshal([]byte(spec), &b)
	if err == nil {
		err = b.close()
	}
	if err == nil {
		err = b.drop()
	}
	if err == nil {
		err = fmt.Errorf("running %q: %w", b.Args[0], syscall.Exec(b.Args[0], b.Args, b.Env))
	}
	fmt.Fprintln(os.Stderr, "box:", err)
	return 125
}

// mount is one that a box has.
type mount struct {
	from, to, kind string
	flags          uintptr
}

// close mounts what a container has, read-only, and leaves the host's files behind.
func (b *box) close() error {
	at := func(path string) string { return filepath.Join(b.Root, path) }
	mounts := []mount{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE},
		{b.Root, b.Root, "", unix.MS_BIND},
		{"proc", at("proc"), "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"/dev/null", at("dev/null"), "", unix.MS_BIND},
		{b.Secrets, at(secretsPath), "", unix.MS_BIND},
		{"", at(secretsPath), "", unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"", b.Root, "", unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV},
	}
	for _, m := range mounts {
		if err := unix.Mount(m.from, m.to, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mounting %q at %q (flags %#x): %w", m.from, m.to, m.flags, err)
		}
	}
	if err := unix.Sethostname([]byte(hostname)); err != nil {
		return fmt.Errorf("naming the container: %w", err)
	}
	if err := unix.Chdir(b.Root); err != nil {
		return fmt.Errorf("going to the root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving the old root: %w", err)
	}
	return unix.Chdir("/")
}

// drop gives up all that a pod of ours does not have: our user, groups and capabilities.
func (b *box) drop() error {
	if b.Groups {
		if err := unix.Setgroups(nil); err != nil {
			return fmt.Errorf("dropping groups: %w", err)
		}
	}
	if err := unix.Setresgid(b.GID, b.GID, b.GID); err != nil {
		return fmt.Errorf("becoming group %d: %w", b.GID, err)
	}
	if err := unix.Setresuid(b.UID, b.UID, b.UID); err != nil {
		return fmt.Errorf("becoming user %d: %w", b.UID, err)
	}
	for capability := range uintptr(unix.CAP_LAST_CAP + 1) {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil {
			return fmt.Errorf("dropping capability %d: %w", capability, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forgoing new privileges: %w", err)
	}
	none := [2]unix.CapUserData{}
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	// Another user than before is no longer tied to who started it.
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
}
