package iks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/controllers/plan"
)

// smallest has the smallest flavor that IBM documents for each generation of virtual machines on VPC. Classic has one generation.
var smallest = map[string]string{"x2": "bx2.2x8", "x3": "bx3d.4x20"}

const smallestClassic = "u3c.2x4"

// virtual matches the flavor of a virtual machine without GPUs: bx2.4x16 and cx2d.4x8 are of generation x2, u3c.2x4 of 3c.
var virtual = regexp.MustCompile(`^[a-fh-z][a-z]*?(x[0-9f]|\dc)[a-z]*\.\d+x\d+`)

func generationOf(flavor string) string {
	if parts := virtual.FindStringSubmatch(flavor); parts != nil && !bareMetal.MatchString(flavor) {
		return parts[1]
	}
	return ""
}

// DefaultFlavors gives the flavors for a pool where the user gives none, the best first; machines counts the cluster's other workers by
// flavor. A zone may offer one generation only: the smallest flavor of the generation that most machines have comes first, then theirs.
func DefaultFlavors(classic bool, machines map[string]int) []string {
	workers := map[string]int{}
	for flavor, n := range machines {
		workers[generationOf(flavor)] += n
	}
	delete(workers, "")
	generations := slices.SortedFunc(maps.Keys(workers), func(a, b string) int { return cmp.Or(workers[b]-workers[a], strings.Compare(a, b)) })
	out, own := []string{smallestClassic}, slices.DeleteFunc(slices.Collect(maps.Keys(machines)), func(f string) bool { return generationOf(f) == "" })
	if !classic {
		out = slices.DeleteFunc([]string{smallest[slices.Concat(generations, []string{"x2"})[0]]}, func(f string) bool { return f == "" })
	}
	slices.SortFunc(own, func(a, b string) int {
		return cmp.Or(slices.Index(generations, generationOf(a))-slices.Index(generations, generationOf(b)), compareSizes(a, b), strings.Compare(a, b))
	})
	return slices.Compact(append(out, own...))
}

// machines counts the workers of pools by flavor.
func machines(pools []pool) map[string]int {
	out := map[string]int{}
	for _, o := range pools {
		if o.size != nil && *o.size > 0 {
			out[o.flavor] += *o.size * max(1, len(o.zones))
		}
	}
	return out
}

// flavors gives those that a pool to be made may have, the best first: a given one, that of the pool which it takes over from, or free ones.
func (p *Provider) flavors(v view, given string) (list []string, free bool) {
	for _, o := range v.named[:] {
		if p.owns(o) {
			given = cmp.Or(given, o.flavor)
		}
	}
	if given != "" {
		return []string{given}, false
	}
	return DefaultFlavors(p.cluster.Provider == providerClassic, machines(v.others)), true
}

// chooseFlavor takes the first of flavors that all zones have. Where the choice is free, deprecated flavors are left out, and others with no
// fewer cores are added at the end. A refusal names other flavors, first the smallest with no fewer cores.
func (p *Provider) chooseFlavor(ctx context.Context, v view, flavors []string, free bool, zones []string) (string, error) {
	wanted := flavors[0]
	for i, zone := range zones {
		there, err := p.offers(ctx, to(v.traits().flavors, zone))
		if err != nil {
			return flavors[0], err
		}
		known, offered := there.known, there.offered
		slices.SortStableFunc(offered, func(a, b string) int {
			return cmp.Or(plan.TrueFirst(hasCoresOf(a, wanted), hasCoresOf(b, wanted)), compareSizes(a, b))
		})
		if free {
			known = offered
			if i == 0 {
				flavors = slices.Concat(flavors, slices.DeleteFunc(slices.Clone(offered), func(f string) bool { return generationOf(f) == "" || !hasCoresOf(f, wanted) }))
			}
		}
		listed := slices.DeleteFunc(slices.Clone(flavors), func(f string) bool { return !slices.Contains(known, f) })
		switch {
		case len(listed) > 0:
			flavors = listed
			continue
		case there.odd != nil:
			return flavors[0], there.odd
		}
		forWhat := ""
		if p.openShift() {
			forWhat = " for OpenShift"
		}
		return "", p.invalidOrder("zone %s has no flavor %s%s: choose another flavor, or other zones; there are %s",
			zone, wanted, forWhat, cloud.Capped(offered, ", "))
	}
	return flavors[0], nil
}

// flavorToBe gives the flavor of a pool that does not exist yet, by the listings of the cluster's zones.
func (p *Provider) flavorToBe(ctx context.Context, v view, want cloud.PoolSpec) (string, error) {
	zones := slices.DeleteFunc(slices.Clone(v.state.ClusterZones), func(z string) bool { return len(want.Zones) > 0 && !slices.Contains(want.Zones, z) })
	flavors, free := p.flavors(v, want.Flavor)
	flavor, err := p.chooseFlavor(ctx, v, flavors, free, zones)
	if _, failed := errors.AsType[unlisted](err); failed {
		err = nil
	}
	return flavor, err
}

// size reads cores and memory in GB off a flavor such as bx2.4x16.
func size(flavor string) (cores, memory int) {
	_, of, _ := strings.Cut(flavor, ".")
	_, _ = fmt.Sscanf(of, "%dx%d", &cores, &memory) // 0 where there are none
	return cores, memory
}

func compareSizes(a, b string) int {
	coresA, memoryA := size(a)
	coresB, memoryB := size(b)
	return cmp.Or(cmp.Compare(coresA, coresB), cmp.Compare(memoryA, memoryB))
}

// hasCoresOf reports whether a has as many cores as b, or more.
func hasCoresOf(a, b string) bool {
	coresA, _ := size(a)
	coresB, _ := size(b)
	return coresA >= coresB
}
