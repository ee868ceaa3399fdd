// Package iksserver behaves as the IBM Cloud Kubernetes Service and IAM APIs, as far as rrpool uses them, for VPC (v2) and classic (v1) clusters:
// an asynchronous worker state machine, IBM's scale-down order, and faults.
//
// A Server is an http.Handler. It runs inside a test (httptest.NewServer(s)) or for real in a process of its own (http.ListenAndServe(addr, s)).
// Point both the containers and the IAM endpoint at it; a "/global" prefix is accepted.
//
// # Assumptions
//
// This server was never compared with the real API. Paths, bodies of requests and names of fields are those of IBM's SDKs and Terraform provider.
// These assumptions have no source of IBM's:
//
//   - All codes E9xxx are invented: E9001 (400, resizing an autoscaled pool), E9004 (404, unknown pool, zone of a
//     pool), E9005 (400, unknown zone), E9007 (400, unknown subnet), E9008 and E9009
//     (409, changing a worker or pool that is being deleted), E9010 (404, a resource group that cannot be seen; the words
//     are IBM's), E9014 (400, a label of Kubernetes). Users report E0011 (404, unknown worker) and Ede7d (409, a zone that
//     the pool has).
//   - Status and use of codes that IBM has: E0053 (400, unknown VLAN), E0007 (400, a body, name, size or taint that is not
//     valid), E0058 (401, no valid token), E3917 (400, another provider's path). E1437 (400, fewer than two workers of an
//     OpenShift cluster) is not answered: there are no OpenShift clusters here.
//   - The status of success of every call is that of the swagger file's tests. The bodies of responses that rrpool does not read are empty.
//   - Documented and Slow: taints are in listings of VPC pools. In all but Sparse they are in the answer about a single
//     pool, of classic clusters too. IBM's Terraform provider reads them from that of VPC alone, and says of listings that
//     they are a subset, but not of which fields.
//   - Sparse: the choice of fields. The swagger file requires none, so these are the ones that every caller needs. An empty
//     list, map or number may be missing (a pool's size of 0).
//   - Any label key is accepted, except by Strict. kubelets refuse keys of Kubernetes in --node-labels; whether IKS passes pool
//     labels to that flag is unknown.
//   - Setting taints replaces all of them, also on existing workers. In VPC, a pool can be created without zones.
//   - Only Strict checks the resource group, of every call. It takes a missing header for an empty one,
//     except of getCluster.
//   - Only Strict checks the names of zones.
//   - Changes are visible at once, except with Slow: its replicas answer in turn, and each lags. A pool's name is taken from the
//     beginning of CreationTime.
//   - A deleted pool is missing in listings at once, except with Slow, which lists it as "deleting".
//   - Removing or replacing a worker does not depend on its node and takes Delays.Deleting.
//   - The available flavors and zones, the default operating system, and that the flavor is checked when a zone is added (E4e5b).
//   - The error for a service account's token: BXNIM9001E, with 401 once it has expired. The words about a profile that is
//     not linked are IBM's.
//   - A token is opaque, and is refused from its expiry on.
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

	"k8s.io/apimachinery/pkg/util/wait"
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
	// AllocateIP returns the private address of a new worker, which is its node name. It is called with the server locked. If it is nil,
	// addresses count up from 10.200.0.1.
	AllocateIP func(zone, workerID string) string
	// OnDeployed and OnDeleted are called when a worker has become a node, and when it is deleted: one at a time, in order, without any lock.
	// OnDeployed is not called for seeded workers.
	OnDeployed, OnDeleted func(Worker)
	// Profile is Documented when empty.
	Profile Profile
	// Audit is called with all pools after every change of state, with the server locked.
	Audit func([]PoolState)
}

// Delays are how long a worker stays in each state.
type Delays struct {
	Pending, Provisioning, Deploying, Deleting time.Duration
}

// Server is an http.Handler for both APIs, with the state of the cloud.
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
	// beliefs are the assumptions that do not hold.
	beliefs Beliefs
	// quota is the most workers of the account; 0: no limit. profiles are the trusted profiles.
	quota    int
	profiles []TrustedProfile
	// past are the states that a Slow cloud's replicas answer from, reads counts their answers.
	past  []moment
	reads int

	events eventQueue
	closed chan struct{}
	once   sync.Once
}

