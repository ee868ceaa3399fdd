package reflector

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
)

// The codec knows what one BIRD and these clients say to each other, and no more. A library would decode every attribute of millions of
// routes on the cores that BIRD is measured on; the clients only have to know which prefixes they were sent.

// The types of messages, RFC 4271.
const (
	typeOpen         = 1
	typeUpdate       = 2
	typeNotification = 3
	typeKeepalive    = 4
)

const (
	headerSize = 19
	// largestMessage without the capability for extended messages, which Calico does not switch on.
	largestMessage = 4096
	// holdTime in seconds is BIRD's default; Calico sets none.
	holdTime = 240
	// restartTime in seconds is BIRD's default for graceful restart.
	restartTime = 120
	// pathID of the one path that a client announces.
	pathID = 1
	// pathBits is the size of a path ID, which precedes each prefix with ADD-PATH (RFC 7911).
	pathBytes = 4
	// capabilityAddPath and its two directions.
	capabilityAddPath = 69
	receiveAndSend    = 3
)

var (
	keepalive = message(typeKeepalive, nil)
	// endOfRIB is an UPDATE that says nothing. A BIRD that has restarted sends nothing to anybody before it has everyone's.
	endOfRIB = message(typeUpdate, make([]byte, 4))
)

func message(kind byte, body []byte) []byte {
	m := slices.Repeat([]byte{0xff}, 16)
	m = binary.BigEndian.AppendUint16(m, uint16(headerSize+len(body))) //nolint:gosec // G115: our own short messages
	m = append(m, kind)
	return append(m, body...)
}

// open has the capabilities of a Calico node's BIRD, in its order. A client that comes back says so, and that it still forwards, as
// bird -R does.
func open(as uint16, id netip.Addr, restarted bool) []byte {
	restart, forwarding := uint16(restartTime), byte(0)
	if restarted {
		restart, forwarding = restart|0x8000, 0x80
	}
	capabilities := []byte{
		1, 4, 0, 1, 0, 1, // IPv4 unicast
		2, 0, // route refresh
		64, 6, // graceful restart
	}
	capabilities = binary.BigEndian.AppendUint16(capabilities, restart)
	capabilities = append(capabilities, 0, 1, 1, forwarding,
		65, 4) // AS numbers of 4 bytes
	capabilities = binary.BigEndian.AppendUint32(capabilities, uint32(as))
	capabilities = append(capabilities, capabilityAddPath, 4, 0, 1, 1, receiveAndSend,
		70, 0) // enhanced route refresh

	body := binary.BigEndian.AppendUint16([]byte{4}, as)
	body = binary.BigEndian.AppendUint16(body, holdTime)
	body = append(body, id.AsSlice()...)
	body = append(body, byte(len(capabilities)+2), 2, byte(len(capabilities))) //nolint:gosec // G115: some 40 bytes
	return message(typeOpen, append(body, capabilities...))
}

// announce is a node's own block: origin IGP, no AS path, itself as the next hop, local preference 100.
func announce(block netip.Prefix, nextHop netip.Addr) []byte {
	attributes := []byte{0x40, 1, 1, 0, 0x40, 2, 0, 0x40, 3, 4}
	attributes = append(attributes, nextHop.AsSlice()...)
	attributes = append(attributes, 0x40, 5, 4, 0, 0, 0, 100)

	body := binary.BigEndian.AppendUint16(nil, 0)
	body = binary.BigEndian.AppendUint16(body, uint16(len(attributes))) //nolint:gosec // G115: some 20 bytes
	body = append(body, attributes...)
	body = binary.BigEndian.AppendUint32(body, pathID)
	body = append(body, byte(block.Bits())) //nolint:gosec // G115: at most 32
	return message(typeUpdate, append(body, block.Addr().AsSlice()[:(block.Bits()+7)/8]...))
}

// read returns the next message. Its body is valid until the next call. The reader's buffer must hold the largest message.
func read(r *bufio.Reader) (kind byte, body []byte, err error) {
	header, err := r.Peek(headerSize)
	if err != nil {
		return 0, nil, err
	}
	size := int(binary.BigEndian.Uint16(header[16:]))
	kind = header[18]
	if size < headerSize || size > largestMessage {
		return 0, nil, fmt.Errorf("a message of %d bytes", size)
	}
	whole, err := r.Peek(size)
	if err != nil {
		return 0, nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	if _, err := r.Discard(size); err != nil {
		return 0, nil, err
	}
	return kind, whole[headerSize:], nil
}

// errShort is a message that ends before what it announces.
var errShort = errors.New("the message ends early")

// addPath tells whether an OPEN offers to send and receive several paths for a prefix: without it prefixes have no path ID.
func addPath(body []byte) (offered bool, err error) {
	const fixed, parameterCapabilities = 10, 2
	if len(body) < fixed || len(body) != fixed+int(body[fixed-1]) {
		return false, errShort
	}
	err = fields(body[fixed:], func(parameter byte, value []byte) error {
		if parameter != parameterCapabilities {
			return nil
		}
		return fields(value, func(capability byte, value []byte) error {
			if capability == capabilityAddPath && len(value) == 4 && value[3] == receiveAndSend {
				offered = true
			}
			return nil
		})
	})
	return offered, err
}

// fields calls do for every field of a list: a byte that says what it is, a byte for its length, its value.
func fields(list []byte, do func(kind byte, value []byte) error) error {
	for len(list) > 0 {
		if len(list) < 2 || len(list) < 2+int(list[1]) {
			return errShort
		}
		end := 2 + int(list[1])
		if err := do(list[0], list[2:end]); err != nil {
			return err
		}
		list = list[end:]
	}
	return nil
}

// split finds the withdrawn and the announced prefixes in an UPDATE.
func split(body []byte) (withdrawn, announced []byte, err error) {
	if len(body) < 2 {
		return nil, nil, errShort
	}
	size := int(binary.BigEndian.Uint16(body))
	if len(body) < 4+size {
		return nil, nil, errShort
	}
	withdrawn, body = body[2:2+size], body[2+size:]
	size = int(binary.BigEndian.Uint16(body))
	if len(body) < 2+size {
		return nil, nil, errShort
	}
	return withdrawn, body[2+size:], nil
}

// each calls do for every prefix of a list with path IDs.
func each(list []byte, do func(netip.Prefix) error) error {
	for len(list) > 0 {
		if len(list) < pathBytes+1 {
			return errShort
		}
		bits := int(list[pathBytes])
		size := (bits + 7) / 8
		if bits > 32 || len(list) < pathBytes+1+size {
			return fmt.Errorf("a prefix of %d bits: %w", bits, errShort)
		}
		var address [4]byte
		copy(address[:], list[pathBytes+1:pathBytes+1+size])
		if err := do(netip.PrefixFrom(netip.AddrFrom4(address), bits)); err != nil {
			return err
		}
		list = list[pathBytes+1+size:]
	}
	return nil
}
