package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/test/cli"
)

// api is an apiserver as far as the commands ask it, which counts what is written.
type api struct {
	sync.Mutex
	pool  *v1alpha1.RouteReflectorPool
	lease *coordinationv1.Lease
	// refuse answers in its place when it is not nil.
	refuse func(r *http.Request) *metav1.Status
	// before happens before each write is looked at.
	before func(*api)
	writes []string
}

const poolPath = "/apis/rrpool.io/v1alpha1/routereflectorpools"

// ServeHTTP implements http.Handler.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.Lock()
	defer a.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if a.refuse != nil {
		if status := a.refuse(r); status != nil {
			cli.Fail(w, *status)
			return
		}
	}
	switch {
	case strings.HasPrefix(r.URL.Path, poolPath) && r.Method != http.MethodGet:
		a.write(w, r)
	case r.URL.Path == poolPath+"/default" && a.pool != nil:
		_ = json.NewEncoder(w).Encode(a.pool)
	case strings.HasSuffix(r.URL.Path, "/leases/rrpool-manager") && a.lease != nil:
		_ = json.NewEncoder(w).Encode(a.lease)
	default:
		cli.Fail(w, cli.NotFound)
	}
}

// write creates or patches, unless another client was faster.
func (a *api) write(w http.ResponseWriter, r *http.Request) {
	if a.before != nil {
		a.before(a)
	}
	body, _ := io.ReadAll(r.Body)
	dryRun := r.URL.Query().Get("dryRun") != ""
	a.writes = append(a.writes, fmt.Sprintf("%s dryRun=%t", r.Method, dryRun))
	if r.Method == http.MethodPost {
		object := &v1alpha1.RouteReflectorPool{}
		_ = json.Unmarshal(body, object)
		object.Generation, object.ResourceVersion, object.UID = 1, "1", "u1"
		if !dryRun {
			a.pool = object
		}
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(object)
		return
	}
	var patch struct {
		Metadata struct{ ResourceVersion string }
		Spec     map[string]any
	}
	_ = json.Unmarshal(body, &patch)
	if patch.Metadata.ResourceVersion != a.pool.ResourceVersion {
		cli.Fail(w, metav1.Status{Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: "the object has been modified"})
		return
	}
	a.writes[len(a.writes)-1] += fmt.Sprint(" ", patch.Spec)
	changed := a.pool.DeepCopy()
	changed.Spec.Mode = v1alpha1.Mode(fmt.Sprint(patch.Spec["mode"]))
	changed.Generation++
	changed.ResourceVersion += "0"
	if !dryRun {
		a.pool = changed
	}
	_ = json.NewEncoder(w).Encode(changed)
}

// act is the manager for a moment: what it does to the status.
func (a *api) act(do func(*v1alpha1.RouteReflectorPool)) {
	a.pool = a.pool.DeepCopy()
	do(a.pool)
	a.pool.ResourceVersion += "1"
}

// scenario is a cluster that changes while it is watched: after each wait the next
// thing happens, and after the last one Ctrl-C.
type scenario struct {
	*api
	happens []func(*api)
	planner planner
	waits   []time.Duration
}

// play calls a command and lets the scenario happen, in no time.
func (s *scenario) play(t *testing.T, streams iostreams.Streams, args ...string) cli.Answer {
	t.Helper()
	t.Setenv("KUBECONFIG", cli.Serve(t, s))
	var got cli.Answer
	got, s.waits = cli.Play(t, streams, s.root, s.api, s.happens, args...)
	return got
}

// root is the program with both commands.
func (s *scenario) root(streams iostreams.Streams) *cobra.Command {
	p := s.planner
	if p == nil {
		p = planned
	}
	return cli.Root(
		func(streams iostreams.Streams) *cobra.Command { return newMigrate(streams, p) },
		func(streams iostreams.Streams) *cobra.Command { return newRollback(streams, p) },
	)(streams)
}

// planned is a plan that is easy to recognise.
func planned(_ context.Context, s iostreams.Streams, _ *cluster.Connection, _ string, wish *v1alpha1.RouteReflectorPool) (*plan.Problem, error) {
	_, _ = fmt.Fprintf(s.Out, "1. the manager does what it does for %s\n", wish.Spec.Mode)
	return nil, nil
}

// object is a RouteReflectorPool that the manager has observed.
func object(mode v1alpha1.Mode) *v1alpha1.RouteReflectorPool {
	out := crd.Default()
	out.Spec.Mode, out.Generation, out.ResourceVersion, out.UID = mode, 1, "1", "u1"
	out.Status = v1alpha1.RouteReflectorPoolStatus{Provider: "iks"}
	settle(out, "the node-to-node mesh carries 60 nodes")
	return out
}

