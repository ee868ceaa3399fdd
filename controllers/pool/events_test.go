package pool_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/pool"
)

// eventLog is an environment of which the log is read too.
type eventLog struct {
	*environment
	ctx    context.Context
	pool   *v1alpha1.RouteReflectorPool
	logged map[string]int // by event
}

func newEventLog(t *testing.T, change ...func(*v1alpha1.RouteReflectorPool)) *eventLog {
	t.Helper()
	s := &eventLog{environment: newEnvironment(t, change...), logged: map[string]int{}}
	s.pool = s.object()
	s.ctx = log.IntoContext(t.Context(), funcr.NewJSON(func(line string) {
		if _, rest, ok := strings.Cut(line, `"event":"`); ok {
			event, _, _ := strings.Cut(rest, `"`)
			s.logged[event]++
		}
	}, funcr.Options{}))
	return s
}

// turn takes a turn, but for the status that it would write, and lets time pass.
func (s *eventLog) turn(lasts time.Duration) {
	s.Helper()
	_, err := s.reconciler.Rehearse(s.ctx, s.pool)
	require.NoError(s, err)
	for len(s.recorder.Events) > 0 {
		s.emitted = append(s.emitted, <-s.recorder.Events)
	}
	s.clock = s.clock.Add(lasts)
}

// sent are the events of a reason.
func (s *eventLog) sent(reason string) []string {
	var out []string
	for _, event := range s.emitted {
		if _, rest, _ := strings.Cut(event, " "); strings.HasPrefix(rest, reason+" ") {
			out = append(out, event)
		}
	}
	return out
}

