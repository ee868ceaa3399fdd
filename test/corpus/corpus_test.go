// Package corpus_test runs configurations of Calico as people have them, found in public issues and repositories and reduced, through check,
// plan and the first steps of the manager, on a real apiserver.
package corpus_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rrpool/rrpool/cmd/rrpool/check"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/plan"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/cmd/wiring"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/controllers/plan/reason"
	"github.com/rrpool/rrpool/controllers/pool"
	"github.com/rrpool/rrpool/controllers/workload"
	"github.com/rrpool/rrpool/test/cli"
	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/fakenetwork"
)

func TestMain(m *testing.M) { cli.Main(m) }

// TestConfigurationsOfOthers: each gets the right verdict, of which check, plan and manager have one.
func TestConfigurationsOfOthers(t *testing.T) {
	w := newWorld(t)
	for _, path := range files(t) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			w.T = t
			r := load(t, path)
			defer w.clear()
			w.build(r)
			a := w.ask(r)
			failed := a.failed(r)
			for _, name := range slices.Sorted(maps.Keys(failed)) {
				if slices.Contains(r.Todo.Fails, name) {
					t.Logf("todo %s: %s", name, failed[name])
				} else {
					t.Errorf("%s: %s", name, failed[name])
				}
			}
			for _, name := range r.Todo.Fails {
				assert.Contains(t, failed, name, "it is right by now: remove it from todo")
			}
			if t.Failed() || testing.Verbose() {
				t.Logf("%s\n%s", r.About, a)
			}
		})
	}
}

