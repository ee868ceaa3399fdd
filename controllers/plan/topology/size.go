package topology

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
)

// autoKinds are the topologies that Auto chooses from, the preferred ones first.
var autoKinds = []v1alpha1.TopologyType{v1alpha1.TopologySingle, v1alpha1.TopologyQuorum, v1alpha1.TopologyHierarchy}

// Size returns how many reflectors the topology takes in all zones together, the same number in each, and the Spec with
// Auto replaced by the topology that it chooses. sized is the number that spec.sizing requires. It is the minimum,
// except in a Hierarchy, which takes what its racks need. The caller checks its own limits. now is the current topology,
// "" for none: Auto goes back to an earlier one of autoKinds only if that serves all clients with 90% of MaxClients.
func Size(spec Spec, clients []plan.Node, zones []string, sized int, now v1alpha1.TopologyType) (resolved Spec, total int, problem *plan.Problem) {
	zones = distinctZones(zones)
	if spec.Kind == v1alpha1.TopologyAuto {
		sized = max(sized, spec.Redundancy)
		spec = automatic(spec, clients, zones, sized, now)
	}
	spec.Kind = cmp.Or(spec.Kind, v1alpha1.TopologySingle)
	total, problem = measure(spec, clients, zones, sized)
	if problem != nil && problem.Reason != reason.TooManyRacks {
		problem.Message += ": " + remedy(spec, clients, zones, sized, problem.Reason)
	}
	return spec, total, problem
}

// automatic returns the Spec with the topology that Auto chooses: the first of autoKinds without
// a problem, else Hierarchy. It skips Quorum if a Hierarchy is possible with fewer reflectors.
func automatic(spec Spec, clients []plan.Node, zones []string, sized int, now v1alpha1.TopologyType) Spec {
	tiered := spec
	tiered.Kind = v1alpha1.TopologyHierarchy
	most, impossible := measure(tiered, clients, zones, sized)
	for i, kind := range autoKinds[:2] {
		try := spec
		try.Kind = kind
		if i < slices.Index(autoKinds, now) {
			try.MaxClients = spec.MaxClients * 9 / 10
		}
		total, problem := measure(try, clients, zones, sized)
		if problem == nil && (kind == v1alpha1.TopologySingle || impossible != nil || total <= most) {
			spec.Kind = kind
			return spec
		}
	}
	return tiered
}

// measure returns the number of reflectors that a topology takes, and a problem if a limit is exceeded.
func measure(spec Spec, clients []plan.Node, zones []string, sized int) (total int, problem *plan.Problem) {
	perZone := max(ceil(sized, len(zones)), 1)
	switch spec.Kind {
	case v1alpha1.TopologyQuorum, v1alpha1.TopologyMultiCluster:
		c := chooseDivision(spec, clients, zones)
		if problem := tooManyRacks(spec, c, len(c.groups), 0, len(clients)); problem != nil {
			return perZone * len(zones), problem
		}
		enough, _ := fewestPerZone(spec, c, zones, perZone)
		sh := newGroupSlots(spec, c, zones, enough)
		total = enough * len(zones)
		return total, cmp.Or(tooManyPaths(spec, paths(sh), total), tooManyClients(spec, total, sh.busiest(), "each of the busiest"))
	case v1alpha1.TopologyHierarchy:
		return measureTiers(spec, clients, zones)
	case v1alpha1.TopologySingle, v1alpha1.TopologyAuto:
	}
	total = perZone * len(zones)
	return total, cmp.Or(
		tooManyPaths(spec, uint64(total), total),
		tooManyClients(spec, total, len(clients), "each of them"),
	)
}

// measureTiers is measure for a Hierarchy.
func measureTiers(spec Spec, clients []plan.Node, zones []string) (total int, problem *plan.Problem) {
	t := newTiers(spec, clients, zones, 0)
	needed := spec.Redundancy
	if len(t.racks) > 1 {
		needed *= len(t.racks) + 1
	}
	total = ceil(needed, len(zones)) * len(zones)
	if problem := tooManyRacks(spec, t.census, len(t.racks), needed, len(clients)); problem != nil {
		return total, problem
	}
	paths := uint64(t.perRack) //nolint:gosec // G115: a count
	if t.spines > 0 {
		paths *= paths * uint64(t.spines)
	}
	rack, most := t.largest(spec)
	problem = tooManyPaths(spec, paths, total)
	if t.division != bySize { // by size, another rack is added when one is full
		problem = cmp.Or(problem, tooManyClients(spec, total, most, "each reflector of rack "+rack), tooManyClients(spec, total, len(t.racks)*t.perRack, "each spine"))
	}
	return total, problem
}

// paths returns the most paths to one prefix that a node has in a Quorum or MultiCluster.
func paths(sh *groupSlots) uint64 {
	if sh.kind == v1alpha1.TopologyQuorum {
		return uint64(sh.perGroup) //nolint:gosec // G115: a count
	}
	var groups []Group
	names := append(sh.names(), "")
	if sh.division == bySize {
		names = sizeGroupNames()
	}
	for _, name := range names {
		groups = append(groups, Group{Slots: sh.slotNames(name)})
	}
	return pathsInMesh(groups, len(sh.zones)*sh.perZone)
}

