package selection_test

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
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

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const grace = time.Minute

// chooser is selection.Choose, or one that a negative control puts in its place.
type chooser func([]plan.Node, selection.Rules) []plan.Node

// rulesFor wants perZone in zones, prefers nodes labelled good and excludes those labelled bad.
func rulesFor(perZone int, zones ...string) selection.Rules {
	return selection.Rules{
		PerZone: perZone, Zones: zones,
		Preferred: labels.SelectorFromSet(labels.Set{"good": "yes"}),
		Excluded:  labels.SelectorFromSet(labels.Set{"bad": "yes"}),
		Lost:      func(n plan.Node) bool { return !n.Ready && now.Sub(n.ReadyChanged) > grace },
	}
}

// node is Ready, fit and not in the pool; its zone is its name's first letter, and its address its own.
func node(name string, edits ...func(*plan.Node)) plan.Node {
	own := sha256.Sum256([]byte(name))
	n := plan.Node{
		Name: name, Zone: name[:1], Labels: map[string]string{}, Ready: true,
		Created: now.Add(-24 * time.Hour), ReadyChanged: now.Add(-24 * time.Hour),
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, own[0], own[1], own[2]})},
	}
	for _, edit := range edits {
		edit(&n)
	}
	return n
}

func pooled(n *plan.Node)    { n.Pooled, n.Labels[v1alpha1.PoolLabel] = true, "rr" }
func marked(n *plan.Node)    { n.Marked, n.ClusterID = true, "244.0.0.1" }
func reflector(n *plan.Node) { pooled(n); marked(n); n.HasRoleLabel = true }
func good(n *plan.Node)      { n.Labels["good"] = "yes" }
func bad(n *plan.Node)       { n.Labels["bad"] = "yes" }
func older(n *plan.Node)     { n.Created = n.Created.Add(-time.Hour) }
func away(n *plan.Node)      { n.Ready, n.ReadyChanged = false, now.Add(-grace/2) }
func dead(n *plan.Node)      { n.Ready, n.ReadyChanged = false, now.Add(-2*grace) }
func flapped(n *plan.Node)   { n.ReadyChanged = now.Add(-grace) }
func dual(n *plan.Node) {
	n.Addresses = append(n.Addresses, netip.AddrFrom16([16]byte{0: 0xfd, 13: n.Addresses[0].As4()[1], 14: n.Addresses[0].As4()[2], 15: n.Addresses[0].As4()[3]}))
}

func running(pods int) func(*plan.Node) { return func(n *plan.Node) { n.Pods = &pods } }

func names(nodes []plan.Node) string {
	var out []string
	for _, n := range nodes {
		out = append(out, n.Name)
	}
	return strings.Join(out, " ")
}

// anyRules want 0 to 3 in each of some zones.
func anyRules(t *rapid.T) selection.Rules {
	zones := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", ""}), 1, 4, rapid.ID).Draw(t, "zones")
	return rulesFor(rapid.IntRange(0, 3).Draw(t, "per zone"), zones...)
}

// anyNodes are up to 16 nodes, most of them fit.
func anyNodes(t *rapid.T) []plan.Node {
	nodes := make([]plan.Node, rapid.IntRange(0, 16).Draw(t, "nodes"))
	for i := range nodes {
		nodes[i] = anyNode(t, fmt.Sprintf("n%02d", i))
	}
	return nodes
}

func anyNode(t *rapid.T, name string) plan.Node {
	n := node(name, func(n *plan.Node) {
		n.Zone = rapid.SampledFrom([]string{"a", "b", "c", ""}).Draw(t, "zone")
		n.Created = now.Add(-time.Duration(rapid.IntRange(1, 5).Draw(t, "age")) * time.Hour)
		n.ReadyChanged = now.Add(-time.Duration(rapid.IntRange(1, 300).Draw(t, "ready for")) * time.Second)
		n.Ready = rapid.IntRange(0, 5).Draw(t, "ready") > 0
		n.ControlPlane = rapid.Bool().Draw(t, "control plane")
	})
	services := []func(*plan.Node){
		func(*plan.Node) {}, pooled, reflector, marked, func(n *plan.Node) { pooled(n); marked(n) },
	}
	services[rapid.IntRange(0, len(services)-1).Draw(t, "service")](&n)
	if rapid.Bool().Draw(t, "counted") {
		running(rapid.IntRange(0, 3).Draw(t, "pods"))(&n)
	}
	oddities := []func(*plan.Node){
		good, bad,
		func(n *plan.Node) { n.Addresses = nil },
		func(n *plan.Node) { n.Deleting = true },
		func(n *plan.Node) { n.Leaving = true },
		func(n *plan.Node) { n.Cordoned = true },
		func(n *plan.Node) { n.Cordoned, n.CordonedByUs = true, true },
		func(n *plan.Node) { n.ClusterID, n.Marked = "1.1.1.1", false },
	}
	if i := rapid.IntRange(0, 2*len(oddities)).Draw(t, "oddity"); i < len(oddities) {
		oddities[i](&n)
	}
	return n
}

func has(nodes []plan.Node, name string) bool {
	return slices.ContainsFunc(nodes, func(n plan.Node) bool { return n.Name == name })
}

func perZone(nodes []plan.Node) map[string]int {
	out := map[string]int{}
	for _, n := range nodes {
		out[n.Zone]++
	}
	return out
}
