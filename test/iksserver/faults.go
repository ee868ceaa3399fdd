package iksserver

import (
	"bytes"
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Fault spoils requests. Method, Path and Query choose them; the other fields say how.
type Fault struct {
	// Method is the HTTP method, "" for any. Path and Query are regular expressions
	// on the path and on the query, "" for any; the path comes without "/global".
	Method, Path, Query string
	// After lets so many matching requests through first. Times is how many are spoiled then; 0: all.
	After, Times int
	// For ends the fault that long after the first request that it spoiled; 0: never.
	For time.Duration

	// Executed: the request takes effect and only its answer is spoiled.
	Executed bool
	// Status and Body replace the answer, Header is added to it.
	Status int
	Body   string
	Header http.Header
	// Spoil changes the body of the real answer (and implies Executed).
	Spoil func(body []byte) []byte
	// Hang answers nothing until the client gives up or the server closes.
	Hang bool
	// Reset breaks the connection instead of answering.
	Reset bool
	// Slow is the time between two bytes of the real answer.
	Slow time.Duration
	// Delay is how much later the request takes effect, whether anyone still waits for its answer or not.
	Delay time.Duration
	// ExpireToken answers that the token is expired and makes it so.
	ExpireToken bool

	path, query *regexp.Regexp
	// until is when it ends, zero while that is open.
	until time.Time
}

// Inject adds f. It panics when Path or Query is no regular expression.
func (s *Server) Inject(f Fault) {
	f.path, f.query = regexp.MustCompile(f.Path), regexp.MustCompile(f.Query)
	s.locked(func() { s.faults = append(s.faults, &f) })
}

// ClearFaults takes all request faults away.
func (s *Server) ClearFaults() { s.locked(func() { s.faults = nil }) }

// RateLimited is a 429; retryAfter 0 leaves the header out.
func RateLimited(retryAfter time.Duration) Fault {
	f := Fault{Status: http.StatusTooManyRequests, Body: "slow down", Header: http.Header{}}
	if retryAfter > 0 {
		f.Header.Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
	}
	return f
}

// Body is a body in place of the real one. The request takes effect.
func Body(text string) Fault { return Fault{Spoil: func([]byte) []byte { return []byte(text) }} }

// On gives f for the requests of method and path.
func (f Fault) On(method, path string) Fault {
	f.Method, f.Path = method, path
	return f
}

func (f *Fault) matches(r *http.Request, now time.Time) bool {
	over := !f.until.IsZero() && !now.Before(f.until)
	return !over && (f.Method == "" || f.Method == r.Method) && f.path.MatchString(r.URL.Path) && f.query.MatchString(r.URL.RawQuery)
}

func (s *Server) takeFault(r *http.Request) *Fault {
	for i, f := range s.faults {
		switch {
		case !f.matches(r, s.now()):
			continue
		case f.After > 0:
			f.After--
			continue
		case f.For > 0 && f.until.IsZero():
			f.until = s.now().Add(f.For)
		}
		if f.Times--; f.Times == 0 { // never, where it was 0
			s.faults = slices.Delete(slices.Clone(s.faults), i, i+1)
		}
		return f
	}
	return nil
}

// executed: the request takes effect.
func (f *Fault) executed() bool { return f.Executed || f.Spoil != nil || f.Slow > 0 || f.Delay > 0 }

// answer gives what goes out, spoiled by the fault if there is one; nil for nothing.
func (s *Server) answer(r *http.Request, f *Fault, index int) *httptest.ResponseRecorder {
	switch {
	case f == nil:
		return s.serve(r, index)
	case f.ExpireToken:
		s.ExpireTokens()
		return s.serve(r, index)
	}
	if f.Delay > 0 {
		s.pause(r.WithContext(context.WithoutCancel(r.Context())), f.Delay)
	}
	out := httptest.NewRecorder()
	if f.executed() {
		out = s.serve(r, index)
	}
	switch {
	case f.Hang:
		s.pause(r, -1)
		return nil
	case f.Reset:
		panic(http.ErrAbortHandler) // which is how a handler breaks its connection
	}
	if f.Spoil != nil {
		out.Body = bytes.NewBuffer(f.Spoil(out.Body.Bytes()))
	}
	if f.Status != 0 {
		out.Code, out.Body = f.Status, bytes.NewBufferString(f.Body)
	}
	maps.Copy(out.Header(), f.Header)
	return out
}

// trickle writes a body byte by byte, until the client has gone.
func (s *Server) trickle(w http.ResponseWriter, r *http.Request, body []byte, slow time.Duration) {
	for i := range body {
		if _, err := w.Write(body[i : i+1]); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush() // a wire keeps nothing back
		if !s.pause(r, slow) {
			return
		}
	}
}

// pause waits for d, or for ever when d is negative; false when the client or the server has gone.
func (s *Server) pause(r *http.Request, d time.Duration) bool {
	var timer <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-timer:
		return true
	case <-r.Context().Done():
	case <-s.closed:
	}
	return false
}

// Transport carries requests to the server over a pipe. So they work in a synctest bubble, where no time passes in vain; hangs, slow
// bodies and broken connections are as on a wire. No connection is used twice.
func (s *Server) Transport() http.RoundTripper {
	dial := func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		web := http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
		go func() { _ = web.Serve(&single{conn: server}) }()
		return client, nil
	}
	return &http.Transport{DialContext: dial, DialTLSContext: dial, DisableKeepAlives: true, DisableCompression: true}
}

// single is a listener to which one connection comes.
type single struct {
	conn net.Conn
	once sync.Once
}

// Accept implements net.Listener.
func (l *single) Accept() (conn net.Conn, err error) {
	err = net.ErrClosed
	l.once.Do(func() { conn, err = l.conn, nil })
	return conn, err
}

// Close implements net.Listener.
func (l *single) Close() error { return nil }

// Addr implements net.Listener.
func (l *single) Addr() net.Addr { return l.conn.LocalAddr() }
