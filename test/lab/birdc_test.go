//go:build linux

package lab

import (
	"bufio"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const protocols = `0001 BIRD 1.6.8 ready.
2002-name     proto    table    state  since       info
1002-static1  Static   master   up     07:36:49
 kernel1  Kernel   master   up     07:36:49
 Mesh_172_20_0_11 BGP      master   up     07:36:51    Established
 Node_172_20_0_12 BGP      master   start  07:36:49    Connect       Socket: Connection refused
 Node_172_20_0_13 BGP      master   wait   07:36:49    Established
 Global_10_0_0_1 BGP      master   down   07:36:49
0000 ` + `
`

func TestSessionsAreReadFromBIRDsOwnWords(t *testing.T) {
	answer, code, err := readAnswer(bufio.NewScanner(strings.NewReader(protocols)))
	require.NoError(t, err)
	require.Equal(t, "0000", code)
	sessions := parseSessions(answer)
	require.Equal(t, []Session{
		{Name: "Mesh_172_20_0_11", Peer: netip.MustParseAddr("172.20.0.11"), State: "Established", ProtocolState: "up", Since: "07:36:51"},
		{Name: "Node_172_20_0_12", Peer: netip.MustParseAddr("172.20.0.12"), State: "Connect", ProtocolState: "start", Since: "07:36:49"},
		{Name: "Node_172_20_0_13", Peer: netip.MustParseAddr("172.20.0.13"), State: "Established", ProtocolState: "wait", Since: "07:36:49"},
		{Name: "Global_10_0_0_1", Peer: netip.MustParseAddr("10.0.0.1"), ProtocolState: "down", Since: "07:36:49"},
	}, sessions)
	require.True(t, sessions[0].Established())
	require.True(t, sessions[0].Mesh())
	require.False(t, sessions[1].Established())
	require.False(t, sessions[2].Established(), "Established, but it exchanges nothing yet")
}

func TestASessionIsTheSameUntilItRestarts(t *testing.T) {
	was := Session{Name: "Mesh_172_20_0_11", State: "Established", ProtocolState: "up", Since: "07:36:51"}
	for name, tc := range map[string]struct {
		change func(*Session)
		want   bool
	}{
		"nothing has changed":              {func(*Session) {}, true},
		"the other clock's second":         {func(s *Session) { s.Since = "07:36:50" }, true},
		"it has restarted":                 {func(s *Session) { s.Since = "07:36:53" }, false},
		"it is down":                       {func(s *Session) { s.State = "Connect" }, false},
		"it is up, but exchanges nothing":  {func(s *Session) { s.ProtocolState = "wait" }, false},
		"another one took its place":       {func(s *Session) { s.Name = "Node_172_20_0_11" }, false},
		"there is none any more":           {func(s *Session) { *s = Session{} }, false},
		"BIRD says the day, after a while": {func(s *Session) { s.Since = "2026-11-22" }, false},
	} {
		is := was
		tc.change(&is)
		require.Equal(t, tc.want, was.Same(is), name)
		require.Equal(t, tc.want, is.Same(was), name)
	}
}

func TestAnAnswerThatEndsEarlyIsAnError(t *testing.T) {
	for _, answer := range []string{"", "0001 BIRD 1.6.8 ready.\n", "0001 BIRD 1.6.8 ready.\n1002-static1 Static\n", "0001 ready.\n???\n"} {
		_, _, err := readAnswer(bufio.NewScanner(strings.NewReader(answer)))
		require.Error(t, err, "%q", answer)
	}
}

func TestBlocksDoNotOverlap(t *testing.T) {
	require.Equal(t, "10.244.0.0/26", block(0).String())
	require.Equal(t, "10.244.0.192/26", block(3).String())
	require.Equal(t, "10.244.25.0/26", block(100).String())
	require.Equal(t, "172.20.1.4", nth(nodeNetwork.Addr(), 260).String())
}

const routes = `0001 BIRD 1.6.8 ready.
1007-10.244.0.64/26     via 172.20.0.11 on eth0 [Node_172_20_0_20 07:36:51 from 172.20.0.20] * (100/0) [i]
1007-                   via 172.20.0.11 on eth0 [Node_172_20_0_20 07:36:51 from 172.20.0.20] (100/0) [i]
                    via 172.20.0.11 on eth0 [Mesh_172_20_0_11 07:36:51] (100/0) [i]
 10.244.0.128/26    unreachable [Node_172_20_0_20 07:36:51 from 172.20.0.20] * (100/-) [i]
 10.244.0.0/26      blackhole [static1 07:36:51] * (200)
 172.20.0.0/16      dev eth0 [direct1 07:36:51] * (240)
0000 ` + `
`

func TestPathsAreCountedByNeighbour(t *testing.T) {
	answer, _, err := readAnswer(bufio.NewScanner(strings.NewReader(routes)))
	require.NoError(t, err)
	reflector, mesh := netip.MustParseAddr("172.20.0.20"), netip.MustParseAddr("172.20.0.11")
	require.Equal(t, map[netip.Prefix]map[netip.Addr]int{
		netip.MustParsePrefix("10.244.0.64/26"):  {reflector: 2, mesh: 1},
		netip.MustParsePrefix("10.244.0.128/26"): {reflector: 1},
	}, parsePaths(answer))
}
