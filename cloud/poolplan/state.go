// Package poolplan decides the one next change to a worker pool. It is pure, and
// shared by every provider that orders machines: whatever the cloud, a pool gets
// its taints before its zones and is never shrunk over workers nobody named.
package poolplan

import (
	"time"

	"github.com/rrpool/rrpool/cloud"
)

// Ownership labels of a pool, and of its nodes.
const (
	// ManagedByLabel with the value ManagedBy says that rrpool made the pool.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// ManagedBy is ManagedByLabel's value.
	ManagedBy = "rrpool"
	// PoolLabel holds the pool's name.
	PoolLabel = "rrpool.io/pool"
)

// Pauses between requests that would be repeats as long as the cloud has not
// caught up, or that cannot help until a person has acted.
const (
	// SettlePause is how long a cloud may take to list what it was asked for.
	SettlePause = 2 * time.Minute
	// QuotaPause is the least time between two replacements in a zone that is
	// over quota.
	QuotaPause = 10 * time.Minute
)

// State is a pool as its provider sees it.
type State struct {
	cloud.Pool
	// Labels the pool gives to its nodes.
	Labels map[string]string
	// Deleting: the pool is on its way out.
	Deleting bool
	// Memory is what this instance has asked for lately. It only spaces requests
	// out: without it (after a restart) the plan is the same.
	Memory Memory
	Now    time.Time
}

// Memory is when requests were last made. The zero value remembers nothing.
type Memory struct {
	settles  time.Time
	size     int
	replaced map[string]time.Time
	marked   map[Kind]time.Time
}

// Note remembers that s has been asked for. Substitutes says that the cloud sees
// to a replaced worker's substitute by itself.
func (m *Memory) Note(s Step, substitutes bool, now time.Time) {
	switch s.Kind {
	case Resize:
		m.settles, m.size = now, s.Size
	case AddZone:
		m.settles = now
	case Replace:
		if m.replaced == nil {
			m.replaced = map[string]time.Time{}
		}
		m.replaced[s.Zone] = now
		if substitutes {
			m.settles = now
		}
	case SetLabels, SetTaints:
		if m.marked == nil {
			m.marked = map[Kind]time.Time{}
		}
		m.marked[s.Kind] = now
	case None, Create, RemoveZone, Remove, DeletePool:
	}
}

// barred gives how long zone has still to rest for pause since the last
// replacement in it.
func (m Memory) barred(zone string, pause time.Duration, now time.Time) time.Duration {
	at, ok := m.replaced[zone]
	if !ok {
		return 0
	}
	return max(0, pause-now.Sub(at))
}

// settling: the cloud may not list yet what it was asked for.
func (m Memory) settling(now time.Time) bool {
	return !m.settles.IsZero() && now.Sub(m.settles) < SettlePause
}

// asked: this size was asked for a moment ago.
func (m Memory) asked(size int, now time.Time) bool {
	return m.size == size && m.settling(now)
}

// unlessAsked gives s, or a wait when s was asked for a moment ago and does not
// show yet.
func (m Memory) unlessAsked(s Step, now time.Time) Step {
	if at, ok := m.marked[s.Kind]; ok && now.Sub(at) < SettlePause {
		return waiting("the cloud to show what was set on the pool (" + string(s.Kind) + ")")
	}
	return s
}

// live counts the workers of zone that are not going away.
func (s State) live(zone string) int {
	n := 0
	for _, w := range s.Workers {
		if w.Zone == zone && w.State != cloud.WorkerDeleting {
			n++
		}
	}
	return n
}

func (s State) worker(id string) (cloud.Worker, bool) {
	for _, w := range s.Workers {
		if w.ID == id {
			return w, true
		}
	}
	return cloud.Worker{}, false
}

func (s State) deleting() bool {
	for _, w := range s.Workers {
		if w.State == cloud.WorkerDeleting {
			return true
		}
	}
	return false
}
