package reflector

import (
	"sync"
	"time"
)

// tally counts members, and knows since when all of them count.
type tally struct {
	mu    sync.Mutex
	n     int
	of    int
	full  chan struct{} // closed while n is of
	moved time.Time     // when n became of
}

func newTally(of int) *tally { return &tally{of: of, full: make(chan struct{})} }

func (t *tally) add(delta int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == t.of && delta != 0 {
		t.full = make(chan struct{})
	}
	t.n += delta
	if t.n == t.of && delta != 0 {
		t.moved = time.Now()
		close(t.full)
	}
}

func (t *tally) value() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

// reached is closed once all count.
func (t *tally) reached() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.full
}

// since is when all came to count, last time.
func (t *tally) since() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.moved
}
