package poolplan

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/cloud"
)

// Pair are the two pools that rrpool may have, by their names. A cloud may fix a pool's flavor and options when it makes
// the pool. Where others are wanted, a second pool gets these and takes over: it grows by as many workers as the former
// one lacks, and the former one only shrinks, and is deleted when it is empty. The two pools alone show how far that is.
type Pair [2]State

// Fingerprint is a hash of the flavor and options of want. A pool that was ordered with these is as wanted, whatever the cloud
// reports: otherwise a cloud that names an option differently would get one pool after the other.
func Fingerprint(want cloud.PoolSpec) string {
	text, _ := json.Marshal([]any{want.Flavor, want.Options}) // strings and lists of them
	return fmt.Sprintf("%x", sha256.Sum256(text))[:16]
}

// differences says in what a pool is not as wanted. What the cloud does not report is not compared.
func differences(have cloud.Pool, want cloud.PoolSpec) string {
	var differ []string
	compare := func(field, have, want string) {
		if have != "" && want != "" && have != want {
			differ = append(differ, fmt.Sprintf("%s is %s and not %s", field, have, want))
		}
	}
	is, wanted := have.Options, want.Options
	compare("flavor", have.Flavor, want.Flavor)
	compare("operatingSystem", is.OperatingSystem, wanted.OperatingSystem)
	compare("rootKeyID", is.WorkerVolumeEncryption.RootKeyID, wanted.WorkerVolumeEncryption.RootKeyID)
	compare("dedicatedHostPoolID", is.DedicatedHostPoolID, wanted.DedicatedHostPoolID)
	for _, zone := range slices.Sorted(maps.Keys(wanted.Networks)) {
		is, should := is.Networks[zone], wanted.Networks[zone]
		compare("subnetID in zone "+zone, is.SubnetID, should.SubnetID)
		compare("privateVLAN in zone "+zone, is.PrivateVLAN, should.PrivateVLAN)
		compare("publicVLAN in zone "+zone, is.PublicVLAN, should.PublicVLAN)
	}
	return cloud.Capped(differ, ", ")
}

// Sides gives the pool that has, or is to have, the wanted flavor and options, and the former one that it replaces, a zero State
// for none. Where both have them, or neither, the larger stays: once the other has gone, the next one can take over.
func (p Pair) Sides(want cloud.PoolSpec) (growing, former State) {
	rank := func(s State) int {
		switch {
		case !s.Owned:
			return 0
		case s.Fingerprint == Fingerprint(want):
			return 3
		case differences(s.Pool, want) == "":
			return 2
		}
		return 1
	}
	growing, former = p[0], p[1]
	if cmp.Or(rank(former)-rank(growing), len(former.viable())-len(growing.viable())) > 0 {
		growing, former = former, growing
	}
	switch {
	case rank(former) > 0:
		return growing, former
	case rank(growing) == 1:
		return former, growing // the pool to come
	}
	return growing, State{}
}

// unmarked gives the pool of ours that has lost its label.
func (p Pair) unmarked() (State, bool) {
	i := slices.IndexFunc(p[:], func(s State) bool { return s.Unmarked != "" })
	return p[max(0, i)], i >= 0
}

// Pool is what the caller sees: one pool, with the workers of both.
func (p Pair) Pool(want cloud.PoolSpec) cloud.Pool {
	out := p.merged(want)
	if lost, ok := p.unmarked(); ok {
		out.Exists, out.Owned, out.Unmarked, out.ID, out.Name = true, false, lost.Unmarked, lost.ID, lost.Name
		out.Workers, out.Emptied = union(out.Workers, lost.Workers), ""
	}
	for _, s := range p {
		if s.Owned || s.Unmarked != "" {
			out.IDs = append(out.IDs, s.ID)
		}
		if changed := differences(s.Pool, want); s.Owned && changed != "" && s.Fingerprint == Fingerprint(want) {
			// It may be the cloud's word for the same, so nothing is exchanged for it.
			out.Problems = append(slices.Clip(out.Problems), fmt.Sprintf("pool %s was ordered as spec.provider.iks has it, and now its %s: "+
				"change the spec, or put the pool back", s.Name, changed))
		}
		if s.Owned && s.Deleting {
			out.Leaving = leaving(s)
		}
	}
	slices.Sort(out.IDs)
	return out
}

