package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// TestNoEndlessWrites: whatever is broken for good, after twenty minutes nothing is
// written any more, save what asks, evicts, and retries a net.
func TestNoEndlessWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newBusyWorld(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(3, 8).Draw(t, "nodes"), rapid.IntRange(0, 1).Draw(t, "idle"),
			rapid.IntRange(1, 3).Draw(t, "zones"))
		w.stamps = true
		w.d.Timer = rapid.IntRange(0, 5).Draw(t, "timer") == 0
		w.d.Promotion = rapid.SampledFrom([]v1alpha1.Promotion{
			v1alpha1.PromotionStaged, v1alpha1.PromotionCordon, v1alpha1.PromotionDrain, v1alpha1.PromotionImmediate,
		}).Draw(t, "promotion")
		for range rapid.IntRange(1, 8).Draw(t, "events") {
			i := rapid.IntRange(0, 7).Draw(t, "i")
			name := rapid.SampledFrom(hostileNames).Draw(t, "event")
			w.narrative = append(w.narrative, fmt.Sprintf("%s ##### %s %d", w.now.Format("04:05"), name, i))
			if f := hostile[name]; f != nil {
				f(w, i)
			} else {
				busyDisturbances[name](w, i)
			}
			w.drive(rapid.IntRange(0, 300).Draw(t, "pause"))
		}
		w.drive(2400)
		w.narrative = append(w.narrative, "##### at rest?")
		wrote := map[string]int{}
		for range 1800 {
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
		if len(wrote) > 0 {
			t.Fatalf("%v\n%s", wrote, strings.Join(w.narrative[max(0, len(w.narrative)-60):], "\n"))
		}
		_ = slices.Max[[]int]
		_ = rollout.Steady
	})
}
