// Package poolplan decides the one next change to a worker pool. It is pure, and
// shared by every provider that orders machines: whatever the cloud, a pool gets
// its taints before its zones and is never shrunk over workers nobody named.
package poolplan

import (
	"time"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// Ownership labels of a pool, and of its nodes.
const (
	// ManagedByLabel with the value ManagedBy says that rrpool made the pool.
	ManagedByLabel = v1alpha1.ManagedByLabel
	// ManagedBy is ManagedByLabel's value.
	ManagedBy = v1alpha1.ManagedByValue
	// PoolLabel holds the pool's name.
	PoolLabel = v1alpha1.PoolLabel
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

// placeless: the cloud does not tell the zone of a live worker, so no count of
// any zone is known.
func (s State) placeless() bool { return s.live("") > 0 }

func (s State) deleting() bool {
	for _, w := range s.Workers {
		if w.State == cloud.WorkerDeleting {
			return true
		}
	}
	return false
}
