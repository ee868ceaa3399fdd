package iksserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"syscall"
)

// Transport carries requests to the server without a network. So they work in a
// synctest bubble, where no time passes in vain; hangs, slow bodies and broken
// connections are as on a wire.
func (s *Server) Transport() http.RoundTripper { return transport{s} }

type transport struct{ server *Server }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, hangUp := context.WithCancel(r.Context())
	read, write := io.Pipe()
	w := &wire{header: http.Header{}, body: write, begun: make(chan struct{})}
	served := r.Clone(ctx)
	if served.Body == nil {
		served.Body = http.NoBody
	}
	context.AfterFunc(ctx, func() { _ = write.CloseWithError(ctx.Err()) })
	go func() {
		defer hangUp()
		err := serve(t.server, w, served)
		if err == nil {
			err = r.Context().Err() // the handler may be the first to see it
		}
		w.end(err)
	}()
	select {
	case <-w.begun:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if w.failed != nil {
		return nil, w.failed
	}
	return &http.Response{
		StatusCode: w.status, Status: http.StatusText(w.status), Header: w.header, Body: read,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1, Request: r,
	}, nil
}

// serve gives an error when the handler has broken the connection.
func serve(h http.Handler, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		switch broken := recover(); {
		case broken == nil:
		case errors.Is(asError(broken), http.ErrAbortHandler):
			err = syscall.ECONNRESET
		default:
			panic(broken)
		}
	}()
	h.ServeHTTP(w, r)
	return nil
}

func asError(v any) error {
	err, _ := v.(error)
	return err
}

// wire is an answer on its way.
type wire struct {
	header http.Header
	body   *io.PipeWriter
	status int
	once   sync.Once
	begun  chan struct{}
	// failed: there will be no answer.
	failed error
}

// Header implements http.ResponseWriter.
func (w *wire) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *wire) WriteHeader(status int) {
	w.once.Do(func() {
		w.status = status
		close(w.begun)
	})
}

// Write implements http.ResponseWriter.
func (w *wire) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

func (w *wire) end(broken error) {
	w.once.Do(func() {
		if w.status = http.StatusOK; broken != nil {
			w.failed = broken
		}
		close(w.begun)
	})
	_ = w.body.CloseWithError(broken) // nil is the end of the body
}
