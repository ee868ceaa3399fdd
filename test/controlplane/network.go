package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"syscall"

	"golang.org/x/sys/unix"
)

// port is a TCP port on loopback that nobody else gets as long as it is held. One that is merely free now would be
// anybody's until its server listens, which takes an apiserver seconds, and again whenever that is restarted.
type port struct {
	number int
	socket int
}

// holdPort finds a port and holds it: bound, so that the kernel gives it to nobody, and not listening, so that no
// connection comes here. A server that shares its port (SO_REUSEPORT) can listen there.
func holdPort() (*port, error) {
	socket, err := newSocket()
	if err != nil {
		return nil, fmt.Errorf("finding a free port: %w", err)
	}
	p := &port{socket: socket}
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return nil, errors.Join(fmt.Errorf("sharing a port: %w", err), p.release())
	}
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return nil, errors.Join(fmt.Errorf("finding a free port: %w", err), p.release())
	}
	address, err := unix.Getsockname(socket)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("finding a free port: %w", err), p.release())
	}
	p.number = address.(*unix.SockaddrInet4).Port //nolint:forcetypeassert // as it was bound
	return p, nil
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

// release lets others have the port.
func (p *port) release() error { return unix.Close(p.socket) }

// get succeeds when the URL answers 200.
func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("asking %q: %w", url, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("asking %q: %w", url, err)
	}
	if err := response.Body.Close(); err != nil {
		return fmt.Errorf("asking %q: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(url + " answers " + response.Status)
	}
	return nil
}
