package modelcheck

import (
	"fmt"
	"strings"
	"sync"
	"text/tabwriter"
)

// Report sums up explorations.
type Report []Result

// States is how many distinct states there were.
func (r Report) States() int {
	n := 0
	for _, x := range r {
		n += x.States
	}
	return n
}

// String is the report as a table.
func (r Report) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "states\ttransitions\tdepth\tfair runs\tseconds\tall\tviolation\t  configuration")
	moves, runs, bad, took := 0, 0, 0, 0.0
	for _, x := range r {
		all, broken := "no", "none"
		if x.Complete {
			all = "yes"
		}
		if x.Violation != "" {
			broken = x.Violation
			bad++
		}
		moves, runs, took = moves+x.Moves, runs+x.Runs, took+x.Took.Seconds()
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%.1f\t%s\t%s\t  %s\n", x.States, x.Moves, x.Depth, x.Runs, x.Took.Seconds(), all, broken, x.Scenario)
	}
	_ = w.Flush() // a strings.Builder does not fail
	fmt.Fprintf(&b, "%d configurations, %d distinct states, %d transitions, %d fair runs, %d violations, %.0f s, %.0f states/s\n",
		len(r), r.States(), moves, runs, bad, took, float64(r.States())/max(took, 0.001))
	return b.String()
}

// names gives small numbers to values, so that a state is small.
type names[V any] struct {
	mu     sync.RWMutex
	index  map[string]int
	values []V
}

func newNames[V any](zero V, key string) *names[V] {
	return &names[V]{index: map[string]int{key: 0}, values: []V{zero}}
}

func (n *names[V]) of(key string, value V) int {
	n.mu.RLock()
	i, ok := n.index[key]
	n.mu.RUnlock()
	if ok {
		return i
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if i, ok := n.index[key]; ok {
		return i
	}
	n.values = append(n.values, value)
	n.index[key] = len(n.values) - 1
	return len(n.values) - 1
}

func (n *names[V]) get(i int) V {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.values[i]
}

// memo remembers what has been computed.
type memo[K comparable, V any] struct{ sync.Map }

func (m *memo[K, V]) get(k K, compute func() V) V {
	v, ok := m.Load(k)
	if !ok {
		v, _ = m.LoadOrStore(k, compute())
	}
	return v.(V) //nolint:forcetypeassert // nothing else is in it
}
