package simulate_test

import (
	"math/bits"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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
		"BIRD of the reflector is killed: its routes are kept for 120 s": {func(m *simulate.Model) {
			m.Fail("n1", "", simulate.Killed)
			require.False(t, m.Connected("n1", "n2"))
			require.False(t, m.Report("n2", false).Sessions[0].Established)
		}, []time.Duration{0, 2*time.Minute - moment, 2 * time.Minute}, []bool{false, false, true}},
		"its host is switched off: nobody sees that for the hold time": {func(m *simulate.Model) {
			m.Fail("n1", "", simulate.Silent)
			m.Advance(4*time.Minute - moment)
			require.True(t, m.Connected("n1", "n2"))
			require.True(t, m.Report("n2", false).Sessions[0].Established)
			require.Empty(t, m.Unreached(allNodes))
		}, []time.Duration{moment}, []bool{true}},
		"what it was told before it went is forgotten with the session": {func(m *simulate.Model) {
			m.Fail("n1", "", simulate.Silent)
			apply(t, m, plan.DeletePeer{Name: "clients"})
			m.Advance(time.Minute)
			apply(t, m, clients)
		}, []time.Duration{time.Minute}, []bool{true}},
		"a client that comes to one that is silent learns nothing": {func(m *simulate.Model) {
			m.Stop("n2")
			m.Advance(time.Minute)
			m.Fail("n1", "", simulate.Silent)
			m.Start("n2")
		}, []time.Duration{time.Minute}, []bool{true}},
		"packets between two get lost, and nobody sees that": {func(m *simulate.Model) {
			m.Fail("n1", "n2", simulate.Silent)
		}, []time.Duration{0, 4*time.Minute - moment, 4 * time.Minute}, []bool{false, false, true}},
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
			m.StopReflecting("n1", m.Now().Add(time.Minute))
		}, []time.Duration{0, time.Minute - moment, time.Minute}, []bool{true, true, false}},
		"a client passes on nothing of others": {func(m *simulate.Model) { m.StopReflecting("n2", m.Now().Add(time.Minute)) }, []time.Duration{0}, []bool{false}},
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
			m.Replace(c, plan.DatastoreOptions{RoleLabel: "another"})
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
	rapid.Check(t, func(t *rapid.T) {
		o := someTopology.Draw(t, "topology")
		some := rapid.Bool().Draw(t, "some reflectors run pods")
		want := func(name string) bool { return o.node(name).ClusterID == "" || some && name > "r3" }
		most := rapid.IntRange(0, 4).Draw(t, "most")
		require.Equal(t, o.depth(most, want), o.configuration().Network(o.isUp).Depth(most, want))
	})
	// The control, with the same topologies however few are drawn: they differ in depth.
	found := map[int]bool{}
	for seed := range 100 {
		o := someTopology.Example(seed)
		found[o.configuration().Network(o.isUp).Depth(4, func(name string) bool { return o.node(name).ClusterID == "" })] = true
	}
	require.Greater(t, len(found), 3)
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
