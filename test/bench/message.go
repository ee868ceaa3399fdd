//go:build linux

package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
)

// The clients only have to know which prefixes they are sent. A library would decode every attribute of millions of routes on the
// cores that BIRD is measured on.

// The types of messages, RFC 4271.
const (
	typeOpen         = 1
	typeUpdate       = 2
	typeNotification = 3
	typeKeepalive    = 4
)

const (
	headerSize     = 19
	largestMessage = 4096 // without the capability for extended messages, which Calico does not switch on
	holdTime       = 240  // seconds, BIRD's default; Calico sets none
	restartTime    = 120  // seconds, BIRD's default for graceful restart
	pathBytes      = 4    // size of the path ID before each prefix with ADD-PATH (RFC 7911)

	as        = 64512
	clusterID = "244.0.0.1"
	blockBits = 26
	// firstClient leaves the beginning of the node network to the reflector.
	firstClient = 256
	// mostClients is how many fit into the networks.
	mostClients = 1 << (blockBits - 12)
)

var (
	// nodeNetwork is local as a whole: every address in it is the loopback's.
	nodeNetwork      = netip.MustParsePrefix("172.20.0.0/16")
	podNetwork       = netip.MustParsePrefix("10.240.0.0/12")
	reflectorAddress = netip.MustParseAddr("172.20.0.1")

	keepalive = message(typeKeepalive, nil)
	// endOfRIB is an empty UPDATE. A BIRD that has restarted sends nothing before it has everyone's.
	endOfRIB = message(typeUpdate, make([]byte, 4))
	errShort = errors.New("the message ends early")
)

// clientAddress is the address of a client.
func clientAddress(number int) netip.Addr { return nth(nodeNetwork.Addr(), firstClient+number) }

// block is what a client announces.
func block(number int) netip.Prefix {
	return netip.PrefixFrom(nth(podNetwork.Addr(), number<<(32-blockBits)), blockBits)
}

// owner is the number of the client that announces the block.
func owner(prefix netip.Prefix) (int, error) {
	if prefix.Bits() != blockBits || !podNetwork.Contains(prefix.Addr()) {
		return 0, fmt.Errorf("no client announces %s", prefix)
	}
	return int(number(prefix.Addr())-number(podNetwork.Addr())) >> (32 - blockBits), nil
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

func message(kind byte, body []byte) []byte {
	m := slices.Repeat([]byte{0xff}, 16)
	m = binary.BigEndian.AppendUint16(m, uint16(headerSize+len(body))) //nolint:gosec // G115: our own short messages
	return append(append(m, kind), body...)
}

// open has the capabilities of a Calico node's BIRD, in its order. A client that comes back says that it has restarted and still
// forwards, as bird -R does.
func open(id netip.Addr, restarted bool) []byte {
	restart, forwarding := uint16(restartTime), byte(0)
	if restarted {
		restart, forwarding = restart|0x8000, 0x80
	}
	capabilities := []byte{
		1, 4, 0, 1, 0, 1, // IPv4 unicast
		2, 0, // route refresh
		64, 6, byte(restart >> 8), byte(restart), 0, 1, 1, forwarding, // graceful restart
		65, 4, 0, 0, as >> 8, as & 0xff, // AS numbers of 4 bytes
		69, 4, 0, 1, 1, 3, // ADD-PATH, send and receive
		70, 0, // enhanced route refresh
	}
	body := append([]byte{4, as >> 8, as & 0xff, 0, holdTime}, id.AsSlice()...)
	body = append(body, byte(len(capabilities)+2), 2, byte(len(capabilities))) //nolint:gosec // G115: some 40 bytes
	return message(typeOpen, append(body, capabilities...))
}

// announce is a node's own block: origin IGP, no AS path, itself as the next hop, local preference 100, one path.
func announce(block netip.Prefix, nextHop netip.Addr) []byte {
	attributes := append([]byte{0x40, 1, 1, 0, 0x40, 2, 0, 0x40, 3, 4}, nextHop.AsSlice()...)
	attributes = append(attributes, 0x40, 5, 4, 0, 0, 0, 100)
	body := append([]byte{0, 0, 0, byte(len(attributes))}, attributes...) //nolint:gosec // G115: some 20 bytes
	body = append(body, 0, 0, 0, 1, byte(block.Bits()))                   //nolint:gosec // G115: at most 32
	return message(typeUpdate, append(body, block.Addr().AsSlice()[:(block.Bits()+7)/8]...))
}

// read returns the next message. Its body is valid until the next call. The reader's buffer must hold the largest message.
func read(r *bufio.Reader) (kind byte, body []byte, err error) {
	header, err := r.Peek(headerSize)
	if err != nil {
		return 0, nil, err
	}
	kind, size := header[18], int(binary.BigEndian.Uint16(header[16:]))
	if size < headerSize || size > largestMessage {
		return 0, nil, fmt.Errorf("a message of %d bytes", size)
	}
	whole, err := r.Peek(size)
	if err != nil {
		return 0, nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	_, err = r.Discard(size)
	return kind, whole[headerSize:], err
}

// split finds the withdrawn and the announced prefixes in an UPDATE.
func split(body []byte) (withdrawn, announced []byte, err error) {
	if withdrawn, body, err = sized(body); err != nil {
		return nil, nil, err
	}
	_, announced, err = sized(body)
	return withdrawn, announced, err
}

// sized cuts a field off that begins with its length in two bytes.
func sized(body []byte) (field, rest []byte, err error) {
	if len(body) < 2 || len(body) < 2+int(binary.BigEndian.Uint16(body)) {
		return nil, nil, errShort
	}
	end := 2 + int(binary.BigEndian.Uint16(body))
	return body[2:end], body[end:], nil
}

// each calls do for every prefix of a list with path IDs.
func each(list []byte, do func(netip.Prefix) error) error {
	for len(list) > 0 {
		if len(list) < pathBytes+1 {
			return errShort
		}
		bits := int(list[pathBytes])
		end := pathBytes + 1 + (bits+7)/8
		if bits > 32 || len(list) < end {
			return fmt.Errorf("a prefix of %d bits: %w", bits, errShort)
		}
		var address [4]byte
		copy(address[:], list[pathBytes+1:end])
		if err := do(netip.PrefixFrom(netip.AddrFrom4(address), bits)); err != nil {
			return err
		}
		list = list[end:]
	}
	return nil
}
