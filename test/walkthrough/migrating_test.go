//go:build linux

package walkthrough

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

// byHand is a reflection that somebody has made without rrpool: the role, the BGPPeers, and when their sessions are up,
// no mesh.
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