// union gives the workers of both lists, sorted by ID; one that is in both is as the first list has it.
func union(first, second []cloud.Worker) []cloud.Worker {
	all := slices.Concat(first, second)
	slices.SortStableFunc(all, func(a, b cloud.Worker) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(all, func(a, b cloud.Worker) bool { return a.ID == b.ID })
}

func (p Pair) merged(want cloud.PoolSpec) cloud.Pool {
	growing, former := p.Sides(want)
	if !former.Exists {
		return growing.Pool
	}
	out, size := growing.Pool, growing.SizePerZone
	if !growing.Owned {
		out, size = former.Pool, 0
		out.Zones, out.Workers, out.Problems = nil, nil, growing.Problems
	}
	zones, most, leave := slices.Clone(out.Zones), 0, slices.Clone(former.Workers)
	for i, w := range leave {
		leave[i].Former, leave[i].Outdated = true, cmp.Or(differences(former.Pool, want), "pool "+growing.Name+" takes over")
		if !slices.Contains(zones, w.Zone) && w.Zone != "" {
			zones = append(zones, w.Zone)
		}
		if !givenUp(want, w.Zone) {
			most = max(most, former.able(w.Zone, nil))
			if !slices.Contains(growing.Zones, w.Zone) {
				size = 0 // not everywhere has the cloud been asked for it
			}
		}
	}
	out.Workers, out.Zones = union(out.Workers, leave), slices.Sorted(slices.Values(zones))
	out.SizePerZone, out.Autoscaled = size+most, growing.Autoscaled || former.Autoscaled
	out.Problems = slices.Sorted(slices.Values(slices.Concat(out.Problems, former.Problems)))
	if len(former.Workers) == 0 {
		out.Emptied = former.Name
	}
	return out
}

// able counts the workers of zone that are, or may become, nodes, without those that are dead.
func (s State) able(zone string, dead []string) int {
	return len(slices.DeleteFunc(s.viable(), func(w cloud.Worker) bool { return w.Zone != zone || slices.Contains(dead, w.ID) }))
}

// Next gives the one next change towards want.
func (p Pair) Next(want cloud.PoolSpec) (Step, error) {
	if lost, ok := p.unmarked(); ok { // what it has would be ordered once more
		return Step{}, foreign(lost)
	}
	growing, former := p.Sides(want)
	if !former.Exists {
		step, err := Next(growing, want)
		return step.forPool(growing), err
	}
	for _, first := range []func(growing, former State, want cloud.PoolSpec) (Step, bool){heal, growFirst} {
		if step, ok := first(growing, former, want); ok {
			return step, nil
		}
	}
	step, refusal := shrinkFormer(growing, former, want)
	if refusal != nil && !cloud.Is(refusal, cloud.Unexpected) || step.Kind != "" {
		return step.forPool(former), refusal
	}
	step, err := takeOver(growing, former, want)
	if refusal != nil && (err != nil || step.Kind == None) {
		return Step{}, refusal
	}
	return step.forPool(growing), err
}

// heal replaces a worker of the former pool as long as there is no other pool, which perhaps cannot be had.
func heal(growing, former State, want cloud.PoolSpec) (Step, bool) {
	if growing.Owned || len(want.Replace) == 0 {
		return Step{}, false
	}
	want.Zones, want.SizePerZone, want.Retire = former.Zones, former.SizePerZone, nil
	step, err := Next(former, want)
	return step.forPool(former), err == nil && step.Kind == Replace
}

// growFirst gives the step of the growing pool where the former one is empty: its deletion may be refused for long.
func growFirst(growing, former State, want cloud.PoolSpec) (Step, bool) {
	known := !slices.ContainsFunc(want.Retire, func(id string) bool { _, ok := growing.worker(id); return !ok })
	if len(former.Workers) > 0 || !growing.Owned || !known {
		return Step{}, false
	}
	step, err := takeOver(growing, former, want)
	return step.forPool(growing), err == nil && step.Kind != None
}

// takeOver grows the growing pool by the workers that the former one lacks.
func takeOver(growing, former State, want cloud.PoolSpec) (step Step, err error) {
	rest, more := want, lackingPerZone(former, want)
	rest.SizePerZone = max(1, more)
	switch {
	case more <= 0 && !growing.Owned:
	case growing.Exists && !growing.Owned:
		return Step{}, conflict(growing, "taking over", "a pool of this name exists that is not rrpool's, and the workers that are to take over from pool %s "+
			"need the name; delete that pool, or put back what pool %s has: %s", former.Name, former.Name, differences(former.Pool, want))
	default:
		if step, err = Next(growing, rest); err != nil {
			return Step{}, err
		}
	}
	if step.Kind == "" || step.Progress.Done {
		step = waiting(fmt.Sprintf("the %d workers of pool %s to give way to those with other options", len(former.Workers), former.Name))
	}
	return step, nil
}

// shrinkFormer removes from the former pool the workers that want retires and those that are dead, and deletes it once it is
// empty. It gives a zero Step where there is nothing to remove.
func shrinkFormer(growing, former State, want cloud.PoolSpec) (Step, error) {
	for _, id := range slices.Concat(want.Retire, want.Replace) {
		if w, ok := former.worker(id); ok && (slices.Contains(want.Retire, id) || growing.hasReplacementFor(w, want)) {
			return former.removal(w, want)
		}
	}
	listed := func(id string) bool { _, ok := growing.worker(id); return ok }
	if len(want.Retire) > 0 && !slices.ContainsFunc(want.Retire, listed) {
		// Who names a worker that has gone meanwhile counts it, and would have one more ordered.
		return waiting("workers that are gone to be listed no more"), nil
	}
	return former.finishFormer(!growing.Owned, want), nil
}

// removal gives the step that removes w from a former pool. Where the cloud refuses to remove the last worker, it deletes the pool.
func (s State) removal(w cloud.Worker, want cloud.PoolSpec) (Step, error) {
	step := Step{Kind: Remove, Worker: w.ID, Zone: w.Zone}
	if s.Autoscaled {
		return Step{}, autoscaled(s)
	}
	if err := s.overBudget(step, want); err != nil {
		return Step{}, err
	}
	if s.refusal(step) != nil && len(s.Workers) == 1 {
		return s.unlessAsked(Step{Kind: DeletePool}, fmt.Sprintf("pool %s to be deleted", s.Name)), nil
	}
	return s.unlessAsked(step, fmt.Sprintf("worker %s to go", w.ID)), nil
}

// hasReplacementFor reports whether nothing in the former pool has to replace w, as this pool has a worker in its place.
func (s State) hasReplacementFor(w cloud.Worker, want cloud.PoolSpec) bool {
	return s.Owned && (w.State == cloud.WorkerFailed || s.able(w.Zone, want.Replace) > 0)
}

// finishFormer deletes a former pool that is empty, and sets the taints of one that is still the only one.
func (s State) finishFormer(only bool, want cloud.PoolSpec) Step {
	switch {
	case s.Deleting:
		if step := awaitDeletion(s, ""); step.Kind != None {
			return step
		}
	case len(s.Workers) == 0:
		return s.unlessAsked(Step{Kind: DeletePool}, fmt.Sprintf("pool %s to be deleted", s.Name))
	case only && !s.TaintsUnknown && !Tainted(s.Taints, want.Taints):
		return setTaints(s, want.Taints)
	}
	return Step{}
}

// lackingPerZone is how many workers the former pool lacks in each zone: no zone has fewer than those that last, and
// substitutes come to zones that still have a worker of the former pool.
func lackingPerZone(former State, want cloud.PoolSpec) int {
	fewest, most := want.SizePerZone, 0
	for _, z := range zonesOf(former, want) {
		n := former.able(z, want.Replace)
		fewest, most = min(fewest, n), max(most, n)
	}
	lasting := cmp.Or(want.Lasting, want.SizePerZone) - fewest
	if most == 0 {
		return lasting
	}
	return max(lasting, want.SizePerZone-most)
}

// NextDelete gives the one next change towards there being neither pool. Where one cannot be deleted, or that takes long, the
// other, which costs, is deleted nevertheless.
func (p Pair) NextDelete() (Step, error) {
	step, err := NextDelete(p[0])
	step = step.forPool(p[0])
	second := p[1]
	if second.Exists && !second.Owned && second.Unmarked == "" {
		return step, err
	}
	first, failed := NextDelete(second)
	stuck := failed != nil || second.Deleting && second.pauseLeft(Step{Kind: DeletePool}, FailurePause) == 0
	if failed == nil && first.Progress.Done || err == nil && step.Kind != None && stuck {
		return step, err
	}
	return first.forPool(second), failed
}

// forPool names the pool that the step changes.
func (s Step) forPool(pool State) Step {
	s.Pool = pool.Name
	return s
}