func tooManyPaths(spec Spec, paths uint64, total int) *plan.Problem {
	tooMany := paths > uint64(spec.MaxPaths) //nolint:gosec // G115: never negative
	number := fmt.Sprint(paths)
	if paths > 1e6 {
		number = "over a million"
	}
	return plan.ProblemIf(tooMany, reason.TooManyPaths, "spec.topology.type: %s with %d reflectors and spec.topology.redundancy %d "+
		"gives nodes up to %s paths to each prefix, and spec.topology.maxPathsPerPrefix is %d", spec.Kind, total, spec.Redundancy, number, spec.MaxPaths)
}

func tooManyClients(spec Spec, total, clients int, who string) *plan.Problem {
	return plan.ProblemIf(clients > spec.MaxClients, reason.TooManyClients, "spec.topology.type: in %s with %d reflectors, %s would serve %d clients, "+
		"and spec.topology.maxClientsPerReflector is %d", spec.Kind, total, who, clients, spec.MaxClients)
}

// remedy describes how to solve the problem with the reason refused: the topology that Auto would choose, or other settings.
func remedy(spec Spec, clients []plan.Node, zones []string, sized int, refused string) string {
	var ways []string
	other := automatic(spec, clients, zones, sized, "")
	if total, problem := measure(other, clients, zones, sized); problem == nil {
		ways = append(ways, fmt.Sprintf("set spec.topology.type to %s, which takes %d reflectors", other.Kind, total))
	}
	if refused == reason.TooManyPaths && spec.Kind != v1alpha1.TopologySingle {
		ways = append(ways, "lower spec.topology.redundancy")
	}
	if refused == reason.TooManyClients && spec.RackLabel != "" && spec.Kind != v1alpha1.TopologySingle {
		ways = append(ways, "leave out spec.topology.rackLabel "+spec.RackLabel+", so that rrpool makes groups that fit")
	}
	return strings.Join(append(ways, "raise the limit"), ", or ")
}

// tooManyRacks returns a problem if a label divides clients into too many groups, for example a label whose value differs on every node.
func tooManyRacks(spec Spec, c *census, racks, needed, clients int) *plan.Problem {
	field, value, advice := "spec.topology.rackLabel", spec.RackLabel, "name a label that more nodes share, or leave it out"
	switch c.division {
	case byZone:
		field, value, advice = "spec.topology.zoneLabel", spec.ZoneLabel, "name the label of zones"
	case bySize:
		field, value = "spec.topology.maxClientsPerReflector", fmt.Sprint(spec.MaxClients)
		advice = "raise it"
	case byLabel:
	}
	if racks > mostGroups {
		return plan.Problemf(reason.TooManyRacks, "%s: %s makes %d groups of %d nodes, and %d are possible: %s", field, value, racks, clients, mostGroups, advice)
	}
	return plan.ProblemIf(c.division == byLabel && needed > max(clients, 2*spec.Redundancy), reason.TooManyRacks,
		"%s: %s makes %d racks of %d nodes, which would take %d reflectors: %s", field, value, racks, clients, needed, advice)
}

// depth returns the smallest number of reflectors whose failure leaves two clients without a route to
// each other. It considers groups that have clients, or all groups if there are fewer than two clients.
func depth(groups []Group, kind v1alpha1.TopologyType) int {
	withClients := slices.DeleteFunc(slices.Clone(groups), func(g Group) bool { return g.Clients == 0 })
	total := 0
	for _, g := range withClients {
		total += g.Clients
	}
	if total < 2 {
		withClients = groups
	}
	least := math.MaxInt
	for i, a := range withClients {
		for _, b := range withClients[i+1:] {
			if kind == v1alpha1.TopologyQuorum {
				least = min(least, countCommon(a.Slots, b.Slots))
			}
			least = min(least, len(a.Slots), len(b.Slots))
		}
		if a.Clients > 1 || len(withClients) == 1 {
			least = min(least, len(a.Slots))
		}
	}
	return least
}

// countCommon counts the strings that are in both of two sorted lists.
func countCommon(a, b []string) int {
	n := 0
	for _, s := range a {
		if _, ok := slices.BinarySearch(b, s); ok {
			n++
		}
	}
	return n
}

// pathsBetween counts the paths from one reflector to another in a full mesh of n reflectors that each have their
// own cluster ID: a route takes every path that visits no reflector twice, with 0 to n-2 others in between.
func pathsBetween(reflectors int) uint64 {
	sum, way := uint64(1), uint64(1)
	for k := reflectors - 2; k > 0; k-- {
		if way > math.MaxUint32 {
			return way // already more than any limit
		}
		way *= uint64(k)
		sum += way
	}
	return sum
}

// pathsInMesh returns the most paths to one prefix that a node of a MultiCluster has. Each pair
// of reflectors of two clients gives one path if both are the same reflector, else pathsBetween.
func pathsInMesh(groups []Group, reflectors int) uint64 {
	var most uint64
	each := pathsBetween(reflectors)
	for i, a := range groups {
		for _, b := range groups[i:] {
			both := uint64(countCommon(a.Slots, b.Slots)) //nolint:gosec // G115: a count
			peerings := uint64(len(a.Slots) * len(b.Slots))
			most = max(most, both+(peerings-both)*each)
		}
		if len(a.Slots) < reflectors {
			most = max(most, uint64(len(a.Slots))*each) // the paths of a reflector without a session with the prefix's node
		}
	}
	return most
}