// New returns a server without clusters. It panics if the profile does not exist.
func New(cfg Config) *Server {
	cfg.Profile = cmp.Or(cfg.Profile, Documented)
	cfg.TokenLifetime = cmp.Or(cfg.TokenLifetime, time.Hour)
	if !slices.Contains(Profiles, cfg.Profile) {
		panic(fmt.Sprintf("iksserver has no profile %q, only %q", cfg.Profile, Profiles))
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Server{cfg: cfg, tokens: map[string]time.Time{}, closed: make(chan struct{})}
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("POST /identity/token", s.token)
	s.routeV2()
	s.routeClassic()
	return s
}

// Close ends every request that hangs.
func (s *Server) Close() { s.once.Do(func() { close(s.closed) }) }

// Advance moves the server's clock forward by d.
func (s *Server) Advance(d time.Duration) {
	s.locked(func() { s.offset += d })
}

// Run updates the state of workers in real time until ctx ends. Without it, only requests do.
func (s *Server) Run(ctx context.Context, every time.Duration) {
	wait.UntilWithContext(ctx, func(context.Context) { s.locked(func() {}) }, every)
}

// locked updates the state, calls fn with the server locked, and then calls OnDeployed and OnDeleted.
func (s *Server) locked(fn func()) {
	func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.moveTo(s.clusters, s.now(), true)
		fn()
		s.moveTo(s.clusters, s.now(), true)
		s.remember()
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
		index, fault = len(s.requests), s.takeFault(r)
		request := Request{At: s.now(), Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), Body: string(body), Faulty: fault != nil}
		if request.Token() {
			request.Body = ""
		}
		s.requests = append(s.requests, request)
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

// serve answers a request as without a fault, and records the status.
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

// inGroup reports whether the request names the resource group of its cluster, or of any cluster if it is about none.
func (s *Server) inGroup(r *http.Request, index int) bool {
	given, there := r.Header["X-Auth-Resource-Group"]
	if s.cfg.Profile != Strict || r.URL.Path == "/identity/token" || !there && r.URL.Path == "/v2/getCluster" {
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

// eventQueue calls listeners in order, one at a time, with no lock held: a listener may call the server.
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

// Request is a received request.
type Request struct {
	At     time.Time
	Method string
	// Path without the "/global" prefix.
	Path  string
	Query url.Values
	// Body is empty for token requests, whose body contains the API key.
	Body string
	// Status is the status of the response, 0 without one.
	Status int
	// Own is the status before a fault changed it, 0 if a fault prevented the request from taking effect. Faulty: there was a fault.
	Own    int
	Faulty bool
}

// Executed reports whether the request took effect, whatever the response was.
func (r Request) Executed() bool { return r.Own >= 200 && r.Own <= 299 }

// Mutating reports whether the request asked for a change.
func (r Request) Mutating() bool { return r.Method != http.MethodGet && !r.Token() }

// Token reports whether the request was for an IAM token.
func (r Request) Token() bool { return strings.HasPrefix(r.Path, "/identity/") }

// Requests returns all requests so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Counts returns the numbers of reading, mutating and token requests so far.
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

// handle registers a call. do runs with the server locked, and returns the body of the response (nil for none) or a refusal.
func (s *Server) handle(pattern string, status int, do func(*http.Request) (any, *refusal)) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		var body any
		var bad *refusal
		s.locked(func() {
			if r.Method == http.MethodGet {
				now := s.clusters
				defer func() { s.clusters = now }()
				s.clusters = s.replica()
			}
			body, bad = do(r)
		})
		switch {
		case bad != nil:
			bad.write(w)
		case body == nil:
			w.WriteHeader(status)
		default:
			writeJSON(w, status, body)
			if s.cfg.Profile == Slow && status == http.StatusCreated { // a new pool: only that has both this status and a body
				s.pause(r, CreationTime)
			}
		}
	})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may have gone away
}

// refusal is an error response of the containers API.
type refusal struct {
	status      int
	IncidentID  string `json:"incidentID"`
	Code        string `json:"code"`
	Description string `json:"description"`
	Type        string `json:"type"`
}

func refuse(status int, code, kind, format string, args ...any) *refusal {
	return &refusal{status: status, IncidentID: "a7d94c4d-incident", Code: code, Type: kind, Description: fmt.Sprintf(format, args...)}
}

func (bad *refusal) write(w http.ResponseWriter) { writeJSON(w, bad.status, bad) }

// missing returns the refusal for an object that does not exist.
func missing(code, what string) *refusal {
	return refuse(http.StatusNotFound, code, "Provisioning", "The specified %s could not be found.", what)
}

// wrongProvider returns the refusal of a call for another provider.
func wrongProvider(format string, args ...any) *refusal {
	return refuse(http.StatusBadRequest, "E3917", "BadRequest", format, args...)
}

func decode(r *http.Request, v any) *refusal {
	if err := json.NewDecoder(r.Body).Decode(v); err != nil {
		return refuse(http.StatusBadRequest, "E0007", "BadRequest", "The request body could not be parsed: %v", err)
	}
	return nil
}
