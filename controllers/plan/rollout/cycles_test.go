package rollout_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Whatever is broken for good, after forty minutes nothing is written any more but
// what asks for reports and evicts pods.
func TestNothingIsWrittenForEver(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawInPlaceWorld(t, rapid.IntRange(3, 8), rapid.IntRange(0, 1))
		w.d.Timer = rapid.IntRange(0, 5).Draw(t, "timer") == 0
		w.d.Promotion = promotions.Draw(t, "promotion")
		w.suffer(t, inPlaceEvents(true), func(seconds int) string {
			w.runUnchecked(seconds)
			return ""
		})
		w.runUnchecked(2400)
		w.narrative = append(w.narrative, "##### at rest?")
		if wrote := w.writesIn(1800); len(wrote) > 0 {
			t.Fatalf("%v\n%s", wrote, strings.Join(w.narrative[max(0, len(w.narrative)-60):], "\n"))
		}
	})
}

// writesIn counts what the manager writes meanwhile, by what it is.
func (w *world) writesIn(seconds int) map[string]int {
	wrote := map[string]int{}
	for range seconds {
		w.tick()
		s := w.manage(-1)
		if s == nil || s.Problem != nil {
			continue
		}
		for _, a := range s.Actions {
			switch a.(type) {
			case plan.RefreshStatus, plan.DrainNode:
			default:
				wrote[a.String()]++
			}
		}
	}
	return wrote
}

// The control: at rest nothing is counted, and what is written is.
func TestWritesAreCounted(t *testing.T) {
	w := atRest(t, newInPlaceWorld(1, 7, 1, 3))
	require.Empty(t, w.writesIn(600))
	w.nodes["node-02"].RoleLabel = false
	w.changed()
	require.Equal(t, map[string]int{plan.SetReflector{Node: "node-02", ClusterID: w.d.ClusterID}.String(): 1}, w.writesIn(600))
}
