package rollout

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// RuleNames returns the names in the table of rules.
func RuleNames() (names []string) {
	for _, r := range rules {
		names = append(names, r.name)
	}
	return names
}

// The page prints the table of the rules; -update writes it anew.
func TestTheArchitecturePagePrintsTheRules(t *testing.T) {
	const path, begin, end = "../../../docs/architecture.md", "| RULE | APPLIES | WHAT IT DOES |\n|---|---|---|\n", "\n### Nodes that run workloads"
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	page := string(text)
	var table strings.Builder
	names := map[string]bool{}
	for _, r := range rules {
		require.False(t, names[r.name], "the name %s is used twice", r.name)
		names[r.name] = true
		_, _ = fmt.Fprintf(&table, "| `%s` | %s | %s |\n", r.name, r.when, r.doc)
	}
	before, rest, found := strings.Cut(page, begin)
	require.True(t, found)
	printed, after, found := strings.Cut(rest, end)
	require.True(t, found)
	if flag.Lookup("update").Value.String() == "true" {
		require.NoError(t, os.WriteFile(path, []byte(before+begin+table.String()+end+after), 0o600))
		return
	}
	require.Equal(t, table.String(), printed)
}

// Nothing is called steady while the BGPPeers and roles do not connect two Ready nodes, whatever the other rules see.
func TestNothingIsSteadyWithoutRoutes(t *testing.T) {
	off, d := false, Desired{RoleLabel: "role", Dedicated: true, ClusterID: "244.0.0.1"}
	node := func(name string) plan.Node {
		return plan.Node{Name: name, Ready: true, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0." + name)}}
	}
	reflector := node("3")
	reflector.Pooled, reflector.Marked, reflector.HasRoleLabel, reflector.ClusterID, reflector.Slot = true, true, true, d.ClusterID, "true"
	o := Observed{Cluster: plan.Cluster{Nodes: []plan.Node{node("1"), node("2"), reflector}}}
	o.BGP.Mesh.Enabled, o.Peers = &off, topology.Single("role", topology.Session{})
	now := time.Now()
	require.Nil(t, awaitRoutes(newView(o, d, now)))
	o.Nodes[2].Ready = false
	require.NotNil(t, awaitRoutes(newView(o, d, now)))
	o.Nodes[2].Ready, o.Peers = true, o.Peers[1:]
	s := awaitRoutes(newView(o, d, now))
	require.NotNil(t, s)
	require.Equal(t, []string{"a route from 1 to 2", "a route from 2 to 1"}, s.WaitingFor)
}
