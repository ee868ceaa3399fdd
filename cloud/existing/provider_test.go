package existing_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/existing"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/test/providertest"
)

func ensure(t *testing.T, p cloud.Provider, want cloud.PoolSpec) cloud.Progress {
	t.Helper()
	got, err := p.Ensure(context.Background(), want)
	require.NoError(t, err)
	return got
}

func settle(t *testing.T, p cloud.Provider, want cloud.PoolSpec) cloud.Progress {
	t.Helper()
	for range 50 {
		if got := ensure(t, p, want); got.Did == "" {
			return got
		}
	}
	require.Fail(t, "never rests")
	return cloud.Progress{}
}

func size(n int) cloud.PoolSpec { return cloud.PoolSpec{SizePerZone: n} }

func TestTheFirstIsTheCheapestAndPodsAreCountedOnlyForIt(t *testing.T) {
	s := newStore(2)
	s.pods = map[string]int{"a1": 3, "a2": 3, "b1": 3, "b2": 1, "c1": 3} // c2 has none
	s.edit("c1", func(n *plan.Node) { n.Cordoned = true })
	p := existing.New(s.config())
	require.Equal(t, "took node c2 in zone c into the pool", ensure(t, p, size(1)).Did)
	settle(t, p, size(1))
	require.Equal(t, []string{"a1", "b1", "c2"}, s.members(), "then the oldest")
	require.Equal(t, [][]string{{"a1", "a2", "b1", "b2", "c2"}}, s.counted, "once, and only of those that could join")

	s.Break("a1", "")
	s.Break("b1", "")
	s.Break("c2", "")
	ensure(t, p, size(1))
	require.Contains(t, s.members(), "b2", "no node reflects again")
	require.Len(t, s.counted, 2)
}

// While nodes still reflect, nothing may wait for pods: neither for a count that
// takes a minute nor for one that is forbidden.
func TestReflectorsThatAreAllToGoAreReplacedWithoutCounting(t *testing.T) {
	s := newStore(2)
	p := existing.New(s.config())
	settle(t, p, size(1))
	s.counted = nil
	for _, name := range []string{"a1", "b1", "c1"} {
		s.edit(name, func(n *plan.Node) { n.Marked, n.HasRoleLabel, n.ClusterID, n.Cordoned = true, true, "244.0.0.1", true })
	}
	ensure(t, p, size(1))
	require.Len(t, s.members(), 4)
	require.Empty(t, s.counted)
	for _, name := range []string{"a1", "b1", "c1"} {
		s.Break(name, "")
	}
	s.edit("a2", func(n *plan.Node) { n.Cordoned = true })
	ensure(t, p, size(1))
	require.NotEmpty(t, s.counted, "they do not reflect any more: the next is a first one")
}

func TestPreferredAndExcludedNodes(t *testing.T) {
	s := newStore(2)
	s.edit("a2", func(n *plan.Node) { n.Labels["good"] = "yes" })
	s.edit("b1", func(n *plan.Node) { n.Labels["bad"] = "yes" })
	cfg := s.config()
	cfg.Preferred = labels.SelectorFromSet(labels.Set{"good": "yes"})
	cfg.Excluded = labels.SelectorFromSet(labels.Set{"bad": "yes"})
	require.True(t, settle(t, existing.New(cfg), size(1)).Done)
	require.Equal(t, []string{"a2", "b2", "c1"}, s.members())
}

func TestWhatIsAwaited(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(*store)
		want cloud.PoolSpec
		says string
	}{
		"a node that is away for a moment": {func(s *store) { s.away("a1") }, size(1), "node a1 in zone a to be Ready and fit, or retired"},
		"more members than wanted": {func(s *store) {
			s.join("a2")
			s.away("a2")
		}, size(1), "node a2 in zone a to be Ready and fit, or retired"},
		"a member that is no good any more, and has a substitute": {func(s *store) {
			s.edit("a1", func(n *plan.Node) { n.Leaving = true })
			s.join("a2")
		}, size(1), "node a1 in zone a to be Ready and fit, or retired"},
		"nodes that could join": {func(s *store) {
			s.edit("a2", func(n *plan.Node) { n.Addresses = nil })
			s.edit("b2", func(n *plan.Node) { n.Cordoned = true })
			s.away("c2")
		}, size(2), "nodes that can be chosen: 3 of 6 are there"},
		"no zone at all": {func(s *store) {
			for name := range s.nodes {
				s.edit(name, func(n *plan.Node) { n.Addresses = nil })
			}
		}, size(1), "nodes that can be chosen: 0 of 0 are there"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(2)
			p := existing.New(s.config())
			settle(t, p, size(1))
			tt.edit(s)
			got := settle(t, p, tt.want)
			require.False(t, got.Done)
			require.Contains(t, got.WaitingFor, tt.says)
		})
	}
}

// away: NotReady, but not for long.
func (s *store) away(name string) {
	since := s.clock.Now().Add(-grace / 2)
	s.edit(name, func(n *plan.Node) { n.Ready, n.ReadyChanged = false, since })
}

func (s *store) join(name string) {
	s.edit(name, func(n *plan.Node) { n.Labels[v1alpha1.PoolLabel] = providertest.PoolName })
}

