package rollout_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

func TestATimeLaterThanNowCountsAsNowOnce(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	past, later := now.Add(-time.Hour), now.Add(time.Hour)
	observed := func(at time.Time) plan.Cluster {
		return plan.Cluster{
			Nodes:    []plan.Node{{Created: at, ReadyChanged: at, RoleSince: at, CalicoNode: plan.CalicoNode{Since: at}}, {Created: past}},
			Statuses: map[string]plan.Status{"a": {Cleared: at}},
			Peers:    []plan.Peer{{Written: at}}, BGP: plan.BGPConfig{Restored: at},
		}
	}
	var memory rollout.Memory
	for _, tc := range []struct {
		says     string
		at       time.Time
		now      time.Time
		expected time.Time
	}{
		{"the past stays as it is", past, now, past},
		{"none stays none", time.Time{}, now, time.Time{}},
		{"now is not later", now, now, now},
		{"later is now", later, now, now},
		{"and stays then", later, now.Add(time.Minute), now},
		{"also once its time has come", later, later.Add(time.Minute), now},
		{"another write has its own", later.Add(time.Second), now.Add(time.Minute), now.Add(time.Minute)},
		{"what was gone is seen anew", later, now.Add(2 * time.Minute), now.Add(2 * time.Minute)},
	} {
		c := observed(tc.at)
		memory.Observe(&c, tc.now)
		require.Equal(t, observed(tc.expected), c, tc.says)
	}
}

// The manager's clock is wrong while a cluster migrates, and is put right later: the times
// that it wrote are later than now, and those of others seem long ago.
func TestClocksThatAreWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		from, to time.Duration
		restart  bool
	}{
		"ahead by an hour, put right":                {time.Hour, 0, false},
		"ahead by an hour, put right at a restart":   {time.Hour, 0, true},
		"behind by an hour, put right":               {-time.Hour, 0, false},
		"right, set forth":                           {0, time.Hour, false},
		"right, set back":                            {0, -time.Hour, false},
		"right, set back by less than a quiet time":  {0, -8 * time.Second, false},
		"right, set forth by less than a quiet time": {0, 8 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, at := range []int{20, 60, 100, 140, 200} {
				for _, w := range []*world{newWorld(uint64(at), 6, 3), newInPlaceWorld(uint64(at), 7, 2, 3)} {
					w.ahead = tc.from
					require.Empty(t, w.run(at), w.story())
					w.setClock(tc.to)
					if tc.restart {
						w.crash()
					}
					writes := w.writes
					require.Empty(t, w.settle(), w.story())
					require.False(t, w.bgp.MeshOn(), w.story())
					require.Less(t, w.writes-writes, 250, w.story())
					w.d.Mode = v1alpha1.ModeFullMesh
					w.nextLook = w.now
					require.Empty(t, w.run(at/4), w.story())
					w.setClock(tc.from)
					require.Empty(t, w.settle(), w.story())
					require.True(t, w.bgp.MeshOn(), w.story())
				}
			}
		})
	}
}

// After a write the nodes need some seconds until they have rendered it. A clock that is set forth does not shorten that.
func TestAClockSetForthSkipsNoQuietTime(t *testing.T) {
	early := map[bool]int{}
	for i := range 12 {
		noticed, w := i%2 == 0, newWorld(uint64(i/2), 6, 3)
		require.Empty(t, w.settle())
		w.d.ClusterID, w.nextLook = "244.0.0.9", w.now
		for w.roleAt != w.now { // the first of three reflectors
			w.step()
		}
		first := w.now
		w.setClock(time.Hour)
		if !noticed { // the control
			w.memory.ClockSet = time.Time{}
		}
		require.Empty(t, w.run(14))
		if !w.roleAt.Equal(first) {
			early[noticed]++
		}
	}
	require.Zero(t, early[true])
	require.NotZero(t, early[false], "the control")
}

// setClock sets the manager's clock, which it notices when it looks next. What it
// remembers of its own goes by a clock that is never set.
func (w *world) setClock(ahead time.Duration) {
	by := ahead - w.ahead
	remembered := []*time.Time{&w.memory.MeshSince, &w.memory.ShortSince, &w.memory.StraySince, &w.memory.LeavingSince}
	for _, st := range w.reports {
		remembered = append(remembered, &st.Updated)
		for i := range st.Sessions {
			remembered = append(remembered, &st.Sessions[i].Since)
		}
	}
	for _, at := range remembered {
		if !at.IsZero() {
			*at = at.Add(by)
		}
	}
	for node, at := range w.memory.Proven {
		w.memory.Proven[node] = at.Add(by)
	}
	w.ahead, w.nextLook = ahead, w.now
	w.memory.ClockSet = w.clock()
}

// The routes that a reflector sends decide how long they may take: it sends all blocks to every node that it serves.
func TestHowLongRoutesMayTake(t *testing.T) {
	for name, tc := range map[string]struct {
		kind       v1alpha1.TopologyType
		reflectors int
		blocks     int // of each node
		want       time.Duration
		also       func(*rollout.Observed)
	}{
		"few":                    {v1alpha1.TopologySingle, 3, 2, 5 * time.Second, nil},
		"12 nodes, 300,000":      {v1alpha1.TopologySingle, 3, 25_000, 29 * time.Second, nil},
		"12 nodes, 600,000":      {v1alpha1.TopologySingle, 3, 50_000, 53 * time.Second, nil},
		"no more than can be":    {v1alpha1.TopologySingle, 3, 2_000_000, 1805 * time.Second, nil},
		"each serves some nodes": {v1alpha1.TopologyQuorum, 6, 25_000, 47 * time.Second, nil},
		"tiers":                  {v1alpha1.TopologyHierarchy, 6, 25_000, 71 * time.Second, nil},
		"every path is sent":     {v1alpha1.TopologyMultiCluster, 3, 25_000, 68 * time.Second, nil},
		"kubelets are away": {v1alpha1.TopologySingle, 3, 25_000, 29 * time.Second, func(o *rollout.Observed) {
			for i := range 6 {
				o.Nodes[i].Ready = false
			}
		}},
		"all nodes announce ranges of services": {v1alpha1.TopologySingle, 3, 1, 35 * time.Second, func(o *rollout.Observed) {
			o.BGP.Services = slices.Repeat([]netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}, 25_000)
		}},
		"all nodes announce the blocks of others": {v1alpha1.TopologySingle, 3, 2000, 36 * time.Second, func(o *rollout.Observed) {
			o.Routes.Pools = []plan.PoolRoutes{{CIDR: "0.0.0.0/0", Direct: true}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := arrangedAs(t, newWorld(1, 12, 3), tc.kind, 2, tc.reflectors)
			disturbances["mesh switched on"](w, 0)
			o := w.until(t, "DisableMesh")
			blocks := slices.Repeat(o.Nodes[0].Blocks[:1], tc.blocks)
			for i := range o.Nodes {
				o.Nodes[i].Blocks = blocks
			}
			o.Statuses = nil
			if tc.also != nil {
				tc.also(&o)
			}
			s := w.next(o)
			require.Equal(t, tc.want, s.Settle, s.WaitingFor)
			require.Equal(t, w.d.SessionTimeout+tc.want-5*time.Second, s.Timeout)
		})
	}
}
