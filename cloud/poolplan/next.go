package poolplan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// Validate refuses a spec that can never be fulfilled.
func Validate(want cloud.PoolSpec) error {
	if want.SizePerZone < 1 {
		return cloud.InvalidSpec("size per zone is %d, it must be at least 1", want.SizePerZone)
	}
	if len(want.Taints) == 0 {
		return cloud.InvalidSpec("no taint is given, so any pod would run on the pool")
	}
	return nil
}

// unlisted is what to wait for after a pool was created.
const unlisted = "the cloud to list the pool, which was ordered a moment ago or exists already"

// Next gives the one next change from s towards want, which is valid. Labels and taints that a person has put on
// the pool stay.
func Next(s State, want cloud.PoolSpec) (Step, error) {
	switch {
	case !s.Exists:
		return s.unlessAsked(Step{Kind: Create, Size: want.SizePerZone, Taints: want.Taints}, unlisted), nil
	case !s.Owned:
		return Step{}, foreign(s)
	case s.Deleting:
		return awaitDeletion(s, "the pool to be deleted, it is on its way out"), nil
	case !s.TaintsUnknown && !Tainted(s.Taints, want.Taints):
		return setTaints(s, want.Taints), nil
	}
	zones := zonesOf(s, want)
	if unproven(s, want) && len(s.viable()) == 0 {
		want, zones = trial(s, want, zones)
	}
	step, err := population(s, want, zones)
	if err != nil {
		return Step{}, err
	}
	return permitted(s, want, step)
}

// zonesOf gives the zones that workers are wanted in.
func zonesOf(s State, want cloud.PoolSpec) []string {
	if len(want.Zones) == 0 {
		return s.ClusterZones
	}
	return want.Zones
}

// unproven reports whether neither the cloud nor a node has shown that the pool's workers get its taints.
func unproven(s State, want cloud.PoolSpec) bool { return s.TaintsUnseen && !want.TaintsSeen }

// trial is the pool that is wanted until a worker can prove its taints: one worker in one zone, beside the zones where
// that has failed.
func trial(s State, want cloud.PoolSpec, zones []string) (cloud.PoolSpec, []string) {
	var failed, present, absent []string
	for _, z := range s.byLastTry(AddZone, zones) {
		switch {
		case s.live(z) > 0:
			failed = append(failed, z)
		case slices.Contains(s.Zones, z):
			present = append(present, z)
		default:
			absent = append(absent, z)
		}
	}
	next := slices.Concat(present, absent)
	want.SizePerZone, want.Zones = 1, slices.Concat(failed, next[:min(1, len(next))])
	return want, want.Zones
}

// premature reports whether step would bring a second worker while none has proven its taints.
func premature(s State, want cloud.PoolSpec, step Step) bool {
	brings := s.Request(step, want).Orders
	others := slices.DeleteFunc(s.viable(), func(w cloud.Worker) bool { return w.ID == step.Worker })
	return unproven(s, want) && brings > 0 && brings+len(others) > 1
}

// taintsLost reports whether the taints have to be set again: the cloud acknowledged them but does not show them, and nodes lack
// them. Setting them again also changes existing workers. The pause doubles with each try.
func taintsLost(s State, want cloud.PoolSpec) bool {
	return unproven(s, want) && len(want.Untainted) > 0 && s.pauseLeft(Step{Kind: SetTaints}, FailurePause) == 0 && s.again(Step{Kind: SetTaints})
}

// again reports whether step, which was acknowledged and did not last, is to be asked for again. The pause doubles with each try.
func (s State) again(step Step) bool {
	asked := s.Request(step, cloud.PoolSpec{})
	tries := slices.DeleteFunc(slices.Clone(s.Ledger.Requests), func(r Request) bool { return !r.repeats(asked) })
	n := len(tries)
	return n == 0 || !s.Now.Before(tries[n-1].at().Add(FailurePause<<min(n-1, 6)))
}

// awaitDeletion waits for a pool that is being deleted, or asks again for a deletion that the cloud has given up.
func awaitDeletion(s State, what string) Step {
	if step := (Step{Kind: DeletePool}); s.DeleteFailed && s.pauseLeft(step, SettlePause) == 0 && s.again(step) {
		return step
	}
	return waiting(what + " (" + leaving(s) + ")")
}

