package selection_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/selection"
)

func TestChoose(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes []plan.Node
		rules selection.Rules
		want  string
	}{
		"one in each zone, the oldest first": {
			[]plan.Node{node("a1"), node("a2", older), node("b1"), node("b2", older), node("c1")}, rulesFor(1, "a", "b", "c"), "a2 b2 c1",
		},
		"equally old ones by name": {[]plan.Node{node("a2"), node("a1")}, rulesFor(1, "a"), "a1"},
		"preferred ones before older ones": {
			[]plan.Node{node("a1", pooled), node("b1", older), node("b2", good)}, rulesFor(1, "a", "b"), "a1 b2",
		},
		"excluded ones never, not even preferred ones":  {[]plan.Node{node("a1", good, bad), node("a2", reflector, bad)}, rulesFor(1, "a"), ""},
		"a member stays although a better one has come": {[]plan.Node{node("a1", pooled), node("a2", good, older)}, rulesFor(1, "a"), "a1"},
		"a member that is away for a moment stays":      {[]plan.Node{node("a1", reflector, away), node("a2")}, rulesFor(1, "a"), "a1"},
		"a member that is away for long does not":       {[]plan.Node{node("a1", reflector, dead), node("a2")}, rulesFor(1, "a"), "a2"},
		"no node joins without a calico-node that is Ready": {
			[]plan.Node{node("a1", without(plan.CalicoNodeAbsent), older), node("a2", without(plan.CalicoNodeNotReady), older), node("a3")}, rulesFor(1, "a"), "a3",
		},
		"a reflector stays although calico-node restarts":    {[]plan.Node{node("a1", reflector, without(plan.CalicoNodeNotReady)), node("a2")}, rulesFor(1, "a"), "a1"},
		"no node joins while NotReady":                       {[]plan.Node{node("a1", away)}, rulesFor(1, "a"), ""},
		"a reflector that lost the pool's label comes first": {[]plan.Node{node("a1", good, older), node("a2", marked)}, rulesFor(1, "a"), "a2"},
		"a member whose mark is gone is still ours": {
			[]plan.Node{node("a1", reflector, func(n *plan.Node) { n.Marked = false }), node("a2", good)}, rulesFor(1, "a"), "a1",
		},
		"another client's reflector is left alone": {[]plan.Node{node("a1", func(n *plan.Node) { n.ClusterID = "1.1.1.1" })}, rulesFor(1, "a"), ""},
		"a node of another pool is left alone": {
			[]plan.Node{node("a1", func(n *plan.Node) { n.Labels[v1alpha1.PoolLabel] = "dedicated" })}, rulesFor(1, "a"), "",
		},
		"a cordon of ours does not count": {
			[]plan.Node{node("a1", func(n *plan.Node) { n.Cordoned, n.CordonedByUs = true, true }), node("a2", func(n *plan.Node) { n.Cordoned = true })},
			rulesFor(2, "a"), "a1",
		},
		"only the wanted zones":                         {[]plan.Node{node("a1", pooled), node("b1")}, rulesFor(1, "b"), "b1"},
		"a zone that is named twice counts once":        {[]plan.Node{node("a1"), node("a2")}, rulesFor(1, "a", "a"), "a1"},
		"nodes without zone are a zone":                 {[]plan.Node{node("a1", func(n *plan.Node) { n.Zone = "" }), node("a2")}, rulesFor(1, ""), "a1"},
		"none wanted":                                   {[]plan.Node{node("a1", pooled)}, rulesFor(0, "a"), ""},
		"less than none wanted":                         {[]plan.Node{node("a1", pooled)}, rulesFor(-1, "a"), ""},
		"a zone too small lends to the one with fewest": {[]plan.Node{node("a1"), node("b1"), node("b2"), node("c1"), node("c2")}, rulesFor(2, "a", "b", "c"), "a1 b1 b2 c1 c2"},
		"a loan goes to the preferred node of equal zones": {
			[]plan.Node{node("x1", pooled), node("b1", pooled), node("b2", older), node("c1", pooled), node("c2", good)},
			rulesFor(1, "a", "b", "c"), "b1 c1 c2",
		},
		"loans are spread although the older nodes are in one zone": {
			[]plan.Node{node("b1", older), node("b2", older), node("b3", older), node("c1"), node("c2")}, rulesFor(1, "a", "b", "c", "d"), "b1 b2 c1 c2",
		},
		"of too many the one goes that is away": {
			[]plan.Node{node("a1", reflector, away), node("a2", reflector, func(n *plan.Node) { n.ReadyChanged = now })}, rulesFor(1, "a"), "a2",
		},
		"one that gives up its role goes before one that has it": {
			[]plan.Node{node("a1", pooled, marked), node("a2", reflector, flapped)}, rulesFor(1, "a"), "a2",
		},
		"one that is about to get its role stays": {
			[]plan.Node{node("a1", pooled), node("a2", pooled, marked, flapped)}, rulesFor(1, "a"), "a2",
		},
		"a loan stays where it is": {
			[]plan.Node{node("b1", pooled), node("b2", good, older), node("c1", pooled), node("c2", pooled)}, rulesFor(1, "a", "b", "c"), "b1 c1 c2",
		},
		"of two loans the one in the role stays": {
			[]plan.Node{node("b1", reflector), node("b2", pooled), node("c1", reflector), node("c2", reflector)}, rulesFor(1, "a", "b", "c"), "b1 c1 c2",
		},
		"a zone that can takes its share back": {
			[]plan.Node{node("a1"), node("b1", reflector), node("b2", reflector, flapped)}, rulesFor(1, "a", "b"), "a1 b1",
		},
		"of too many the one goes that flaps": {
			[]plan.Node{node("a1", reflector, flapped, older), node("a2", reflector), node("a3", reflector)}, rulesFor(2, "a"), "a2 a3",
		},
		"a dead one that returns goes before its substitute serves": {
			[]plan.Node{node("a1", reflector, flapped), node("a2", pooled)}, rulesFor(1, "a"), "a1",
		},
		"one without IPv6 cannot serve those that have it": {[]plan.Node{node("a1", older), node("a2", dual), node("b1", away)}, rulesFor(1, "a"), "a2"},
		"and its substitute stays once it serves": {
			[]plan.Node{node("a1", reflector, flapped), node("a2", reflector)}, rulesFor(1, "a"), "a2",
		},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, names(selection.Choose(tt.nodes, tt.rules))) })
	}
}