func (s *eventLog) heldBack() int {
	s.Helper()
	families, err := s.metrics.Gather()
	require.NoError(s, err)
	sum := 0.0
	for _, family := range families {
		if family.GetName() == "rrpool_events_held_back_total" {
			for _, m := range family.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return int(sum)
}

// flap cordons the node of a reflector and uncordons it, n times. It ends cordoned.
func (s *eventLog) flap(n int, every time.Duration) {
	s.Helper()
	for i := range 2*n - 1 {
		s.calico.cluster.Nodes[0].Cordoned = i%2 == 0
		s.turn(every / 2)
	}
}

func newFlapping(t *testing.T) *eventLog {
	t.Helper()
	s := newEventLog(t, onExisting)
	for i := range 3 {
		n := &s.calico.cluster.Nodes[i]
		n.ProviderID, n.Labels = "kind://x", map[string]string{v1alpha1.PoolLabel: pool.ExistingPool}
	}
	s.script = always(steady)
	s.turn(time.Second)
	require.Empty(t, s.emitted)
	return s
}

func TestANodeThatFlapsAThousandTimesInAnHourIsFewEvents(t *testing.T) {
	s := newFlapping(t)
	s.flap(1000, time.Hour/1000)
	require.Equal(t, 1000, s.logged["PoolProblem"], "the log has all")
	require.Equal(t, 999, s.logged["Recovered"])
	problems, ends := s.sent("PoolProblem"), s.sent("Recovered")
	require.LessOrEqual(t, len(problems), 10+12, "the burst, and one in five minutes")
	require.LessOrEqual(t, len(ends), 10+12)
	require.GreaterOrEqual(t, len(problems), 10+10)
	require.Len(t, s.emitted, len(problems)+len(ends))
	require.Equal(t, 1999-len(s.emitted), s.heldBack())

	// It lasts now: the last word is given as soon as there may be one.
	s.turn(5 * time.Minute)
	s.turn(5 * time.Minute)
	s.turn(5 * time.Minute)
	require.Contains(t, s.emitted[len(s.emitted)-1], "Warning PoolProblem ")
	require.Equal(t, 1000, s.logged["PoolProblem"], "the log had it already")

	// A day of rest, and all is as it was.
	s.calico.cluster.Nodes[0].Cordoned = false
	s.turn(24 * time.Hour)
	said := len(s.emitted)
	s.flap(3, time.Minute)
	require.Len(t, s.emitted, said+5)
}

// What was held back is made up for: each log line is an event, or counted by one.
func TestEventsAddUp(t *testing.T) {
	s := newFlapping(t)
	s.flap(1000, time.Hour/1000)
	s.turn(time.Hour)
	s.turn(time.Hour)
	s.calico.cluster.Nodes[0].Cordoned = false
	s.turn(time.Hour)
	for _, reason := range []string{"PoolProblem", "Recovered"} {
		sum := 0
		for _, event := range s.sent(reason) {
			more := 0
			if _, rest, ok := strings.Cut(event, " (and "); ok {
				_, err := fmt.Sscanf(rest, "%d more of these since", &more)
				require.NoError(t, err, event)
			}
			sum += 1 + more
		}
		require.Equal(t, s.logged[reason], sum, reason)
	}
	require.Contains(t, strings.Join(s.emitted, "\n"), "which only the log has); see "+plan.Docs+"runbook/conditions.md#poolproblem")
}

// Negative control: it is the number that holds events back, not that they are alike.
func TestProblemsThatComeAndGoSlowlyAreReported(t *testing.T) {
	s := newFlapping(t)
	s.flap(100, 15*time.Minute)
	require.Len(t, s.emitted, 199)
	require.Zero(t, s.heldBack())
	require.NotContains(t, strings.Join(s.emitted, "\n"), "more of these")
}

// Three hundred reflectors get their role in one turn.
func TestNoChangeOfARoleIsHeldBack(t *testing.T) {
	s := newEventLog(t)
	step := rollout.Step{Name: "PromoteReflectors", Reason: "all workers are there"}
	for i := range 300 {
		step.Actions = append(step.Actions, plan.SetReflector{Node: fmt.Sprintf("10.0.%d.%d", i/100, i%100), ClusterID: "224.0.0.1"})
	}
	s.script = always(step)
	s.turn(time.Second)
	require.Len(t, s.sent("ReflectorAdded"), 300)
	require.Zero(t, s.heldBack())
}

// A second writer takes the role away as soon as it is given, and switches the mesh over, for hours.
func TestASecondWriterCausesFewEvents(t *testing.T) {
	s := newEventLog(t)
	const day = 4000
	for range day {
		s.script = always(rollout.Step{Name: "HealReflectors", Actions: []plan.Action{
			plan.SetReflector{Node: "10.0.1.1", ClusterID: "224.0.0.1"}, plan.RestoreMesh{},
		}})
		s.turn(5 * time.Second)
	}
	require.Equal(t, day, s.logged["ReflectorAdded"])
	sent := len(s.sent("ReflectorAdded"))
	require.LessOrEqual(t, sent, 600+day*5/10+1)
	require.GreaterOrEqual(t, sent, 600)
	require.Len(t, s.sent("MeshRestored"), day, "what carries the routes is always sent")
	require.Equal(t, day-sent, s.heldBack())
}

// However many kinds of problems alternate: the first of each is sent, and the rest share.
func TestTheFirstEventOfAReasonIsAlwaysSent(t *testing.T) {
	s := newEventLog(t)
	const kinds, rounds = 40, 100
	for i := range kinds * rounds {
		problem := plan.Problem{Reason: fmt.Sprintf("Problem%d", i%kinds), Message: "why"}
		s.script = always(rollout.Step{Name: rollout.UnsupportedCluster, Problem: &problem})
		s.turn(time.Second)
		if i < kinds {
			require.Len(t, s.sent(problem.Reason), 1)
		}
	}
	require.Len(t, s.logged, kinds)
	seconds := kinds * rounds
	require.LessOrEqual(t, len(s.emitted), kinds+60+seconds/60+1)
	require.Equal(t, kinds*rounds-len(s.emitted), s.heldBack())
}
