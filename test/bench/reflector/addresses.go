package reflector

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

const (
	as        = 64512
	clusterID = "244.0.0.1"
	blockBits = 26
	blockSize = 1 << (32 - blockBits)
	// firstClient leaves the beginning of the node network to the reflector.
	firstClient = 256
	// MostClients is how many fit into the networks.
	MostClients = 1 << (blockBits - 12)
)

var (
	// nodeNetwork is local as a whole: every address in it is the loopback's.
	nodeNetwork = netip.MustParsePrefix("172.20.0.0/16")
	podNetwork  = netip.MustParsePrefix("10.240.0.0/12")
	// reflectorAddress is where BIRD listens.
	reflectorAddress = netip.MustParseAddr("172.20.0.1")
)

// clientAddress is the address of the client with this number.
func clientAddress(number int) netip.Addr { return nth(nodeNetwork.Addr(), firstClient+number) }

// block is what the client with this number announces.
func block(number int) netip.Prefix {
	return netip.PrefixFrom(nth(podNetwork.Addr(), number*blockSize), blockBits)
}

// owner is the number of the client that announces the block.
func owner(prefix netip.Prefix) (int, error) {
	if prefix.Bits() != blockBits || !podNetwork.Contains(prefix.Addr()) {
		return 0, fmt.Errorf("%s is nobody's", prefix)
	}
	return int(number(prefix.Addr())-number(podNetwork.Addr())) / blockSize, nil
}

func nth(base netip.Addr, n int) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], number(base)+uint32(n)) //nolint:gosec // G115: within our networks
	return netip.AddrFrom4(b)
}

func number(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

// owners is a set of clients, by number.
type owners []uint64

func noOwners(n int) owners { return make(owners, (n+63)/64) }

func (o owners) has(n int) bool { return o[n/64]&(1<<(n%64)) != 0 }
func (o owners) add(n int)      { o[n/64] |= 1 << (n % 64) }
func (o owners) remove(n int)   { o[n/64] &^= 1 << (n % 64) }
