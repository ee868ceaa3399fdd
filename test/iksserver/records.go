package iksserver

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Request is one request as it came in.
type Request struct {
	At     time.Time
	Method string
	// Path without the "/global" prefix.
	Path  string
	Query url.Values
	// Body, empty for token requests: it holds the API key.
	Body string
	// Status that was answered, 0 while the request is under way, and for ever when
	// nothing was.
	Status int
	// Own is the status that the service itself gave, 0 when the request did not get
	// as far: a fault may have spoiled the answer. Faulty: there was a fault.
	Own    int
	Faulty bool
}

// Executed reports whether the request took effect, whatever was answered.
func (r Request) Executed() bool { return r.Own >= 200 && r.Own <= 299 }

// Mutating reports whether the request was to change something.
func (r Request) Mutating() bool { return r.Method != http.MethodGet && !r.Token() }

// Token reports whether the request was for an IAM token.
func (r Request) Token() bool { return strings.HasPrefix(r.Path, "/identity/") }

func (s *Server) record(r *http.Request, body []byte) int {
	rec := Request{At: s.now(), Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), Body: string(body)}
	if rec.Token() {
		rec.Body = ""
	}
	s.requests = append(s.requests, rec)
	return len(s.requests) - 1
}

// Requests gives all requests so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Counts gives the numbers of reading, mutating and token requests so far.
func (s *Server) Counts() (reads, mutations, tokens int) {
	for _, r := range s.Requests() {
		switch {
		case r.Token():
			tokens++
		case r.Mutating():
			mutations++
		default:
			reads++
		}
	}
	return reads, mutations, tokens
}
