package probe

import (
	"net"
	"slices"
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
	s.ended = true
	keep := len(s.sent)
	for keep > 0 && !s.answered[keep-1] && s.sent[len(s.sent)-1]-s.sent[keep-1] < replyTimeout/10 {
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
	for i := len(s.sent) - 1; i >= 0 && s.sent[len(s.sent)-1]-s.sent[i] <= replyTimeout; i-- {
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
	first, end := max(0, slices.Index(s.answered, true)), len(s.sent)
	for end > first && s.sent[end-1] >= until {
		end--
	}
	return sample{from: s.from, to: s.to, sent: slices.Clone(s.sent[first:end]), answered: slices.Clone(s.answered[first:end])}
}
