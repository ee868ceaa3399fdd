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
		nodes[i].Pooled, nodes[i].Marked, nodes[i].ClusterID, nodes[i].RoleLabel = false, false, "", false
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
	n.Pooled, n.Marked, n.RoleLabel = false, false, false
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
