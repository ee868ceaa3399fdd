//go:build linux

package probe

import (
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
	})
	if err = errors.Join(err, optionErr); err != nil {
		return nil, errors.Join(fmt.Errorf("setting up the socket: %w", err), conn.Close())
	}
	return conn, nil
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
