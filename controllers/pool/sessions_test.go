package pool_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// While a reflector is missing, the metrics of sessions go on telling of those that are left.
func TestMetricsTellWhatTheReflectorsThatAreLeftLack(t *testing.T) {
	w := onReflectors(t, 2)
	step := w.script(rollout.Observed{}, rollout.Desired{})
	step.Reflectors[1].Established, step.Reflectors[1].Lacking = 6, 1 // of the two, one is that with the third
	w.script = always(step)
	require.NoError(t, w.reconcile())
	require.Subset(t, told(t, w.metrics), []string{"reflectors 3", "reflectors_serving 2", "sessions_established 14", "sessions_expected 15"})
}

func TestWithoutAReflectorThatServesNoSessionsAreCounted(t *testing.T) {
	w := onReflectors(t, 0)
	require.NoError(t, w.reconcile())
	have := told(t, w.metrics)
	require.Contains(t, have, "reflectors 3")
	require.NotContains(t, strings.Join(have, " "), "sessions_")
}
