package status

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/pool"
	"github.com/rrpool/rrpool/test/cli"
)

// anyTurn is what the manager sees of some cluster, with some of the sessions up.
func anyTurn(t *rapid.T) pool.Turn {
	dedicated := rapid.Bool().Draw(t, "dedicated")
	var nodes []plan.Node
	for i := range rapid.IntRange(0, 8).Draw(t, "nodes") {
		n := plan.Node{
			Name: fmt.Sprintf("n%d", i), WorkerID: fmt.Sprintf("w%d", i), Zone: fmt.Sprintf("z%d", i%2),
			Ready: rapid.Bool().Draw(t, "ready"), Deleting: rapid.IntRange(0, 9).Draw(t, "deleting") == 0, Labels: map[string]string{},
		}
		if rapid.Bool().Draw(t, "v4") {
			n.Addresses = append(n.Addresses, netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}))
		}
		if rapid.Bool().Draw(t, "v6") {
			n.Addresses = append(n.Addresses, netip.MustParseAddr(fmt.Sprintf("fd00::%d", i+1)))
		}
		n.Pooled = rapid.Bool().Draw(t, "pooled")
		if n.Pooled && rapid.Bool().Draw(t, "reflects") {
			n.RoleLabel, n.ClusterID, n.Marked = true, "224.0.0.1", true
		}
		nodes = append(nodes, n)
	}
	statuses := map[string]plan.Status{}
	for _, n := range nodes {
		if rapid.IntRange(0, 4).Draw(t, "silent") == 0 {
			continue
		}
		st := plan.Status{Node: n.Name, Agent: true, Updated: cli.Now}
		for _, p := range nodes {
			for _, a := range p.Addresses {
				kind := rapid.SampledFrom([]plan.SessionKind{plan.SessionMesh, plan.SessionNode, plan.SessionGlobal}).Draw(t, "kind")
				st.Sessions = append(st.Sessions, plan.Session{Peer: a, Kind: kind, Established: rapid.Bool().Draw(t, "up"), Since: cli.Now.Add(-time.Hour)})
			}
		}
		statuses[n.Name] = st
	}
	provider := v1alpha1.ProviderExistingNodes
	if dedicated {
		provider = v1alpha1.ProviderIKS
	}
	out := pool.Turn{
		Cluster: plan.Cluster{Nodes: nodes, Statuses: statuses, BGP: plan.BGPConfig{ASN: 64512}}, Provider: provider,
		Desired: rollout.Desired{
			Mode: rollout.Reflect, Dedicated: dedicated, ClusterID: "224.0.0.1", RoleLabel: "rr",
			Pool: plan.PoolWant{SizePerZone: 1, Zones: []string{"z0", "z1"}}, SessionTimeout: time.Minute, NotReadyGrace: time.Minute, MinServing: 1,
		},
	}
	out.Step = rollout.Next(rollout.Observed{Cluster: out.Cluster}, out.Desired, cli.Now)
	return out
}

// The nodes that are named lack exactly the sessions that the manager counts as missing.
func TestTheNodesThatAreShort(t *testing.T) {
	seen := 0
	rapid.Check(t, func(t *rapid.T) {
		turn := anyTurn(t)
		missing, named := 0, 0
		for _, r := range turn.Step.Reflectors {
			missing += r.Expected - r.Established
		}
		for _, short := range shortClients(turn) {
			named += short.Sessions
			require.NotEmpty(t, short.Lacks)
		}
		require.Equal(t, missing, named)
		seen += missing
	})
	require.Positive(t, seen, "some were missing")
}

func TestNobodyIsShortOfWhatIsNotObserved(t *testing.T) {
	turn := pool.Turn{
		Cluster: plan.Cluster{Nodes: []plan.Node{
			{Name: "a", Ready: true, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}},
			{Name: "rr", Ready: true, Pooled: true, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.2")}},
		}},
		Step: rollout.Step{Reflectors: []rollout.Reflector{{Node: "rr", Expected: 1}}},
	}
	require.Equal(t, []shortClient{{Node: "a", Lacks: []string{"rr"}, Sessions: 1}}, shortClients(turn))
	turn.Desired.Timer = true
	require.Empty(t, shortClients(turn))
}
