//go:build linux

package site

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// door is the manager's way to the apiserver, where a write that has been done
// can be held until somebody has seen it.
type door struct {
	server *http.Server
	url    string
	seen   chan Write
}

// Write is one that the apiserver has done for the manager. The manager does not
// know yet, and finds out when Release is called, unless it is dead by then.
type Write struct {
	// Method is POST, PUT, PATCH or DELETE, and Object the end of the path, such as
	// nodes/worker-1. It has no name for one that is created.
	Method, Object string
	release        chan struct{}
}

// String is for failure messages.
func (w Write) String() string { return w.Method + " " + w.Object }

// Release lets the answer through.
func (w Write) Release() { close(w.release) }

// WatchWrites makes managers that are started from now on stop at each write
// that changes the cluster, until it is received from the channel and released.
// What they only say of it, events, leases and the status of the pool, is not
// held.
func (s *Site) WatchWrites() (<-chan Write, error) {
	config, err := s.Lab.ControlPlane().ServiceAccountConfig(Namespace, serviceAccount)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the apiserver's address: %w", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("making the way to the apiserver: %w", err)
	}
	d := &door{seen: make(chan Write)}
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      transport,
		FlushInterval:  -1,
		ModifyResponse: d.hold,
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening the manager's door: %w", err)
	}
	d.url = "http://" + listener.Addr().String()
	d.server = &http.Server{Handler: proxy, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = d.server.Serve(listener) }()
	s.door = d
	return d.seen, nil
}

// hold keeps the answer to a write until it is released, or the one who asked is gone.
func (d *door) hold(response *http.Response) error {
	r := response.Request
	if r.Method == http.MethodGet || response.StatusCode >= http.StatusMultipleChoices || saysOnly(r.URL.Path) {
		return nil
	}
	w := Write{Method: r.Method, Object: lastTwo(r.URL.Path), release: make(chan struct{})}
	select {
	case d.seen <- w:
	case <-r.Context().Done():
		return context.Cause(r.Context())
	}
	<-w.release
	return nil
}

// saysOnly: a write that changes nothing but what is said.
func saysOnly(path string) bool {
	return strings.Contains(path, "/events") || strings.Contains(path, "/leases") || strings.HasSuffix(path, "/status")
}

func lastTwo(path string) string {
	parts := strings.Split(path, "/")
	last := parts[len(parts)-1]
	if len(parts) < 2 || strings.HasPrefix(parts[len(parts)-2], "v") {
		return last
	}
	return parts[len(parts)-2] + "/" + last
}

// managerConfig is how the manager reaches the apiserver: through the door, if there is one.
func (s *Site) managerConfig() (*rest.Config, error) {
	if s.door != nil {
		return &rest.Config{Host: s.door.url}, nil
	}
	return s.Lab.ControlPlane().ServiceAccountConfig(Namespace, serviceAccount)
}

func (d *door) close() error {
	if d == nil {
		return nil
	}
	return d.server.Close()
}
