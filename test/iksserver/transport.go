package iksserver

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

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