// deleteAgain asks again for workers whose deletion the cloud has given up.
func deleteAgain(s State, _ cloud.PoolSpec, _ []string) (steps []Step) {
	for _, w := range s.Workers {
		if step := (Step{Kind: Remove, Worker: w.ID, Zone: w.Zone}); w.DeleteFailed && s.again(step) {
			steps = append(steps, step)
		}
	}
	return steps
}

// permitted gives step, or what has to come before it, or why it must not be taken.
func permitted(s State, want cloud.PoolSpec, step Step) (Step, error) {
	// A replacement, and the refill of a worker that has gone, are no growth.
	grows := step.Kind == AddZone || step.Kind == Resize && step.Size > s.SizePerZone
	switch {
	case step.Kind == None:
		return step, nil
	case taintsLost(s, want):
		return setTaints(s, want.Taints), nil
	case s.Autoscaled:
		return Step{}, autoscaled(s)
	case grows && len(want.Untainted) > 0:
		t := want.Taints[0]
		return Step{}, conflict(s, "growing", "the nodes of the workers %s lack the taint %s=%s:%s, so workloads may run there; give the nodes the taint, or replace the workers",
			cloud.Capped(want.Untainted, "; "), t.Key, t.Value, t.Effect)
	case premature(s, want, step):
		t := want.Taints[0]
		return waiting(fmt.Sprintf("a node of the pool to show the taint %s=%s:%s before more workers are ordered, as the cloud does not show it", t.Key, t.Value, t.Effect)), nil
	case s.TaintsUnknown && slices.Contains([]Kind{AddZone, Replace, Resize}, step.Kind):
		// What the cloud does not show, it has to acknowledge before it makes a worker.
		return setTaints(s, want.Taints), nil
	}
	return step, nil
}

// NextDelete gives the one next change towards there being no pool.
func NextDelete(s State) (Step, error) {
	switch {
	case !s.Exists && s.pauseLeft(Step{Kind: Create}, SettlePause) > 0:
		return waiting(unlisted), nil // else it would stay, and cost
	case !s.Exists:
		return Step{Kind: None, Progress: cloud.Progress{Done: true}}, nil
	case !s.Owned:
		return Step{}, foreign(s)
	case s.Deleting:
		return awaitDeletion(s, "the pool to be deleted"), nil
	}
	return s.unlessAsked(Step{Kind: DeletePool}, "the pool to be deleted ("+leaving(s)+")"), nil
}

// leaving says what the cloud reports of a pool that is being deleted, and of its workers, which may be why it stays.
func leaving(s State) string {
	words := []string{"pool " + s.Name}
	if s.Says != "" {
		words[0] += ": " + s.Says
	}
	for _, w := range s.Workers {
		words = append(words, describe(w))
	}
	return cloud.Capped(words, "; ")
}

// setTaints sets the wanted taints, and keeps those of other keys.
func setTaints(s State, want []cloud.Taint) Step {
	all := slices.Clone(want)
	for _, t := range s.Taints {
		if !slices.ContainsFunc(want, func(o cloud.Taint) bool { return o.Key == t.Key }) {
			all = append(all, t)
		}
	}
	return s.unlessAsked(Step{Kind: SetTaints, Taints: all}, "the cloud to show the pool's new taints")
}

// Tainted reports whether every wanted taint is there.
func Tainted(have, want []cloud.Taint) bool {
	return !slices.ContainsFunc(want, func(t cloud.Taint) bool { return !slices.Contains(have, t) })
}

