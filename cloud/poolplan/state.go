// Package poolplan decides the one next change to a worker pool. It is pure, and
// shared by every provider that orders machines: whatever the cloud, a pool gets
// its taints before its zones and is never shrunk by workers that were not named.
package poolplan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rrpool/rrpool/cloud"
)

// Pauses before a request is repeated.
const (
	// SettlePause is how long a cloud may take to list what it was asked for.
	SettlePause = 2 * time.Minute
	// FailurePause is the least time between two orders in a zone when the first was refused, or its worker failed: mostly
	// for want of quota or capacity. It doubles, up to longestPause.
	FailurePause = 10 * time.Minute
	longestPause = FailurePause << 3
)

// State is a pool as its provider sees it.
type State struct {
	cloud.Pool
	// Deleting says that the pool is being deleted, DeleteFailed that the cloud has given that up.
	Deleting     bool
	DeleteFailed bool
	// Says is the state of the pool in the cloud's words, "" for none.
	Says string
	// Fingerprint is that of the flavor and options which it was ordered with, "" where that is unknown.
	Fingerprint string
	// SizeUnknown says that the cloud does not report the pool's size. What depends on it is refused.
	SizeUnknown bool
	// TaintsUnseen says that the cloud has never shown the pool's taints: Taints are those that it acknowledged.
	TaintsUnseen bool
	// Memory is what this process has asked for lately. It only delays requests: without it
	// the plan is the same.
	Memory Memory
	// Ledger is what was asked for within a day, and total how many workers both pools have: see Pair.See.
	Ledger Ledger
	total  int
	Now    time.Time
}

// live counts the workers of zone that are not being deleted.
func (s State) live(zone string) int {
	n := 0
	for _, w := range s.Workers {
		if w.Zone == zone && w.State != cloud.WorkerDeleting {
			n++
		}
	}
	return n
}

// worker gives the worker of that ID, unless it is being deleted.
func (s State) worker(id string) (cloud.Worker, bool) {
	i := slices.IndexFunc(s.Workers, func(w cloud.Worker) bool { return w.ID == id && w.State != cloud.WorkerDeleting })
	if i < 0 {
		return cloud.Worker{}, false
	}
	return s.Workers[i], true
}

// viable gives the workers that are nodes or may become such.
func (s State) viable() []cloud.Worker {
	return slices.DeleteFunc(slices.Clone(s.Workers), func(w cloud.Worker) bool { return w.State == cloud.WorkerDeleting || w.State == cloud.WorkerFailed })
}

// byLastTry sorts zones by when a step of kind was last asked for there, the earliest first, so that a zone that is refused
// holds up no other.
func (s State) byLastTry(kind Kind, zones []string) []string {
	return slices.SortedFunc(slices.Values(zones), func(a, b string) int {
		of := func(zone string) time.Time { return s.Memory.asked[Step{Kind: kind, Zone: zone}.subject()].at }
		return cmp.Or(of(a).Compare(of(b)), strings.Compare(a, b))
	})
}

// zoneUnknown reports whether the zone of a live worker is unknown, so that no zone's workers can be counted.
func (s State) zoneUnknown() bool { return s.live("") > 0 }

// zonesOfWorkers gives the zones of these workers, each once.
func (s State) zonesOfWorkers(ids []string) []string {
	var zones []string
	for _, id := range ids {
		if w, ok := s.worker(id); ok && !slices.Contains(zones, w.Zone) {
			zones = append(zones, w.Zone)
		}
	}
	return zones
}

// pauseLeft gives how long step has still to wait for pause since it was last asked for.
func (s State) pauseLeft(step Step, pause time.Duration) time.Duration {
	asked := s.Memory.asked[step.subject()]
	if asked.refusal != nil {
		pause = max(pause, FailurePause)
	}
	return max(0, pause-s.Now.Sub(asked.at))
}

// refusal returns why the cloud refused a step that must not be tried again yet, nil where there is no such refusal.
func (s State) refusal(step Step) error {
	left := s.pauseLeft(step, 0)
	why, refused := errors.AsType[*cloud.Error](s.Memory.asked[step.subject()].refusal)
	if left == 0 || !refused {
		return nil
	}
	again := *why
	again.RetryAfter = left
	return &again
}

