package simulate_test

import (
	"math/bits"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// depth tries every set of nodes that may be lost.
func (o *oracle) depth(most int, want func(string) bool) int {
	var mayBeLost []string
	for _, n := range o.nodes {
		if o.up[n.Name] && n.ClusterID != "" && !want(n.Name) {
			mayBeLost = append(mayBeLost, n.Name)
		}
	}
	for lost := range 1 << len(mayBeLost) {
		if size := bits.OnesCount(uint(lost)); size < most {
			o.setUp(mayBeLost, lost, false)
			if o.cut(want) {
				most = size
			}
			o.setUp(mayBeLost, lost, true)
		}
	}
	return most
}

// cut reports whether some that are wanted do not reach each other.
func (o *oracle) cut(want func(string) bool) bool {
	all := o.table()
	wanted := func(n plan.Node) bool { return o.up[n.Name] && want(n.Name) }
	return slices.ContainsFunc(o.nodes, func(a plan.Node) bool {
		return wanted(a) && slices.ContainsFunc(o.nodes, func(b plan.Node) bool {
			return wanted(b) && a.Name != b.Name && len(all[a.Name][b.Name]) == 0
		})
	})
}

func (o *oracle) setUp(names []string, which int, up bool) {
	for i, name := range names {
		if which>>i&1 == 1 {
			o.up[name] = up
		}
	}
}

// The classes that must go are what a search through all sets of nodes would find.
func TestDepthIsTheSmallestLoss(t *testing.T) {
	found := map[int]int{}
	rapid.Check(t, func(t *rapid.T) {
		o := someTopology.Draw(t, "topology")
		some := rapid.Bool().Draw(t, "some reflectors run pods")
		want := func(name string) bool { return o.node(name).ClusterID == "" || some && name > "r3" }
		most := rapid.IntRange(0, 4).Draw(t, "most")
		got := o.configuration().Network(o.isUp).Depth(most, want)
		require.Equal(t, o.depth(most, want), got)
		if got < most {
			found[got]++
		}
	})
	require.Greater(t, len(found), 2, "topologies of different depth")
}

func (o *oracle) compare(after *oracle) simulate.Change {
	var out simulate.Change
	for i, a := range o.nodes {
		for _, b := range o.nodes[:i] {
			if max(a.Name, b.Name) > after.nodes[len(after.nodes)-1].Name {
				continue // after has fewer
			}
			x, y, was := o.session(a, b)
			v, w, is := after.session(after.node(a.Name), after.node(b.Name))
			switch {
			case was && !is:
				out.Removed++
			case is && !was:
				out.Added++
			case is && (x != v || y != w):
				out.Restarted++
			}
		}
	}
	return out
}

// Counting by pairs of kinds is counting pairs of nodes.
func TestCompareCountsSessions(t *testing.T) {
	var all simulate.Change
	rapid.Check(t, func(t *rapid.T) {
		before, after := anyCluster.Draw(t, "before"), anyCluster.Draw(t, "after")
		if rapid.Bool().Draw(t, "same nodes") {
			after.nodes = before.nodes
		}
		for _, o := range []*oracle{before, after} {
			for _, n := range o.nodes {
				o.up[n.Name] = true
			}
		}
		got := simulate.Compare(before.configuration(), after.configuration())
		require.Equal(t, before.compare(after), got)
		all = simulate.Change{Added: all.Added + got.Added, Removed: all.Removed + got.Removed, Restarted: all.Restarted + got.Restarted}
	})
	require.NotZero(t, all.Added*all.Removed*all.Restarted)
}
