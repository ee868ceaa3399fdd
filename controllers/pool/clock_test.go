package pool_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

func TestAClockThatWasSetIsNoticed(t *testing.T) {
	for name, tc := range map[string]struct {
		clock, elapsed time.Duration
		noticed        bool
	}{
		"time passes":            {time.Minute, time.Minute, false},
		"a clock that is slow":   {time.Minute, time.Minute + 2*time.Second, false},
		"set forth":              {time.Hour, time.Minute, true},
		"set back":               {-time.Hour, time.Minute, true},
		"the machine was asleep": {time.Minute, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnvironment(t)
			var elapsed time.Duration
			e.reconciler.Elapsed = func() time.Duration { return elapsed }
			require.NoError(t, e.reconcile())
			require.Zero(t, e.lastSeen().ClockSet, "the first look has nothing to compare with")
			e.clock, elapsed = e.clock.Add(tc.clock), elapsed+tc.elapsed
			require.NoError(t, e.reconcile())
			if !tc.noticed {
				require.Zero(t, e.lastSeen().ClockSet)
				return
			}
			set := e.clock
			require.Equal(t, set, e.lastSeen().ClockSet)
			e.clock, elapsed = e.clock.Add(time.Minute), elapsed+time.Minute
			require.NoError(t, e.reconcile())
			require.Equal(t, set, e.lastSeen().ClockSet, "it stays known")
		})
	}
}

func TestATimeLaterThanNowIsCorrectedBeforeTheDecision(t *testing.T) {
	e := newEnvironment(t)
	later := e.clock.Add(time.Hour)
	e.calico.cluster.BGP.Restored = later
	require.NoError(t, e.reconcile())
	first := e.clock
	require.Equal(t, first, e.lastSeen().BGP.Restored)
	e.clock = e.clock.Add(time.Minute)
	require.NoError(t, e.reconcile())
	require.Equal(t, first, e.lastSeen().BGP.Restored)
}

// While the mesh is off, a spec that is refused leaves the reports that show whether reflectors serve.
func TestAnInvalidSpecKeepsTheReports(t *testing.T) {
	for _, off := range []bool{true, false} {
		e := newEnvironment(t, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Sizing.Min, o.Spec.Sizing.Max = 9, 3 })
		on := !off
		e.calico.cluster.BGP.Mesh.Enabled = &on
		e.script = always(rollout.Step{Name: rollout.Steady, Watch: []plan.StatusRequest{{Node: "10.0.0.1"}}})
		require.NoError(t, e.reconcile())
		e.expect("Degraded True SizingInvalid")
		require.Equal(t, off, len(e.calico.watched) > 0)
	}
}
