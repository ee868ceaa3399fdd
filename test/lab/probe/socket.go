//go:build linux

package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// receiveBuffer is enough for the probes of a second in which the reader is not scheduled.
	receiveBuffer = 4 << 20
	// sendBuffer is enough for packets to neighbours that do not answer: some 200 KB for each.
	sendBuffer = 64 << 20
)

// errNoRoom: a packet was not sent because the socket's buffer was full.
var errNoRoom = errors.New("no room in the socket's buffer")

// socket is a UDP socket in some network namespace.
type socket struct {
	*net.UDPConn
	raw     syscall.RawConn
	address netip.AddrPort
}

// received is one packet, and the kernel's time of its arrival, as the reader may be scheduled later. dropped counts the packets that the full
// socket has dropped until then.
type received struct {
	packet  []byte
	from    netip.AddrPort
	came    time.Time
	dropped uint32
}

// listen opens a socket in the network namespace of the calling thread. Port 0 is any.
func listen(address netip.AddrPort) (*socket, error) {
	network := "udp4"
	if address.Addr().Is6() {
		network = "udp6"
	}
	conn, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(address))
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", address, err)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	var optionErr error
	err = raw.Control(func(fd uintptr) {
		set := func(option, value int) error { return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, option, value) }
		if set(unix.SO_RCVBUFFORCE, receiveBuffer) != nil || set(unix.SO_SNDBUFFORCE, sendBuffer) != nil {
			// Without privileges on the host: as much as is permitted.
			_, _ = set(unix.SO_RCVBUF, receiveBuffer), set(unix.SO_SNDBUF, sendBuffer)
		}
		optionErr = errors.Join(set(unix.SO_TIMESTAMPNS, 1), set(unix.SO_RXQ_OVFL, 1))
	})
	if err = errors.Join(err, optionErr); err != nil {
		return nil, errors.Join(fmt.Errorf("setting up the socket: %w", err), conn.Close())
	}
	return &socket{UDPConn: conn, raw: raw, address: conn.LocalAddr().(*net.UDPAddr).AddrPort()}, nil //nolint:forcetypeassert // of a UDPConn
}

// send sends a packet without blocking.
func (s *socket) send(packet []byte, to netip.AddrPort) error {
	var target unix.Sockaddr = &unix.SockaddrInet6{Addr: to.Addr().As16(), Port: int(to.Port())}
	if to.Addr().Is4() {
		target = &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}
	}
	var sendErr error
	err := s.raw.Write(func(fd uintptr) bool {
		sendErr = unix.Sendto(int(fd), packet, unix.MSG_DONTWAIT, target)
		return true
	})
	if errors.Is(sendErr, unix.EAGAIN) || errors.Is(sendErr, unix.ENOBUFS) {
		return errNoRoom
	}
	return errors.Join(err, sendErr)
}

func (s *socket) read(buffer, control []byte) (received, error) {
	n, controlled, _, from, err := s.ReadMsgUDPAddrPort(buffer, control)
	if err != nil {
		return received{}, err
	}
	now := time.Now()
	got := received{packet: buffer[:n], from: netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), came: now}
	messages, err := unix.ParseSocketControlMessage(control[:controlled])
	if err != nil {
		return received{}, fmt.Errorf("reading when a packet came: %w", err)
	}
	for _, m := range messages {
		switch {
		case m.Header.Level != unix.SOL_SOCKET:
		case m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16:
			seconds, nanoseconds := binary.NativeEndian.Uint64(m.Data), binary.NativeEndian.Uint64(m.Data[8:])
			got.came = now.Add(-now.Sub(time.Unix(int64(seconds), int64(nanoseconds)))) //nolint:gosec // G115: the kernel's time
		case m.Header.Type == unix.SO_RXQ_OVFL && len(m.Data) >= 4:
			got.dropped = binary.NativeEndian.Uint32(m.Data)
		}
	}
	return got, nil
}

// unread reports whether received packets are not read yet. A closed socket, or nil, has none.
func (s *socket) unread() bool {
	if s == nil {
		return false
	}
	waiting := 0
	err := s.raw.Control(func(fd uintptr) { waiting, _ = unix.IoctlGetInt(int(fd), unix.SIOCINQ) })
	return err == nil && waiting > 0
}
