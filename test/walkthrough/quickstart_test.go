//go:build linux

package walkthrough

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/test/e2e/expect"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/iksserver"
	"github.com/rrpool/rrpool/test/lab"
)

// notRunOnIKS are the blocks of the quick start that the lab has no program for.
var notRunOnIKS = []string{
	"make build", `docker buildx build --platform linux/amd64 --tag "$image" --push .`,
	`id=$(ibmcloud ks cluster get --cluster "$cluster" --output json | jq --raw-output .id)`, "ibmcloud iam service-id-delete rrpool",
}

// A newcomer who types the page goes from a cluster that has never heard of rrpool to route reflectors, back, and away, and loses nothing.
func TestQuickStartOnVPC(t *testing.T) {
	skipWalk(t)
	ctx, s := site.ForTest(t, site.Options{Generation: iksserver.VPC, Bare: true})
	// What IKS itself puts into the namespace default.
	_, err := s.Lab.Kube().CoreV1().Secrets("default").Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "all-icr-io", Namespace: "default"},
		Type:       corev1.SecretTypeDockerConfigJson,
		Data:       map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{}}`)},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	runtime := s.StartRuntime()
	before, begun := expect.BGPConfiguration(t, s), time.Now()
	w := newWalker(t, s)
	// As jq leaves it, with an end of line.
	apikey := filepath.Join(w.dir, "repository", "config", "overlays", "iks", "secret", "apikey")
	require.NoError(t, os.WriteFile(apikey, []byte(site.APIKey+"\n"), 0o600))

	w.after["rollout status"] = func() {
		require.NoError(t, runtime.Err())
		require.Equal(t, []string{"default"}, s.Cloud.Pools(site.ClusterID), "nothing happens until there is a RouteReflectorPool")
		s.Lab.Checkpoint("there")
	}
	w.after["rrpool migrate"] = func() {
		expect.Reflected(t, s, s.Reflectors()...)
		requireDeployedManagerDidIt(t, s, begun)
		s.Lab.Checkpoint("and back")
	}
	w.after["rrpool rollback"] = func() {
		expect.Meshed(t, s, before)
		require.Equal(t, []string{"default", site.PoolName}, s.Cloud.Pools(site.ClusterID), "the worker pool stays")
	}
	w.after["kubectl delete -k mycluster"] = func() {
		require.Equal(t, []string{"default"}, s.Cloud.Pools(site.ClusterID))
		_, err := s.Lab.Kube().CoreV1().Namespaces().Get(ctx, site.Namespace, metav1.GetOptions{})
		require.True(t, apierrors.IsNotFound(err), "%v", err)
		_, err = s.Pool(ctx)
		require.Error(t, err, "the CRD is gone")
	}
	w.walk(blocksOf(t, "docs/quickstart-iks.md", notRunOnIKS...))
	expect.NothingLost(t, s)
}

// requireDeployedManagerDidIt checks in the apiserver's log who wrote to Calico: the service account of the Deployment, by the token
// that its pods were given, and no one else; and that it never lacked a right.
func requireDeployedManagerDidIt(t *testing.T, s *site.Site, since time.Time) {
	t.Helper()
	writes, err := s.Lab.ControlPlane().Writes("", since)
	require.NoError(t, err)
	by := map[string]int{}
	for _, write := range writes {
		if write.Resource == "bgppeers" || write.Resource == "bgpconfigurations" {
			by[write.User]++
		}
		if write.User == site.User() {
			require.NotEqual(t, http.StatusForbidden, write.Code, "%s", write)
		}
	}
	require.NotEmpty(t, by)
	require.Len(t, by, 1, "%v", by)
	require.Contains(t, by, site.User())
}

const controlPlane = "node-role.kubernetes.io/control-plane"

// Where no cloud is, nodes with workloads become reflectors and stop. The first is the control plane's, which runs no pods, so nothing is lost
// by anyone.
func TestExistingNodes(t *testing.T) {
	skipWalk(t)
	nodes := append([]lab.NodeSpec{{Name: "control-plane", Zone: "zone-1", Labels: map[string]string{controlPlane: ""}, Taints: controlPlaneTaint()}}, lab.Workers(6)...)
	_, s := site.ForTest(t, site.Options{Nodes: nodes, Bare: true})
	before, runtime := expect.BGPConfiguration(t, s), s.StartRuntime()
	w := newWalker(t, s)
	w.after["rrpool migrate"] = func() {
		require.NoError(t, runtime.Err())
		expect.Reflected(t, s, "control-plane", "worker-1", "worker-2")
	}
	w.after["rrpool rollback"] = func() { expect.Meshed(t, s, before) }
	w.walk(blocksOf(t, "docs/existing-nodes.md"))
	expect.NothingLost(t, s)
}

func controlPlaneTaint() []corev1.Taint {
	return []corev1.Taint{{Key: controlPlane, Effect: corev1.TaintEffectNoSchedule}}
}

// counting are the functions by which pages count sessions.
var counting = regexp.MustCompile(`(?s)needed\(\) \{.*?\n\}\nestablished\(\) \{.*?\n\}\n`)

// The lab speaks IPv4 only. Here the same lines count what a cluster with IPv6 would answer.
func TestSessionsOverBothFamiliesAreCounted(t *testing.T) {
	const (
		v4    = "a v4=10.0.0.1/24 v6=\nb v4=10.0.0.2/24 v6=\nc v4=10.0.0.3/24 v6="
		v6    = "a v4= v6=fd00::1/64\nb v4= v6=fd00::2/64"
		dual  = "a v4=10.0.0.1/24 v6=fd00::1/64\nb v4=10.0.0.2/24 v6=fd00::2/64\nc v4=10.0.0.3/24 v6=fd00::3/64"
		mixed = "a v4=10.0.0.1/24 v6=fd00::1/64\nb v4=10.0.0.2/24 v6=\nc v4= v6=fd00::3/64\nwithout v4= v6="
	)
	for _, page := range []string{"back-by-hand.md", "migrating.md"} {
		source, err := os.ReadFile("../../docs/" + page)
		require.NoError(t, err)
		lines := counting.FindString(string(source))
		require.NotEmpty(t, lines, page)
		for name, tc := range map[string]struct{ bgp, node, needed string }{
			"IPv4":                         {v4, "a", "2"},
			"IPv6":                         {v6, "b", "1"},
			"both":                         {dual, "a", "4"},
			"both, others one":             {mixed, "a", "2"},
			"one, others both":             {mixed, "b", "1"},
			"a node that does not speak":   {mixed, "without", "0"},
			"one that is left out":         {strings.Replace(v4, "\nc v4=10.0.0.3/24 v6=", "", 1), "a", "1"},
			"a name that begins another's": {v4 + "\naa v4=10.0.0.4/24 v6=", "a", "3"},
		} {
			t.Run(page+"/"+name, func(t *testing.T) {
				out, err := walk(t, "statuses=s\nbgp='"+tc.bgp+"'\n"+lines, "needed "+tc.node)
				require.NoError(t, err)
				require.Equal(t, tc.needed+"\n", out)
			})
		}
		out, err := walk(t, "statuses=s\nkubectl() { [[ $5 == *peersV4*peersV6* ]] && printf 'Established\\nConnect\\nEstablished\\n'; }\n"+lines, "established a")
		require.NoError(t, err)
		require.Equal(t, "2\n", out, page)
	}
}

// byHand is a reflection made without rrpool: the role, the BGPPeers, and when their sessions are up, no mesh.
const (
	byHand = `for node in infra-0 infra-1 infra-2; do
  kubectl patch node "$node" --type=merge -p '{"metadata":{"labels":{"example.com/route-reflector":"yes"},
    "annotations":{"projectcalico.org/RouteReflectorClusterID":"224.0.0.1"}}}'
