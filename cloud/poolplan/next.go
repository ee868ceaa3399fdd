package poolplan

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rrpool/rrpool/cloud"
)

// Next gives the one next change from s towards want.
func Next(s State, want cloud.PoolSpec) (Step, error) {
	if err := Validate(want); err != nil {
		return Step{}, err
	}
	labels := map[string]string{}
	maps.Copy(labels, want.Labels)
	labels[ManagedByLabel], labels[PoolLabel] = ManagedBy, s.Name
	if !s.Exists {
		step := Step{Kind: Create, Size: want.SizePerZone, Labels: labels, Taints: want.Taints}
		return s.Memory.unlessAsked(step, unlisted, s.Now), nil
	}
	if !s.Owned {
		return Step{}, foreign(s)
	}
	if s.Deleting {
		return waiting("the pool to be deleted, it is on its way out"), nil
	}
	if step, ok := marks(s, labels, want.Taints); ok {
		return step, nil
	}
	step, err := population(s, want)
	if err != nil {
		return Step{}, err
	}
	return permitted(s, want, step)
}

// permitted gives step, or what has to come before it, or why it must not be taken.
func permitted(s State, want cloud.PoolSpec, step Step) (Step, error) {
	switch {
	case step.Kind == None:
		if err := sameFlavor(s, want); err != nil {
			return Step{}, err
		}
	case s.Autoscaled:
		return Step{}, &cloud.Error{
			Kind: cloud.Conflict, Op: fmt.Sprintf("changing pool %q", s.Name),
			Message: "an autoscaler resizes this pool; exclude it from the autoscaler's configuration",
		}
	case grows(s, step) && len(want.Untainted) > 0:
		return Step{}, untainted(s, want)
	case step.Orders() && s.TaintsUnknown:
		// What the cloud does not show, it has to acknowledge before it makes a worker.
		return setTaints(s, want.Taints), nil
	}
	return step, nil
}

// NextDelete gives the one next change towards there being no pool.
func NextDelete(s State) (Step, error) {
	switch {
	case !s.Exists && s.Memory.pauseLeft(Step{Kind: Create}, SettlePause, s.Now) > 0:
		return waiting(unlisted), nil // else it would stay, and cost
	case !s.Exists:
		return Step{Kind: None, Progress: cloud.Progress{Done: true}}, nil
	case !s.Owned:
		return Step{}, foreign(s)
	case s.Deleting:
		return waiting("the pool to be deleted"), nil
	}
	return s.Memory.unlessAsked(Step{Kind: DeletePool}, "the pool to be deleted", s.Now), nil
}

// unlisted is what to wait for after a pool was created.
const unlisted = "the cloud to list the pool, which was ordered a moment ago or exists already"

// marks brings labels and taints in order. What else a person has put on the
// pool stays.
func marks(s State, labels map[string]string, taints []cloud.Taint) (Step, bool) {
	merged := map[string]string{}
	maps.Copy(merged, s.Labels)
	maps.Copy(merged, labels)
	switch {
	case !maps.Equal(merged, s.Labels):
		return s.Memory.unlessAsked(Step{Kind: SetLabels, Labels: merged}, "the cloud to show the pool's new labels", s.Now), true
	case !s.TaintsUnknown && !Tainted(s.Taints, taints):
		return setTaints(s, taints), true
	}
	return Step{}, false
}

func setTaints(s State, taints []cloud.Taint) Step {
	step := Step{Kind: SetTaints, Taints: mergeTaints(s.Taints, taints)}
	return s.Memory.unlessAsked(step, "the cloud to show the pool's new taints", s.Now)
}

// grows: more workers are ordered by step than were before. A replacement, and the refill of a worker that has gone, are no growth.
func grows(s State, step Step) bool {
	return step.Kind == AddZone || step.Kind == Resize && step.Size > s.SizePerZone
}

// untainted refuses to order workers for a pool whose taints do not reach its nodes.
func untainted(s State, want cloud.PoolSpec) error {
	t := want.Taints[0]
	return &cloud.Error{
		Kind: cloud.Conflict, Op: fmt.Sprintf("growing pool %q", s.Name),
		Message: fmt.Sprintf("the nodes of the workers %s lack the taint %s=%s:%s, so workloads may run there; give the nodes the taint, or replace the workers",
			cloud.Capped(want.Untainted, "; "), t.Key, t.Value, t.Effect),
	}
}

