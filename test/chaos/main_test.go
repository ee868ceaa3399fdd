//go:build linux

// Package chaos_test breaks clusters on purpose, with the real manager watching, and counts the packets that are
// lost: in scenarios with a known end (TestInPlaceReflectorsFailAndAreReplaced and others), and at random, from a
// seed, with a report of what each cause has cost (TestChaos).
package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
	"github.com/rrpool/rrpool/test/lab/probe"
	"github.com/rrpool/rrpool/test/programs"
)

const limit = 5 * time.Minute

func TestMain(m *testing.M) {
	if err := programs.Build(context.Background(), os.Stderr, "manager"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lab.Main(m)
}

type cluster struct {
	*site.Site
	t   *testing.T
	ctx context.Context //nolint:containedctx // of the test
}

func start(t *testing.T, options site.Options) *cluster {
	t.Helper()
	lab.SkipLong(t)
	ctx, s := site.ForTest(t, options)
	c := &cluster{Site: s, t: t, ctx: ctx}
	require.NoError(t, c.StartManager("--leader-elect=false"))
	return c
}

// stage is a part of a scenario, with a name for the test.
type stage struct {
	name string
	do   func(*cluster)
}

// stages play one after the other in the same cluster, until one cannot be played
// to its end. That packets are lost is no reason to miss what comes next.
func (c *cluster) stages(stages []stage) {
	c.t.Helper()
	for _, stage := range stages {
		played := false
		passed := c.t.Run(stage.name, func(t *testing.T) {
			here := *c
			here.t = t
			stage.do(&here)
			played = true
		})
		if !passed && !played {
			c.t.FailNow()
		}
	}
}

// hasty shortens waits that are nothing but time. The safety net's are not.
func hasty(o *v1alpha1.RouteReflectorPool) {
	o.Spec.Rollout.NotReadyGrace = metav1.Duration{Duration: 5 * time.Second}
	o.Spec.Rollout.RemovalDelay = metav1.Duration{Duration: 10 * time.Second}
}

// waitFor waits until the pool is as asked.
func (c *cluster) waitFor(what string, is func(*v1alpha1.RouteReflectorPool) bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, limit)
	defer cancel()
	require.NoError(c.t, c.WaitFor(ctx, what, is))
}

// waitReflectors waits until exactly those serve that is says, and the manager has nothing to do. It names them.
func (c *cluster) waitReflectors(what string, is func(reflectors []string) bool) []string {
	c.t.Helper()
	var reflectors []string
	c.waitFor(what, func(o *v1alpha1.RouteReflectorPool) bool {
		now, err := c.CurrentReflectors(c.ctx)
		if err != nil || !is(now) || !ready(o) {
			return false
		}
		reflectors = now
		return true
	})
	return reflectors
}

// ready: the manager has nothing to do, and all sessions are there.
func ready(o *v1alpha1.RouteReflectorPool) bool {
	return o.Status.ObservedGeneration == o.Generation && o.Status.Step.Name == "Steady" &&
		meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReady) &&
		meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReflectorsEstablished)
}

// zones gives each node's zone.
func (c *cluster) zones() map[string]string {
	c.t.Helper()
	zones := map[string]string{}
	for _, n := range c.nodes() {
		zones[n.Name] = n.Labels["topology.kubernetes.io/zone"]
	}
	return zones
}

func (c *cluster) nodes() []corev1.Node {
	c.t.Helper()
	list, err := c.Lab.Kube().CoreV1().Nodes().List(c.ctx, metav1.ListOptions{})
	require.NoError(c.t, err)
	return list.Items
}

// keeper starts the manager again whenever it ends, as a kubelet does. It runs with leader election, as it does in a cluster: one
// that is killed leaves its lease behind.
type keeper struct {
	site *site.Site
	note func(string, ...any)

	mu   sync.Mutex
	away bool // on purpose
}

func (k *keeper) start() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.away = false
	return k.site.StartManager()
}

func (k *keeper) kill() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.away = true
	k.site.KillManager()
	return nil
}

func (k *keeper) run(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, time.Second)
		k.startAgain()
	}
}

func (k *keeper) startAgain() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.away || !k.site.ManagerEnded() {
		return
	}
	k.note("the manager ended by itself, and is started again")
	if err := k.site.StartManager(); err != nil {
		k.note("the manager does not start: %v", err)
	}
}

type event struct {
	name string
	from time.Time
}

func (c *cluster) begin(name string) event {
	c.t.Helper()
	c.t.Logf("%s %s", time.Now().Format("15:04:05.000"), name)
	c.Lab.Checkpoint(name)
	return event{name: name, from: time.Now()}
}

// requireEvents gives the events since e began. All parts of each want must be in one of them, and the first part is its reason.
func (c *cluster) requireEvents(e event, want ...[]string) []eventsv1.Event {
	c.t.Helper()
	events, err := c.Events(c.ctx, e.from)
	require.NoError(c.t, err)
	for _, one := range events {
		c.t.Logf("    %s %s: %s", one.EventTime.Format("15:04:05.000"), one.Reason, one.Note)
	}
	for _, w := range want {
		says := func(one eventsv1.Event) bool {
			return one.Reason == w[0] && !slices.ContainsFunc(w[1:], func(part string) bool { return !strings.Contains(one.Note, part) })
		}
		require.True(c.t, slices.ContainsFunc(events, says), "%s: no event %s says %q", e.name, w[0], w[1:])
	}
	return events
}

