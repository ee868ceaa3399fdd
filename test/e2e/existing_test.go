//go:build linux

package e2e_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/controlplane/intercept"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

// A cluster that no cloud provides moves onto nodes that run workloads, and back, while the manager is killed after each single write,
// before it learns that the write was done. The first reflector is the control plane's node, which runs no pods, so no pod loses a packet,
// and afterwards no node says that it ever happened: cordons are undone, but for a person's.
func TestExistingNodesThereAndBackKilledAfterEachWrite(t *testing.T) {
	lab.SkipLong(t)
	ctx, s := site.ForTest(t, site.Options{Nodes: withControlPlane(6), MeshPassword: "s3cret"})
	require.NoError(t, s.Lab.Cordon(ctx, "worker-5"))
	before, nodes := bgpConfiguration(t, ctx, s), nodeObjects(t, ctx, s)

	s.Lab.Checkpoint("onto nodes with workloads")
	require.NoError(t, s.CreatePool(ctx, cordoning))
	killed := killAfterEachWrite(t, ctx, s)
	requireReflected(t, ctx, s, "control-plane", "worker-1", "worker-2")
	for node, patches := range map[string]int{"control-plane": 4, "worker-1": 4, "worker-2": 4} {
		require.Equal(t, patches, count(killed, "patch nodes "+node), "chosen, cordoned, promoted, uncordoned: %s", node)
	}
	for _, write := range []string{
		"create bgppeers", "update bgppeers rrpool-clients", "update bgpconfigurations default", "create caliconodestatuses",
	} {
		require.NotZero(t, count(killed, write), write)
	}

	s.Lab.Checkpoint("back to the mesh")
	require.NoError(t, s.SetMode(ctx, v1alpha1.ModeFullMesh))
	s.KillManager()
	killed = killAfterEachWrite(t, ctx, s)
	for _, write := range []string{
		"update bgpconfigurations default", "patch nodes control-plane", "patch nodes worker-1", "patch nodes worker-2",
		"delete bgppeers rrpool.control-plane.worker-1.v4", "delete bgppeers rrpool-clients",
	} {
		require.NotZero(t, count(killed, write), write)
	}
	requireMeshed(t, ctx, s, before)
	// Each node has the labels, annotations and cordon that it had before.
	after := nodeObjects(t, ctx, s)
	require.Len(t, after, len(nodes))
	for name, node := range after {
		require.Equal(t, nodes[name].Labels, node.Labels, name)
		require.Equal(t, nodes[name].Annotations, node.Annotations, name)
		require.Equal(t, nodes[name].Spec, node.Spec, name)
		for key := range node.Annotations {
			require.False(t, strings.HasPrefix(key, "rrpool.io/"), key)
		}
	}
	report := s.Lab.Report().Only(s.Workers...)
	require.Len(t, report.Pairs, len(s.Workers)*(len(s.Workers)-1), "the reflectors' own pods included")
	require.NoError(t, report.ZeroLoss())
}

// killAfterEachWrite starts the manager, kills it at each write and starts the next one at once, until one reports
// Ready. It gives the writes. A request to a node for a new report, which is a PUT of its CalicoNodeStatus, kills
// once a node: a manager that is never given the time to see the report asks for ever, and does nothing else.
func killAfterEachWrite(t *testing.T, ctx context.Context, s *site.Site) []string { //nolint:revive // t comes first in tests
	t.Helper()
	ctx = within(t, ctx)
	config := s.Lab.ControlPlane().ServiceAccountConfig(site.Namespace, site.ServiceAccount)
	between, cut, asked := intercept.New(), make(chan bool, 1), map[string]bool{}
	between.Rules(func(r intercept.Request) intercept.Verdict {
		again := asked[r.Name] && r.Kind() == "update caliconodestatuses"
		asked[r.Name] = asked[r.Name] || r.Kind() == "update caliconodestatuses"
		kills := r.Work() && !strings.HasSuffix(r.Resource, "/status") && !again
		return intercept.Verdict{Cut: kills, Executed: kills}
	})
	next := func() {
		line, err := between.Open("manager", config, nil, func() { cut <- true })
		require.NoError(t, err)
		t.Cleanup(line.Close)
		s.Apiserver = line.Config()
		require.NoError(t, s.StartManager("--leader-elect=false"))
	}
	for next(); ; {
		select {
		case <-cut:
			s.KillManager()
			next()
		case <-time.After(200 * time.Millisecond):
			writes := writesOf(between)
			o, err := s.Pool(ctx)
			if err == nil && isReady(o) {
				t.Logf("after %d writes: %s", len(writes), strings.Join(writes, ", "))
				return writes
			}
			require.NoError(t, ctx.Err(), "after %d writes, the last ones %s; %s",
				len(writes), strings.Join(writes[max(0, len(writes)-5):], ", "), site.Describe(o))
		}
	}
}