func mergeTaints(have, want []cloud.Taint) []cloud.Taint {
	all := slices.Clone(want)
	for _, t := range have {
		if !slices.ContainsFunc(all, func(o cloud.Taint) bool { return o.Key == t.Key }) {
			all = append(all, t)
		}
	}
	return all
}

// Tainted reports whether every wanted taint is there.
func Tainted(have, want []cloud.Taint) bool {
	return !slices.ContainsFunc(want, func(t cloud.Taint) bool { return !slices.Contains(have, t) })
}

// population brings the workers in order.
func population(s State, want cloud.PoolSpec) (Step, error) {
	zones := want.Zones
	if len(zones) == 0 {
		zones = s.ClusterZones
	}
	for _, rule := range []func(State, cloud.PoolSpec, []string) (Step, bool){retire, replace, dropZone, resize, addZone} {
		if step, ok := rule(s, want, zones); ok {
			return step, nil
		}
	}
	return stillMissing(s, want, zones)
}

// retire removes one of the workers that were named. One that is dead and whose
// zone has more than enough is removed as well, instead of replaced.
func retire(s State, want cloud.PoolSpec, zones []string) (Step, bool) {
	for _, id := range want.Retire {
		if w, ok := s.worker(id); ok && w.State != cloud.WorkerDeleting {
			return remove(s, w), true
		}
	}
	for _, id := range want.Replace {
		w, ok := s.worker(id)
		if !ok || w.State == cloud.WorkerDeleting || w.Zone == "" {
			continue
		}
		if s.live(w.Zone) > want.SizePerZone || !slices.Contains(zones, w.Zone) {
			return remove(s, w), true
		}
	}
	return Step{}, false
}

func remove(s State, w cloud.Worker) Step {
	return s.Memory.unlessAsked(Step{Kind: Remove, Worker: w.ID, Zone: w.Zone}, fmt.Sprintf("worker %s to go", w.ID), s.Now)
}

// replace exchanges one dead worker, unless its zone is already getting another.
func replace(s State, want cloud.PoolSpec, _ []string) (Step, bool) {
	for _, id := range want.Replace {
		w, ok := s.worker(id)
		if ok && w.State != cloud.WorkerDeleting && replaceable(s, w) == "" {
			return Step{Kind: Replace, Worker: id, Zone: w.Zone}, true
		}
	}
	return Step{}, false
}

// replaceable gives the reason why w has to wait for its replacement.
func replaceable(s State, w cloud.Worker) string {
	for _, o := range s.Workers {
		if o.ID != w.ID && o.Zone == w.Zone && o.State == cloud.WorkerProvisioning {
			return fmt.Sprintf("worker %s to be ready before %s is replaced", o.ID, w.ID)
		}
	}
	if s.Memory.pauseLeft(Step{Kind: Replace, Zone: w.Zone}, pause(w), s.Now) > 0 {
		return fmt.Sprintf("zone %s to settle before worker %s is replaced", w.Zone, w.ID)
	}
	return ""
}

// resize brings the size that the cloud is asked for in order. It never happens
// while a zone has more workers than wanted, since the cloud would choose the
// worker to go, and it repeats a size where a zone lacks workers: removing
// one had switched the cloud's rebalancing off.
func resize(s State, want cloud.PoolSpec, zones []string) (Step, bool) {
	for _, id := range want.Retire {
		if _, there := s.worker(id); there {
			return Step{}, false
		}
	}
	step := Step{Kind: Resize, Size: want.SizePerZone}
	switch {
	case s.zoneUnknown() || len(overSize(s, want.SizePerZone)) > 0:
		return Step{}, false
	case s.SizePerZone != want.SizePerZone && s.Memory.sized(want.SizePerZone, s.Now):
		return Step{}, false
	case s.SizePerZone < want.SizePerZone:
		return step, true
	case s.SizePerZone > want.SizePerZone:
		return step, !s.deleting()
	}
	return step, !s.Memory.settling(s.Now) && lacking(s, want.SizePerZone, zones)
}