// step is what the manager reports while it is at a step.
func step(o *v1alpha1.RouteReflectorPool, name, reason string, waits ...string) {
	o.Status.ObservedGeneration = o.Generation
	o.Status.Step = v1alpha1.StepStatus{Name: name, Reason: reason, WaitingFor: waits}
	ready := metav1.ConditionFalse
	if name == "Steady" {
		ready = metav1.ConditionTrue
	}
	condition(o, "Ready", ready, name, reason)
}

func settle(o *v1alpha1.RouteReflectorPool, reason string) { step(o, "Steady", reason) }

func condition(o *v1alpha1.RouteReflectorPool, kind string, status metav1.ConditionStatus, reason, message string) {
	if kind == "Degraded" && status != metav1.ConditionFalse {
		message = plan.Linked(message, reason, 1024) // as the manager does it
	}
	c := metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: o.Generation}
	meta.SetStatusCondition(&o.Status.Conditions, c)
}

// numbers are workers that are Ready in each of three zones, and sessions of each of as many reflectors.
func numbers(o *v1alpha1.RouteReflectorPool, ready, reflectors, sessions int) {
	o.Status.Pool, o.Status.Zones, o.Status.Reflectors = "route-reflectors", nil, nil
	for z := range 3 {
		o.Status.Zones = append(o.Status.Zones, v1alpha1.ZoneStatus{Name: fmt.Sprintf("eu-de-%d", z+1), Desired: 2, Ready: int32(ready)})
	}
	for i := range reflectors {
		o.Status.Reflectors = append(o.Status.Reflectors, v1alpha1.ReflectorStatus{
			Node: fmt.Sprintf("10.1.9.%d", i+1), Zone: "eu-de-1", SessionsEstablished: int32(sessions), SessionsExpected: 65,
		})
	}
}

// by lets the manager act.
func by(do func(*v1alpha1.RouteReflectorPool)) func(*api) {
	return func(a *api) { a.act(do) }
}

func nothing(*api) {}

// idle is a while in which nothing happens.
func idle(looks int) []func(*api) { return slices.Repeat([]func(*api){nothing}, looks) }

// theWay is a migration, as the manager reports it.
func theWay() []func(*api) {
	const mesh = "the mesh stays on until every node has its routes from every route reflector"
	return []func(*api){
		nothing,
		by(func(o *v1alpha1.RouteReflectorPool) {
			step(o, "EnsurePool", "the pool is to have 6 workers", "6 workers to be deployed")
			numbers(o, 0, 0, 0)
			condition(o, "MeshDisabled", "False", "MeshOn", "the node-to-node mesh is on")
		}),
		nothing,
		by(func(o *v1alpha1.RouteReflectorPool) { numbers(o, 1, 0, 0) }),
		by(func(o *v1alpha1.RouteReflectorPool) {
			step(o, "AwaitSessions", mesh, "10.1.9.1 ↔ 10.2.0.7 to be Established", "10.1.9.2 ↔ 10.2.0.7 to be Established")
			numbers(o, 2, 6, 20)
		}),
		by(func(o *v1alpha1.RouteReflectorPool) {
			step(o, "AwaitSessions", mesh, "10.1.9.2 ↔ 10.2.0.7 to be Established")
			numbers(o, 2, 6, 64)
		}),
		by(func(o *v1alpha1.RouteReflectorPool) {
			step(o, "AwaitRoutes", "all sessions are there", "sessions to settle")
			numbers(o, 2, 6, 65)
		}),
		by(func(o *v1alpha1.RouteReflectorPool) {
			settle(o, "6 route reflectors serve 60 nodes; the node-to-node mesh is off")
			condition(o, "MeshDisabled", "True", "MeshOff", "the node-to-node mesh is off")
		}),
	}
}

// reflecting is a cluster at the end of the way.
func reflecting() *v1alpha1.RouteReflectorPool {
	o := object(v1alpha1.ModeRouteReflector)
	settle(o, "6 route reflectors serve 60 nodes; the node-to-node mesh is off")
	condition(o, "MeshDisabled", "True", "MeshOff", "the node-to-node mesh is off")
	numbers(o, 2, 6, 65)
	return o
}

// person answers on a terminal.
func person(answer string) iostreams.Streams {
	return iostreams.Streams{Interactive: true, In: strings.NewReader(answer)}
}

func requireMode(t *testing.T, a *api, want v1alpha1.Mode) {
	t.Helper()
	require.NotNil(t, a.pool)
	require.Equal(t, want, a.pool.Spec.Mode)
}
