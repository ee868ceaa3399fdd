package poolplan

import (
	"fmt"
	"strings"

	"github.com/rrpool/rrpool/cloud"
)

// Kind is the kind of change.
type Kind string

// The kinds.
const (
	// None: nothing to change; Progress says whether all is done.
	None Kind = "None"
	// Create the pool: no zones, size and labels as given.
	Create Kind = "Create"
	// SetLabels to exactly Labels.
	SetLabels Kind = "SetLabels"
	// SetTaints to exactly Taints.
	SetTaints Kind = "SetTaints"
	// AddZone to the pool. The provider confirms the taints once more before.
	AddZone Kind = "AddZone"
	// RemoveZone, which has no workers any more, from the pool.
	RemoveZone Kind = "RemoveZone"
	// Resize to Size per zone; also switches the cloud's rebalancing on.
	Resize Kind = "Resize"
	// Remove one worker for good.
	Remove Kind = "Remove"
	// Replace one worker by a new one in the same zone.
	Replace Kind = "Replace"
	// DeletePool with all its workers.
	DeletePool Kind = "DeletePool"
)

// Step is one change to a pool.
type Step struct {
	Kind   Kind
	Worker string
	Zone   string
	Size   int
	Labels map[string]string
	Taints []cloud.Taint
	// Progress is the answer to the caller when the step is None.
	Progress cloud.Progress
}

// Orders reports whether the step may bring new workers.
func (s Step) Orders() bool { return s.Kind == AddZone || s.Kind == Replace || s.Kind == Resize }

// String says what the step did, for Progress.Did.
func (s Step) String() string {
	switch s.Kind {
	case Create:
		return "created the pool, without zones"
	case SetLabels:
		return "set the pool's labels"
	case SetTaints:
		return "set the pool's taints"
	case AddZone:
		return fmt.Sprintf("added zone %s", s.Zone)
	case RemoveZone:
		return fmt.Sprintf("removed zone %s", s.Zone)
	case Resize:
		return fmt.Sprintf("asked for %d workers per zone", s.Size)
	case Remove:
		return fmt.Sprintf("removed worker %s", s.Worker)
	case Replace:
		return fmt.Sprintf("replaced worker %s in zone %s", s.Worker, s.Zone)
	case DeletePool:
		return "deleted the pool"
	case None:
	}
	return ""
}

// quotaWords mark the cloud's messages about a used-up allowance.
var quotaWords = []string{"quota", "limit exceeded", "exceeds the limit", "reached the limit", "reached its limit"}

// IsQuota reports whether a message of the cloud speaks of a used-up quota.
func IsQuota(message string) bool {
	message = strings.ToLower(message)
	for _, w := range quotaWords {
		if strings.Contains(message, w) {
			return true
		}
	}
	return false
}