// writesOf gives the writes that took effect, but for those to the pool's status.
func writesOf(between *intercept.Interceptor) (writes []string) {
	for _, r := range between.Work() {
		if r.Executed() && !strings.HasSuffix(r.Resource, "/status") {
			writes = append(writes, r.Kind()+" "+r.Name)
		}
	}
	return writes
}

// count counts the writes that begin so.
func count(writes []string, begin string) (n int) {
	for _, w := range writes {
		if strings.HasPrefix(w, begin) {
			n++
		}
	}
	return n
}

// withControlPlane describes a cluster of three zones: a control plane that runs no pods, and workers with a pod each.
func withControlPlane(workers int) []lab.NodeSpec {
	return append([]lab.NodeSpec{{
		Name: "control-plane", Zone: "zone-1", Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""},
		Taints: []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}},
	}}, lab.Workers(workers)...)
}

// cordoning keeps new pods off a node while its role changes, and shortens waits that are nothing but time.
func cordoning(o *v1alpha1.RouteReflectorPool) {
	o.Spec.Provider.ExistingNodes.Promotion = v1alpha1.PromotionCordon
	o.Spec.Rollout.NotReadyGrace = metav1.Duration{Duration: 5 * time.Second}
	o.Spec.Rollout.RemovalDelay = metav1.Duration{Duration: 10 * time.Second}
}

// requireReflected checks the cluster itself: who reflects, and that every worker peers with them only.
func requireReflected(t *testing.T, ctx context.Context, s *site.Site, reflectors ...string) { //nolint:revive // t comes first in tests
	t.Helper()
	config := bgpConfiguration(t, ctx, s)
	require.NotNil(t, config)
	require.False(t, *config.Spec.NodeToNodeMeshEnabled)
	current, err := s.CurrentReflectors(ctx)
	require.NoError(t, err)
	require.Equal(t, reflectors, current)
	statuses, err := s.Lab.Calico().CalicoNodeStatus().List(ctx, options.ListOptions{})
	require.NoError(t, err)
	require.Len(t, statuses.Items, len(reflectors))
	soon(t, func(c *assert.CollectT) {
		for _, name := range s.Lab.Nodes() {
			sessions, err := s.Lab.Sessions(name)
			require.NoError(c, err)
			want := len(reflectors)
			if slices.Contains(reflectors, name) {
				want = len(s.Lab.Nodes()) - 1
			}
			require.Len(c, sessions, want, "%s peers with the reflectors only: %+v", name, sessions)
			for _, session := range sessions {
				require.True(c, session.Established() && !session.Mesh(), "%s: %+v", name, session)
			}
		}
	})
}

// nodeObjects are all nodes, by name.
func nodeObjects(t *testing.T, ctx context.Context, s *site.Site) map[string]corev1.Node { //nolint:revive // t comes first in tests
	t.Helper()
	list, err := s.Lab.Kube().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	nodes := map[string]corev1.Node{}
	for i := range list.Items {
		nodes[list.Items[i].Name] = list.Items[i]
	}
	return nodes
}
