//go:build linux

package e2e_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/cmd/rrpool/check"
	plancmd "github.com/rrpool/rrpool/cmd/rrpool/plan"
	reportcmd "github.com/rrpool/rrpool/cmd/rrpool/report"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/cli"
	"github.com/rrpool/rrpool/test/controlplane/intercept"
	"github.com/rrpool/rrpool/test/e2e/expect"
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
	before, nodes := expect.BGPConfiguration(t, s), nodeObjects(t, ctx, s)

	s.Lab.Checkpoint("onto nodes with workloads")
	require.NoError(t, s.CreatePool(ctx, cordoning))
	killed := killAfterEachWrite(t, ctx, s)
	expect.Reflected(t, s, "control-plane", "worker-1", "worker-2")
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
	expect.Meshed(t, s, before)
	requireUntouched(t, ctx, s, nodes)
	expect.NothingLost(t, s)
}

// The same where Calico has an etcd of its own. There the manager is killed when a write has arrived in etcd. The Nodes of Kubernetes and
// of Calico are in the end what they were.
func TestExistingNodesThereAndBackWithCalicosOwnEtcdKilledAfterEachWrite(t *testing.T) {
	lab.SkipLong(t)
	ctx, s := site.ForTest(t, site.Options{Nodes: withControlPlane(6), MeshPassword: "s3cret", Lab: lab.Options{Etcd: true}})
	before, nodes, own := expect.BGPConfiguration(t, s), nodeObjects(t, ctx, s), calicoNodes(t, ctx, s)

	s.Lab.Checkpoint("onto nodes with workloads")
	require.NoError(t, s.CreatePool(ctx, cordoning))
	killed := killAfterEachEtcdWrite(t, ctx, s)
	expect.Reflected(t, s, "control-plane", "worker-1", "worker-2")
	for _, key := range []string{"nodes/calico-control-plane", "nodes/calico-worker-1", "nodes/calico-worker-2", "bgppeers/rrpool-clients", "bgpconfigurations/default"} {
		require.NotZero(t, count(killed, key), key)
	}
	for name, node := range nodeObjects(t, ctx, s) {
		require.NotContains(t, node.Labels, v1alpha1.GroupVersion.Group+"/route-reflector", name)
	}

	setEnvironment(t, s)
	got := cli.Ask(t, plancmd.New, "plan", "--kubeconfig", s.Lab.Kubeconfig(), "--request-timeout", limit.String())
	require.Zero(t, got.Code, got.Out)
	require.Contains(t, got.Out, "√ There is nothing to do.")
	got = cli.Ask(t, check.New, "check", "--kubeconfig", s.Lab.Kubeconfig(), "--request-timeout", limit.String())
	require.Contains(t, got.Out, "uses an etcd of its own")
	require.Contains(t, got.Out, "the node-to-node mesh is off, by rrpool")
	got = cli.Ask(t, status.New, "status", "--kubeconfig", s.Lab.Kubeconfig(), "--request-timeout", limit.String())
	require.Contains(t, got.Out, "worker-2")
	archive := filepath.Join(t.TempDir(), "report.tar.gz")
	got = cli.Ask(t, reportcmd.New, "report", "--kubeconfig", s.Lab.Kubeconfig(), "--request-timeout", limit.String(), "--output-file", archive)
	require.NotContains(t, got.Err, "not in the report: objects/")
	kept, err := exec.CommandContext(ctx, "tar", "-xzOf", archive, "--wildcards", "*/objects/calico-nodes.yaml").Output()
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(kept), "routeReflectorClusterID"))

	s.Lab.Checkpoint("back to the mesh")
	require.NoError(t, s.SetMode(ctx, v1alpha1.ModeFullMesh))
	s.KillManager()
	killed = killAfterEachEtcdWrite(t, ctx, s)
	require.NotZero(t, count(killed, "nodes/calico-worker-2"))
	expect.Meshed(t, s, before)
	requireUntouched(t, ctx, s, nodes)
	require.Equal(t, own, calicoNodes(t, ctx, s))
	expect.NothingLost(t, s)
}

// calicoNodes are what rrpool writes of Calico's Nodes, by name.
func calicoNodes(t *testing.T, ctx context.Context, s *site.Site) map[string][3]any { //nolint:revive // t comes first in tests
	t.Helper()
	list, err := s.Lab.Calico().Nodes().List(ctx, options.ListOptions{})
	require.NoError(t, err)
	out := map[string][3]any{}
	for _, n := range list.Items {
		out[n.Name] = [3]any{n.Labels, len(n.Annotations), n.Spec}
	}
	return out
}

// killAfterEachEtcdWrite starts the manager, kills it when a write of it to Calico's etcd has arrived, and starts the next one at once, until
// one reports Ready. It gives what was written; requests for reports do not kill.
func killAfterEachEtcdWrite(t *testing.T, ctx context.Context, s *site.Site) (killed []string) { //nolint:revive // t comes first in tests
	t.Helper()
	ctx = within(t, ctx)
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Lab.ControlPlane().EtcdURL()}})
	require.NoError(t, err)
	defer etcd.Close() //nolint:errcheck // nothing to do about it
	const below = "/calico/resources/v3/projectcalico.org/"
	events := etcd.Watch(ctx, below, clientv3.WithPrefix())
	for {
		require.NoError(t, s.StartManager("--leader-elect=false"))
		for written := false; !written; {
			select {
			case answer := <-events:
				require.NoError(t, answer.Err())
				for _, event := range answer.Events {
					if key := strings.TrimPrefix(string(event.Kv.Key), below); !strings.HasPrefix(key, "caliconodestatuses/") {
						killed, written = append(killed, key), true
					}
				}
			case <-time.After(200 * time.Millisecond):
				o, err := s.Pool(ctx)
				if err == nil && isReady(o) {
					t.Logf("after %d writes: %s", len(killed), strings.Join(killed, ", "))
					return killed
				}
				require.NoError(t, ctx.Err(), "after %d writes; %s", len(killed), site.Describe(o))
			}
		}
		s.KillManager()
	}
}

// requireUntouched: each node has the labels, annotations and cordon that it had before.
func requireUntouched(t *testing.T, ctx context.Context, s *site.Site, before map[string]corev1.Node) { //nolint:revive // t comes first in tests
	t.Helper()
	after := nodeObjects(t, ctx, s)
	require.Len(t, after, len(before))
	for name, node := range after {
		require.Equal(t, before[name].Labels, node.Labels, name)
		require.Equal(t, before[name].Annotations, node.Annotations, name)
		require.Equal(t, before[name].Spec, node.Spec, name)
		for key := range node.Annotations {
			require.False(t, strings.HasPrefix(key, "rrpool.io/"), key)
		}
	}
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