func TestWhoIsNamedForReplacement(t *testing.T) {
	s := newStore(2)
	p := existing.New(s.config())
	settle(t, p, size(1))
	want := cloud.PoolSpec{SizePerZone: 1, Replace: []string{"a1"}}
	require.True(t, settle(t, p, want).Done, "one that is Ready again, or was never away, stays")
	require.Equal(t, []string{"a1", "b1", "c1"}, s.members())

	s.Break("a1", "")
	for _, spare := range []string{"a2", "b2", "c2"} {
		s.edit(spare, func(n *plan.Node) { n.Cordoned = true })
	}
	require.Contains(t, settle(t, p, want).WaitingFor, "nodes that can be chosen: 2 of 3 are there")
	require.Contains(t, s.members(), "a1", "without a substitute it stays, as it may come back")

	s.edit("c2", func(n *plan.Node) { n.Cordoned = false })
	ensure(t, p, want)
	require.Equal(t, []string{"a1", "b1", "c1", "c2"}, s.members(), "the substitute comes first")
	require.True(t, settle(t, p, want).Done)
	require.Equal(t, []string{"b1", "c1", "c2"}, s.members(), "zone a lends its share")
}

func TestWhoIsRetiredDoesNotComeBackByTheSameCall(t *testing.T) {
	s := newStore(1)
	p := existing.New(s.config())
	settle(t, p, size(1))
	want := cloud.PoolSpec{SizePerZone: 1, Retire: []string{"a1", "no-node"}}
	require.Contains(t, settle(t, p, want).WaitingFor, "nodes that can be chosen: 2 of 3 are there")
	require.Equal(t, []string{"b1", "c1"}, s.members())
}

func TestAnotherNodeOfTheSameNameIsNotTaken(t *testing.T) {
	s := newStore(1)
	s.listed = func() {
		s.edit("a1", func(n *plan.Node) { n.UID = "another" })
	}
	_, err := existing.New(s.config()).Ensure(context.Background(), size(1))
	require.True(t, cloud.Is(err, cloud.Unavailable), "%v", err)
	require.True(t, apierrors.IsConflict(err), "the cause is kept: %v", err)
	require.Empty(t, s.members())
}

func TestErrorsOfKubernetesKeepTheirMeaning(t *testing.T) {
	for name, tt := range map[string]struct {
		err   error
		kind  cloud.Kind
		says  string
		retry time.Duration
	}{
		"forbidden":         {apierrors.NewForbidden(nodesResource, "a1", errors.New("no policy")), cloud.Unauthorized, "apply config/rbac", time.Minute},
		"unauthorized":      {apierrors.NewUnauthorized("token expired"), cloud.Unauthorized, "token expired", time.Minute},
		"too many requests": {apierrors.NewTooManyRequests("busy", 11), cloud.RateLimited, "busy", 11 * time.Second},
		"too many requests, without saying for how long": {apierrors.NewTooManyRequestsError("busy"), cloud.RateLimited, "busy", 0},
		"conflict":       {apierrors.NewConflict(nodesResource, "a1", errors.New("changed")), cloud.Unavailable, "changed", 0},
		"not found":      {apierrors.NewNotFound(nodesResource, "a1"), cloud.Unavailable, "not found", 0},
		"server timeout": {apierrors.NewServerTimeout(nodesResource, "list", 5), cloud.Unavailable, "list", 0},
		"anything else":  {errors.New("connection refused"), cloud.Unavailable, "connection refused", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(1)
			cfg := s.config()
			cfg.CountPods = func(context.Context, []string) (map[string]int, error) {
				return nil, fmt.Errorf("counting: %w", tt.err)
			}
			_, err := existing.New(cfg).Ensure(context.Background(), size(1))
			require.True(t, cloud.Is(err, tt.kind), "%v", err)
			require.ErrorContains(t, err, tt.says)
			require.Equal(t, tt.retry, cloud.RetryAfter(err))
			require.Empty(t, s.members(), "no node becomes the first without being known to be the cheapest")
		})
	}
}

func observe(t *testing.T, s *store) cloud.Pool {
	t.Helper()
	pool, err := existing.New(s.config()).Observe(context.Background(), cloud.PoolSpec{})
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
			worker("b1", "b", cloud.WorkerFailed, "it has been NotReady for 1m0s or longer"),
			worker("b2", "b", cloud.WorkerFailed, "it is cordoned"),
			worker("free", "", cloud.WorkerDeployed, ""),
			worker("windows", "w", cloud.WorkerFailed, "it announces no BGP address"),
		},
		Problems: []string{
			"node b1 in zone b: it has been NotReady for 1m0s or longer",
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

// slow lets only writes hang.
type slow struct {
	*store
	held chan struct{}
}

func (s slow) SetPool(ctx context.Context, node plan.Node, pool string) error {
	<-s.held
	return s.store.SetPool(ctx, node, pool)
}

func TestAWriteThatHangsMeetsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(1)
		cfg := s.config()
		held := make(chan struct{})
		cfg.Nodes = slow{s, held}
		p := existing.New(cfg)
		first := make(chan error)
		go func() {
			_, err := p.Ensure(t.Context(), size(1))
			first <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.Ensure(ctx, size(1))
		require.ErrorIs(t, err, context.DeadlineExceeded, "it waits for the lock")
		require.Equal(t, 1+1, s.Requests(), "listed and counted once: the other call got no further")
		_, err = p.Observe(t.Context(), cloud.PoolSpec{})
		require.NoError(t, err, "looking is still possible")
		close(held)
		require.NoError(t, <-first)
		require.Len(t, s.members(), 1, "the late write is the only one")
		require.True(t, settle(t, p, size(1)).Done)
	})
}

func TestContract(t *testing.T) {
	providertest.Run(t, func(t *testing.T) (providertest.World, func() cloud.Provider) {
		t.Helper()
		s := newStore(5)
		return s, func() cloud.Provider { return existing.New(s.config()) }
	})
}
