package existing_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/rrpool/rrpool/cloud"
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
	p := s.provider(s.config())
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
	p := s.provider(s.config())
	settle(t, p, size(1))
	s.counted = nil
	for _, name := range []string{"a1", "b1", "c1"} {
		s.edit(name, func(n *plan.Node) { n.Marked, n.RoleLabel, n.ClusterID, n.Cordoned = true, true, "244.0.0.1", true })
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
	require.True(t, settle(t, s.provider(cfg), size(1)).Done)
	require.Equal(t, []string{"a2", "b2", "c1"}, s.members())
}

func TestWhatIsAwaited(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(*store)
		want cloud.PoolSpec
		says []string
	}{
		"a node that is away for a moment": {func(s *store) { s.away("a1") }, size(1), []string{"node a1 in zone a to be Ready and fit, or retired"}},
		"more members than wanted": {func(s *store) {
			s.join("a2")
			s.away("a2")
		}, size(1), []string{"node a2 in zone a to be Ready and fit, or retired"}},
		"a member that is no good any more, and has a substitute": {func(s *store) {
			s.edit("a1", func(n *plan.Node) { n.Leaving = true })
			s.join("a2")
		}, size(1), []string{"node a1 in zone a to be Ready and fit, or retired"}},
		"nodes that could join": {func(s *store) {
			s.edit("a2", func(n *plan.Node) { n.Addresses = nil })
			s.edit("b2", func(n *plan.Node) { n.Cordoned = true })
			s.away("c2")
		}, size(2), []string{"nodes that can be chosen: 3 of 6 are there"}},
		"no zone at all": {func(s *store) {
			for name := range s.nodes {
				s.edit(name, func(n *plan.Node) { n.Addresses = nil })
			}
		}, size(1), []string{"nodes that can be chosen: 0 of 0 are there"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(2)
			p := s.provider(s.config())
			settle(t, p, size(1))
			tt.edit(s)
			got := settle(t, p, tt.want)
			require.False(t, got.Done)
			for _, text := range tt.says {
				require.Contains(t, got.WaitingFor, text)
			}
		})
	}
}

// away: NotReady, but not for long.
func (s *store) away(name string) {
	since := s.now().Add(-grace / 2)
	s.edit(name, func(n *plan.Node) { n.Ready, n.ReadyChanged = false, since })
}

func (s *store) join(name string) {
	s.edit(name, func(n *plan.Node) { n.Labels[v1alpha1.PoolLabel] = providertest.PoolName })
}

func TestWhoIsNamedForReplacement(t *testing.T) {
	s := newStore(2)
	p := s.provider(s.config())
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
	p := s.provider(s.config())
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
	_, err := s.provider(s.config()).Ensure(context.Background(), size(1))
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
			_, err := s.provider(cfg).Ensure(context.Background(), size(1))
			require.True(t, cloud.Is(err, tt.kind), "%v", err)
			require.ErrorContains(t, err, tt.says)
			require.Equal(t, tt.retry, cloud.RetryAfter(err))
			require.Empty(t, s.members(), "no node becomes the first without being known to be the cheapest")
		})
	}
}
