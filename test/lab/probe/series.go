package probe

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// series are all probes of one ordered pair. Times count from the prober's epoch.
type series struct {
	number   uint32
	from, to string
	target   net.IPAddr

	mu       sync.Mutex
	sent     []time.Duration
	answered []bool
	ended    bool
}

// newSeries has room for so many probes: a sender that asks for memory may have to wait until the garbage collector's threads, which
// have no priority, have run.
func newSeries(number uint32, from, to string, address netip.Addr, room int) *series {
	return &series{
		number: number, from: from, to: to, target: net.IPAddr{IP: address.AsSlice()},
		sent: make([]time.Duration, 0, room), answered: make([]bool, 0, room),
	}
}

// sample is a copy of a series.
type sample struct {
	from, to string
	sent     []time.Duration
	answered []bool
}

// begin records that a probe is being sent and returns its sequence number.
func (s *series) begin(now time.Duration) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, now)
	s.answered = append(s.answered, false)
	return uint32(len(s.sent) - 1) //nolint:gosec // G115: years
}

func (s *series) answer(sequence uint32, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if int(sequence) < len(s.sent) && now-s.sent[sequence] <= replyTimeout {
		s.answered[sequence] = true
	}
}

// end forgets the probes that may still be answered.
func (s *series) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || len(s.sent) == 0 {
		s.ended = true
		return
	}
	s.ended = true
	last := len(s.sent) - 1
	keep := len(s.sent)
	for keep > 0 && !s.answered[keep-1] && s.sent[last]-s.sent[keep-1] < replyTimeout/10 {
		keep--
	}
	s.sent, s.answered = s.sent[:keep], s.answered[:keep]
}

// waiting reports whether a probe sent before until may still be answered.
func (s *series) waiting(until time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	newest := time.Duration(0)
	if n := len(s.sent); n > 0 {
		newest = s.sent[n-1]
	}
	for i := len(s.sent) - 1; i >= 0 && newest-s.sent[i] <= replyTimeout; i-- {
		if s.sent[i] < until && !s.answered[i] {
			return true
		}
	}
	return false
}

// sample copies what was sent before until, beginning with the first probe that was answered; all of it when none was.
func (s *series) sample(until time.Duration) sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, end := 0, len(s.sent)
	for first < end && !s.answered[first] {
		first++
	}
	if first == end {
		first = 0
	}
	for end > first && s.sent[end-1] >= until {
		end--
	}
	return sample{
		from: s.from, to: s.to,
		sent:     append([]time.Duration(nil), s.sent[first:end]...),
		answered: append([]bool(nil), s.answered[first:end]...),
	}
}
