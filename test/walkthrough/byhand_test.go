//go:build linux

package walkthrough

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/e2e/site"
)

// backByHand is the way back without the manager.
const backByHand = "docs/back-by-hand.md"

// onIKS is what the quick start does, up to the migrated cluster.
const onIKS = `kubectl apply -k config/overlays/iks
printf %s "$apikey" >config/overlays/iks/secret/apikey
kubectl create -k config/overlays/iks/secret
kubectl --namespace rrpool-system rollout status deployment/rrpool-manager --timeout=5m
rrpool migrate --yes
`

// Without the manager, somebody who types the page is back on the mesh, with its password, and has lost nothing. Afterwards the
// manager can go there again. In another order the same lines lose packets, and the probes see it.
func TestBackByHand(t *testing.T) {
	skipWalk(t)
	blocks := blocksOf(t, backByHand, `ibmcloud ks worker-pool rm --cluster "$cluster" --worker-pool route-reflectors`)
	ctx, s := site.ForTest(t, site.Options{MeshPassword: "s3cret", Bare: true})
	before := bgpConfiguration(t, ctx, s)
	pretendFelix(t)
	runtime := s.StartRuntime()
	w := newWalker(t, s)
	w.walk([]Block{{Text: "apikey=" + site.APIKey + "\n"}, {Text: onIKS}})
	requireReflected(t, ctx, s, s.Reflectors()...)

	s.Lab.Checkpoint("by hand")
	runtime.Stop()
	w.walk(blocks)
	requireMeshed(t, ctx, s)
	require.Equal(t, before, bgpConfiguration(t, ctx, s))
	requireNothingLost(t, s)

	s.Lab.Checkpoint("there again")
	s.StartRuntime()
	w.walk([]Block{{Text: "kubectl --namespace rrpool-system scale deployment/rrpool-manager --replicas=2\nrrpool migrate --yes\n"}})
	requireReflected(t, ctx, s, s.Reflectors()...)
	requireNothingLost(t, s)

	s.Lab.Checkpoint("role first")
	w.walk(roleFirst(t, blocks))
	requireMeshed(t, ctx, s)
	require.ErrorContains(t, s.Lab.Report().Phase("role first").Only(s.Workers...).ZeroLoss(), "lost", "the wrong order is seen")
}

// A cluster that never had settings for BGP has none afterwards.
func TestBackByHandWithoutBGPConfiguration(t *testing.T) {
	skipWalk(t)
	blocks := blocksOf(t, backByHand, `ibmcloud ks worker-pool rm --cluster "$cluster" --worker-pool route-reflectors`)
	ctx, s := site.ForTest(t, site.Options{Bare: true})
	require.Nil(t, bgpConfiguration(t, ctx, s))
	pretendFelix(t)
	runtime := s.StartRuntime()
	w := newWalker(t, s)
	w.walk([]Block{{Text: "apikey=" + site.APIKey + "\n"}, {Text: onIKS}})
	runtime.Stop()
	w.walk(blocks)
	requireMeshed(t, ctx, s)
	require.Nil(t, bgpConfiguration(t, ctx, s))
	requireNothingLost(t, s)
}

// roleFirst takes the role from the reflectors before the mesh is switched on.
func roleFirst(t *testing.T, blocks []Block) []Block {
	t.Helper()
	at := func(words string) int {
		i := slices.IndexFunc(blocks, func(b Block) bool { return strings.Contains(b.Text, words) })
		require.GreaterOrEqual(t, i, 0, "no block of the page has %s", words)
		return i
	}
	mesh, role := at(`"nodeToNodeMeshEnabled":true'`), at("RouteReflectorClusterID")
	require.Less(t, mesh, role)
	return slices.Concat(blocks[:mesh], blocks[role:role+1], blocks[mesh:role], blocks[role+1:])
}

// pretendFelix is a process of that name. calicoctl node status says nothing of BIRD, which is real here, where there is no Felix,
// which is not.
func pretendFelix(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, "sleep", "infinity")
	cmd.Args[0] = "calico-felix"
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
	})
}
