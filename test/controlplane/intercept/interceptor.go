// Package intercept stands between managers and what they talk to, the apiserver and
// the cloud: it counts, delays, refuses and loses their requests, and cuts a manager
// off as its death would. All of a manager passes through it: controller-runtime,
// libcalico-go, events and leader election.
package intercept

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Verdict is what becomes of a request. The zero value lets it pass.
type Verdict struct {
	// Delay is how long it is held before anything else.
	Delay time.Duration
	// Answer is the HTTP status that is answered instead of the real one, 0 for the real one.
	Answer int
	// RetryAfter goes with Answer.
	RetryAfter time.Duration
	// Cut ends the line: nothing is answered, and nothing passes any more.
	Cut bool
	// Executed, with Answer or Cut: the request takes effect first.
	Executed bool
}

// Rule judges a request. Rules are asked one request at a time.
type Rule func(Request) Verdict

// Interceptor keeps the rules and the record of its lines.
type Interceptor struct {
	mu       sync.Mutex
	rules    []Rule
	observe  func(Request)
	requests []*Request
	serial   int
}

// New makes an Interceptor that lets everything pass.
func New() *Interceptor { return &Interceptor{} }

// Rules replaces the rules. The first that does not let a request pass decides.
func (i *Interceptor) Rules(rules ...Rule) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rules = rules
}

// Swap changes what rules look at, between two requests.
func (i *Interceptor) Swap(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

// Observe has fn called for every write that the far side has answered, before its answer goes on.
func (i *Interceptor) Observe(fn func(Request)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.observe = fn
}

// Requests gives all requests so far, in the order in which they came.
func (i *Interceptor) Requests() []Request {
	i.mu.Lock()
	defer i.mu.Unlock()
	out := make([]Request, len(i.requests))
	for n, r := range i.requests {
		out[n] = *r
	}
	return out
}

// Work gives the writes so far that are neither events nor leases.
func (i *Interceptor) Work() []Request {
	return slices.DeleteFunc(i.Requests(), func(r Request) bool { return !r.Work() })
}

// Forget drops the record, and counts from 1 again.
func (i *Interceptor) Forget() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.requests, i.serial = nil, 0
}

// record notes a request and judges it, unless alive says that its line is cut.
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
		if verdict = rule(*r); verdict != (Verdict{}) {
			break
		}
	}
	return verdict, true
}

// executed notes what the far side has answered.
func (i *Interceptor) executed(r *Request, code int) {
	i.mu.Lock()
	r.Code = code
	observe, seen := i.observe, *r
	i.mu.Unlock()
	if observe != nil && seen.Write() {
		observe(seen)
	}
}

// Request is one request as it came by.
type Request struct {
	// Line is the name of the line it came on.
	Line string
	// Number counts the writes of all lines from 1, events and leases left out; 0 for every other request.
	Number int
	// At is when it came.
	At time.Time
	// Verb is Kubernetes' (get, list, watch, create, update, patch, delete,
	// deletecollection), or the method of a request to the cloud.
	Verb string
	// Group, Resource (with the subresource: "nodes/status"), Namespace and Name of what
	// it is about. For the cloud, Resource is the path.
	Group, Resource, Namespace, Name string
	// Cloud: it goes to the cloud, not to the apiserver.
	Cloud bool
	// Body of a write.
	Body []byte
	// Code is what the far side answered, 0 when it was not asked.
	Code int
}

// Write reports whether the request is to change something.
func (r Request) Write() bool {
	if r.Cloud {
		return r.Verb != http.MethodGet && !strings.Contains(r.Resource, "/identity/")
	}
	return r.Verb != "get" && r.Verb != "list" && r.Verb != "watch"
}

// Lease reports whether it is leader election.
func (r Request) Lease() bool { return !r.Cloud && r.Group == "coordination.k8s.io" }

// Work reports whether it changes what the product is about.
func (r Request) Work() bool { return r.Write() && !r.Lease() && (r.Cloud || r.Resource != "events") }

// Executed reports whether it is a write that took effect.
func (r Request) Executed() bool { return r.Write() && r.Code >= 200 && r.Code < 300 }

// Kind is the sort of request, without the name of the object.
func (r Request) Kind() string { return r.Verb + " " + r.Resource }

// String is for failure messages.
func (r Request) String() string {
	return fmt.Sprintf("%s %s #%d %s %s → %d", r.At.Format("15:04:05.000"), r.Line, r.Number, r.Kind(), r.Name, r.Code)
}

// infos reads requests as the apiserver does.
var infos = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// parse reads what a request to the apiserver is about.
func parse(r *http.Request) Request {
	info, err := infos.NewRequestInfo(r)
	if err != nil || !info.IsResourceRequest { // discovery and the like
		return Request{Verb: strings.ToLower(r.Method), Resource: r.URL.Path}
	}
	resource := strings.TrimSuffix(info.Resource+"/"+info.Subresource, "/")
	return Request{Verb: info.Verb, Group: info.APIGroup, Resource: resource, Namespace: info.Namespace, Name: info.Name}
}

// nameFromBody names what is to be created: the path does not.
func (r *Request) nameFromBody() {
	var object struct{ Metadata struct{ Name string } }
	if r.Verb == "create" && r.Name == "" && json.Unmarshal(r.Body, &object) == nil {
		r.Name = object.Metadata.Name
	}
}
