// Package intercept stands between managers and what they talk to, the apiserver and
// the cloud: it counts, delays, refuses and loses their requests, and cuts a manager
// off as its death would. All of a manager passes through it: controller-runtime,
// libcalico-go, events and leader election.
package intercept

import (
	"slices"
	"sync"
	"time"
)

// Verdict is what becomes of a request. The zero value lets it pass.
type Verdict struct {
	// Delay is how long it is held before anything else.
	Delay time.Duration
	// Answer is the HTTP status that is told instead of the real one, 0 for the real one.
	Answer int
	// RetryAfter goes with Answer.
	RetryAfter time.Duration
	// Cut ends the line: nothing is answered, and nothing passes any more.
	Cut bool
	// Executed, with Answer or Cut: the request takes effect first.
	Executed bool
}

// Rule judges a request. Rules are asked one request at a time.
type Rule func(Request) Verdict

// Interceptor keeps the rules and the record of its lines.
type Interceptor struct {
	mu       sync.Mutex
	rules    []Rule
	observe  func(Request)
	requests []*Request
	serial   int
}

// New makes an Interceptor that lets everything pass.
func New() *Interceptor { return &Interceptor{} }

// Rules replaces the rules. The first that does not let a request pass decides.
func (i *Interceptor) Rules(rules ...Rule) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rules = rules
}

// Swap changes what rules look at, between two requests.
func (i *Interceptor) Swap(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

// Observe has fn called for every write that the far side has answered, before its
// answer goes on.
func (i *Interceptor) Observe(fn func(Request)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.observe = fn
}

// Requests gives all requests so far, in the order in which they came.
func (i *Interceptor) Requests() []Request {
	i.mu.Lock()
	defer i.mu.Unlock()
	out := make([]Request, len(i.requests))
	for n, r := range i.requests {
		out[n] = *r
	}
	return out
}

// Work gives the writes so far that are neither events nor leases.
func (i *Interceptor) Work() []Request {
	return slices.DeleteFunc(i.Requests(), func(r Request) bool { return !r.Work() })
}

// Forget drops the record, and counts from 1 again.
func (i *Interceptor) Forget() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.requests, i.serial = nil, 0
}

// record notes a request and judges it, unless alive says that its line is cut.
func (i *Interceptor) record(r *Request, alive func() bool) (verdict Verdict, passed bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !alive() {
		return Verdict{}, false
	}
	if r.At = time.Now(); r.Work() {
		i.serial++
		r.Number = i.serial
	}
	i.requests = append(i.requests, r)
	for _, rule := range i.rules {
		if verdict = rule(*r); verdict != (Verdict{}) {
			break
		}
	}
	return verdict, true
}

// executed notes what the far side has answered.
func (i *Interceptor) executed(r *Request, code int) {
	i.mu.Lock()
	r.Code = code
	observe, seen := i.observe, *r
	i.mu.Unlock()
	if observe != nil && seen.Write() {
		observe(seen)
	}
}

// told notes what the near side was answered.
func (i *Interceptor) told(r *Request, code int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	r.Told, r.Done = code, time.Now()
}
