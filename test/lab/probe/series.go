package probe

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// series are all probes of one ordered pair. Times count from the prober's epoch.
type series struct {
	number   uint32
	from, to string
	target   netip.AddrPort

	mu      sync.Mutex
	sent    []time.Duration
	arrived []bool
	ended   bool
}

type sample struct {
	from, to string
	sent     []time.Duration
	arrived  []bool
}

// begin records that a probe is being sent and returns its sequence number.
func (s *series) begin(now time.Duration) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, now)
	s.arrived = append(s.arrived, false)
	return uint32(len(s.sent) - 1) //nolint:gosec // G115: years
}

// withdraw undoes the last begin: the probe was not sent.
func (s *series) withdraw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent, s.arrived = s.sent[:len(s.sent)-1], s.arrived[:len(s.arrived)-1]
}

// take counts a probe that arrived at this time, or the probes that an acknowledgement covers.
func (s *series) take(m message, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !m.acknowledges {
		if int(m.sequence) < len(s.sent) && now-s.sent[m.sequence] <= arrivalTimeout {
			s.arrived[m.sequence] = true
		}
		return
	}
	for back := range uint32(windowSize) {
		if sequence := m.sequence - back; m.window.has(back) && back <= m.sequence && int(sequence) < len(s.sent) {
			s.arrived[sequence] = true
		}
	}
}

// end drops the probes that may still arrive.
func (s *series) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	keep := len(s.sent)
	for keep > 0 && !s.arrived[keep-1] && s.sent[len(s.sent)-1]-s.sent[keep-1] < arrivalTimeout/10 {
		keep--
	}
	s.sent, s.arrived = s.sent[:keep], s.arrived[:keep]
}

// waiting reports whether a probe sent before until may still arrive.
func (s *series) waiting(until time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	for i := len(s.sent) - 1; i >= 0 && s.sent[len(s.sent)-1]-s.sent[i] <= arrivalTimeout; i-- {
		if s.sent[i] < until && !s.arrived[i] {
			return true
		}
	}
	return false
}

// sample returns a copy of the probes that were sent before until, from the first one that arrived on; all if none did.
func (s *series) sample(until time.Duration) sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, end := max(0, slices.Index(s.arrived, true)), len(s.sent)
	for end > first && s.sent[end-1] >= until {
		end--
	}
	return sample{from: s.from, to: s.to, sent: slices.Clone(s.sent[first:end]), arrived: slices.Clone(s.arrived[first:end])}
}
