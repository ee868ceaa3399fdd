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
)

// eventLog is an environment of which the log is read too.
type eventLog struct {
	*environment
	ctx    context.Context
	pool   *v1alpha1.RouteReflectorPool
	logged map[string]int // by event
}

func newEventLog(t *testing.T) *eventLog {
	t.Helper()
	s := &eventLog{environment: newEnvironment(t), logged: map[string]int{}}
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
func (s *eventLog) turn(step rollout.Step, lasts time.Duration) {
	s.Helper()
	s.script = always(step)
	_, err := s.reconciler.Rehearse(s.ctx, s.pool)
	require.NoError(s, err)
	s.drainEvents()
	s.clock = s.clock.Add(lasts)
}

func (s *eventLog) sent(reason string) (out int) {
	for _, event := range s.emitted {
		if _, rest, _ := strings.Cut(event, " "); strings.HasPrefix(rest, reason+" ") {
			out++
		}
	}
	return out
}

// held demands that of a reason as many events were held back.
func (s *eventLog) held(reason string, want int) {
	s.Helper()
	have := exported(s, s.metrics)
	if line := fmt.Sprintf("events_held_back_total %s %d", reason, want); want > 0 {
		require.Contains(s, have, line)
	} else {
		require.NotContains(s, strings.Join(have, "\n"), "events_held_back_total "+reason)
	}
}

var hindered = rollout.Step{Name: rollout.UnsupportedCluster, Problem: &plan.Problem{Reason: "BGPDisabled", Message: "why"}}

// flap lets a problem come and go, n times. It ends with the problem.
func (s *eventLog) flap(n int, every time.Duration) {
	s.Helper()
	for i := range 2*n - 1 {
		s.turn([]rollout.Step{hindered, steady}[i%2], every/2)
	}
}

func TestAProblemThatFlapsAThousandTimesInAnHourIsFewEvents(t *testing.T) {
	s := newEventLog(t)
	s.flap(1000, time.Hour/1000)
	for reason, times := range map[string]int{"BGPDisabled": 1000, "Recovered": 999} {
		require.Equal(t, times, s.logged[reason], "the log has all")
		require.InDelta(t, 10+12, s.sent(reason), 2, "the burst, and one in five minutes")
		s.held(reason, times-s.sent(reason))
	}
	// It lasts now: the last word is given as soon as there may be one.
	for range 3 {
		s.turn(hindered, 5*time.Minute)
	}
	require.Contains(t, s.emitted[len(s.emitted)-1], "Warning BGPDisabled why; see ")
	require.Equal(t, 1000, s.logged["BGPDisabled"], "the log had it already")

	// A day of rest, and all is as it was.
	s.turn(steady, 24*time.Hour)
	said := len(s.emitted)
	s.flap(3, time.Minute)
	require.Len(t, s.emitted, said+5)
}

// Negative control: it is the number that holds events back, not that they are alike.
func TestProblemsThatComeAndGoSlowlyAreReported(t *testing.T) {
	s := newEventLog(t)
	s.flap(100, 15*time.Minute)
	require.Len(t, s.emitted, 199)
	s.held("BGPDisabled", 0)
}

// Three hundred reflectors get their role in one turn. Then a second writer takes the role away as soon as it is given,
// and switches the mesh over, for hours.
func TestChangesAreRationedButNotWhatCarriesTheRoutes(t *testing.T) {
	s := newEventLog(t)
	promote := rollout.Step{Name: "PromoteReflectors"}
	for i := range 300 {
		promote.Actions = append(promote.Actions, plan.SetReflector{Node: fmt.Sprintf("10.0.%d.%d", i/100, i%100), ClusterID: "224.0.0.1"})
	}
	s.turn(promote, time.Second)
	require.Equal(t, 300, s.sent("ReflectorAdded"))
	const day = 4000
	for range day {
		s.turn(rollout.Step{Name: "HealReflectors", Actions: []plan.Action{promote.Actions[0], plan.RestoreMesh{}}}, 5*time.Second)
	}
	require.Equal(t, 300+day, s.logged["ReflectorAdded"])
	sent := s.sent("ReflectorAdded")
	require.InDelta(t, 600+day*5/10, sent, 2)
	require.Equal(t, day, s.sent("MeshRestored"), "what carries the routes is always sent")
	s.held("ReflectorAdded", 300+day-sent)
}

// What only a person can put back holds up no deletion: it is said.
func TestAMeshThatOthersHaveChangedHoldsUpNoRelease(t *testing.T) {
	e := newEnvironment(t)
	e.script = always(rollout.Step{Name: rollout.ForgetMesh, Reason: "others have changed the mesh", WaitingFor: []string{"nodeMeshPassword of Secret bgp"}})
	e.delete()
	e.settle(2)
	require.True(t, e.gone())
	require.Contains(t, strings.Join(e.emitted, "\n"), "Warning Released the node-to-node mesh carries the cluster, and is not as it was: others have changed the mesh (nodeMeshPassword of Secret bgp)")
}
