//go:build linux

package walkthrough

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/e2e/site"
)

// soon waits until a check passes: what was written a moment ago, confd has yet to render. It is much less than the five minutes in which
// the manager looks again at rest.
func soon(t *testing.T, check func(c *assert.CollectT)) {
	t.Helper()
	require.EventuallyWithT(t, check, time.Minute, 200*time.Millisecond)
}

// requireReflected checks the cluster itself: every node that is no reflector peers with the reflectors and nobody else.
func requireReflected(t *testing.T, ctx context.Context, s *site.Site, reflectors ...string) { //nolint:revive // t comes first in tests
	t.Helper()
	config, err := s.Lab.Calico().BGPConfigurations().Get(ctx, "default", options.GetOptions{})
	require.NoError(t, err)
	require.False(t, *config.Spec.NodeToNodeMeshEnabled)
	holders, err := s.Holders(ctx)
	require.NoError(t, err)
	require.ElementsMatch(t, reflectors, holders)
	require.GreaterOrEqual(t, len(reflectors), 3)
	soon(t, func(c *assert.CollectT) {
		for _, name := range s.Lab.Nodes() {
			if slices.Contains(reflectors, name) {
				continue
			}
			sessions, err := s.Lab.Sessions(name)
			require.NoError(c, err)
			require.Len(c, sessions, len(reflectors), name)
			for _, session := range sessions {
				require.True(c, session.Established() && !session.Mesh(), "%s: %+v", name, session)
			}
		}
	})
}

// requireMeshed checks that nobody reflects, and that every node peers with every other and nobody else.
func requireMeshed(t *testing.T, ctx context.Context, s *site.Site) { //nolint:revive // t comes first in tests
	t.Helper()
	holders, err := s.Holders(ctx)
	require.NoError(t, err)
	require.Empty(t, holders)
	peers, err := s.Lab.Calico().BGPPeers().List(ctx, options.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, peers.Items)
	statuses, err := s.Lab.Calico().CalicoNodeStatus().List(ctx, options.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, statuses.Items)
	soon(t, func(c *assert.CollectT) {
		for _, name := range s.Lab.Nodes() {
			sessions, err := s.Lab.Sessions(name)
			require.NoError(c, err)
			require.Len(c, sessions, len(s.Lab.Nodes())-1, name)
			for _, session := range sessions {
				require.True(c, session.Established() && session.Mesh(), "%s: %+v", name, session)
			}
		}
	})
}
