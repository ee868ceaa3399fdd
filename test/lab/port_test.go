//go:build linux

package lab_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/test/lab"
)

// With listenPort confd adds the port to the names of sessions of BGPPeers, and Calico's reporter makes the peers of routes from these names. What
// the adapter makes of that is the address of the node, in both families: each block, from each reflector.
func TestRoutesAreReadWhereBGPListensOnAnotherPort(t *testing.T) {
	l := start(t, lab.Options{ListenPort: 178, DualStack: true}, append(lab.Workers(3), lab.Dedicated(3)...)...)
	makeReflectors(t, l)
	createPeer(t, l, nil)
	require.NoError(t, l.WaitReflected(t.Context(), reflectors...))
	awaitPaths(t, l)
	sessions, err := l.Sessions("worker-0")
	require.NoError(t, err)
	require.Condition(t, func() bool {
		for _, s := range sessions {
			if strings.HasPrefix(s.Name, "Node_") && strings.HasSuffix(s.Name, "_port_178") {
				return true
			}
		}
		return false
	}, "%v", sessions)

	cluster, err := client.New(l.AdminConfig(), client.Options{Scheme: scheme.Scheme})
	require.NoError(t, err)
	adapter, err := calico.New(calico.Config{RestConfig: l.AdminConfig(), Nodes: cluster, Writer: cluster, Log: logr.Discard()})
	require.NoError(t, err)
	go func() { assert.NoError(t, adapter.Start(t.Context())) }()
	require.NoError(t, adapter.WaitSynced(t.Context()))
	_, err = adapter.Watch(t.Context(), []plan.StatusRequest{{Node: "worker-0", Period: time.Second, Routes: true}})
	require.NoError(t, err)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		seen, err := adapter.Observe(t.Context(), plan.DatastoreOptions{RoleLabel: roleLabel})
		require.NoError(c, err)
		st := seen.Statuses["worker-0"]
		require.Empty(c, st.Unread)
		require.Empty(c, st.UnreadRoutes)
		require.True(c, st.HasRoutes)
		from := map[netip.Prefix]map[netip.Addr]bool{}
		for _, r := range st.Routes {
			if from[r.Prefix] == nil {
				from[r.Prefix] = map[netip.Addr]bool{}
			}
			from[r.Prefix][r.From] = true
		}
		for _, to := range []string{"worker-1", "worker-2"} {
			for _, block := range l.Families(l.Block(to)) {
				for _, n := range seen.Nodes {
					if n.ClusterID == "" {
						continue
					}
					for _, a := range n.Addresses {
						require.True(c, a.Is4() != block.Addr().Is4() || from[block][a], "%s from %s of %s: %v", block, a, n.Name, from[block])
					}
				}
			}
		}
	}, patience, time.Second)
	object := getStatusNamed(t, l, "rrpool-worker-0")
	texts := map[bool]int{}
	for _, r := range append(object.Status.Routes.RoutesV4, object.Status.Routes.RoutesV6...) {
		if r.LearnedFrom.SourceType == apiv3.RouteSourceTypeBGPPeer {
			texts[strings.HasSuffix(r.LearnedFrom.PeerIP, ".port.178") || strings.HasSuffix(r.LearnedFrom.PeerIP, ":port:178")]++
		}
	}
	require.NotZero(t, texts[true], "else the test proves nothing: %v", object.Status.Routes)
	require.Zero(t, texts[false])
}
