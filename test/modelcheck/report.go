package modelcheck

import (
	"fmt"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// Report sums up explorations.
type Report struct {
	Results []Result
	began   time.Time
}

// NewReport begins a report.
func NewReport() *Report { return &Report{began: time.Now()} }

// Add adds what an exploration has found.
func (r *Report) Add(x Result) { r.Results = append(r.Results, x) }

// Empty reports whether nothing was explored.
func (r *Report) Empty() bool { return len(r.Results) == 0 }

// States is how many distinct states there were.
func (r *Report) States() int {
	n := 0
	for _, x := range r.Results {
		n += x.States
	}
	return n
}

// String is the report as a table.
func (r *Report) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "states\ttransitions\tdepth\tfair runs\tseconds\tall\tviolation\t  configuration")
	moves, runs, bad := 0, 0, 0
	for _, x := range r.Results {
		all, broken := "no", "none"
		if x.Complete {
			all = "yes"
		}
		if x.Violation != "" {
			broken = x.Violation
			bad++
		}
		moves, runs = moves+x.Moves, runs+x.Runs
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%.1f\t%s\t%s\t  %s\n", x.States, x.Moves, x.Depth, x.Runs, x.Took.Seconds(), all, broken, x.Scenario)
	}
	_ = w.Flush() // a strings.Builder does not fail
	took := time.Since(r.began).Seconds()
	fmt.Fprintf(&b, "%d configurations, %d distinct states, %d transitions, %d fair runs, %d violations, %.0f s, %.0f states/s\n",
		len(r.Results), r.States(), moves, runs, bad, took, float64(r.States())/max(took, 0.001))
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

const shards = 64

// memo remembers what has been computed.
type memo[K comparable, V any] struct {
	shards [shards]struct {
		sync.RWMutex
		m map[K]V
	}
}

func (m *memo[K, V]) get(shard uint64, k K, compute func() V) V {
	s := &m.shards[shard%shards]
	s.RLock()
	v, ok := s.m[k]
	s.RUnlock()
	if ok {
		return v
	}
	v = compute()
	s.Lock()
	defer s.Unlock()
	if s.m == nil {
		s.m = map[K]V{}
	}
	s.m[k] = v
	return v
}

// add says whether k is new.
func (m *memo[K, V]) add(shard uint64, k K, v V) bool {
	s := &m.shards[shard%shards]
	s.Lock()
	defer s.Unlock()
	if _, ok := s.m[k]; ok {
		return false
	}
	if s.m == nil {
		s.m = map[K]V{}
	}
	s.m[k] = v
	return true
}

func (m *memo[K, V]) has(shard uint64, k K) bool {
	s := &m.shards[shard%shards]
	s.RLock()
	defer s.RUnlock()
	_, ok := s.m[k]
	return ok
}
