//go:build linux

package walkthrough

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/test/e2e/expect"
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

// Without the manager, a user who types the page is back on the mesh, with its password, and has lost nothing. Afterwards the
// manager can go there again. In another order the same lines lose packets, and the probes see it.
func TestBackByHand(t *testing.T) {
	skipWalk(t)
	blocks := blocksOf(t, backByHand, `ibmcloud ks worker-pool rm --cluster "$cluster" --worker-pool route-reflectors`, "calicoctl get bgpconfiguration default --output yaml")
	ctx, s := site.ForTest(t, site.Options{MeshPassword: "s3cret", Bare: true})
	before := expect.BGPConfiguration(t, s)
	pretendFelix(t)
	runtime := s.StartRuntime()
	w := newWalker(t, s)
	w.walk([]Block{{Text: "apikey=" + site.APIKey + "\n"}, {Text: onIKS}})
	expect.Reflected(t, s, s.Reflectors()...)

	s.Lab.Checkpoint("by hand")
	runtime.Stop()
	require.NoError(t, s.Lab.Cordon(ctx, s.Workers[0]), "by a person")
	w.walk([]Block{{Text: "kubectl cordon " + s.Workers[1] + "\nkubectl annotate node " + s.Workers[1] + " rrpool.io/cordoned=2026-05-01T12:00:00Z\n"}})
	w.walk(blocks)
	require.Equal(t, []string{s.Workers[0]}, cordoned(t, ctx, s))
	expect.Meshed(t, s, before)
	expect.NothingLost(t, s)

	// A word in a block is wrong.
	for right, wrong := range map[string]string{
		"--replicas=": "--replica=", "calicoctl get": "calicoctl gte", "bgppeers.crd.": "bgppers.crd.",
		`"nodeToNodeMeshEnabled":true'`: `"nodeToNodeMeshEnable":true'`, "kind: CalicoNodeStatus": "kind: CalicoNodeState",
	} {
		w := newWalker(t, s)
		b := blockWith(t, blocks, right)
		// The words that stand where an earlier block would have said something.
		early := Block{Text: blocks[0].Text + "password= restart= note= proven=yes\n"}
		require.NoError(t, w.typed(t.Context(), early))
		b.Text = strings.Replace(b.Text, right, wrong, 1)
		require.Error(t, w.typed(t.Context(), b), wrong)
	}
	// Where the BGPConfiguration cannot be read, that is not taken for one that is not there.
	step := blockWith(t, blocks, meshStep)
	require.Error(t, newWalker(t, s).typed(t.Context(), Block{Text: "export KUBECONFIG=/nonexistent\n" + step.Text}))
	step.Text = strings.Replace(step.Text, "bgpconfigurations.crd.", "bgpconfigs.crd.", 1)
	require.Error(t, newWalker(t, s).typed(t.Context(), step))
	s.Lab.Checkpoint("there again")
	s.StartRuntime()
	w.walk([]Block{{Text: "kubectl --namespace rrpool-system scale deployment/rrpool-manager --replicas=2\nrrpool migrate --yes\n"}})
	expect.Reflected(t, s, s.Reflectors()...)
	expect.NothingLost(t, s)

	// Whoever leaves out the wait for the mesh, or for whom it found no node, changes no reflector and no BGPPeer.
	for _, words := range []string{roleStep, "delete\n", "added=", "finalizers"} {
		step := blockWith(t, blocks, words)
		step.Text = blocks[0].Text + "note=\n" + step.Text
		require.Error(t, newWalker(t, s).typed(ctx, step), words)
	}
	wait := blockWith(t, blocks, "proven=yes")
	wait.Text = blocks[0].Text + "bgp=\n" + wait.Text
	require.Error(t, newWalker(t, s).typed(ctx, wait), "no node is no proof")
	expect.Reflected(t, s, s.Reflectors()...)
	s.Lab.Checkpoint("role first")
	// The role goes before the mesh is switched on. What looks, waits and asks for proof is left out.
	const careless = "proven=yes bgp=\nspeakers() { :; }\nask() { :; }\nawait() { sleep 5; }\n"
	w.walk([]Block{
		blocks[0],
		{Text: "kubectl --namespace rrpool-system scale deployment/rrpool-manager --replicas=0\n" +
			"kubectl --namespace rrpool-system wait --for=delete pod --selector app.kubernetes.io/name=rrpool --timeout=60s\n" + careless},
		blockWith(t, blocks, roleStep),
	})
	newWalker(t, s).walk([]Block{blockWith(t, blocks, meshStep)}) // where a runbook page leads
	require.NoError(t, s.Lab.WaitMesh(ctx))
	// The mesh is on, with the password that it had.
	was, is := before.Spec, expect.BGPConfiguration(t, s).Spec
	require.True(t, *is.NodeToNodeMeshEnabled)
	require.NotNil(t, was.NodeMeshPassword)
	require.Equal(t, was.NodeMeshPassword, is.NodeMeshPassword)
	require.ErrorContains(t, s.Lab.Report().Phase("role first").Only(s.Workers...).ZeroLoss(), "lost", "the wrong order is seen")
}

// cordoned are the nodes that take no new pods, or say that rrpool saw to that.
func cordoned(t *testing.T, ctx context.Context, s *site.Site) []string { //nolint:revive // t comes first in tests
	t.Helper()
	nodes, err := s.Lab.Kube().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	var names []string
	for i := range nodes.Items {
		if n := &nodes.Items[i]; n.Spec.Unschedulable || n.Annotations["rrpool.io/cordoned"] != "" {
			names = append(names, n.Name)
		}
	}
	return names
}

// Words by which the blocks of two steps are found.
const (
	meshStep = `"nodeToNodeMeshEnabled":true'`
	roleStep = `"projectcalico.org/RouteReflectorClusterID":null`
)

func blockWith(t *testing.T, blocks []Block, words string) Block {
	t.Helper()
	i := slices.IndexFunc(blocks, func(b Block) bool { return strings.Contains(b.Text, words) })
	require.GreaterOrEqual(t, i, 0, "no block of the page has %s", words)
	return blocks[i]
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
