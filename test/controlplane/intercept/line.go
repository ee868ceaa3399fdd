package intercept

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Line is the way of one manager to the apiserver and to the cloud.
type Line struct {
	of   *Interceptor
	name string
	// kube is what the line shows as the apiserver, cloud as the cloud.
	kube, cloud *httptest.Server

	mu      sync.Mutex
	cut     bool
	onCut   func()
	streams map[int]context.CancelFunc
	opened  int
	stale   int
}

// Open makes a line. Requests go on as the user of config, and to cloud, which may be
// nil. onCut is called once, when a rule cuts the line: it should kill the manager.
func (i *Interceptor) Open(name string, config *rest.Config, cloud http.Handler, onCut func()) (*Line, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the apiserver's address %q: %w", config.Host, err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a way to the apiserver: %w", err)
	}
	l := &Line{of: i, name: name, onCut: onCut, streams: map[int]context.CancelFunc{}}
	quiet := log.New(io.Discard, "", 0)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport, FlushInterval: -1, ErrorLog: quiet,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	l.kube = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.serve(w, r, proxy, parse(r))
	}))
	l.kube.EnableHTTP2, l.kube.Config.ErrorLog = true, quiet
	l.kube.StartTLS()
	l.cloud = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.serve(w, r, cloud, Request{Verb: r.Method, Resource: r.URL.Path, Cloud: true})
	}))
	l.cloud.Config.ErrorLog = quiet
	l.cloud.Start()
	return l, nil
}

// Config leads to the apiserver on this line, with TLS.
func (l *Line) Config() *rest.Config {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.kube.Certificate().Raw})
	return &rest.Config{Host: l.kube.URL, TLSClientConfig: rest.TLSClientConfig{CAData: authority}}
}

// CloudURL leads to the cloud on this line.
func (l *Line) CloudURL() string { return l.cloud.URL }

// Close ends the line for good.
func (l *Line) Close() {
	l.sever()
	for _, server := range []*httptest.Server{l.kube, l.cloud} {
		server.CloseClientConnections()
		server.Close()
	}
}

// DropWatches cuts all open watches. With stale, the next watch of each is refused: what it asks for is too old.
func (l *Line) DropWatches(stale bool) (dropped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	dropped = len(l.streams)
	for _, cancel := range l.streams {
		cancel()
	}
	clear(l.streams)
	if stale {
		l.stale += dropped
	}
	return dropped
}

func (l *Line) alive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.cut
}

// sever lets nothing more pass, and says whether it did so far.
func (l *Line) sever() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := !l.cut
	l.cut = true
	for _, cancel := range l.streams {
		cancel()
	}
	clear(l.streams)
	return was
}

// die cuts the line as a rule has it.
func (l *Line) die() {
	if l.sever() && l.onCut != nil {
		l.onCut()
	}
}

// serve lets one request meet its verdict.
func (l *Line) serve(w http.ResponseWriter, r *http.Request, far http.Handler, seen Request) {
	seen.Line = l.name
	if seen.Write() {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		seen.Body = body
		seen.nameFromBody()
		// What has been sent arrives, whatever becomes of the sender.
		r = r.WithContext(context.WithoutCancel(r.Context()))
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	verdict, passed := l.of.record(&seen, l.alive)
	if !passed {
		panic(http.ErrAbortHandler)
	}
	if verdict.Cut && !verdict.Executed {
		l.die()
		panic(http.ErrAbortHandler)
	}
	select {
	case <-time.After(verdict.Delay):
	case <-r.Context().Done(): // the near side has gone
		panic(http.ErrAbortHandler)
	}
	if verdict.Answer != 0 && !verdict.Executed {
		refuse(w, seen, verdict)
		return
	}
	if seen.Verb == "watch" {
		l.watch(w, r, far, seen)
		return
	}
	l.pass(w, r, far, &seen, verdict)
}

// pass asks the far side, and answers the near side as the verdict says.
func (l *Line) pass(w http.ResponseWriter, r *http.Request, far http.Handler, seen *Request, verdict Verdict) {
	answer := httptest.NewRecorder()
	far.ServeHTTP(answer, r)
	l.of.executed(seen, answer.Code)
	if verdict.Cut {
		l.die()
	}
	if !l.alive() {
		panic(http.ErrAbortHandler)
	}
	if verdict.Answer != 0 {
		refuse(w, *seen, verdict)
		return
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // the manager may be gone
}

// watch passes a stream on until it ends or is dropped.
func (l *Line) watch(w http.ResponseWriter, r *http.Request, far http.Handler, seen Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	l.mu.Lock()
	if l.stale > 0 {
		l.stale--
		l.mu.Unlock()
		refuse(w, seen, Verdict{Answer: http.StatusGone})
		return
	}
	l.opened++
	id := l.opened
	l.streams[id] = cancel
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.streams, id)
	}()
	far.ServeHTTP(w, r.WithContext(ctx))
}

// refuse answers as the apiserver does, or the cloud.
func refuse(w http.ResponseWriter, r Request, verdict Verdict) {
	if verdict.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(verdict.RetryAfter/time.Second))))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(verdict.Answer)
	if r.Cloud {
		_, _ = fmt.Fprintf(w, `{"code":"E0000","description":"injected %d"}`, verdict.Answer)
		return
	}
	verb := r.Verb
	if verb == "create" {
		verb = http.MethodPost
	}
	about := schema.GroupResource{Group: r.Group, Resource: r.Resource}
	status := apierrors.NewGenericServerResponse(verdict.Answer, verb, about, r.Name, "", 0, false).ErrStatus
	status.Kind, status.APIVersion = "Status", "v1"
	status.Message = fmt.Sprintf("injected %d: %s %s %q", verdict.Answer, r.Verb, r.Resource, r.Name)
	_ = json.NewEncoder(w).Encode(status) // the manager may be gone
}
