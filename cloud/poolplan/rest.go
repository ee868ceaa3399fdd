package poolplan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rrpool/rrpool/cloud"
)

// rest says what is missing when nothing can be asked for.
func rest(s State, want cloud.PoolSpec, zones []string) (Step, error) {
	if err := overQuota(s, want); err != nil {
		return Step{}, err
	}
	missing := missingWorkers(s, want, zones)
	if len(zones) == 0 {
		missing = append(missing, "the cluster to have a zone")
	}
	if len(missing) == 0 && s.SizePerZone != want.SizePerZone {
		missing = append(missing, fmt.Sprintf("the cloud to take over the size of %d per zone", want.SizePerZone))
	}
	if len(missing) == 0 {
		return Step{Kind: None, Progress: cloud.Progress{Done: true}}, nil
	}
	return waiting(capped(missing)), nil
}

// overQuota is the answer for dead workers whose replacement has failed for want
// of quota and has to wait.
func overQuota(s State, want cloud.PoolSpec) error {
	for _, id := range want.Replace {
		w, ok := s.worker(id)
		if !ok || w.State == cloud.WorkerDeleting || !IsQuota(w.Message) {
			continue
		}
		if left := s.Memory.barred(Step{Kind: Replace, Zone: w.Zone}, QuotaPause, s.Now); left > 0 {
			return &cloud.Error{
				Kind: cloud.QuotaExceeded, Op: "replacing worker " + id, RetryAfter: left,
				Message: w.Message + " (raise the account's quota; the replacement is tried again)",
			}
		}
	}
	return nil
}

func missingWorkers(s State, want cloud.PoolSpec, zones []string) []string {
	var missing []string
	for _, w := range s.Workers {
		if w.State != cloud.WorkerDeployed {
			missing = append(missing, describe(w))
		}
		switch {
		case w.State == cloud.WorkerDeleting:
		case w.Zone == "":
			missing = append(missing, fmt.Sprintf("the cloud to tell the zone of worker %s", w.ID))
		case !slices.Contains(zones, w.Zone):
			missing = append(missing, fmt.Sprintf("worker %s to be retired, zone %s is not wanted", w.ID, w.Zone))
		}
		if slices.Contains(want.Replace, w.ID) && w.State != cloud.WorkerDeleting {
			missing = append(missing, replaceable(s, w))
		}
	}
	return append(missing, missingZones(s, want, zones)...)
}

// missingZones says what is missing zone by zone.
func missingZones(s State, want cloud.PoolSpec, zones []string) []string {
	var missing []string
	for _, z := range crowded(s, want.SizePerZone) {
		missing = append(missing, fmt.Sprintf("%d of the %d workers in zone %s to be retired",
			s.live(z)-want.SizePerZone, s.live(z), z))
	}
	for _, z := range zones {
		if !slices.Contains(s.Zones, z) {
			missing = append(missing, fmt.Sprintf("the cloud to list zone %s", z))
		}
	}
	for _, z := range s.Zones {
		switch n := s.live(z); {
		case s.idle(want, z):
			missing = append(missing, fmt.Sprintf("the cloud to give up zone %s", z))
		case n < want.SizePerZone && slices.Contains(zones, z):
			missing = append(missing, fmt.Sprintf("%d more workers in zone %s", want.SizePerZone-n, z))
		}
	}
	return missing
}

// pause is how long after a replacement the next one in w's zone may follow.
func pause(w cloud.Worker) time.Duration {
	if IsQuota(w.Message) {
		return QuotaPause
	}
	return SettlePause
}

func describe(w cloud.Worker) string {
	text := fmt.Sprintf("worker %s in zone %s: %s", w.ID, w.Zone, w.State)
	if w.Message != "" {
		text += " (" + w.Message + ")"
	}
	return text
}

// capped joins the first few of many.
func capped(items []string) string {
	const most = 5
	if len(items) > most {
		items = append(slices.Clone(items[:most]), fmt.Sprintf("and %d more", len(items)-most))
	}
	return strings.Join(items, "; ")
}
