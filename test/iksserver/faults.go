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

// Fault makes requests fail. Method, Path and Query select the requests; the other fields say how they fail.
type Fault struct {
	// Method is the HTTP method, "" for any. Path and Query are regular expressions for the path without "/global" and for the query, "" for any.
	Method, Path, Query string
	// After is how many matching requests do not fail at first. Times is how many fail then; 0: all.
	After, Times int
	// For is how long the fault lasts from the first request that failed; 0: for ever.
	For time.Duration

	// Executed: the request takes effect, and only the response fails.
	Executed bool
	// Status and Body replace those of the response, Header is added to it.
	Status int
	Body   string
	Header http.Header
	// Spoil changes the body of the real response. The request takes effect.
	Spoil func(body []byte) []byte
	// Hang: there is no response until the client gives up or the server closes.
	Hang bool
	// Reset: the connection breaks instead of a response.
	Reset bool
	// Slow is the time between two bytes of the real response.
	Slow time.Duration
	// Delay is how much later the request takes effect, even if the client does not wait for the response.
	Delay time.Duration
	// ExpireToken: all tokens expire, so the request is refused.
	ExpireToken bool

	path, query *regexp.Regexp
	// until is when the fault ends, zero if not known yet.
	until time.Time
}

// Inject adds a fault. It panics if Path or Query is no regular expression.
func (s *Server) Inject(f Fault) {
	f.path, f.query = regexp.MustCompile(f.Path), regexp.MustCompile(f.Query)
	s.locked(func() { s.faults = append(s.faults, &f) })
}

// ClearFaults removes all faults of requests.
func (s *Server) ClearFaults() { s.locked(func() { s.faults = nil }) }

// RateLimited returns a fault with status 429, and without the header Retry-After if retryAfter is 0.
func RateLimited(retryAfter time.Duration) Fault {
	f := Fault{Status: http.StatusTooManyRequests, Body: "slow down", Header: http.Header{}}
	if retryAfter > 0 {
		f.Header.Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
	}
	return f
}

// Body returns a fault that replaces the body of the response. The request takes effect.
func Body(text string) Fault { return Fault{Spoil: func([]byte) []byte { return []byte(text) }} }

// On returns the fault for requests with a method and path.
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
		if f.Times--; f.Times == 0 { // not if it was 0 before
			s.faults = slices.Delete(slices.Clone(s.faults), i, i+1)
		}
		return f
	}
	return nil
}

// executed reports whether the request takes effect.
func (f *Fault) executed() bool { return f.Executed || f.Spoil != nil || f.Slow > 0 || f.Delay > 0 }

// answer returns the response, as the fault changes it if f is not nil; nil for no response.
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
		panic(http.ErrAbortHandler) // breaks the connection
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

// trickle writes a body byte by byte, until the client has closed the connection.
func (s *Server) trickle(w http.ResponseWriter, r *http.Request, body []byte, slow time.Duration) {
	for i := range body {
		if _, err := w.Write(body[i : i+1]); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush() // send each byte by itself
		if !s.pause(r, slow) {
			return
		}
	}
}

// pause waits for d, or for ever if d is negative. It returns false if the client or the server has ended the request.
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

// Transport returns a transport that connects to the server by pipes, which work in a synctest bubble. Hangs, slow bodies and broken connections
// are as with TCP. No connection is reused.
func (s *Server) Transport() http.RoundTripper {
	dial := func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		web := http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
		go func() { _ = web.Serve(&single{conn: server}) }()
		return client, nil
	}
	return &http.Transport{DialContext: dial, DialTLSContext: dial, DisableKeepAlives: true, DisableCompression: true}
}

// single is a listener for one connection.
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
