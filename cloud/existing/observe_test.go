package existing_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/test/providertest"
)

func observe(t *testing.T, s *store) cloud.Pool {
	t.Helper()
	pool, err := s.provider(s.config()).Observe(context.Background(), cloud.PoolSpec{})
	require.NoError(t, err)
	return pool
}

func TestAPoolIsItsMembers(t *testing.T) {
	s := newStore(2)
	require.Equal(t, cloud.Pool{
		Owned: true, ID: providertest.PoolName, Name: providertest.PoolName, ClusterZones: []string{"a", "b", "c"},
	}, observe(t, s), "no member yet")
	s.add("free", "", time.Hour)
	s.add("windows", "w", time.Hour)
	s.edit("windows", func(n *plan.Node) { n.Addresses = nil })
	for _, name := range []string{"a1", "a2", "b1", "b2", "free", "windows"} {
		s.join(name)
	}
	s.edit("c1", func(n *plan.Node) { n.Labels[v1alpha1.PoolLabel] = "another" })
	s.away("a2")
	s.Break("b1", "")
	s.edit("b2", func(n *plan.Node) { n.Cordoned = true })
	worker := func(name, zone string, state cloud.WorkerState, message string) cloud.Worker {
		return cloud.Worker{ID: name, NodeName: name, Zone: zone, State: state, Message: message}
	}
	require.Equal(t, cloud.Pool{
		Exists: true, Owned: true, ID: providertest.PoolName, Name: providertest.PoolName,
		SizePerZone: 1, Zones: []string{"", "a", "b", "w"}, ClusterZones: []string{"", "a", "b", "c"},
		Workers: []cloud.Worker{
			worker("a1", "a", cloud.WorkerDeployed, ""),
			worker("a2", "a", cloud.WorkerUnhealthy, "it is NotReady"),
			worker("b1", "b", cloud.WorkerFailed, "it has been NotReady for longer than 1m0s"),
			worker("b2", "b", cloud.WorkerFailed, "it is cordoned"),
			worker("free", "", cloud.WorkerDeployed, ""),
			worker("windows", "w", cloud.WorkerFailed, "it announces no BGP address"),
		},
		Problems: []string{
			"node b1 in zone b: it has been NotReady for longer than 1m0s",
			"node b2 in zone b: it is cordoned",
			"node windows in zone w: it announces no BGP address",
		},
	}, observe(t, s))
}

// TestAMomentDoesNotLookLikeAnotherSize: what a pool passes through while one
// member replaces another must not look as if another size had been asked for.
func TestAMomentDoesNotLookLikeAnotherSize(t *testing.T) {
	for name, tt := range map[string]struct {
		zones, members int
		edit           func(*store)
		want           int
	}{
		"one for each of three zones":           {zones: 3, members: 3, want: 1},
		"a substitute more":                     {zones: 3, members: 4, want: 1},
		"two each, and a substitute more":       {zones: 3, members: 7, want: 2},
		"two each, and one node is gone":        {zones: 3, members: 5, want: 2},
		"a pool that is only beginning":         {zones: 3, members: 1, want: 1},
		"two zones and a substitute more":       {zones: 2, members: 3, want: 1},
		"two zones of two":                      {zones: 2, members: 4, want: 2},
		"one zone":                              {zones: 1, members: 3, want: 3},
		"an outage of most":                     {zones: 3, members: 6, edit: func(s *store) { s.Break("a1", ""); s.Break("b1", ""); s.Break("c1", "") }, want: 2},
		"one that is cordoned has a substitute": {zones: 1, members: 4, edit: func(s *store) { s.edit("a1", func(n *plan.Node) { n.Cordoned = true }) }, want: 3},
		"all are cordoned":                      {zones: 1, members: 1, edit: func(s *store) { s.edit("a1", func(n *plan.Node) { n.Cordoned = true }) }, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(5)
			for _, name := range s.Nodes() {
				if int(name[0]-'a') >= tt.zones {
					s.edit(name, func(n *plan.Node) { n.Addresses = nil })
				}
			}
			for i := range tt.members {
				s.join(string(rune('a'+i%tt.zones)) + string(rune('1'+i/tt.zones)))
			}
			if tt.edit != nil {
				tt.edit(s)
			}
			require.Len(t, s.members(), tt.members)
			require.Equal(t, tt.want, observe(t, s).SizePerZone)
		})
	}
}
