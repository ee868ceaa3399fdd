// Package iksserver behaves as the IBM Cloud Kubernetes Service and IAM APIs, as far as rrpool uses them, for VPC (v2) and classic (v1)
// clusters: an asynchronous worker state machine, IBM's scale-down order, and faults.
//
// A Server is an http.Handler. It runs inside a test (httptest.NewServer(s)) or for real in a process of its own (http.ListenAndServe(addr,
// s)). Point both the containers and the IAM endpoint at it; a "/global" prefix is accepted.
//
// # What no source of IBM's backs
//
// Nobody has compared this server with the real one. Paths, bodies of requests and names of fields are those of IBM's
// SDKs and Terraform provider; these are assumptions:
//
//   - All codes E9xxx are invented: E9001 (400, resizing an autoscaled pool), E9004 (404, unknown pool, zone of a
//     pool), E9005 (400, unknown zone), E9007 (400, unknown subnet), E9008 and E9009
//     (409, changing a worker or pool that is being deleted), E9010 (404, a resource group that cannot be seen; the words
//     are IBM's), E9014 (400, a label of Kubernetes). Users report E0011 (404, unknown worker) and Ede7d (409, a zone that
//     the pool has).
//   - Status and use of codes that IBM has: E0053 (400, unknown VLAN), E0007 (400, a body, name, size or taint that is not
//     valid), E0058 (401, no valid token), E3917 (400, another provider's path). E1437 (400, fewer than two workers of an
//     OpenShift cluster) is not answered: there are no OpenShift clusters here.
//   - The status of success of every call is that of the swagger file's tests, and an answer that is not read is empty.
//   - Documented and Slow: taints are in listings of VPC pools. In all but Sparse they are in the answer about a single
//     pool, of classic clusters too. IBM's Terraform provider reads them from that of VPC alone, and says of listings that
//     they are a subset, but not of which fields.
//   - Sparse: its choice of fields. The swagger file requires none, so this is what no caller can do without. An empty
//     list, map or number may be left out (a pool's size of 0).
//   - Any label key is taken, but for Strict. kubelets refuse keys of Kubernetes in --node-labels; whether IKS passes pool
//     labels on so is unknown.
//   - Setting taints replaces all of them, on workers that are there too. A pool can be created without zones in VPC.
//   - The resource group counts for Strict alone, and there for every call. A missing header is an empty one there,
//     except to getCluster.
//   - Names of zones count for Strict alone.
//   - Changes show at once, but for Slow; by how much that lags, and that replicas answer in turn, is its choice. That
//     the name is taken from the first moment of CreationTime is so too.
//   - A deleted pool is gone from listings at once, but for Slow. Its lifecycle is "deleting" then.
//   - A worker that is removed or replaced needs no node, drain or permission, and goes as it stays: Delays.Deleting.
//   - The flavors and zones that there are, the default operating system, and that a flavor is looked at when a zone is added (E4e5b).
//   - How IAM refuses a service account's token: BXNIM9001E, 401 once it has expired. The words about a profile that is
//     not linked are IBM's.
//   - A token is opaque, and expires at once when its time is over.
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
	// AllocateIP gives a new worker its private address, which is its node name.
	// It is called with the server locked. nil: 10.<200+n>.x.y, counted up.
	AllocateIP func(zone, workerID string) string
	// OnDeployed and OnDeleted report that a worker has become a node, and that it is gone. They are called one at a time, in order,
	// without any lock; seeded workers count as known and are not announced.
	OnDeployed, OnDeleted func(Worker)
	// Profile is Documented when empty.
	Profile Profile
	// Audit is shown every pool after each change of state, however short it lasts, with the server locked.
	Audit func([]PoolState)
}

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
	// beliefs are those that are wrong.
	beliefs Beliefs
	// quota is the number of workers an account may have; 0: any. profiles are the trusted ones.
	quota    int
	profiles []TrustedProfile
	// past is what a Slow cloud's replicas answer from, reads counts their answers.
	past  []moment
	reads int

	events eventQueue
	closed chan struct{}
	once   sync.Once
}

// New makes a cloud without clusters. It panics when there is no such profile.
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

// Close releases every request that hangs.
func (s *Server) Close() { s.once.Do(func() { close(s.closed) }) }

// Advance lets d pass for the cloud, on top of its clock.
func (s *Server) Advance(d time.Duration) {
	s.locked(func() { s.offset += d })
}

// Run moves workers along in real time until ctx ends, so that they come up
// without a request. Without it the state moves with every request.
func (s *Server) Run(ctx context.Context, every time.Duration) {
	wait.UntilWithContext(ctx, func(context.Context) { s.locked(func() {}) }, every)
}

// locked runs fn on an up-to-date state and then announces what has happened.
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

// inGroup: the request names the resource group of the cluster that it is about, or that of any cluster when it is about none.
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

// eventQueue hands events out in order, one at a time and without locks held, so that a listener may call the server.
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

// handle registers a call. do runs with the server locked, and gives the body of the answer (nil for none) or a refusal.
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
			if s.cfg.Profile == Slow && status == http.StatusCreated { // a new pool: nothing else that is created is described
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

// refusal is an error of the containers API.
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

// missing is the refusal of a call about what does not exist.
func missing(code, what string) *refusal {
	return refuse(http.StatusNotFound, code, "Provisioning", "The specified %s could not be found.", what)
}

// wrongProvider is what IBM says to a call for another provider, as far as is known.
func wrongProvider(format string, args ...any) *refusal {
	return refuse(http.StatusBadRequest, "E3917", "BadRequest", format, args...)
}

func decode(r *http.Request, v any) *refusal {
	if err := json.NewDecoder(r.Body).Decode(v); err != nil {
		return refuse(http.StatusBadRequest, "E0007", "BadRequest", "The request body could not be parsed: %v", err)
	}
	return nil
}
