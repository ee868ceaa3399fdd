// Package untrusted bounds what an answer can cost that comes from a server which rrpool does not control: the apiserver of another
// cluster, or a cloud's API. Bytes alone are no bound: three of them, "{},", can become a struct of a kilobyte.
package untrusted

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Limits of one answer. What goes beyond them is an error of its body's Read, before a decoder has seen it.
type Limits struct {
	// Bytes of the body, when it is no longer compressed.
	Bytes int
	// Values of JSON in the body.
	Values int
	// Items of one list or object.
	Items int
}

// LimitError is that an answer is beyond its limits.
type LimitError struct{ message string }

// Error implements error.
func (e *LimitError) Error() string { return "the answer " + e.message }

func exceeded(format string, limit int) error { return &LimitError{fmt.Sprintf(format, limit)} }

const (
	// deepest is how many lists and objects may lie in each other.
	deepest = 64
	// headerBytes is far more than the headers of an apiserver or a cloud. Go's own limit is 10 MiB, which become hundreds in memory.
	headerBytes = 64 << 10
)

// HeadersOf gives a copy of a transport that takes no more headers than an honest server sends.
func HeadersOf(t *http.Transport) *http.Transport {
	t = t.Clone()
	t.MaxResponseHeaderBytes = headerBytes
	return t
}

// Transport holds all answers to the limits.
func (l Limits) Transport(next http.RoundTripper) http.RoundTripper { return transport{next, l} }

type transport struct {
	next   http.RoundTripper
	limits Limits
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the request
	}
	response.Body = &meter{ReadCloser: response.Body, limits: t.limits}
	// Some clients choose the decoder by this header, and only JSON is counted.
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/") {
		response.Header.Set("Content-Type", "application/json")
	}
	return response, nil
}

// meter counts what is read.
type meter struct {
	io.ReadCloser
	limits        Limits
	bytes, values int
	// depth is how many lists and objects are open, and items counts those of each.
	depth int
	items [deepest + 1]int
	// quoted: inside of a string. escaped: after a backslash in one.
	quoted, escaped bool
	err             error
}

// Read implements io.Reader.
func (m *meter) Read(p []byte) (int, error) {
	if m.err != nil {
		return 0, m.err
	}
	n, err := m.ReadCloser.Read(p)
	if m.bytes += n; m.bytes > m.limits.Bytes {
		m.err = exceeded("is larger than %d bytes", m.limits.Bytes)
	}
	for i := 0; i < n && m.err == nil; i++ {
		m.err = m.count(p[i])
	}
	if m.err != nil {
		return 0, m.err
	}
	return n, err //nolint:wrapcheck // io.EOF among them
}

// count follows JSON as far as that takes to tell how many values there are. Of what is no JSON the count means nothing, and no
// decoder takes it.
func (m *meter) count(c byte) error {
	switch {
	case m.escaped:
		m.escaped = false
	case m.quoted:
		m.escaped, m.quoted = c == '\\', c != '"'
	case c == '"':
		m.quoted = true
	case c == '[' || c == '{':
		if m.depth++; m.depth > deepest {
			return exceeded("has more than %d lists and objects in each other", deepest)
		}
		m.items[m.depth] = 0
		return m.another()
	case c == ',':
		return m.another()
	case c == ']' || c == '}':
		m.depth = max(0, m.depth-1)
	}
	return nil
}

// another counts the first item of a list or object that opens, empty or not, and each further one.
func (m *meter) another() error {
	m.values++
	m.items[m.depth]++
	switch {
	case m.values > m.limits.Values:
		return exceeded("has more than %d values", m.limits.Values)
	case m.items[m.depth] > m.limits.Items:
		return exceeded("has a list of more than %d items", m.limits.Items)
	}
	return nil
}
