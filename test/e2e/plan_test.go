//go:build linux

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	plancmd "github.com/rrpool/rrpool/cmd/rrpool/plan"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/cli"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

// prediction is what `rrpool plan -o json` says, as far as it can be compared.
type prediction struct {
	Settled bool
	Steps   []struct {
		Name, Reason string
		Writes       []string
	}
	Loss []struct{ Node string }
}

// predict asks the command line what will happen, as a user does before it does.
func predict(t *testing.T, s *site.Site, mode string) prediction {
	t.Helper()
	setEnvironment(t, s)
	got := cli.Ask(t, plancmd.New, "plan", "--mode", mode, "-o", "json", "--kubeconfig", s.Lab.Kubeconfig(), "--request-timeout", limit.String())
	require.Equal(t, 2, got.Code, "there are changes: %s", got.Err)
	var out prediction
	require.NoError(t, json.Unmarshal([]byte(got.Out), &out), got.Out)
	require.True(t, out.Settled, got.Out)
	return out
}

// setEnvironment leads commands in this process to where the site is.
func setEnvironment(t *testing.T, s *site.Site) {
	t.Helper()
	for _, variable := range s.Environment() {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
}

// writes are all that is written, each with its step and its reason. What one step
// writes about several nodes for one reason is in order of the nodes' names.
func (p prediction) writes(rename *strings.Replacer) []string {
	var out []string
	for _, step := range p.Steps {
		for _, write := range step.Writes {
			out = append(out, rename.Replace(fmt.Sprintf("%s: %s: %s", step.Name, write, step.Reason)))
		}
	}
	return inOrder(out)
}

// inOrder sorts what was written of one kind in a row.
func inOrder(lines []string) []string {
	aboutNode := func(line string) bool { return strings.HasPrefix(line, "PromoteReflectors: make node ") }
	for i := 0; i < len(lines); i++ {
		from := i
		for i < len(lines) && aboutNode(lines[i]) {
			i++
		}
		slices.Sort(lines[from:i])
	}
	return lines
}

// reported are the reasons of the events about something written.
var reported = []string{
	"ReflectorAdded", "ReflectorRemoved", "PeerWritten", "PeerDeleted", "MeshDisabled", "MeshRestored", "MeshForgotten",
	"NodeCordoned", "NodeUncordoned", "PodsEvicted", "PoolChanged",
}

// requirePredicted holds what the manager has done since then to the prediction: the
// same writes for the same reasons in the same order, and nothing else.
func requirePredicted(t *testing.T, ctx context.Context, s *site.Site, since time.Time, p prediction) { //nolint:revive // t comes first in tests
	t.Helper()
	// The nodes that did not exist when they were predicted: the machines of a zone, in the order of their names.
	var pairs []string
	count := map[string]int{}
	if s.Cloud != nil {
		for _, w := range s.Cloud.Workers(site.ClusterID, site.PoolName) {
			count[w.Zone]++
			pairs = append(pairs, fmt.Sprintf("new-%s-%d ", w.Zone, count[w.Zone]), w.IP+" ")
		}
	}
	want := p.writes(strings.NewReplacer(pairs...))
	require.NotEmpty(t, want)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		events, err := s.Events(ctx, since)
		require.NoError(c, err)
		var done []string
		for _, e := range events {
			switch {
			case e.Reason == "PoolChanged":
				done = append(done, poolStep(p, e.Note))
			case slices.Contains(reported, e.Reason):
				done = append(done, e.Action+": "+e.Note)
			}
		}
		require.Equal(c, want, inOrder(done))
	}, limit, 200*time.Millisecond)
}

// poolStep is the step and the reason that were predicted for a change of the pool: its event is in the provider's words and has neither.
func poolStep(p prediction, did string) string {
	for _, step := range p.Steps {
		if slices.Contains(step.Writes, did) {
			return fmt.Sprintf("%s: %s: %s", step.Name, did, step.Reason)
		}
	}
	return "not predicted: " + did
}

// The same where the reflectors are nodes with pods: every pair, every role, and whom it costs packets.
func TestPlanOnExistingNodes(t *testing.T) {
	lab.SkipLong(t)
	ctx, s := site.ForTest(t, site.Options{Nodes: lab.Workers(4)})
	require.NoError(t, s.CreatePool(ctx, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Mode = v1alpha1.ModePaused }))
	require.NoError(t, s.StartManager("--leader-elect=false"))
	for _, mode := range []v1alpha1.Mode{v1alpha1.ModeRouteReflector, v1alpha1.ModeFullMesh} {
		s.Lab.Checkpoint(string(mode))
		predicted, since := predict(t, s, string(mode)), time.Now()
		require.NoError(t, s.SetMode(ctx, mode))
		require.NoError(t, s.WaitReady(within(t, ctx)))
		requirePredicted(t, ctx, s, since, predicted)
		require.Len(t, predicted.Loss, 1, "the first reflector, or the last one")
		spared := slices.DeleteFunc(slices.Clone(s.Workers), func(name string) bool { return name == predicted.Loss[0].Node })
		require.NoError(t, s.Lab.Report().Only(spared...).ZeroLoss(), "no other node loses a packet")
	}
	require.Error(t, s.Lab.Report().Only(s.Workers...).ZeroLoss(), "and the ones that were named do")
}