func TestTheFirstIsTheCheapest(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes []plan.Node
		want  string
	}{
		"fewest pods": {[]plan.Node{node("a1", older, running(3)), node("a2", running(1)), node("b1", older, running(2))}, "a2"},
		"a node whose pods were not counted has many":  {[]plan.Node{node("a1", older), node("a2", running(100))}, "a2"},
		"a control-plane node of equal ones":           {[]plan.Node{node("a1", older), node("a2", func(n *plan.Node) { n.ControlPlane = true })}, "a2"},
		"preferred ones first of all":                  {[]plan.Node{node("a1", running(0)), node("a2", good, running(9))}, "a2"},
		"one that may not be is not asked":             {[]plan.Node{node("a1", bad, running(0)), node("a2", running(9))}, "a2"},
		"also when the only members are dead":          {[]plan.Node{node("a1", reflector, dead, running(0)), node("a2", older, running(9)), node("a3", running(1))}, "a3"},
		"but not when a person reflects":               {[]plan.Node{node("b1", pooled), node("a2", older, running(9)), node("a3", running(1))}, "a2"},
		"one that is to come back into the pool first": {[]plan.Node{node("a1", older, running(0)), node("b1", marked, running(9))}, "b1"},
	} {
		t.Run(name, func(t *testing.T) {
			rules := rulesFor(1, "a", "b")
			got, ok := selection.Next(tt.nodes, rules)
			require.True(t, ok)
			require.Equal(t, tt.want, got.Name)
			require.True(t, has(selection.Choose(tt.nodes, rules), got.Name))
		})
	}
	_, ok := selection.Cheapest(nil, rulesFor(1, "a"))
	require.False(t, ok)
	_, ok = selection.Next([]plan.Node{node("a1", pooled), node("a2")}, rulesFor(1, "a"))
	require.False(t, ok, "no node is missing")
	next, _ := selection.Next([]plan.Node{node("a1", pooled), node("a2", good, older), node("b1")}, rulesFor(2, "a", "b"))
	require.Equal(t, "b1", next.Name, "later ones go to the zone with the fewest")
}

