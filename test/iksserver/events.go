package iksserver

import "sync"

// eventQueue hands events out in order, one at a time and without locks held, so
// that a listener may call the server.
type eventQueue struct {
	mu      sync.Mutex
	pending []func()
	busy    bool
}

func (q *eventQueue) add(fn func(Worker), w Worker) {
	if fn == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending = append(q.pending, func() { fn(w) })
}

func (q *eventQueue) drain() {
	q.mu.Lock()
	if q.busy {
		q.mu.Unlock()
		return
	}
	q.busy = true
	for len(q.pending) > 0 {
		next := q.pending[0]
		q.pending = q.pending[1:]
		q.mu.Unlock()
		next()
		q.mu.Lock()
	}
	q.busy = false
	q.mu.Unlock()
}