// world is an apiserver with rrpool's CRDs and rights, whose cluster is made anew for each row.
type world struct {
	*testing.T
	plane      *controlplane.ControlPlane
	admin      client.Client
	kubeconfig string
	// requested gives what the manager has asked for since it was called last.
	requested func() ([]controlplane.AuditEvent, error)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, plane: controlplane.ForTest(t)}
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(clientscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	var err error
	w.admin, err = client.New(w.plane.AdminConfig(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	w.kubeconfig = cli.Kubeconfig(t, w.plane.AdminConfig())
	w.requested = w.plane.Follow(controlplane.ServiceAccountUser(snapshot.DefaultNamespace, account))
	w.namespace(snapshot.DefaultNamespace)
	rights, err := controlplane.Rights("service_account.yaml", "role.yaml", "bindings.yaml")
	require.NoError(t, err)
	for _, o := range append(rights, controlplane.Reporters()...) {
		w.create(o)
	}
	return w
}

// answers are what check, plan and manager say of one cluster.
type answers struct {
	checks map[string]check.Result
	check  cli.Answer
	plan   struct {
		Problem *struct{ Reason, Message string }
		Steps   []struct {
			Name, Reason string
			Writes       []string
		}
	}
	planned, shown cli.Answer
	manager        manager
}

type manager struct {
	steps []v1alpha1.StepStatus
	// refuses is the reason of condition Degraded, "" where it is not True.
	refuses, message string
	writes           []string
	reflectors       []string // nodes that have a cluster ID in the end
	err              error
}

func (w *world) ask(r row) (a answers) {
	w.Helper()
	spec, err := json.Marshal(r.Pool)
	require.NoError(w, err)
	if r.Pool == nil {
		spec = []byte("{}")
	}
	args := []string{"--kubeconfig", w.kubeconfig, "--filename", cli.PoolFile(w.T, string(spec))}
	now := iostreams.Streams{Now: time.Now}
	a.check = cli.AskIn(w.T, now, check.New, append([]string{"check", "--pre", "-o", "json"}, args...)...)
	var shown struct {
		Groups []struct{ Checks []check.Result }
	}
	require.NoError(w, json.Unmarshal([]byte(a.check.Out), &shown), "%v", a.check)
	a.checks = map[string]check.Result{}
	for _, g := range shown.Groups {
		for _, c := range g.Checks {
			a.checks[c.ID] = c
		}
	}
	a.planned = cli.AskIn(w.T, now, plan.New, append([]string{"plan", "-o", "json"}, args...)...)
	if a.planned.Out != "" { // else it has said why not
		require.NoError(w, json.Unmarshal([]byte(a.planned.Out), &a.plan), "%v", a.planned)
	}
	a.shown = cli.AskIn(w.T, now, plan.New, append([]string{"plan"}, args...)...)
	a.manager = w.manage(r, string(spec))
	return a
}

const account = "rrpool-manager"

// manage lets the manager take its first steps, with its own rights, by a clock that goes on as fast as it reconciles.
func (w *world) manage(r row, spec string) (out manager) {
	w.Helper()
	object := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}}
	require.NoError(w, json.Unmarshal([]byte(spec), &object.Spec))
	require.NoError(w, w.admin.Create(w.Context(), object))
	defer func() {
		require.NoError(w, w.admin.Patch(w.Context(), object, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
		require.NoError(w, w.admin.Delete(w.Context(), object))
	}()
	_, err := w.requested()
	require.NoError(w, err)
	ctx, stop := context.WithCancel(w.Context())
	defer stop()
	var passed atomic.Int64
	reconciler, changes := w.reconciler(ctx, func() time.Time { return time.Now().Add(time.Duration(passed.Load())) })
	for range cmp.Or(r.Turns, 4) {
		result, err := reconciler.Reconcile(ctx, reconcile.Request{})
		out.err = errors.Join(out.err, err)
		passed.Add(int64(result.RequeueAfter))
		select {
		case <-changes:
		default:
		}
		if w.report(r) {
			<-changes
		}
		require.NoError(w, w.admin.Get(ctx, client.ObjectKeyFromObject(object), object))
		if step := object.Status.Step; len(out.steps) == 0 && step.Name != "" || len(out.steps) > 0 && out.steps[len(out.steps)-1].Name != step.Name {
			out.steps = append(out.steps, step)
		}
	}
	if degraded := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionDegraded); degraded != nil && degraded.Status == metav1.ConditionTrue {
		out.refuses, out.message = degraded.Reason, degraded.Message
	}
	var nodes corev1.NodeList
	require.NoError(w, w.admin.List(w.Context(), &nodes))
	for _, n := range nodes.Items {
		if n.Annotations[fakenetwork.IDAnnotation] != "" {
			out.reflectors = append(out.reflectors, n.Name)
		}
	}
	requests, err := w.requested()
	require.NoError(w, err)
	for _, e := range requests {
		require.NotEqual(w, 403, e.Code, "%s", e)
		reads := slices.Contains([]string{"get", "list", "watch"}, e.Verb)
		own := strings.HasPrefix(e.Resource, "routereflectorpools") || e.Resource == "events" || e.Lease()
		if !reads && !own && !e.DryRun {
			out.writes = append(out.writes, fmt.Sprintf("%s %s %s", e.Verb, e.Resource, e.Name))
		}
	}
	return out
}

// cached reads Secrets as the manager's cache does, which may list and watch them, but not get one.
type cached struct {
	client.Client
	secrets client.Reader
}

func (c cached) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, secret := o.(*corev1.Secret); secret {
		return c.secrets.Get(ctx, key, o, opts...)
	}
	return c.Client.Get(ctx, key, o, opts...)
}