func TestUnfitSaysWhy(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(*plan.Node)
		want string
	}{
		"fit":              {func(*plan.Node) {}, ""},
		"NotReady":         {dead, ""},
		"Windows":          {func(n *plan.Node) { n.Labels["kubernetes.io/os"] = "windows" }, "it runs Windows, whose BGP cannot reflect routes"},
		"no BGP":           {func(n *plan.Node) { n.Addresses = nil }, "it announces no BGP address"},
		"deleted":          {func(n *plan.Node) { n.Deleting = true }, "it is being deleted"},
		"leaving":          {func(n *plan.Node) { n.Leaving = true }, "it is tainted for shutdown"},
		"cordoned":         {func(n *plan.Node) { n.Cordoned = true }, "it is cordoned"},
		"excluded":         {bad, "spec.provider.existingNodes.excluded selects it"},
		"another zone":     {func(n *plan.Node) { n.Zone = "z" }, `its zone "z" gets no route reflectors`},
		"another client's": {func(n *plan.Node) { n.ClusterID = "1.1.1.1" }, "it is a route reflector that rrpool did not make"},
		"another pool's":   {func(n *plan.Node) { n.Labels[v1alpha1.PoolLabel] = "x" }, `its label rrpool.io/pool says that it belongs to the pool "x"`},
		"a member of ours": {reflector, ""},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, rulesFor(1, "a").Unfit(node("a1", tt.edit))) })
	}
	require.Equal(t, "it announces no IPv6 address, and other nodes do", rulesFor(1, "a").Of([]plan.Node{node("a2", dual)}).Unfit(node("a1")))
	require.Empty(t, selection.Rules{Zones: []string{"a"}}.Unfit(node("a1")), "no rules")
	require.False(t, selection.Rules{Zones: []string{"a"}}.Counts(node("a1", pooled, away)), "without Lost, NotReady is lost")
}

// TestHealthyMembersStay is what sticky means: whatever changes about other nodes, and whoever comes, no member
// that counts leaves, except from a zone with more than its share, for each share that another zone takes back.
func TestHealthyMembersStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		require.Empty(t, restless(t, selection.Choose))
	})
	forgetful := func(nodes []plan.Node, r selection.Rules) []plan.Node {
		nodes = slices.Clone(nodes)
		for i := range nodes {
			if r.Counts(nodes[i]) {
				nodes[i].Pooled, nodes[i].Marked, nodes[i].ClusterID, nodes[i].Labels = false, false, "", nil
			}
		}
		return selection.Choose(nodes, r)
	}
	require.True(t, caught(func(t *rapid.T) string { return restless(t, forgetful) }), "a chooser that forgets its members is caught")
}

// restless takes some cluster whose pool is as choose wants it, changes what must
// not matter, and names a member that leaves without need.
func restless(t *rapid.T, choose chooser) string {
	nodes, r := anyNodes(t), anyRules(t)
	for i := range nodes {
		nodes[i].Pooled, nodes[i].Marked, nodes[i].ClusterID, nodes[i].HasRoleLabel = false, false, "", false
		delete(nodes[i].Labels, v1alpha1.PoolLabel)
	}
	before := choose(nodes, r)
	for i := range nodes {
		nodes[i].Pooled = has(before, nodes[i].Name)
	}
	// Everything about others changes, of members what does not concern their health, and nodes are added.
	out := slices.Clone(nodes)
	for i, was := range nodes {
		if !rapid.Bool().Draw(t, "touch") {
			continue
		}
		n := stranger(t, was.Name)
		if n.Zone = was.Zone; was.Pooled {
			n.Pooled, n.Ready, n.ReadyChanged, n.Addresses, n.ClusterID = true, was.Ready, was.ReadyChanged, was.Addresses, ""
			n.Deleting, n.Leaving, n.Cordoned, n.CordonedByUs = false, false, was.Cordoned, was.CordonedByUs
			delete(n.Labels, "bad")
		}
		out[i] = n
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "new nodes") {
		out = append(out, stranger(t, fmt.Sprintf("new%d", i)))
	}
	return unneeded(before, choose(out, r), r)
}

// stranger is any node that is not in our service.
func stranger(t *rapid.T, name string) plan.Node {
	n := anyNode(t, name)
	n.Pooled, n.Marked, n.HasRoleLabel = false, false, false
	return n
}

// unneeded names a member that left although no zone took a share back for it.
func unneeded(before, after []plan.Node, r selection.Rules) string {
	had, have := perZone(before), perZone(after)
	back, gone := 0, 0
	for _, zone := range r.Zones {
		back += max(0, min(have[zone], r.PerZone)-had[zone])
	}
	for _, n := range before {
		if has(after, n.Name) {
			continue
		}
		if gone++; had[n.Zone] <= r.PerZone || have[n.Zone] < r.PerZone {
			return fmt.Sprintf("%s left a zone that had %d and has %d", n.Name, had[n.Zone], have[n.Zone])
		}
	}
	if gone > back {
		return fmt.Sprintf("%d members left for %d shares taken back", gone, back)
	}
	return ""
}

func without(state plan.CalicoNodeState) func(*plan.Node) {
	return func(n *plan.Node) { n.CalicoNode.State = state }
}
