//go:build linux

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	plancmd "github.com/rrpool/rrpool/cmd/rrpool/plan"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/cli"
	"github.com/rrpool/rrpool/test/e2e/expect"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/iksserver"
	"github.com/rrpool/rrpool/test/lab"
	"github.com/rrpool/rrpool/test/programs"
)

func TestMain(m *testing.M) {
	if err := programs.Build(context.Background(), os.Stderr, "manager"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lab.Main(m)
}

const limit = 6 * time.Minute

func within(t *testing.T, ctx context.Context) context.Context { //nolint:revive // t comes first in tests
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, limit)
	t.Cleanup(cancel)
	return ctx
}

func isReady(o *v1alpha1.RouteReflectorPool) bool {
	return o.Status.ObservedGeneration == o.Generation && meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReady)
}

// A migrated cluster at rest costs nothing: no write to the apiserver but the lease, no change in the cloud, and at
// most one read of it a minute.
func TestRest(t *testing.T) {
	lab.SkipLong(t)
	const duration = time.Minute
	ctx, s := site.ForTest(t, site.Options{})
	migrate(t, ctx, s, nil)
	migrating, err := s.Lab.ControlPlane().Writes(site.User(), time.Time{})
	require.NoError(t, err)
	require.Greater(t, len(migrating), 5, "the audit log sees the manager's writes")
	expect.NothingLost(t, s)
	time.Sleep(15 * time.Second) // the reports settle into their long period

	since := time.Now()
	reads, mutations, _ := s.Cloud.Counts()
	t.Logf("at rest for %s", duration)
	time.Sleep(duration)
	writes, err := s.Lab.ControlPlane().Writes(site.User(), since)
	require.NoError(t, err)
	leases := 0
	for _, w := range writes {
		if w.Lease() {
			leases++
			continue
		}
		t.Errorf("written at rest: %s", w)
	}
	require.NotZero(t, leases, "the manager is alive")
	nowReads, nowMutations, _ := s.Cloud.Counts()
	require.Equal(t, mutations, nowMutations)
	require.LessOrEqual(t, nowReads-reads, 2, "reads of the cloud in %s", duration)
}

// fullVariable, when set, runs every combination of zones and mesh password.
const fullVariable = "RRPOOL_E2E_FULL"

// The main job: from an API key to route reflectors and back, without losing a packet between workloads.
func TestMigrationAndReturn(t *testing.T) {
	cases := []struct {
		zones      int
		generation string
		password   string
	}{
		{zones: 2, generation: iksserver.Classic, password: "s3cret"},
		{zones: 1, generation: iksserver.VPC},
		{zones: 3, generation: iksserver.VPC, password: "s3cret"},
		{zones: 1, generation: iksserver.Classic, password: "s3cret"},
		{zones: 2, generation: iksserver.VPC},
		{zones: 3, generation: iksserver.Classic},
	}
	if os.Getenv(fullVariable) == "" {
		t.Logf("1 of %d combinations: make soak runs them all", len(cases))
		cases = cases[:1]
	}
	for _, tc := range cases {
		t.Run(fmt.Sprintf("%d zones on %s, password %t", tc.zones, tc.generation, tc.password != ""), func(t *testing.T) {
			ctx, s := site.ForTest(t, site.Options{Zones: tc.zones, Generation: tc.generation, MeshPassword: tc.password})
			before := expect.BGPConfiguration(t, s)

			s.Lab.Checkpoint("migration")
			predicted, since := predict(t, s, "RouteReflector"), time.Now()
			require.Empty(t, predicted.Loss)
			require.NoError(t, s.StartManager("--leader-elect=false"))
			require.NoError(t, s.CreatePool(ctx, nil))
			require.NoError(t, s.WaitReady(within(t, ctx)))
			requireMigrated(t, s, tc.zones)
			requirePredicted(t, ctx, s, since, predicted)
			// At rest a plan is empty, and has no doubts.
			got := cli.Ask(t, plancmd.New, "plan", "--kubeconfig", s.Lab.Kubeconfig(), "--request-timeout", limit.String())
			require.Zero(t, got.Code, got.Out)
			require.Contains(t, got.Out, "√ There is nothing to do.")

			s.Lab.Checkpoint("return")
			predicted, since = predict(t, s, "FullMesh"), time.Now()
			require.Empty(t, predicted.Loss)
			require.NoError(t, s.SetMode(ctx, v1alpha1.ModeFullMesh))
			require.NoError(t, s.WaitReady(within(t, ctx)))
			expect.Meshed(t, s, before)
			requirePredicted(t, ctx, s, since, predicted)

			report := s.Lab.Report().Only(s.Workers...)
			require.NoError(t, report.ZeroLoss())
			require.Empty(t, s.Cloud.Untainted(site.PoolName), "every worker was tainted from its first moment")
		})
	}
}

func migrate(t *testing.T, ctx context.Context, s *site.Site, edit func(*v1alpha1.RouteReflectorPool), flags ...string) { //nolint:revive // t comes first in tests
	t.Helper()
	require.NoError(t, s.StartManager(flags...))
	require.NoError(t, s.CreatePool(ctx, edit))
	require.NoError(t, s.WaitReady(within(t, ctx)))
	requireMigrated(t, s, 3)
}

// requireMigrated checks the cluster itself, not what the manager says of it.
func requireMigrated(t *testing.T, s *site.Site, zones int) {
	t.Helper()
	require.Equal(t, []string{"default", site.PoolName}, s.Cloud.Pools(site.ClusterID), "one pool, however often it was ordered")
	require.Len(t, s.Reflectors(), map[int]int{1: 3, 2: 4, 3: 3}[zones])
	expect.Reflected(t, s, s.Reflectors()...)
}

// soon waits until a check of sessions passes: what the manager has written a moment ago, confd has yet to render.
func soon(t *testing.T, check func(c *assert.CollectT)) {
	t.Helper()
	require.EventuallyWithT(t, check, limit, 200*time.Millisecond)
}

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
