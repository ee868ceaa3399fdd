//go:build linux

package walkthrough

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

// requireSeen: what was asked for was shown, and the files are there.
func (o *operator) requireSeen() {
	o.Helper()
	o.requireSaid("√ Ready: 3 route reflectors serve 6 nodes", "Sessions   24 of 24 Established", "USD/MONTH", "Conditions")
	picture, err := os.ReadFile(filepath.Join(o.dir, "repository", "topology.dot"))
	require.NoError(o, err)
	for _, name := range o.site.Reflectors() {
		require.Contains(o, string(picture), name)
	}
	report := o.report()
	require.Contains(o, report, "index.txt")
	require.Contains(o, report["snapshot.yaml"], "Steady")
	for _, pod := range o.pods() {
		o.requireSaid("[pod/" + pod.Name + "/manager]")
		require.NotEmpty(o, report["logs/"+pod.Name+"/manager.log"])
	}
	for name, content := range report {
		require.NotContains(o, content, site.APIKey, name)
		require.NotContains(o, content, "s3cret", name)
	}
}

// report is what the archive holds.
func (o *operator) report() map[string]string {
	o.Helper()
	folder := o.TempDir()
	out, err := exec.CommandContext(o.ctx, "bash", "-c", "tar -xzf "+filepath.Join(o.dir, "repository", "rrpool-report-*.tar.gz")+" --strip-components=1 -C "+folder).CombinedOutput()
	require.NoError(o, err, "%s", out)
	files := map[string]string{}
	require.NoError(o, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, folder+"/")] = string(content)
		return err
	}))
	return files
}

// pods are the manager's.
func (o *operator) pods() []corev1.Pod {
	o.Helper()
	list, err := o.site.Lab.Kube().CoreV1().Pods(site.Namespace).List(o.ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=rrpool"})
	require.NoError(o, err)
	return list.Items
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
	requireReflected(t, ctx, s, reflectors...)
	requireNothingLost(t, s)
}