done
calicoctl apply -f - <<'YAML'
apiVersion: projectcalico.org/v3
kind: BGPPeer
metadata: {name: clients}
spec: {nodeSelector: "!has(example.com/route-reflector)", peerSelector: "has(example.com/route-reflector)"}
---
apiVersion: projectcalico.org/v3
kind: BGPPeer
metadata: {name: reflectors}
spec: {nodeSelector: "has(example.com/route-reflector)", peerSelector: "has(example.com/route-reflector)"}
YAML
`
	offTheMesh = `calicoctl apply -f - <<'YAML'
apiVersion: projectcalico.org/v3
kind: BGPConfiguration
metadata: {name: default}
spec: {nodeToNodeMeshEnabled: false}
YAML
`
	// refused: as long as that is there, rrpool touches nothing, and says why.
	refused = `kubectl apply -f - <<'YAML'
apiVersion: rrpool.io/v1alpha1
kind: RouteReflectorPool
metadata: {name: default}
spec: {mode: RouteReflector}
YAML
kubectl wait rrp/default --for=jsonpath='{.status.step.name}'=UnsupportedCluster --timeout=5m
kubectl get rrp default --output jsonpath='{.status.conditions[?(@.type=="Degraded")].reason}' | grep -x ForeignReflector
kubectl delete rrp default --timeout=5m
`
)

// Who has route reflectors of their own and types docs/migrating.md has rrpool's on the same nodes, and has lost nothing.
func TestMigratingFromReflectorsMadeByHand(t *testing.T) {
	skipWalk(t)
	reflectors := []string{"infra-0", "infra-1", "infra-2"}
	nodes := lab.Workers(5)
	for i, name := range reflectors {
		nodes = append(nodes, lab.NodeSpec{Name: name, Zone: []string{"zone-1", "zone-2", "zone-3"}[i]})
	}
	ctx, s := site.ForTest(t, site.Options{Nodes: nodes})
	w := newWalker(t, s)
	w.walk([]Block{{Text: byHand}})
	require.NoError(t, s.Lab.WaitReflected(ctx, reflectors...))
	w.walk([]Block{{Text: offTheMesh}})
	require.NoError(t, s.StartManager())
	w.walk([]Block{{Text: refused}})

	s.Lab.Checkpoint("the page")
	w.walk(blocksOf(t, "docs/migrating.md"))
	expect.Reflected(t, s, reflectors...)
	expect.NothingLost(t, s)
}