// reconciler is the manager's, see connect of cmd/manager; Nodes are read without a cache, as who may list and watch them, but not get one.
func (w *world) reconciler(ctx context.Context, now func() time.Time) (*pool.Reconciler, <-chan struct{}) {
	w.Helper()
	config := w.plane.ServiceAccountConfig(snapshot.DefaultNamespace, account)
	config.QPS = -1
	writer, err := client.New(config, client.Options{Scheme: w.admin.Scheme()})
	require.NoError(w, err)
	adapter, err := calico.New(calico.Config{RestConfig: config, Nodes: w.admin, Live: writer, Writer: writer, Log: logr.Discard(), Now: now})
	require.NoError(w, err)
	web, err := rest.HTTPClientFor(config)
	require.NoError(w, err)
	pods, err := workload.New(config, web)
	require.NoError(w, err)
	go func() { _ = adapter.Start(ctx) }() // it fails only when it is started twice
	require.NoError(w, adapter.WaitSynced(ctx))
	return &pool.Reconciler{
		Client: cached{writer, w.admin}, Live: writer, Datastore: adapter, Workload: pods, Namespace: snapshot.DefaultNamespace, Now: now, Pause: func(time.Duration) {},
		Providers: wiring.Providers(adapter, pods, "corpus", now), Platforms: wiring.Platforms,
	}, adapter.Changes()
}

var marks = map[check.Status]string{check.OK: "√", check.Note: "·", check.Warning: "‼", check.Error: "×"}

// failed are the assertions that do not hold, by name.
func (a answers) failed(r row) map[string]string {
	out := map[string]string{}
	fail := func(name string, holds bool, format string, args ...any) {
		if !holds {
			out[name] = fmt.Sprintf(format, args...)
		}
	}
	a.checked(r, fail)
	a.expected(r, fail)
	a.agree(fail)
	a.unseen(r, fail)
	return out
}

type assertion func(name string, holds bool, format string, args ...any)

// checked: what check says is as expected.
func (a answers) checked(r row, fail assertion) {
	for id, want := range r.Expect.Check {
		got, asked := a.checks[id]
		switch {
		case id == "exit":
			fail("check exit", fmt.Sprint(a.check.Code) == want, "%d and not %s", a.check.Code, want)
		case want == "-" || !asked:
			fail("check "+id, want == "-" && !asked, "it says %s %s", marks[got.Status], got.Message)
		default:
			mark, words, _ := strings.Cut(want, " ")
			said := strings.Join(append([]string{got.Message, got.Remedy}, got.Details...), " ")
			fail("check "+id, mark == marks[got.Status] && has(said, words), "it says %s %s", marks[got.Status], said)
		}
	}
}

// has: the text has the words, which are apart by ….
func has(text, words string) bool {
	for part := range strings.SplitSeq(words, "…") {
		_, after, found := strings.Cut(text, strings.TrimSpace(part))
		if !found {
			return false
		}
		text = after
	}
	return true
}

// expected: plan and manager do as expected.
func (a answers) expected(r row, fail assertion) {
	text := strings.Join(strings.Fields(a.shown.Out+a.shown.Err), " ")
	fail("plan exit", a.shown.Code == r.Expect.Plan.Exit, "%d: %s", a.shown.Code, a.shown.Err)
	for _, words := range r.Expect.Plan.Says {
		fail("plan says", has(text, words), "it does not say %q: %s", words, text)
	}
	for _, words := range r.Expect.Plan.Not {
		fail("plan not", !strings.Contains(text, words), "it says %q", words)
	}
	m := a.manager
	if want := r.Expect.Manager; want.Refuses != "" {
		fail("manager refuses", m.refused() && m.refuses == want.Refuses, "%s", m)
	} else {
		fail("manager step", len(m.steps) > 0 && m.steps[0].Name == want.Step, "%s", m)
		fail("manager then", want.Then == "" || slices.ContainsFunc(m.steps, func(s v1alpha1.StepStatus) bool { return s.Name == want.Then }), "%s", m)
		fail("manager waits", want.Waits == "" || m.refuses == want.Waits && len(m.steps) == 1, "%s", m)
	}
	fail("manager reflectors", !r.Expect.Manager.NoReflectors || len(m.reflectors) == 0, "%q: %s", m.reflectors, m)
	fail("manager fails", m.err == nil, "%v", m.err)
}