// population gives the next change of the workers. One that has to wait does not hold up those that do not depend on it.
func population(s State, want cloud.PoolSpec, zones []string) (Step, error) {
	var wait string
	var problem error
	rules := []func(State, cloud.PoolSpec, []string) []Step{deleteAgain, retire, replace, dropZone, resize, addZone}
	if s.SizeUnknown {
		rules = rules[:3] // which do not depend on it
	}
	for _, rule := range rules {
		for _, step := range rule(s, want, zones) {
			why, err := s.heldUp(step, want)
			if why == "" {
				return step, nil
			}
			wait, problem = cmp.Or(wait, why), cmp.Or(problem, err)
		}
	}
	if s.SizeUnknown {
		problem = cmp.Or[error](problem, &cloud.Error{
			Kind: cloud.Unavailable, Op: fmt.Sprintf("observing pool %q", s.Name),
			Message: "the cloud does not say the pool's size, so nothing is resized: a size that is missing is not 0",
		})
	}
	if problem != nil {
		return Step{}, problem
	}
	if err := refused(s, want, zones); err != nil {
		return Step{}, err
	}
	missing := stillMissing(s, want, zones)
	if wait != "" {
		missing = append([]string{wait}, missing...)
	}
	if len(missing) > 0 {
		return waiting(cloud.Capped(missing, "; ")), nil
	}
	return Step{Kind: None, Progress: cloud.Progress{Done: true}}, nil
}

// retire removes one of the workers that were named. One that is dead and whose
// zone has more than enough is removed as well, instead of replaced.
func retire(s State, want cloud.PoolSpec, zones []string) (steps []Step) {
	for _, id := range slices.Concat(want.Retire, want.Replace) {
		w, ok := s.worker(id)
		dispensable := w.Zone != "" && (s.live(w.Zone) > want.SizePerZone || !slices.Contains(zones, w.Zone))
		if ok && (dispensable || slices.Contains(want.Retire, id)) {
			steps = append(steps, Step{Kind: Remove, Worker: id, Zone: w.Zone})
		}
	}
	return steps
}

// replace exchanges one dead worker, unless its zone is already getting another. The workers of a zone take turns, as one may
// be refused for ever.
func replace(s State, want cloud.PoolSpec, _ []string) (steps []Step) {
	for _, z := range s.byLastTry(Replace, s.zonesOfWorkers(want.Replace)) {
		last := slices.Index(want.Replace, s.Memory.asked[Step{Kind: Replace, Zone: z}.subject()].worker)
		for _, id := range slices.Concat(want.Replace[last+1:], want.Replace[:last+1]) {
			if w, ok := s.worker(id); ok && w.Zone == z && blocked(s, w, want) == "" {
				steps = append(steps, Step{Kind: Replace, Worker: id, Zone: z})
			}
		}
	}
	return steps
}

// blocked says what w's replacement has to wait for: no worker that is to be replaced itself.
func blocked(s State, w cloud.Worker, want cloud.PoolSpec) string {
	for _, o := range s.Workers {
		if o.ID != w.ID && o.Zone == w.Zone && o.State == cloud.WorkerProvisioning && !slices.Contains(want.Replace, o.ID) {
			return fmt.Sprintf("worker %s to be ready before %s is replaced", o.ID, w.ID)
		}
	}
	pause := SettlePause
	if w.State == cloud.WorkerFailed {
		pause = FailurePause
	}
	switch {
	case s.pauseLeft(Step{Kind: Replace, Zone: w.Zone}, pause) == 0:
		return ""
	case w.State == cloud.WorkerFailed:
		return fmt.Sprintf("zone %s to be tried again %s after its last order, as worker %s has failed", w.Zone, pause, w.ID)
	}
	return fmt.Sprintf("zone %s to settle before worker %s is replaced", w.Zone, w.ID)
}

// dropZone takes a zone without workers out of the pool. Only zones that the
// user listed count: a default that changes must not take a zone away.
func dropZone(s State, want cloud.PoolSpec, _ []string) (steps []Step) {
	for _, z := range s.Zones {
		step := Step{Kind: RemoveZone, Zone: z}
		if !s.zoneUnknown() && idle(s, want, z) && s.pauseLeft(step, SettlePause) == 0 {
			steps = append(steps, step)
		}
	}
	return steps
}

// givenUp reports whether the user lists zones, and not this one.
func givenUp(want cloud.PoolSpec, zone string) bool {
	return len(want.Zones) > 0 && !slices.Contains(want.Zones, zone)
}

