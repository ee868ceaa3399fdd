package simulate

import (
	"slices"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// mostTried is how many sets are tried, of sets with equal effect one.
const mostTried = 2000

// failures tries what the arrangement survives, with fail reflectors down together where fail is not 0.
func (a *arrangement) failures(f *figures, fail int) {
	for _, zone := range a.zones {
		lost := a.where(func(n plan.Node) bool { return n.Zone == zone })
		if len(a.network.Without(lost...).Unreached(a.isClient)) > 0 {
			f.ZonesCutting = append(f.ZonesCutting, zone)
		}
	}
	depth := a.network.Depth(min(max(fail, a.Depth)+1, f.Reflectors), a.isClient)
	f.SurvivesAny = max(depth-1, 0)
	switch fail = min(fail, f.Reflectors); {
	case fail == 0 || depth == 0:
	case fail < depth:
		f.SetsTried.Paths = choose(f.Reflectors, fail)
	default:
		a.try(f, fail)
	}
}

// where are the names of some nodes.
func (a *arrangement) where(accept func(plan.Node) bool) []string {
	var out []string
	for name, n := range a.nodes {
		if accept(n) {
			out = append(out, name)
		}
	}
	return out
}

// try takes away every set of so many reflectors; of sets with equal effect, one.
func (a *arrangement) try(f *figures, fail int) {
	tried, classes := 0, slices.DeleteFunc(slices.Clone(a.classes), func(c simulate.Class) bool { return !c.Reflects })
	draw(classes, fail, func(taken []int) bool {
		var down []string
		sets := uint64(1)
		for i, n := range taken {
			down = append(down, classes[i].Nodes[:n]...)
			sets *= choose(len(classes[i].Nodes), n)
		}
		f.SetsTried.Paths += sets
		if cut := a.network.Without(down...).Unreached(a.isClient); len(cut) > 0 {
			if f.SetsCutting.Paths == 0 {
				f.Cut = []string{cut[0].From, cut[0].To}
				for _, node := range down {
					f.Breaking = append(f.Breaking, a.slots[node].Name)
				}
			}
			f.SetsCutting.Paths += sets
		}
		tried++
		return tried < mostTried
	})
	f.SetsTried.More = f.SetsTried.Paths < choose(f.Reflectors, fail)
}
