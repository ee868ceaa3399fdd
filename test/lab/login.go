//go:build linux

package lab

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
)

// StartOn starts a command on a node: in its network, and with its mounts. It ends with the node. The caller waits for it.
func (l *Lab) StartOn(name string, cmd *exec.Cmd) error {
	n, err := l.node(name)
	if err != nil {
		return fmt.Errorf("starting %q: %w", cmd.Path, err)
	}
	if err := n.space.start(cmd); err != nil {
		return fmt.Errorf("starting %q on node %q: %w", cmd.Path, name, err)
	}
	return nil
}

// MountOn shows a folder of this machine at a path of a node, and there only.
func (l *Lab) MountOn(name, folder, at string) error {
	n, err := l.node(name)
	if err != nil {
		return fmt.Errorf("mounting %q: %w", at, err)
	}
	err = n.space.enter(func() error {
		if err := os.MkdirAll(at, 0o755); err != nil { //nolint:gosec // G301: as a kubelet makes it
			return err
		}
		return syscall.Mount(folder, at, "", syscall.MS_BIND, "")
	})
	if err != nil {
		return fmt.Errorf("mounting %q on node %q: %w", at, name, err)
	}
	return nil
}

// ListenOn opens a port of a node to this process.
func (l *Lab) ListenOn(name, address string) (net.Listener, error) {
	n, err := l.node(name)
	if err != nil {
		return nil, fmt.Errorf("listening on %q: %w", address, err)
	}
	var listener net.Listener
	err = n.space.enter(func() error {
		listener, err = net.Listen("tcp", address)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listening on %q of node %q: %w", address, name, err)
	}
	return listener, nil
}
