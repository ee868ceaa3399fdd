//go:build linux

package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// listen opens a raw ICMP socket that receives echo replies only, in the network namespace of the calling thread.
func listen(address netip.Addr) (*net.IPConn, error) {
	conn, err := net.ListenIP("ip4:icmp", &net.IPAddr{IP: address.AsSlice()})
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", address, err)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	var optionErr error
	err = raw.Control(func(fd uintptr) {
		const icmpFilter, echoReplyOnly = 1, ^1
		optionErr = unix.SetsockoptInt(int(fd), unix.SOL_RAW, icmpFilter, echoReplyOnly)
		if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
			// Without privileges on the host: as much as it lets everyone have.
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
		}
		optionErr = errors.Join(optionErr, unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1))
	})
	if err = errors.Join(err, optionErr); err != nil {
		return nil, errors.Join(fmt.Errorf("setting up the socket: %w", err), conn.Close())
	}
	return conn, nil
}

// read waits for a packet, and tells when it came, by the kernel. That may be long ago: a reader waits for the CPU like anybody else.
func read(conn *net.IPConn, buffer, control []byte) (packet []byte, came time.Time, err error) {
	n, controlled, _, _, err := conn.ReadMsgIP(buffer, control)
	if err != nil {
		return nil, time.Time{}, err
	}
	now := time.Now()
	came = now
	messages, err := unix.ParseSocketControlMessage(control[:controlled])
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("reading when a packet came: %w", err)
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16 {
			seconds, nanoseconds := binary.NativeEndian.Uint64(m.Data), binary.NativeEndian.Uint64(m.Data[8:])
			came = now.Add(-now.Sub(time.Unix(int64(seconds), int64(nanoseconds)))) //nolint:gosec // G115: the kernel's time
		}
	}
	header := 0
	if n > 0 {
		header = int(buffer[0]&0x0f) * 4
	}
	return buffer[min(header, n):n], came, nil
}

// unread tells whether packets have come that nobody has read. Of a socket that is closed there are none.
func unread(conn *net.IPConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	waiting := 0
	err = raw.Control(func(fd uintptr) { waiting, _ = unix.IoctlGetInt(int(fd), unix.SIOCINQ) })
	return err == nil && waiting > 0
}

// sleep lets the kernel wake this very thread. A timer of Go's is seen by whichever thread looks first, and that one may have to wait
// for the CPU, which the sender's never has to.
func sleep(duration time.Duration) {
	left := unix.NsecToTimespec(int64(duration))
	for errors.Is(unix.Nanosleep(&left, &left), unix.EINTR) {
	}
}

// raisePriority keeps the calling goroutine on a thread that the kernel prefers, where it lets us: a sender that is not scheduled
// sees no loss. The thread ends with the goroutine.
func raisePriority() error {
	runtime.LockOSThread()
	return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 5}, 0)
}