// overSize gives the zones that have more live workers than size.
func overSize(s State, size int) []string {
	var zones []string
	for _, w := range s.Workers {
		if s.live(w.Zone) > size && !slices.Contains(zones, w.Zone) {
			zones = append(zones, w.Zone)
		}
	}
	slices.Sort(zones)
	return zones
}

// lacking reports whether repeating the size would bring missing workers, and
// only those: a zone that is being given up must not fill up again.
func lacking(s State, size int, zones []string) bool {
	lack := false
	for _, z := range s.Zones {
		if !slices.Contains(zones, z) {
			return false
		}
		lack = lack || s.live(z) < size
	}
	return lack
}

func addZone(s State, want cloud.PoolSpec, zones []string) (Step, bool) {
	// A new zone starts with the size the cloud has been asked for.
	if s.SizePerZone != want.SizePerZone {
		return Step{}, false
	}
	for _, z := range slices.Sorted(slices.Values(zones)) {
		step := Step{Kind: AddZone, Zone: z, Taints: want.Taints}
		if !slices.Contains(s.Zones, z) && s.Memory.pauseLeft(step, SettlePause, s.Now) == 0 {
			return step, true
		}
	}
	return Step{}, false
}

// dropZone takes a zone without workers out of the pool. Only zones that the
// user listed count: a default that changes must not take a zone away.
func dropZone(s State, want cloud.PoolSpec, _ []string) (Step, bool) {
	if s.zoneUnknown() {
		return Step{}, false
	}
	for _, z := range s.Zones {
		step := Step{Kind: RemoveZone, Zone: z}
		if s.idle(want, z) && s.Memory.pauseLeft(step, SettlePause, s.Now) == 0 {
			return step, true
		}
	}
	return Step{}, false
}

// idle: the user lists zones, and not this one, and no worker is left in it.
func (s State) idle(want cloud.PoolSpec, zone string) bool {
	return len(want.Zones) > 0 && !slices.Contains(want.Zones, zone) &&
		!slices.ContainsFunc(s.Workers, func(w cloud.Worker) bool { return w.Zone == zone })
}

func waiting(what string) Step {
	return Step{Kind: None, Progress: cloud.Progress{WaitingFor: what}}
}

func foreign(s State) error {
	return &cloud.Error{
		Kind: cloud.Conflict, Op: fmt.Sprintf("taking over pool %q", s.Name),
		Message: fmt.Sprintf("a pool of this name exists without the label %s=%s; choose another poolName, or give that pool the label",
			ManagedByLabel, ManagedBy),
	}
}

// sameFlavor is checked last: a pool that cannot have the wanted flavor is still
// kept whole.
func sameFlavor(s State, want cloud.PoolSpec) error {
	if want.Flavor == "" || s.Flavor == "" || want.Flavor == s.Flavor {
		return nil
	}
	return &cloud.Error{
		Kind: cloud.InvalidInput, Op: fmt.Sprintf("changing pool %q", s.Name),
		Message: fmt.Sprintf("the pool has the flavor %s and it cannot be changed to %s; use another poolName", s.Flavor, want.Flavor),
	}
}

// stillMissing says what is missing when nothing can be asked for.
func stillMissing(s State, want cloud.PoolSpec, zones []string) (Step, error) {
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
	return waiting(cloud.Capped(missing, "; ")), nil
}

// overQuota is the answer for dead workers whose replacement has failed for want
// of quota and has to wait.
func overQuota(s State, want cloud.PoolSpec) error {
	for _, id := range want.Replace {
		w, ok := s.worker(id)
		if !ok || w.State == cloud.WorkerDeleting || !IsQuota(w.Message) {
			continue
		}
		if left := s.Memory.pauseLeft(Step{Kind: Replace, Zone: w.Zone}, QuotaPause, s.Now); left > 0 {
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
			missing = append(missing, fmt.Sprintf("the cloud to report the zone of worker %s", w.ID))
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
	for _, z := range overSize(s, want.SizePerZone) {
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
