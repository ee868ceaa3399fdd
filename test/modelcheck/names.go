package modelcheck

import "sync"

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
