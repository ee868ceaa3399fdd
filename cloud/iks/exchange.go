package iks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// maxBody bounds an answer: 500 workers are some 500 kB.
const maxBody = 16 << 20

// exchange carries one request of the SDK under a context, which the SDK does
// not know, and keeps what the SDK throws away: status, headers and whole body.
type exchange struct {
	//nolint:containedctx // this is how the context gets into the SDK, for one call
	ctx    context.Context
	base   http.RoundTripper
	status int
	header http.Header
	body   []byte
	err    error
}

// RoundTrip implements http.RoundTripper.
func (x *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := x.base.RoundTrip(r.WithContext(x.ctx))
	if err != nil {
		x.err = err
		return nil, err //nolint:wrapcheck // a RoundTripper passes on
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	x.status, x.header = resp.StatusCode, resp.Header
	x.body, x.err = io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if x.err == nil && len(x.body) > maxBody {
		x.err = fmt.Errorf("the answer is larger than %d bytes", maxBody)
	}
	if x.err != nil {
		return nil, x.err
	}
	resp.Body = io.NopCloser(bytes.NewReader(x.body))
	return resp, nil
}

// client is an http.Client for this one exchange; connections belong to base.
func (x *exchange) client() *http.Client {
	return &http.Client{
		Transport: x,
		// A redirect would carry the token along, or turn a POST into a GET.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (x *exchange) ok() bool { return x.err == nil && x.status >= 200 && x.status <= 299 }

// sensible checks the body of a good answer: JSON where a value is expected, and
// no page of a proxy where nothing is.
func (x *exchange) sensible(value bool) error {
	body := bytes.TrimSpace(x.body)
	switch {
	case len(body) == 0 && value:
		return errors.New("the answer is empty")
	case len(body) == 0:
		return nil
	case !json.Valid(body):
		return errors.New("the answer is not (complete) JSON")
	case value && string(body) == "null":
		return errors.New("the answer is null")
	}
	return nil
}