// unlessAsked gives step, or a wait for what when step was asked for a moment ago and does not show yet.
func (s State) unlessAsked(step Step, what string) Step {
	if s.pauseLeft(step, SettlePause) > 0 {
		return Step{Kind: None, Progress: cloud.Progress{WaitingFor: what}, Refusal: s.refusal(step)}
	}
	if wait, problem := s.repeated(step); wait != "" {
		return Step{Kind: None, Progress: cloud.Progress{WaitingFor: what}, Refusal: problem}
	}
	return step
}

// settling reports whether the cloud may not list yet what this process has asked for.
func (s State) settling() bool { return s.Now.Sub(s.Memory.settles) < SettlePause }

// settled reports whether the cloud lists all changes, those of earlier processes too.
func (s State) settled() bool { return !s.settling() && s.Now.Sub(s.Memory.Since) >= SettlePause }

// Kind is the kind of a change.
type Kind string

// The kinds.
const (
	// None: nothing to change; Progress says whether all is done.
	None Kind = "None"
	// Create the pool: no zones, size as given, with the label that makes it rrpool's.
	Create Kind = "Create"
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
	Kind Kind
	// Pool is the name of the pool that the step is for; Pair sets it.
	Pool   string
	Worker string
	Zone   string
	Size   int
	Taints []cloud.Taint
	// Progress is the answer to the caller when the step is None, Refusal the error in its place where there is one.
	Progress cloud.Progress
	Refusal  error
}

// String says what the step did, for Progress.Did.
func (s Step) String() string {
	switch s.Kind {
	case Create:
		return "created the pool, without zones"
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

// subject is what a step is remembered by: a step of the same subject repeats it.
func (s Step) subject() string {
	if s.Kind == Remove {
		return string(s.Kind) + " " + s.Worker
	}
	if s.Kind == Resize {
		return fmt.Sprint(s.Kind, " ", s.Size)
	}
	return string(s.Kind) + " " + s.Zone
}

// Memory is when requests were last made. The zero value remembers nothing.
type Memory struct {
	// Since is when this process began: what was asked for before is not in it.
	Since   time.Time
	settles time.Time
	size    int
	asked   map[string]request
}

// request is when a step was last asked for, for which worker, how often in a row without an answer, and why
// the cloud refused it, nil when it did not.
type request struct {
	at      time.Time
	worker  string
	lost    int
	refusal error
}

// Refused remembers that the cloud refused s. Steps for other zones, workers or sizes go on meanwhile.
func (m *Memory) Refused(s Step, err error, now time.Time) {
	if slices.Contains([]Kind{AddZone, Replace, Remove, Resize}, s.Kind) {
		m.keep(s, request{at: now, refusal: err})
	}
}

// fewTries is how often the answer to a request may be lost in a row.
const fewTries = 3

// Lost remembers that s has no answer, so that it may have been done. After a few tries that counts as a refusal, which
// Lost reports.
func (m *Memory) Lost(s Step, err error, now time.Time) (refused bool) {
	r := request{at: now, lost: 1}
	if before := m.asked[s.subject()]; now.Sub(before.at) <= 2*longestPause {
		r.lost += before.lost
	}
	if refused = r.lost >= fewTries; refused {
		r.refusal = err
	}
	m.note(s, r)
	return refused
}

// keep remembers a request, and forgets those that no pause depends on any more.
func (m *Memory) keep(s Step, r request) {
	maps.DeleteFunc(m.asked, func(_ string, old request) bool { return r.at.Sub(old.at) > 2*longestPause })
	if m.asked == nil {
		m.asked = map[string]request{}
	}
	r.worker = s.Worker
	m.asked[s.subject()] = r
}

// Note remembers that s has been asked for.
func (m *Memory) Note(s Step, now time.Time) { m.note(s, request{at: now}) }

func (m *Memory) note(s Step, r request) {
	switch s.Kind {
	case Create, DeletePool:
		*m = Memory{Since: m.Since} // of a pool that is no more
	case Resize:
		m.settles, m.size = r.at, s.Size
	case AddZone:
		m.settles = r.at
		delete(m.asked, Step{Kind: RemoveZone, Zone: s.Zone}.subject())
	case RemoveZone:
		delete(m.asked, Step{Kind: AddZone, Zone: s.Zone}.subject())
	case Replace:
		m.settles = r.at
	case None, SetTaints, Remove:
	}
	m.keep(s, r)
}

// IsQuota reports whether a message of the cloud is about a quota that is used up.
func IsQuota(message string) bool {
	message = strings.ToLower(message)
	return slices.ContainsFunc([]string{"quota", "limit exceeded", "exceeds the limit", "reached the limit", "reached its limit"},
		func(w string) bool { return strings.Contains(message, w) })
}
