package simulate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// reflected is a cluster of n1, a reflector, and clients n2 to n4, an hour after the mesh went.
func reflected(t *testing.T) *simulate.Model {
	t.Helper()
	m := model(4)
	apply(t, m, plan.SetReflector{Node: "n1", ClusterID: "244.0.0.1"}, clients)
	m.Advance(time.Minute)
	apply(t, m, plan.DisableMesh{})
	m.Advance(time.Hour)
	require.Empty(t, m.Unreached(allNodes))
	return m
}

// apart says whether n2 and n3 have lost each other, at each of these times from now on.
func apart(m *simulate.Model, after ...time.Duration) []bool {
	var out []bool
	for began := m.Now(); len(out) < len(after); {
		m.Advance(began.Add(after[len(out)]).Sub(m.Now()))
		out = append(out, len(m.Unreached(func(n plan.Node) bool { return n.Name == "n2" || n.Name == "n3" })) > 0)
	}
	return out
}

func TestFaults(t *testing.T) {
	const up, moment = simulate.Connect, time.Millisecond
	for name, tc := range map[string]struct {
		do    func(*simulate.Model)
		after []time.Duration
		want  []bool
	}{
		"calico-node of the reflector dies, and starts again": {func(m *simulate.Model) {
			m.Stop("n1")
			require.True(t, apart(m, 0)[0])
			m.Advance(time.Minute)
			require.True(t, apart(m, 0)[0])
			m.Start("n1")
		}, []time.Duration{0, up - moment, up}, []bool{true, true, false}},
		"a dead client is not missed":       {func(m *simulate.Model) { m.Stop("n2") }, []time.Duration{0}, []bool{false}},
		"packets to the reflector get lost": {func(m *simulate.Model) { m.Cut("n1", "n2", true) }, []time.Duration{0, time.Hour}, []bool{true, true}},
		"packets to another get lost":       {func(m *simulate.Model) { m.Cut("n1", "n4", true) }, []time.Duration{0}, []bool{false}},
		"they pass again, which is said twice": {func(m *simulate.Model) {
			m.Cut("n1", "n2", true)
			m.Cut("n2", "n1", false)
			m.Advance(up / 2)
			m.Cut("n1", "n2", false)
		}, []time.Duration{0, up/2 - moment, up / 2}, []bool{true, true, false}},
		"the reflector passes on nothing for a minute": {func(m *simulate.Model) {
			m.Mute("n1", m.Now().Add(time.Minute))
		}, []time.Duration{0, time.Minute - moment, time.Minute}, []bool{true, true, false}},
		"a client passes on nothing of others": {func(m *simulate.Model) { m.Mute("n2", m.Now().Add(time.Minute)) }, []time.Duration{0}, []bool{false}},
		"BIRD recovers, its sessions stay":     {func(m *simulate.Model) { m.Recover("n1") }, []time.Duration{0, time.Minute}, []bool{false, false}},
		"BIRD of the reflector recovers, its sessions are new": {func(m *simulate.Model) {
			m.Recover("n1")
			m.Start("n1")
		}, []time.Duration{up, 4*time.Minute - moment, 4 * time.Minute}, []bool{true, true, false}},
		"BIRD of a client recovers, its sessions are new": {func(m *simulate.Model) {
			m.Recover("n2")
			m.Start("n2")
		}, []time.Duration{up, 4*time.Minute - moment, 4 * time.Minute}, []bool{true, true, false}},
		"a session that starts anew takes longer": {func(m *simulate.Model) {
			m.Delay(simulate.Delays{Connect: func(string, string, time.Time) time.Duration { return time.Minute }, Longest: time.Minute})
			m.Start("n1")
		}, []time.Duration{time.Minute - moment, time.Minute}, []bool{true, false}},
		"two nodes take over a change at different times": {func(m *simulate.Model) {
			lag := map[string]time.Duration{"n2": time.Minute}
			m.Delay(simulate.Delays{Lag: func(node string) time.Duration { return lag[node] }, Longest: time.Minute})
			apply(t, m, plan.DeletePeer{Name: "clients"}) // n2 has a session while n1 does not any more
			m.Advance(time.Second)
			require.Len(t, m.Report("n2", false).Sessions, 1)
			require.Empty(t, m.Report("n1", false).Sessions)
			apply(t, m, clients)
		}, []time.Duration{0, up - moment, up, time.Minute - time.Second}, []bool{true, true, false, true}},
		"the role has another label": {func(m *simulate.Model) {
			c := m.Observe()
			c.Nodes[0].Labels = nil
			m.Put(c, plan.Scope{RoleLabel: "another"})
		}, []time.Duration{0, simulate.Lag}, []bool{false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			m := reflected(t)
			tc.do(m)
			require.Equal(t, tc.want, apart(m, tc.after...))
		})
	}
}

func TestReportsOfFaults(t *testing.T) {
	m := reflected(t)
	m.Watch([]plan.StatusRequest{{Node: "n1"}, {Node: "n2"}})
	m.Advance(time.Minute)
	require.Len(t, m.Observe().Statuses, 2)
	m.Stop("n1")
	require.Len(t, m.Observe().Statuses, 1, "a dead node reports nothing")
	require.False(t, m.Report("n2", false).Sessions[0].Established)
	m.Recover("n1")
	m.Start("n1")
	m.Advance(simulate.Connect)
	require.True(t, m.Report("n2", false).Sessions[0].Established)
	require.Equal(t, 3, m.Report("n1", false).Waiting)
	require.Zero(t, m.Report("n2", false).Waiting, "the other side does not wait")
	m.Advance(4 * time.Minute)
	require.Zero(t, m.Report("n1", false).Waiting)
}
