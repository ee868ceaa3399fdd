// Package iksserver behaves as the IBM Cloud Kubernetes Service and IAM APIs, as
// far as rrpool uses them, for VPC (v2) and classic (v1) clusters: an
// asynchronous worker state machine, IBM's scale-down order, and faults.
//
// A Server is an http.Handler. It runs inside a test (httptest.NewServer(s)) or
// for real in a process of its own (http.ListenAndServe(addr, s)). Point both the
// containers and the IAM endpoint at it; a "/global" prefix is accepted.
//
// What IBM does not document and is invented here: the refusal of resizing an
// autoscaled pool (400 E9001), the code of an unknown pool or worker (E9004), the
// status and code for a resource group that cannot be seen (404 E9010; the words are
// IBM's), and which fields Sparse leaves out.
package iksserver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Config of a Server. The zero value is usable: real time, no delays, no limits.
type Config struct {
	// Now is the clock; time.Now when nil. Advance adds to it.
	Now func() time.Time
	// Delays of the worker states.
	Delays Delays
	// APIKeys that IAM accepts; none: any that is not empty. See SetAPIKeys.
	APIKeys []string
	// TokenLifetime is an hour when 0.
	TokenLifetime time.Duration
	// AllocateIP gives a new worker its private address, which is its node name.
	// It is called with the server locked. nil: 10.<200+n>.x.y, counted up.
	AllocateIP func(zone, workerID string) string
	// OnDeployed and OnDeleted report that a worker has become a node, and that it
	// is gone. They are called one at a time, in order, without any lock; seeded
	// workers count as known and are not announced.
	OnDeployed, OnDeleted func(Worker)
	// Quota is the number of workers an account may have; 0: any.
	Quota int
	// Lingering: a deleted pool stays listed, as one that goes, and keeps its name
	// until its machines are gone. Else both end at once; IBM does not say which.
	Lingering bool
	// Sparse leaves out of answers about pools what IBM's documents call optional.
	Sparse Sparse
	// EnforceGroups: a request has to carry the id of the cluster's resource group
	// (Cluster.ResourceGroup) in the header X-Auth-Resource-Group. Without it, or with an
	// empty one, the account's default group "" is meant; only getCluster finds a cluster
	// of any group when there is no header at all.
	EnforceGroups bool
	// Audit is shown every pool after each change of state, however short it lasts, with the server locked.
	Audit func([]PoolState)
}

// Sparse is how much of a pool is left out of answers.
type Sparse int

// The degrees.
const (
	// WholeAnswers hold every field.
	WholeAnswers Sparse = iota
	// SparseListings of pools hold ids, names and states alone.
	SparseListings
	// SparseAnswers: besides, the answer about a single pool holds no taints, and of the
	// rest only what a caller cannot do without: id, name, labels, size, zones.
	SparseAnswers
)

// Delays are how long a worker stays in each state.
type Delays struct {
	// Pending, Provisioning, Deploying: on the way to deployed. Deleting: on the way out.
	Pending, Provisioning, Deploying, Deleting time.Duration
}

// Server is the cloud.
type Server struct {
	cfg Config
	mux *http.ServeMux

	mu       sync.Mutex
	offset   time.Duration
	clusters []*cluster
	tokens   map[string]time.Time
	faults   []*Fault
	requests []Request
	serial   int
	failNext []failure

	events eventQueue
	closed chan struct{}
	once   sync.Once
}

// New makes a cloud without clusters.
func New(cfg Config) *Server {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.TokenLifetime = cmp.Or(cfg.TokenLifetime, time.Hour)
	s := &Server{cfg: cfg, tokens: map[string]time.Time{}, closed: make(chan struct{})}
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("POST /identity/token", s.token)
	s.routeV2()
	s.routeClassic()
	return s
}

// Close releases every request that hangs.
func (s *Server) Close() { s.once.Do(func() { close(s.closed) }) }

// Advance lets d pass for the cloud, on top of its clock.
func (s *Server) Advance(d time.Duration) {
	s.locked(func() { s.offset += d })
}

// Run moves workers along in real time until ctx ends, so that they come up
// without a request. Without it the state moves with every request.
func (s *Server) Run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.locked(func() {})
		}
	}
}

