//go:build linux

// Package expect holds the cluster of a site to what it should be: what the datastore and each BIRD have, not what the manager says.
package expect

import (
	"slices"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

// limit is how long confd may take to render what was written last. It is less than the five minutes after which the manager looks again
// at rest.
const limit = 3 * time.Minute

// BGPConfiguration returns the default one, nil where there is none.
func BGPConfiguration(t *testing.T, s *site.Site) *apiv3.BGPConfiguration {
	t.Helper()
	list, err := s.Lab.Calico().BGPConfigurations().List(t.Context(), options.ListOptions{})
	require.NoError(t, err)
	for i := range list.Items {
		if list.Items[i].Name == "default" {
			return &list.Items[i]
		}
	}
	return nil
}

// Reflected requires that the mesh is off, and that all nodes peer with these reflectors and with no others.
func Reflected(t *testing.T, s *site.Site, reflectors ...string) {
	t.Helper()
	config := BGPConfiguration(t, s)
	require.NotNil(t, config)
	require.False(t, *config.Spec.NodeToNodeMeshEnabled)
	current, err := s.CurrentReflectors(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, reflectors, current)
	require.GreaterOrEqual(t, len(reflectors), 3)
	statuses, err := s.Lab.Calico().CalicoNodeStatus().List(t.Context(), options.ListOptions{})
	require.NoError(t, err)
	require.Len(t, statuses.Items, len(reflectors), "one CalicoNodeStatus a reflector, whatever the cluster's size")
	sessions(t, s, func(c *assert.CollectT, node string, all []lab.Session) {
		want := len(reflectors)
		if slices.Contains(reflectors, node) {
			want = len(s.Lab.Nodes()) - 1
		}
		require.Len(c, all, want, node)
		for _, session := range all {
			require.True(c, session.Established() && !session.Mesh(), "%s: %+v", node, session)
		}
	})
}

// Meshed requires that every node peers with every other, that nothing of rrpool's is left, and the BGPConfiguration as it was before.
func Meshed(t *testing.T, s *site.Site, before *apiv3.BGPConfiguration) {
	t.Helper()
	after := BGPConfiguration(t, s)
	require.Equal(t, before == nil, after == nil, "the BGPConfiguration is absent if it was absent")
	if before != nil {
		require.Equal(t, []any{before.Spec, before.Labels, before.Annotations}, []any{after.Spec, after.Labels, after.Annotations})
	}
	current, err := s.CurrentReflectors(t.Context())
	require.NoError(t, err)
	require.Empty(t, current)
	peers, err := s.Lab.Calico().BGPPeers().List(t.Context(), options.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, peers.Items)
	statuses, err := s.Lab.Calico().CalicoNodeStatus().List(t.Context(), options.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, statuses.Items)
	sessions(t, s, func(c *assert.CollectT, node string, all []lab.Session) {
		require.Len(c, all, len(s.Lab.Nodes())-1, node)
		for _, session := range all {
			require.True(c, session.Established() && session.Mesh(), "%s: %+v", node, session)
		}
	})
}

// sessions waits until a check of each node's sessions passes.
func sessions(t *testing.T, s *site.Site, check func(*assert.CollectT, string, []lab.Session)) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		for _, node := range s.Lab.Nodes() {
			all, err := s.Lab.Sessions(node)
			require.NoError(c, err)
			check(c, node, all)
		}
	}, limit, 200*time.Millisecond)
}

// NothingLost requires that every pair of workers was probed, and lost no more than the machine explains.
func NothingLost(t *testing.T, s *site.Site) {
	t.Helper()
	report := s.Lab.Report().Only(s.Workers...)
	require.Len(t, report.Pairs, len(s.Workers)*(len(s.Workers)-1), "the reflectors' own pods included")
	sent, lost := report.Totals()
	t.Logf("%d pairs of pods, %d packets sent, %d lost", len(report.Pairs), sent, lost)
	require.NoError(t, report.ZeroLoss())
}