// lost is what was lost between the workers since e began, but for pairs with these. It checks that every other pair was probed.
func (c *cluster) lost(e event, without ...string) probe.Report {
	c.t.Helper()
	report := c.Lab.Report().Phase(e.name).Without(without...)
	alive := slices.DeleteFunc(slices.Clone(c.Lab.Nodes()), func(n string) bool {
		pods, err := c.Lab.Pods(c.ctx, n)
		require.NoError(c.t, err)
		return slices.Contains(without, n) || len(pods) == 0
	})
	require.GreaterOrEqual(c.t, len(report.Pairs), len(alive)*(len(alive)-1), "all pairs of %v are probed", alive)
	took := report.Until.Sub(report.From)
	sent, lost := report.Totals()
	least := float64(len(alive)*(len(alive)-1)) * took.Seconds() / report.Interval.Seconds() / 5 // a loaded machine skips some
	require.Greater(c.t, float64(sent), least, "probes in %s between %v", took, alive)
	c.t.Logf("    in %s between %v: %d of %d probes lost, longest outage %s, on %d of %d pairs",
		took.Round(time.Millisecond), alive, lost, sent, report.LongestOutage().Round(time.Millisecond), len(report.Lossy()), len(report.Pairs))
	return report
}

// requireLostNothing checks every pair but those with these.
func (c *cluster) requireLostNothing(e event, without ...string) {
	c.t.Helper()
	assert.NoError(c.t, c.lost(e, without...).ZeroLoss(), e.name) // the scenario goes on
}

// bounds are when the first lost probe was sent, and when it was over for good.
func bounds(r probe.Report) (from, until time.Time) {
	for _, pair := range r.Lossy() {
		for _, o := range pair.Outages {
			if from.IsZero() || o.From.Before(from) {
				from = o.From
			}
			if o.Until.After(until) {
				until = o.Until
			}
		}
	}
	return from, until
}

// meshWrites are the manager's writes to the BGPConfiguration since e began, from the apiserver's audit log.
func (c *cluster) meshWrites(e event) []controlplane.AuditEvent {
	c.t.Helper()
	writes, err := c.Lab.ControlPlane().Writes(site.User(), e.from)
	require.NoError(c.t, err)
	return slices.DeleteFunc(writes, func(w controlplane.AuditEvent) bool { return w.Resource != "bgpconfigurations" || w.Code >= 300 })
}

// requireMesh checks whether the mesh is on, as it is where nothing is configured.
func (c *cluster) requireMesh(on bool) {
	c.t.Helper()
	config, err := c.Lab.Calico().BGPConfigurations().Get(c.ctx, "default", options.GetOptions{})
	require.NoError(c.t, err)
	mesh := config.Spec.NodeToNodeMeshEnabled
	require.Equal(c.t, on, mesh == nil || *mesh)
}

// inPeeringOrder sorts reflectors by how many others are their clients, as their BGPPeers say.
func (c *cluster) inPeeringOrder(reflectors []string) []string {
	c.t.Helper()
	peers, err := c.Lab.Calico().BGPPeers().List(c.ctx, options.ListOptions{})
	require.NoError(c.t, err)
	clients := map[string]int{}
	for i := range peers.Items {
		if !strings.HasPrefix(peers.Items[i].Name, "rrpool.") {
			continue
		}
		clients[peers.Items[i].Spec.Node]++
	}
	sorted := slices.Clone(reflectors)
	slices.SortFunc(sorted, func(a, b string) int { return clients[b] - clients[a] })
	return sorted
}

func (c *cluster) cordoned() []string {
	c.t.Helper()
	var names []string
	for _, n := range c.nodes() { // sorted by name
		if n.Spec.Unschedulable {
			names = append(names, n.Name)
		}
	}
	return names
}

// finish puts everything into one report in the log, and says what did not hold.
func (s *chaosRun) finish() error {
	report := s.Lab.Report().Only(s.Workers...)
	shares := s.record.shares(report)
	s.mu.Lock()
	problems := errors.Join(s.problems...)
	s.mu.Unlock()
	stood := stands(report)
	loss, broken := verdict(report, shares, stood), s.observer.judge()
	var text strings.Builder
	fmt.Fprintf(&text, "seed %d, %s, %d pairs of pods; again: make chaos SEED=%d TIME=%s\n\n", s.seed, time.Since(s.begun).Round(time.Second),
		len(report.Pairs), s.seed, s.length)
	sent, lost := 0, 0
	for _, part := range shares {
		if !part.off() {
			sent, lost = sent+part.pair.Sent, lost+part.pair.Lost
		}
	}
	fmt.Fprintf(&text, "%d faults; between nodes that were not cut off %d probes were sent, and %d lost\n", len(s.record.segments)/2, sent, lost)
	total, longest := stood.total()
	fmt.Fprintf(&text, "the machine stood still for %s in all and %s at most\n", total.Round(time.Millisecond), longest.Round(time.Millisecond))
	for _, v := range []struct {
		what string
		err  error
	}{{"zero loss between nodes that were not cut off", loss}, {"invariants", broken}, {"healed and settled", problems}} {
		fmt.Fprintf(&text, "%s: %s\n", v.what, holds(v.err))
	}
	if !s.control {
		s.t.Log("\n" + text.String())
	}
	return errors.Join(loss, broken, problems)
}

func holds(err error) string {
	if err == nil {
		return "yes"
	}
	return "NO\n  " + strings.ReplaceAll(err.Error(), "\n", "\n  ")
}
