package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
)

// A mesh that others switch on again as often as this is left on: what describes the BGPConfiguration elsewhere, as a Git repository, does so
// for ever. It is switched off again after a pause that doubles with each reversal, in case that has ended. A mesh that stays off for
// reversalForgotten begins anew.
const (
	mostReversals     = 3
	reversalPause     = time.Hour
	longestPause      = 16 * time.Hour
	reversalForgotten = 6 * time.Hour
	// A label that comes back as often stays for labelPause at first, and for longestLabelPause at most, so that what else is due is done.
	labelPause        = time.Minute
	longestLabelPause = time.Hour
)

// AwaitMeshOwner is the step that leaves on a mesh that others keep on.
const AwaitMeshOwner = "AwaitMeshOwner"

// Reversals remembers when others switched on again what rrpool had switched off, and which labels rrpool has removed. Losing that costs as
// many reversals again.
type Reversals struct {
	offSince time.Time
	times    []time.Time
	removed  map[string][]time.Time
}

// Removed takes in what a step has done, and gives when stray labels were removed, by node.
func (r *Reversals) Removed(s Step, now time.Time) map[string][]time.Time {
	out := map[string][]time.Time{}
	for node, times := range r.removed {
		if now.Sub(times[len(times)-1]) < reversalForgotten {
			out[node] = times
		}
	}
	for _, a := range s.Actions {
		if a, clears := a.(plan.ClearReflector); clears && s.Name == RemoveStrayLabel {
			out[a.Node] = append(slices.Clip(out[a.Node]), now)
		}
	}
	r.removed = out
	return out
}

// keepsLabel reports whether a stray label is left for now, as others put it on again and again.
func (v *view) keepsLabel(n plan.Node) bool {
	times := v.Removed[n.Name]
	if len(times) < mostReversals {
		return false
	}
	return !v.passed(times[len(times)-1], doubled(len(times), labelPause, longestLabelPause))
}

// labelled names the nodes whose stray label is left for now.
func (v *view) labelled() (names []string) {
	for name := range v.Removed { // mostly none
		if n, ok := first(v.Nodes, func(n plan.Node) bool { return n.Name == name }); ok && v.isStrayLabel(n) && v.keepsLabel(n) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// doubled is the pause after so many reversals, mostReversals or more.
func doubled(reversals int, pause, longest time.Duration) time.Duration {
	return min(pause<<min(reversals-mostReversals, 8), longest)
}

// Seen takes in what is observed, and gives the reversals that followed each other.
func (r *Reversals) Seen(c plan.Cluster, now time.Time) []time.Time {
	switch on := c.BGP.MeshOn(); {
	case !on && Relied(c):
		if r.offSince = cmp.Or(r.offSince, now); now.Sub(r.offSince) >= reversalForgotten {
			r.times = nil
		}
	case on && !r.offSince.IsZero():
		if r.offSince = (time.Time{}); c.BGP.Restored.IsZero() { // rrpool notes when it does so itself
			r.times = append(slices.Clip(r.times), now)
		}
	}
	return r.times
}

// reversed is the step of a mesh that others keep on, nil where it may be switched off.
func (v *view) reversed() *Step {
	n := len(v.Reversed)
	if n < mostReversals {
		return nil
	}
	pause := doubled(n, reversalPause, longestPause)
	if v.passed(v.Reversed[n-1], pause) {
		return nil
	}
	by := cmp.Or(v.BGP.ManagedBy, v.BGP.MeshWriter, "others; the API does not say who")
	return &Step{
		Name: AwaitMeshOwner, Awaits: AwaitsOwner, WaitingFor: []string{"nodeToNodeMeshEnabled of BGPConfiguration default to be left to rrpool"},
		Reason: fmt.Sprintf("the node-to-node mesh was switched on again %d times after rrpool had switched it off (%s): it stays on, and rrpool tries again after %s", n, by, pause),
	}
}
