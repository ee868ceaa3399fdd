//go:build linux

package reflector

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/vishvananda/netlink"
)

// spareFiles is what a process has open besides its sessions.
const spareFiles = 200

// prepareHost gives loopback all addresses of the nodes, and this process and its children enough open files. Loopback needs no entries
// in the kernel's table of neighbours, which all namespaces share.
func prepareHost(clients int) error {
	if err := raiseFiles(uint64(clients + spareFiles)); err != nil { //nolint:gosec // G115: positive
		return err
	}
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("finding loopback: %w", err)
	}
	mask := net.CIDRMask(nodeNetwork.Bits(), 32)
	address := &netlink.Addr{IPNet: &net.IPNet{IP: reflectorAddress.AsSlice(), Mask: mask}}
	if err := netlink.AddrAdd(loopback, address); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("giving loopback the addresses %s: %w", nodeNetwork, err)
	}
	return nil
}

// raiseFiles raises the limit of open files. BIRD inherits it.
func raiseFiles(needed uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("reading the limit of open files: %w", err)
	}
	if limit.Max < needed {
		limit.Max = needed // root may
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("so many clients need %d open files, which this user may not have: raise the hard limit "+
			"(ulimit -Hn) or measure fewer clients: %w", needed, err)
	}
	return nil
}
