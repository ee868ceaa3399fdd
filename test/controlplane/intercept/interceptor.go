// Package intercept is a proxy between managers and the apiserver and cloud: it counts, delays, refuses and drops requests, and cuts a manager
// off as a crash would. It has all requests of a manager: of controller-runtime, libcalico-go, events and leader election.
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
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
)

// Verdict says how a request fails. With the zero value it does not.
type Verdict struct {
	// Delay is how long the request is held at first.
	Delay time.Duration
	// Answer is an HTTP status to respond with instead of the real response, 0 for none.
	Answer int
	// RetryAfter is the header of a response with Answer.
	RetryAfter time.Duration
	// Cut ends the line: there is no response to this request, and to none after it.
	Cut bool
	// Executed, with Answer or Cut: the request takes effect before.
	Executed bool
}

// Rule returns the verdict for a request. Calls of rules do not overlap.
type Rule func(Request) Verdict

// Interceptor holds the rules and the recorded requests of its lines.
type Interceptor struct {
	mu       sync.Mutex
	rules    []Rule
	observe  func(Request)
	requests []*Request
	serial   int
}

// New returns an Interceptor without rules.
func New() *Interceptor { return &Interceptor{} }

// Rules replaces the rules. The first verdict that is not the zero value applies.
func (i *Interceptor) Rules(rules ...Rule) { i.Swap(func() { i.rules = rules }) }

