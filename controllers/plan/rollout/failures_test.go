package rollout_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var (
	sequences = flag.Int("sequences", 200, "how many random sequences of failures to play")
	firstSeed = flag.Uint64("seed", 0, "the seed of the first sequence; 0 for a random one")
)

// recovery is how long routes may be gone after a failure that took the last ones:
// until the mesh is on, and its sessions are up with the slowest start of the model.
const recovery = 60 * time.Second

// Nodes fail, return, come and go, whichever and however many. What such an event
// itself takes away has to come back soon; nothing else may ever be lost.
func TestRandomSequencesOfFailures(t *testing.T) {
	first := *firstSeed
	if first == 0 {
		first = rand.Uint64()
	}
	middle := *sequences / 2
	for name, part := range map[string][2]int{"one half": {0, middle}, "the other half": {middle, *sequences}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := part[0]; i < part[1]; i++ {
				seed := first + uint64(i)
				w := newWorld(seed, 5, 1+int(seed%3))
				if seed%2 == 0 {
					w = newInPlaceWorld(seed, 7, int(seed/2%2), 1+int(seed%3))
				}
				if v := w.playFailures(8); v != "" {
					t.Fatalf("seed %d (repeat it with -sequences 1 -seed %d): %s\n%s", seed, seed, v, strings.Join(w.narrative, "\n"))
				}
			}
		})
	}
}

func (w *world) playFailures(events int) string {
	if v := w.settle(); v != "" {
		return v
	}
	for i := range events {
		what := w.fail(i)
		w.forgive()
		if v := w.run(w.rnd.IntN(300)); v != "" {
			return fmt.Sprintf("after event %d, %s: %s", i+1, what, v)
		}
	}
	w.everythingReturns()
	if v := w.run(60); v != "" {
		return v
	}
	return w.settle()
}

// forgive excuses what the last event takes away, and no step: at once, or while
// sessions that were on their way do not arrive.
func (w *world) forgive() {
	for range 20 {
		w.tick()
		w.deploy()
		w.manage(-1)
		if w.violation() == "" {
			continue
		}
		for _, m := range w.nodes {
			w.excused[m.Name] = w.now.Add(recovery)
		}
		w.lostAt = w.now
		return
	}
}

// fail lets one thing happen, or up to three at once.
func (w *world) fail(i int) string {
	var what []string
	for range 1 + w.rnd.IntN(3) {
		all := w.sorted()
		m := all[w.rnd.IntN(len(all))]
		switch kind := w.rnd.IntN(5); {
		case kind == 4:
			w.setAlive(false, w.reflectors()[min(w.rnd.IntN(2), len(w.reflectors())):]...)
			what = append(what, "all reflectors but one fail, or all")
		case kind == 0:
			w.setAlive(false, m)
			what = append(what, m.Name+" fails")
		case kind == 1 && len(all) > 6:
			w.drop(m)
			what = append(what, m.Name+" is deleted")
		case kind == 2:
			name := fmt.Sprintf("new-%02d-%02d", i, w.sequence)
			w.addNode(name, w.d.Pool.Zones[w.rnd.IntN(len(w.d.Pool.Zones))], false)
			what = append(what, name+" comes")
		default:
			w.setAlive(true, all...)
			what = append(what, "all return")
		}
	}
	return strings.Join(what, ", ")
}

// drop deletes a node, and the worker behind it with it.
func (w *world) drop(m *machine) {
	if m.WorkerID != "" {
		w.dropWorker(m.WorkerID)
		w.fillPool()
		return
	}
	w.removeNode(m.Name)
}