// idle reports whether the zone is given up, and has no workers left but stuck ones.
func idle(s State, want cloud.PoolSpec, zone string) bool {
	return givenUp(want, zone) && !slices.ContainsFunc(s.Workers, func(w cloud.Worker) bool { return w.Zone == zone && !stuck(w, want) })
}

// stuck reports whether the worker is being deleted, and nothing waits for that any more.
func stuck(w cloud.Worker, want cloud.PoolSpec) bool {
	return w.State == cloud.WorkerDeleting && slices.Contains(want.Stuck, w.ID)
}

// resize asks the cloud for the wanted size: not while a zone has more workers than wanted, or may have some that are not
// listed yet, since the cloud would choose the worker to go, nor while it would bring workers to a zone that is being
// given up. Where a zone lacks workers the same size is asked for again: a removal switches the cloud's rebalancing off.
func resize(s State, want cloud.PoolSpec, zones []string) []Step {
	step := Step{Kind: Resize, Size: want.SizePerZone}
	leaving := func(w cloud.Worker) bool { return w.State == cloud.WorkerDeleting && !stuck(w, want) }
	due := false
	switch {
	case slices.ContainsFunc(s.Workers, func(w cloud.Worker) bool { return slices.Contains(want.Retire, w.ID) }),
		s.zoneUnknown(), len(overSize(s, want.SizePerZone)) > 0, wouldRefill(s, want):
	case s.SizePerZone == want.SizePerZone:
		due = !s.settling() && lacking(s, want.SizePerZone, zones)
	case s.settling() && s.Memory.size == want.SizePerZone: // asked for a moment ago
	default:
		due = s.SizePerZone < want.SizePerZone || s.settled() && !slices.ContainsFunc(s.Workers, leaving)
	}
	if !due || s.refusal(step) != nil {
		return nil
	}
	return []Step{step}
}

