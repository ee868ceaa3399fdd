package probe

import (
	"bytes"
	"encoding/binary"
	"time"
)

// windowSize is how many of the latest probes an acknowledgement covers: those of five seconds, so that a lost one does no harm.
const windowSize = 512

// message is a probe, or an acknowledgement of the latest probes of a series.
type message struct {
	id               uint64 // the prober's
	number, sequence uint32 // of the series, and in it; of an acknowledgement the latest that came
	sent             time.Time
	acknowledges     bool
	window           window
}

// late reports whether a probe arrived too late to count. Both ends have the clock of one machine.
func (m message) late(came time.Time) bool { return came.Sub(m.sent) > arrivalTimeout }

// magic is the beginning of every message.
var magic = []byte("rrprobe")

const (
	headerSize  = 7 + 1 + 8 + 4 + 4 + 8
	messageSize = headerSize + windowSize/8
)

// encode writes the message into a buffer of at least messageSize, so that the sender does not allocate.
func (m message) encode(into []byte) []byte {
	packet := into[:0]
	packet = append(packet, magic...)
	if m.acknowledges {
		packet = append(packet, 1)
	} else {
		packet = append(packet, 0)
	}
	packet = binary.BigEndian.AppendUint64(packet, m.id)
	packet = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(packet, m.number), m.sequence)
	packet = binary.BigEndian.AppendUint64(packet, uint64(m.sent.UnixNano()))
	if m.acknowledges {
		for _, bits := range m.window {
			packet = binary.BigEndian.AppendUint64(packet, bits)
		}
	}
	return packet
}

func decode(packet []byte) (m message, ok bool) {
	rest, ours := bytes.CutPrefix(packet, magic)
	if !ours || len(packet) < headerSize || rest[0] == 1 && len(packet) < messageSize {
		return message{}, false
	}
	m = message{
		acknowledges: rest[0] == 1, id: binary.BigEndian.Uint64(rest[1:]),
		number: binary.BigEndian.Uint32(rest[9:]), sequence: binary.BigEndian.Uint32(rest[13:]),
		sent: time.Unix(0, int64(binary.BigEndian.Uint64(rest[17:]))), //nolint:gosec // G115: as it was encoded
	}
	for i := range m.window {
		if m.acknowledges {
			m.window[i] = binary.BigEndian.Uint64(rest[25+8*i:])
		}
	}
	return m, true
}

// source is a series of another prober.
type source struct {
	id     uint64
	number uint32
}

// window says which of the latest probes have arrived: bit 0 is the latest.
type window [windowSize / 64]uint64

func (w window) has(back uint32) bool { return w[back/64]&(1<<(back%64)) != 0 }

// arrivals are the latest probes of a series that have arrived.
type arrivals struct {
	latest uint32
	window window
}

// add counts a probe and returns the latest.
func (a *arrivals) add(sequence uint32) uint32 {
	var moved window
	if sequence > a.latest {
		for back := uint32(0); back+sequence-a.latest < windowSize; back++ {
			if to := back + sequence - a.latest; a.window.has(back) {
				moved[to/64] |= 1 << (to % 64)
			}
		}
		a.latest, a.window = sequence, moved
	}
	if back := a.latest - sequence; back < windowSize {
		a.window[back/64] |= 1 << (back % 64)
	}
	return a.latest
}