// refused: it says what is wrong, and touches nothing.
func (m manager) refused() bool { return m.refuses != "" && len(m.writes) == 0 }

// agree: plan, check and manager come to one verdict.
func (a answers) agree(fail assertion) {
	m := a.manager
	if m.refuses == reason.CredentialsMissing { // the key is still to come: plan says that first, and check says what else is there
		fail("agree key", a.checks["provider"].Status == check.Note && strings.Contains(a.shown.Out, "First: "+m.refuses) && len(m.writes) == 0, "%s", m)
		return
	}
	refusal := ""
	if a.plan.Problem != nil && !slices.ContainsFunc(a.plan.Steps, func(s struct {
		Name, Reason string
		Writes       []string
	},
	) bool {
		return len(s.Writes) > 0
	}) {
		refusal = a.plan.Problem.Reason
	}
	if refusal != "Waits" { // for longer than we let the manager run
		fail("agree refusal", (refusal != "") == m.refused(), "plan: %q, manager: %s", refusal, m)
	}
	fail("agree check", m.refuses == "" || a.check.Code == 1 || a.warns(m.refuses), "check finds no ×, manager: %s", m)
	if len(a.plan.Steps) > 0 && len(m.steps) > 0 {
		first, really := a.plan.Steps[0], m.steps[0]
		fail("agree step", first.Name == really.Name && first.Reason == really.Reason, "plan begins with %s (%s), the manager with %s (%s)", first.Name, first.Reason, really.Name, really.Reason)
	}
}

// warns reports whether a check says what a reason says, and that it is not known.
func (a answers) warns(reason string) bool {
	for _, c := range a.checks {
		if c.Status == check.Warning && strings.HasSuffix(c.Link, "#"+strings.ToLower(reason)) {
			return true
		}
	}
	return false
}

// unseen: no √ about what was not seen.
func (a answers) unseen(r row, fail assertion) {
	never := func(id, why string) {
		fail("unseen "+id, a.checks[id].Status != check.OK, "%s, and check says √ %s", why, a.checks[id].Message)
	}
	pods := slices.ContainsFunc(r.Nodes, func(g group) bool { return !g.WithoutPod })
	if !pods {
		never("bgp", "no calico-node was seen")
		never("calico-node", "no calico-node was seen")
	}
	if version := ptr.Deref(r.Calico.Version, "v3.31.0"); !strings.HasPrefix(version, "v") {
		never("datastore", "the version of Calico is not known")
	}
	for _, o := range r.objects {
		if spec, _ := o.Object["spec"].(map[string]any); o.GetKind() == "FelixConfiguration" && (spec["wireguardEnabled"] == true || spec["wireguardEnabledV6"] == true) {
			never("routes", "Felix has routes of its own for WireGuard")
		}
	}
}

func (m manager) String() string {
	var steps []string
	for _, s := range m.steps {
		steps = append(steps, fmt.Sprintf("%s (%s; waits for %s)", s.Name, s.Reason, strings.Join(s.WaitingFor, "; ")))
	}
	out := strings.Join(steps, ", ")
	if m.refuses != "" {
		out += fmt.Sprintf("; Degraded: %s: %s", m.refuses, m.message)
	}
	return fmt.Sprintf("%s; writes %q", out, m.writes)
}

// String is all that was said.
func (a answers) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "check (exit %d)\n", a.check.Code)
	for _, id := range slices.Sorted(maps.Keys(a.checks)) {
		c := a.checks[id]
		fmt.Fprintf(&out, "  %-12s %s %s %s\n", id, marks[c.Status], c.Message, strings.Join(c.Details, " | "))
		if c.Remedy != "" {
			fmt.Fprintf(&out, "                 → %s\n", c.Remedy)
		}
	}
	fmt.Fprintf(&out, "plan (exit %d)\n%s%s\nmanager: %s", a.shown.Code, a.shown.Out, a.shown.Err, a.manager)
	return out.String()
}
