package rollout

import (
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// The page lists all rules in the order in which they are tried, with a sentence on each.
func TestArchitectureListsEveryRuleInItsOrder(t *testing.T) {
	page, err := os.ReadFile("../../../docs/architecture.md")
	require.NoError(t, err)
	var listed, rules []string
	for _, m := range regexp.MustCompile("(?m)^1\\. `([\\w`, ]+)`: \\w.*\\.$").FindAllSubmatch(page, -1) {
		listed = append(listed, strings.Split(string(m[1]), "`, `")...)
	}
	for _, r := range slices.Concat(reflectRules, meshRules) {
		name := runtime.FuncForPC(reflect.ValueOf(r).Pointer()).Name()
		rules = append(rules, name[strings.LastIndexByte(name, '.')+1:])
	}
	require.Equal(t, rules, listed)
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
	o.BGP.Mesh.Enabled = nil
	require.Nil(t, awaitRoutes(newView(o, d, now)))
}