// Swap calls change between two requests, so that it may change the state of rules.
func (i *Interceptor) Swap(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

// Observe sets a function that is called for every write before its response is passed on.
func (i *Interceptor) Observe(fn func(Request)) { i.Swap(func() { i.observe = fn }) }

// Requests returns all requests so far, in the order of their arrival.
func (i *Interceptor) Requests() []Request {
	i.mu.Lock()
	defer i.mu.Unlock()
	out := make([]Request, len(i.requests))
	for n, r := range i.requests {
		out[n] = *r
	}
	return out
}

// Work returns the writes so far that are neither events nor leases.
func (i *Interceptor) Work() []Request {
	return slices.DeleteFunc(i.Requests(), func(r Request) bool { return !r.Work() })
}

// Forget drops the recorded requests, and counts from 1 again.
func (i *Interceptor) Forget() { i.Swap(func() { i.requests, i.serial = nil, 0 }) }

// record records a request and returns its verdict, unless alive reports that its line is cut.
func (i *Interceptor) record(r *Request, alive func() bool) (verdict Verdict, passed bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !alive() {
		return Verdict{}, false
	}
	if r.At = time.Now(); r.Work() {
		i.serial++
		r.Number = i.serial
	}
	i.requests = append(i.requests, r)
	for _, rule := range i.rules {
		if r.DryRun {
			break // a read has no number
		}
		if verdict = rule(*r); verdict != (Verdict{}) {
			break
		}
	}
	return verdict, true
}

func (i *Interceptor) executed(r *Request, code int) {
	i.mu.Lock()
	r.Code = code
	observe, seen := i.observe, *r
	i.mu.Unlock()
	if observe != nil && seen.Write() {
		observe(seen)
	}
}

// Request is a recorded request.
type Request struct {
	// Line is the name of its line.
	Line string
	// Number counts the writes of all lines from 1, without events and leases; 0 for other requests.
	Number int
	// At is the time of its arrival.
	At time.Time
	// Verb is Kubernetes' (get, list, watch, create, update, patch, delete, deletecollection), or the method of a request to the cloud.
	Verb string
	// Group, Resource (with the subresource: "nodes/status"), Namespace and Name of its object. For the cloud, Resource is the path.
	Group, Resource, Namespace, Name string
	// DryRun: the request is a dry run.
	DryRun bool
	// Cloud: the request is to the cloud, not to the apiserver.
	Cloud bool
	// Body of a write.
	Body []byte
	// Code is the status of the real response, 0 if the request was not passed on.
	Code int
}

// Write reports whether the request asks for a change.
func (r Request) Write() bool {
	if r.Cloud {
		return r.Verb != http.MethodGet && !strings.Contains(r.Resource, "/identity/")
	}
	return r.Verb != "get" && r.Verb != "list" && r.Verb != "watch" && !r.DryRun
}

// Lease reports whether the request is of leader election.
func (r Request) Lease() bool { return !r.Cloud && r.Group == "coordination.k8s.io" }

// Work reports whether the request is a write of something other than a lease or an event.
func (r Request) Work() bool { return r.Write() && !r.Lease() && (r.Cloud || r.Resource != "events") }

// Executed reports whether the request is a write that took effect.
func (r Request) Executed() bool { return r.Write() && r.Code >= 200 && r.Code < 300 }

// Kind returns verb and resource.
func (r Request) Kind() string { return r.Verb + " " + r.Resource }

// String is for failure messages.
func (r Request) String() string {
	return fmt.Sprintf("%s %s #%d %s %s → %d", r.At.Format("15:04:05.000"), r.Line, r.Number, r.Kind(), r.Name, r.Code)
}

// infos parses requests as the apiserver does.
var infos = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// parse returns the Request of a request to the apiserver.
func parse(r *http.Request) Request {
	info, err := infos.NewRequestInfo(r)
	if err != nil || !info.IsResourceRequest { // such as discovery
		return Request{Verb: strings.ToLower(r.Method), Resource: r.URL.Path}
	}
	resource := strings.TrimSuffix(info.Resource+"/"+info.Subresource, "/")
	return Request{Verb: info.Verb, Group: info.APIGroup, Resource: resource, Namespace: info.Namespace, Name: info.Name, DryRun: r.URL.Query().Has("dryRun")}
}

// nameFromBody sets the name of an object to create, which is not in the path.
func (r *Request) nameFromBody() {
	var object struct{ Metadata struct{ Name string } }
	if r.Verb == "create" && r.Name == "" && json.Unmarshal(r.Body, &object) == nil {
		r.Name = object.Metadata.Name
	}
}

// Line is the connection of one manager to the apiserver and to the cloud.
type Line struct {
	of   *Interceptor
	name string
	// kube and cloud are the servers that the manager connects to.
	kube, cloud *httptest.Server

	mu      sync.Mutex
	cut     bool
	onCut   func()
	streams map[int]context.CancelFunc
	opened  int
	stale   int
}

// Open returns a new line. Requests are passed on as the user of config, and to cloud, which may be nil. onCut is called once, when a rule cuts
// the line: it should kill the manager.
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

// Config returns the configuration to connect to the apiserver by this line, with TLS.
func (l *Line) Config() *rest.Config {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.kube.Certificate().Raw})
	return &rest.Config{Host: l.kube.URL, TLSClientConfig: rest.TLSClientConfig{CAData: authority}}
}

// CloudURL returns the URL of the cloud by this line.
func (l *Line) CloudURL() string { return l.cloud.URL }

// Close closes the line.
func (l *Line) Close() {
	l.sever()
	for _, server := range []*httptest.Server{l.kube, l.cloud} {
		server.CloseClientConnections()
		server.Close()
	}
}

// DropWatches ends all open watches. With stale, the next watch of each is refused, as for a resource version that is too old.
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

// sever ends the line, and reports whether it was open.
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

// die cuts the line, for a rule.
func (l *Line) die() {
	if l.sever() && l.onCut != nil {
		l.onCut()
	}
}

func (l *Line) serve(w http.ResponseWriter, r *http.Request, far http.Handler, seen Request) {
	seen.Line = l.name
	if seen.Write() {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		seen.Body = body
		seen.nameFromBody()
		// A request that was sent takes effect even if its sender ends.
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
	case <-r.Context().Done(): // the client has closed the connection
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

// pass passes a request on, and responds as the verdict says.
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

// watch passes a watch on until it ends or is dropped.
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

// refuse writes an error response as the apiserver or the cloud does.
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
