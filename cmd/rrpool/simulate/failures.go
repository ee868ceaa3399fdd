package simulate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// mostTried is how many sets of reflectors are tried, beyond those that are known to be
// harmless because fewer than it takes fail.
const mostTried = 2000

// failures tries what the arrangement survives, with fail reflectors down together where
// fail is not 0.
func (a *arrangement) failures(zones []string, fail int) *failuresView {
	out := &failuresView{Zones: a.zones(zones)}
	reflectors := a.reflectors()
	a.zoned = len(zones) > 1 && !slices.ContainsFunc(reflectors, func(c simulate.Class) bool { return !a.inOneZone(c) })
	count := 0
	for _, c := range reflectors {
		count += len(c.Nodes)
	}
	most := min(max(fail, a.Depth)+1, count)
	depth := a.network.Depth(most, a.isClient)
	if depth == 0 {
		out.Partitioned = true
		return out
	}
	out.SurvivesAny = depth - 1
	fail = min(fail, count)
	switch {
	case fail == 0:
	case fail < depth:
		out.All = choose(count, fail)
		out.Tried = out.All
		out.Sets = []setView{{Which: fmt.Sprintf("any %d", fail), Sets: out.All}}
	default:
		out.All = choose(count, fail)
		a.sets(out, reflectors, fail)
		if out.Breaking == nil {
			a.weakest(out, depth)
		}
	}
	return out
}

// reflectors are the classes of reflectors.
func (a *arrangement) reflectors() []simulate.Class {
	var out []simulate.Class
	for _, c := range a.classes {
		if a.reflects(c.Nodes[0]) {
			out = append(out, c)
		}
	}
	return out
}

// zones takes each zone away as a whole.
func (a *arrangement) zones(names []string) []zoneView {
	out := make([]zoneView, 0, len(names))
	for _, zone := range names {
		z := zoneView{Name: zone}
		var lost []string
		for name, n := range a.nodes {
			switch {
			case n.Zone != zone:
				z.Remain = z.Remain || a.isClient(name)
				continue
			case a.reflects(name):
				z.Reflectors++
			case a.isClient(name):
				z.Clients++
			}
			lost = append(lost, name)
		}
		slices.Sort(lost)
		outside := func(name string) bool { return a.isClient(name) && a.nodes[name].Zone != zone }
		z.Cut = len(a.network.Without(lost...).Unreached(outside)) > 0
		out = append(out, z)
	}
	return out
}

// sets tries every set of so many reflectors; of those that nothing tells apart, one.
func (a *arrangement) sets(out *failuresView, classes []simulate.Class, fail int) {
	found := map[string]int{}
	tried := 0
	draw(classes, fail, func(taken []int) bool {
		var down []string
		sets := uint64(1)
		for i, n := range taken {
			down = append(down, classes[i].Nodes[:n]...)
			sets *= choose(len(classes[i].Nodes), n)
		}
		which := a.alike(classes, taken)
		at, ok := found[which]
		if !ok {
			at = len(out.Sets)
			found[which] = at
			out.Sets = append(out.Sets, setView{Which: which})
		}
		out.Sets[at].Sets += sets
		out.Tried += sets
		if rest := a.network.Without(down...); len(rest.Unreached(a.isClient)) > 0 {
			out.Sets[at].Cutting += sets
			a.breaks(out, rest, down)
		}
		tried++
		return tried < mostTried
	})
}

// breaks notes the first set that cuts clients off.
func (a *arrangement) breaks(out *failuresView, rest *simulate.Network, down []string) {
	if out.Breaking != nil {
		return
	}
	for _, node := range down {
		out.Breaking = append(out.Breaking, a.seat(node))
	}
	_, _, out.Cut = a.pairs(rest)
}

// weakest notes a smallest set that cuts clients off, where trying has not found any: it
// takes away who brings the rest closer to it.
func (a *arrangement) weakest(out *failuresView, depth int) {
	rest := a.network
	var down []string
	for _, c := range a.reflectors() {
		for _, node := range c.Nodes {
			next := rest.Without(node)
			if depth == 0 || next.Depth(depth, a.isClient) == depth {
				break
			}
			rest, down = next, append(down, node)
			depth--
		}
	}
	a.breaks(out, rest, down)
}

// seat is what a reflector is called: its seat, where that is its own.
func (a *arrangement) seat(node string) string {
	if name := a.seats[node].Name; name != topology.SeatSingle {
		return name
	}
	return node
}

// draw calls with every way to take so many nodes of the classes, until told to stop.
func draw(classes []simulate.Class, count int, visit func(taken []int) bool) {
	taken := make([]int, len(classes))
	room := make([]int, len(classes)+1) // in the classes from here on
	for i := len(classes) - 1; i >= 0; i-- {
		room[i] = room[i+1] + len(classes[i].Nodes)
	}
	var from func(i, left int) bool
	from = func(i, left int) bool {
		if i == len(classes) {
			return visit(taken)
		}
		for n := min(left, len(classes[i].Nodes)); n >= 0 && left-n <= room[i+1]; n-- {
			taken[i] = n
			if !from(i+1, left-n) {
				return false
			}
		}
		taken[i] = 0
		return true
	}
	if count <= room[0] {
		from(0, count)
	}
}

// alike says in words which reflectors are taken, so that sets that are alike have the
// same words.
func (a *arrangement) alike(classes []simulate.Class, taken []int) string {
	racks, zones := map[string]int{}, map[string]int{}
	spines, others := 0, 0
	for i, n := range taken {
		for _, node := range classes[i].Nodes[:n] {
			seat := a.seats[node]
			switch {
			case seat.Spine:
				spines++
			case seat.Group != "":
				racks[seat.Group]++
			case a.zoned:
				zones[a.nodes[node].Zone]++
			default:
				others++
			}
		}
	}
	words := append(each(racks, "rack"), each(zones, "zone")...)
	if spines > 0 {
		words = append(words, plural(spines, "spine"))
	}
	if others > 0 {
		words = append(words, fmt.Sprintf("any %d", others))
	}
	return strings.Join(words, ", ")
}

func (a *arrangement) inOneZone(c simulate.Class) bool {
	zone := a.nodes[c.Nodes[0]].Zone
	return !slices.ContainsFunc(c.Nodes, func(n string) bool { return a.nodes[n].Zone != zone })
}

// each says how many are taken of how many places, the most first.
func each(counts map[string]int, what string) []string {
	alike := map[int]int{}
	for _, n := range counts {
		alike[n]++
	}
	var ns []int
	for n := range alike {
		ns = append(ns, n)
	}
	slices.Sort(ns)
	slices.Reverse(ns)
	var out []string
	for i, n := range ns {
		switch places := alike[n]; {
		case places == 1 && i == 0:
			out = append(out, fmt.Sprintf("%d of one %s", n, what))
		case places == 1:
			out = append(out, fmt.Sprintf("%d of another", n))
		case i == 0:
			out = append(out, fmt.Sprintf("%d each of %d %ss", n, places, what))
		default:
			out = append(out, fmt.Sprintf("%d each of %d others", n, places))
		}
	}
	return out
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
