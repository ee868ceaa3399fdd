//go:build linux

package chaos_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab/probe"
)

// event is something that happens to a cluster.
type event struct {
	name string
	from time.Time
}

// begin starts a phase of the probes.
func (c *cluster) begin(name string) event {
	c.t.Helper()
	c.t.Logf("%s %s", time.Now().Format("15:04:05.000"), name)
	c.Lab.Checkpoint(name)
	return event{name: name, from: time.Now()}
}

// requireEvents gives the events since e began. All parts of each want must be in one of
// them, and the first part is its reason.
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

// lost is what was lost between the workers since e began, but for pairs with
// these. It checks that every other pair was probed.
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

// lossyPairs are the nodes between whose pods something was lost, in any direction.
func lossyPairs(r probe.Report) []string {
	var out []string
	for _, pair := range r.Lossy() {
		names := []string{pair.From, pair.To}
		slices.Sort(names)
		out = append(out, strings.Join(names, " and "))
	}
	slices.Sort(out)
	return slices.Compact(out)
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

// cordoned are the nodes that take no pods.
func (c *cluster) cordoned() []string {
	c.t.Helper()
	list, err := c.Lab.Kube().CoreV1().Nodes().List(c.ctx, metav1.ListOptions{})
	require.NoError(c.t, err)
	var names []string
	for i := range list.Items {
		if list.Items[i].Spec.Unschedulable {
			names = append(names, list.Items[i].Name)
		}
	}
	slices.Sort(names)
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