// overSize gives the zones that have more live workers than size.
func overSize(s State, size int) []string {
	var zones []string
	for _, w := range s.Workers {
		if s.live(w.Zone) > size {
			zones = append(zones, w.Zone)
		}
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}

// lacking reports whether repeating the size would bring missing workers.
func lacking(s State, size int, zones []string) bool {
	return slices.ContainsFunc(s.Zones, func(z string) bool { return slices.Contains(zones, z) && s.live(z) < size })
}

// wouldRefill reports whether asking for the size would bring workers to a zone that is being given up, and can wait until that
// zone is empty. It cannot while the zone that is to come in its place is refused.
func wouldRefill(s State, want cloud.PoolSpec) bool {
	return !want.Refill && refused(s, cloud.PoolSpec{}, want.Zones) == nil &&
		slices.ContainsFunc(s.Zones, func(z string) bool { return givenUp(want, z) && s.live(z) < want.SizePerZone })
}

// addZone adds zones once the size is right: a new zone starts with the size that the cloud has been asked for. It does not
// wait where the size cannot be asked for yet, or a pool without zones does not show it: a larger one follows.
func addZone(s State, want cloud.PoolSpec, zones []string) (steps []Step) {
	unshown := len(s.Zones) == 0 && len(s.Ledger.tries(s.Request(Step{Kind: Resize, Size: want.SizePerZone}, want))) > 0
	smaller := s.SizePerZone < want.SizePerZone && (unshown || s.SizePerZone > 0 && wouldRefill(s, want))
	for _, z := range s.byLastTry(AddZone, zones) {
		step := Step{Kind: AddZone, Zone: z, Taints: want.Taints}
		if (s.SizePerZone == want.SizePerZone || smaller) && !slices.Contains(s.Zones, z) && s.pauseLeft(step, SettlePause) == 0 {
			steps = append(steps, step)
		}
	}
	return steps
}

// heldUp says why step is not taken now: it was asked for a moment ago, has no effect, or is more than may be asked for; ""
// for nothing. problem is what a person should know of it.
func (s State) heldUp(step Step, want cloud.PoolSpec) (wait string, problem error) {
	if step.Kind == Remove && s.pauseLeft(step, SettlePause) > 0 {
		return fmt.Sprintf("worker %s to go", step.Worker), s.refusal(step)
	}
	if wait, problem = s.repeated(step); wait == "" && step.Kind == Replace {
		wait, problem = s.delayed(step, want)
	}
	if wait != "" {
		return wait, problem
	}
	if problem := s.overBudget(step, want); problem != nil {
		return problem.Error(), problem
	}
	return "", nil
}

func waiting(what string) Step {
	return Step{Kind: None, Progress: cloud.Progress{WaitingFor: what}}
}

func conflict(s State, doing, format string, args ...any) error {
	return &cloud.Error{Kind: cloud.Conflict, Op: fmt.Sprintf("%s pool %q", doing, s.Name), Message: fmt.Sprintf(format, args...)}
}

func autoscaled(s State) error {
	return conflict(s, "changing", "an autoscaler resizes this pool; exclude it from the autoscaler's configuration")
}

func foreign(s State) error {
	if s.Unmarked != "" {
		return conflict(s, "changing", "%s", s.Unmarked)
	}
	return conflict(s, "taking over", "a pool of this name exists without the label %s=%s; choose another poolName, or give that pool the label",
		v1alpha1.PoolLabel, s.Name)
}

// refused is the answer to an order that cannot be repeated yet.
func refused(s State, want cloud.PoolSpec, zones []string) error {
	if err := s.refusal(Step{Kind: Resize, Size: want.SizePerZone}); err != nil && (s.SizePerZone != want.SizePerZone || lacking(s, want.SizePerZone, zones)) {
		return err
	}
	for _, z := range zones {
		if err := s.refusal(Step{Kind: AddZone, Zone: z}); err != nil && !slices.Contains(s.Zones, z) {
			return err
		}
	}
	for _, z := range s.zonesOfWorkers(want.Replace) {
		if err := s.refusal(Step{Kind: Replace, Zone: z}); err != nil {
			return err
		}
	}
	return nil
}

// stillMissing says what is missing when nothing can be asked for.
func stillMissing(s State, want cloud.PoolSpec, zones []string) []string {
	var missing []string
	add := func(format string, args ...any) { missing = append(missing, fmt.Sprintf(format, args...)) }
	for _, w := range s.Workers {
		if w.State != cloud.WorkerDeployed {
			missing = append(missing, describe(w))
		}
		switch {
		case w.State == cloud.WorkerDeleting:
			continue
		case w.Zone == "":
			add("the cloud to report the zone of worker %s", w.ID)
		case !slices.Contains(zones, w.Zone):
			add("worker %s to be retired, zone %s is not wanted", w.ID, w.Zone)
		}
		if slices.Contains(want.Replace, w.ID) {
			missing = append(missing, blocked(s, w, want))
		}
	}
	missing = append(missing, missingZones(s, want, zones)...)
	if len(zones) == 0 {
		add("the cluster to have a zone")
	}
	if len(missing) == 0 && s.SizePerZone != want.SizePerZone {
		add("the cloud to take over the size of %d per zone", want.SizePerZone)
	}
	return missing
}

// missingZones lists what still differs from the wanted pool, zone by zone.
func missingZones(s State, want cloud.PoolSpec, zones []string) []string {
	var missing []string
	add := func(format string, args ...any) { missing = append(missing, fmt.Sprintf(format, args...)) }
	for _, z := range overSize(s, want.SizePerZone) {
		add("%d of the %d workers in zone %s to be retired", s.live(z)-want.SizePerZone, s.live(z), z)
	}
	for _, z := range zones {
		if !slices.Contains(s.Zones, z) {
			add("the cloud to list zone %s", z)
		}
	}
	for _, z := range s.Zones {
		switch n := s.live(z); {
		case idle(s, want, z):
			add("the cloud to give up zone %s", z)
		case n < want.SizePerZone && slices.Contains(zones, z):
			add("%d more workers in zone %s", want.SizePerZone-n, z)
		}
	}
	return missing
}

func describe(w cloud.Worker) string {
	text := fmt.Sprintf("worker %s in zone %s: %s", w.ID, w.Zone, w.State)
	if w.Message != "" {
		text += " (" + w.Message + ")"
	}
	return text
}
