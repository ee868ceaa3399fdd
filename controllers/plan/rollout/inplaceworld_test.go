package rollout_test

import (
	"fmt"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/selection"
)

// applyAside carries out what changes nothing that nodes render.
func (w *world) applyAside(a plan.Action) {
	switch a := a.(type) {
	case plan.EnsurePool:
		w.ensure(a.Want)
		return
	case plan.Pause:
		return // less than a tick
	case plan.CordonNode:
		m := w.nodes[a.Node]
		m.Cordoned, m.CordonedByUs, m.CordonMark = true, true, true
	case plan.UncordonNode:
		m := w.nodes[a.Node]
		m.Cordoned, m.CordonedByUs, m.CordonMark = false, false, false
	case plan.DrainNode:
		if m := w.nodes[a.Node]; m.pods > 0 && !w.pdb {
			m.pods--
		}
	case plan.ReleasePool:
		for _, m := range w.sorted() {
			if m.Pooled {
				m.Pooled = false
				break
			}
		}
	default:
		panic(fmt.Sprintf("unknown action %T", a))
	}
	w.nextLook = w.now.Add(time.Second)
}

// joinPool is the provider of existing nodes: one label a call.
func (w *world) joinPool(want plan.PoolSpec) {
	for _, name := range want.Retire {
		if m := w.nodes[name]; m != nil && m.Pooled {
			m.Pooled = false
			return
		}
	}
	rules := selection.Rules{
		PerZone: want.SizePerZone, Zones: want.Zones, Preferred: w.d.Preferred, Excluded: w.d.Excluded,
		Lost: func(n plan.Node) bool { return !n.Ready && w.now.Sub(n.ReadyChanged) > w.d.NotReadyGrace },
	}
	if n, ok := selection.Next(w.observe().Nodes, rules); ok {
		w.nodes[n.Name].Pooled = true
	}
}
