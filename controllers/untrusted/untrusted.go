// Package untrusted limits what an answer from a server that rrpool does not control can cost: the apiserver of another
// cluster, or a cloud's API. A limit of bytes alone is not enough: the three bytes "{}," can become a struct of a kilobyte.
package untrusted

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Limits limits one answer. If the answer exceeds a limit, reading its body fails before a decoder sees the excess.
type Limits struct {
	// Bytes is the size of the uncompressed body.
	Bytes int
	// Values is the number of JSON values in the body.
	Values int
	// Items is the number of items of one list or object.
	Items int
}

// LimitError means that an answer exceeds its limits.
type LimitError struct{ message string }

// Error implements error.
func (e *LimitError) Error() string { return "the answer " + e.message }

func exceeded(format string, limit int) error { return &LimitError{fmt.Sprintf(format, limit)} }

const (
	// maxDepth is how deep lists and objects may be nested.
	maxDepth = 64
	// headerBytes is far more than the headers of an apiserver or a cloud have. Go's own limit is 10 MiB, which take hundreds of MiB in memory.
	headerBytes = 64 << 10
)

// HeadersOf returns a copy of a transport that accepts no more than headerBytes of headers.
func HeadersOf(t *http.Transport) *http.Transport {
	t = t.Clone()
	t.MaxResponseHeaderBytes = headerBytes
	return t
}

// Transport applies the limits to all answers.
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
	// Clients may choose another decoder by this header, but the meter can count JSON only.
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/") {
		response.Header.Set("Content-Type", "application/json")
	}
	return response, nil
}

// meter is a body that counts what is read of it.
type meter struct {
	io.ReadCloser
	limits        Limits
	bytes, values int
	// depth is how many lists and objects are open, and items counts the items of each.
	depth int
	items [maxDepth + 1]int
	// quoted is true inside of a string, and escaped after a backslash in one.
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

// count parses JSON only as far as is needed to count values. In other formats the count is meaningless, but no decoder accepts them.
func (m *meter) count(c byte) error {
	switch {
	case m.escaped:
		m.escaped = false
	case m.quoted:
		m.escaped, m.quoted = c == '\\', c != '"'
	case c == '"':
		m.quoted = true
	case c == '[' || c == '{':
		if m.depth++; m.depth > maxDepth {
			return exceeded("has more than %d lists and objects in each other", maxDepth)
		}
		m.items[m.depth] = 0
		return m.countItem()
	case c == ',':
		return m.countItem()
	case c == ']' || c == '}':
		m.depth = max(0, m.depth-1)
	}
	return nil
}

// countItem counts an item. The start of a list or object counts as its first item, even if it is empty.
func (m *meter) countItem() error {
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