// locked runs fn on an up-to-date state and then announces what has happened.
func (s *Server) locked(fn func()) {
	func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.move()
		fn()
		s.move()
		s.audit()
	}()
	s.events.drain()
}

func (s *Server) now() time.Time { return s.cfg.Now().Add(s.offset) }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	r = r.Clone(r.Context())
	r.URL.Path = strings.TrimPrefix(r.URL.Path, "/global")
	r.Body = io.NopCloser(strings.NewReader(string(body)))

	var fault *Fault
	var index int
	s.locked(func() {
		index = s.record(r, body)
		fault = s.takeFault(r)
		s.requests[index].Faulty = fault != nil
	})
	status := 0
	defer func() { s.locked(func() { s.requests[index].Status = status }) }()
	out := s.answer(r, fault, index)
	if out == nil {
		return
	}
	maps.Copy(w.Header(), out.Header())
	status = out.Code
	w.WriteHeader(status)
	if fault != nil && fault.Slow > 0 {
		s.trickle(w, r, out.Body.Bytes(), fault.Slow)
		return
	}
	_, _ = w.Write(out.Body.Bytes()) // the client may have gone away
}

// serve answers as the service does, and notes what it has answered.
func (s *Server) serve(r *http.Request, index int) *httptest.ResponseRecorder {
	own := httptest.NewRecorder()
	switch {
	case r.URL.Path != "/identity/token" && !s.authorized(r):
		refuse(http.StatusUnauthorized, "E0058", "Authentication", "The authorization token is missing, invalid or expired.").write(own)
	case !s.inGroup(r, index):
		refuse(http.StatusNotFound, "E9010", "Provisioning", "The targeted resource group could not be found. "+
			"Make sure you have required permissions to access the resource group.").write(own)
	default:
		s.mux.ServeHTTP(own, r)
	}
	s.locked(func() { s.requests[index].Own = own.Code })
	return own
}

// inGroup: the request names the resource group of the cluster that it is about, or
// that of any cluster when it is about none.
func (s *Server) inGroup(r *http.Request, index int) bool {
	given, there := r.Header["X-Auth-Resource-Group"]
	if !s.cfg.EnforceGroups || r.URL.Path == "/identity/token" || !there && r.URL.Path == "/v2/getCluster" {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var body change
	_ = json.Unmarshal([]byte(s.requests[index].Body), &body) // not every body names a cluster
	key := cmp.Or(r.URL.Query().Get("cluster"), body.Cluster)
	if below, ok := strings.CutPrefix(r.URL.Path, "/v1/clusters/"); ok {
		key, _, _ = strings.Cut(below, "/")
	}
	group := strings.Join(given, "")
	if c := s.cluster(key); c != nil {
		return c.ResourceGroup == group
	}
	return slices.ContainsFunc(s.clusters, func(c *cluster) bool { return c.ResourceGroup == group })
}

func (s *Server) nextSerial() int {
	s.serial++
	return s.serial
}

func (s *Server) address(zone, id string) string {
	if s.cfg.AllocateIP != nil {
		return s.cfg.AllocateIP(zone, id)
	}
	n := s.serial
	return fmt.Sprintf("10.%d.%d.%d", 200+n/65536, n/256%256, n%256)
}

// eventQueue hands events out in order, one at a time and without locks held, so
// that a listener may call the server.
type eventQueue struct {
	mu      sync.Mutex
	pending []func()
	running bool
}

func (q *eventQueue) add(fn func(Worker), w Worker) {
	if fn == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending = append(q.pending, func() { fn(w) })
}

func (q *eventQueue) drain() {
	q.mu.Lock()
	if q.running {
		q.mu.Unlock()
		return
	}
	q.running = true
	for len(q.pending) > 0 {
		next := q.pending[0]
		q.pending = q.pending[1:]
		q.mu.Unlock()
		next()
		q.mu.Lock()
	}
	q.running = false
	q.mu.Unlock()
}

// Request is one request as it came in.
type Request struct {
	At     time.Time
	Method string
	// Path without the "/global" prefix.
	Path  string
	Query url.Values
	// Body, empty for token requests: it holds the API key.
	Body string
	// Status that was answered, 0 while the request is under way, and for ever when nothing was.
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
