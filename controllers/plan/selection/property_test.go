package selection_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/selection"
)

func TestTheOrderOfNodesDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, rules := anyNodes(t), anyRules(t)
		before := names(nodes)
		shuffled := rapid.Permutation(nodes).Draw(t, "shuffled")
		require.Equal(t, selection.Choose(nodes, rules), selection.Choose(shuffled, rules))
		one, ok := selection.Next(nodes, rules)
		other, same := selection.Next(shuffled, rules)
		require.Equal(t, ok, same)
		require.Equal(t, one, other)
		require.Equal(t, before, names(nodes), "the nodes are left as they were given")
	})
}

// TestAChoiceIsSound holds every choice to the hard rules, and breaks them.
func TestAChoiceIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, rules := anyNodes(t), anyRules(t)
		require.Empty(t, unsound(selection.Choose, nodes, rules))
	})
	for name, broken := range map[string]chooser{
		"one that takes unfit nodes": func(nodes []plan.Node, r selection.Rules) []plan.Node {
			r.Excluded = nil
			return selection.Choose(nodes, r)
		},
		"one that does not lend": func(nodes []plan.Node, r selection.Rules) []plan.Node {
			var out []plan.Node
			for _, zone := range r.Zones {
				one := r
				one.Zones = []string{zone}
				out = append(out, selection.Choose(nodes, one)...)
			}
			return out
		},
		"one that puts all in one zone": func(nodes []plan.Node, r selection.Rules) []plan.Node {
			one := r
			one.PerZone, one.Zones = r.Total(), r.Zones[:1]
			return selection.Choose(nodes, one)
		},
		"one that prefers no node": func(nodes []plan.Node, r selection.Rules) []plan.Node {
			r.Preferred = nil
			return selection.Choose(nodes, r)
		},
	} {
		t.Run(name+" is caught", func(t *testing.T) {
			require.True(t, caught(func(t *rapid.T) string { return unsound(broken, anyNodes(t), anyRules(t)) }))
		})
	}
}

// caught reports whether any of many cases has a violation.
func caught(violation func(*rapid.T) string) bool {
	cases := rapid.Custom(violation)
	for seed := range 1000 {
		if cases.Example(seed) != "" {
			return true
		}
	}
	return false
}

// unsound names the first hard rule that a choice breaks, "" when it keeps all.
func unsound(choose chooser, nodes []plan.Node, r selection.Rules) string {
	chosen := choose(nodes, r)
	offered := slices.DeleteFunc(slices.Clone(nodes), func(n plan.Node) bool { return !r.Counts(n) && !r.Eligible(n) })
	for _, n := range chosen {
		if !has(offered, n.Name) {
			return "chosen although it may not be: " + n.Name
		}
	}
	if !slices.IsSortedFunc(chosen, func(a, b plan.Node) int { return strings.Compare(a.Name, b.Name) }) {
		return "not sorted"
	}
	if len(chosen) != min(r.Total(), len(offered)) {
		return fmt.Sprintf("%d chosen of %d offered, %d wanted", len(chosen), len(offered), r.Total())
	}
	have, could := perZone(chosen), perZone(offered)
	for _, zone := range r.Zones {
		if have[zone] < min(r.PerZone, could[zone]) {
			return fmt.Sprintf("zone %q has %d", zone, have[zone])
		}
	}
	return outranked(chosen, offered, r)
}

// outranked names a node that was left out for a lesser one of its zone.
func outranked(chosen, offered []plan.Node, r selection.Rules) string {
	first := !slices.ContainsFunc(offered, r.Counts)
	for _, in := range chosen {
		for _, out := range offered {
			if in.Zone == out.Zone && !has(chosen, out.Name) && ranksBefore(out, in, r, first) {
				return fmt.Sprintf("%s was left out for %s", out.Name, in.Name)
			}
		}
	}
	return ""
}

// ranksBefore: members before others, preferred ones before others, older ones
// before others, except that the very first is the cheapest.
func ranksBefore(a, b plan.Node, r selection.Rules, first bool) bool {
	preferred := func(n plan.Node) bool { return r.Preferred.Matches(labels.Set(n.Labels)) }
	switch {
	case r.Counts(b):
		return false
	case r.Counts(a):
		return true
	case preferred(a) != preferred(b):
		return preferred(a)
	}
	return !first && a.Created.Before(b.Created)
}
