package calico

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

const five = "10.240.0.5"

// person is somebody with kubectl.
func (b *bench) person(patch string) {
	b.t.Helper()
	n := b.liveNode(five)
	require.NoError(b.t, b.kube.Patch(b.t.Context(), n, client.RawPatch(types.MergePatchType, []byte(patch))))
}

func TestACordonOfOursIsMarkedAndUndoneInOneWriteEach(t *testing.T) {
	b := newBench(t)
	b.node(five, nil)
	b.run()
	cordon, uncordon := plan.CordonNode{Node: five}, plan.UncordonNode{Node: five}
	require.Equal(t, []string{"patch nodes/" + five}, b.writes(func() { b.apply(cordon, true) }))
	live := b.liveNode(five)
	require.True(t, live.Spec.Unschedulable)
	require.Equal(t, "2026-05-01T12:00:00Z", live.Annotations["rrpool.io/cordoned"])
	seen := b.observe().Nodes[0]
	require.True(t, seen.Cordoned && seen.CordonedByUs && seen.CordonMark)
	require.Empty(t, b.writes(func() { b.apply(cordon, false) }))

	require.Equal(t, []string{"patch nodes/" + five}, b.writes(func() { b.apply(uncordon, true) }))
	live = b.liveNode(five)
	require.False(t, live.Spec.Unschedulable)
	require.Equal(t, map[string]string{ipv4Annotation: five + "/24"}, live.Annotations)
	require.Empty(t, b.writes(func() { b.apply(uncordon, false) }))
	b.apply(plan.UncordonNode{Node: "10.240.0.99"}, false)
}

func TestACordonOfAPersonIsTheirs(t *testing.T) {
	cordon, uncordon := plan.CordonNode{Node: five}, plan.UncordonNode{Node: five}
	t.Run("before us", func(t *testing.T) {
		b := newBench(t)
		b.node(five, func(n *corev1.Node) { n.Spec.Unschedulable = true })
		require.Empty(t, b.writes(func() {
			b.apply(cordon, false)
			b.apply(uncordon, false)
		}))
		require.True(t, b.liveNode(five).Spec.Unschedulable)
	})
	t.Run("in the same moment", func(t *testing.T) {
		b := newBench(t)
		b.nodes = &frozen{node: *b.node(five, nil)}
		b.person(`{"spec":{"unschedulable":true}}`)
		_, err := b.Apply(t.Context(), scope, cordon)
		require.True(t, IsConflict(err), "got %v", err)
		require.NotContains(t, b.liveNode(five).Annotations, cordonedAnnotation)
	})
	t.Run("after they have undone ours", func(t *testing.T) {
		b := newBench(t)
		b.node(five, nil)
		b.run()
		b.apply(cordon, true)
		b.person(`{"spec":{"unschedulable":null}}`)
		seen := b.observe().Nodes[0]
		require.True(t, seen.CordonMark && !seen.Cordoned && !seen.CordonedByUs)
		require.Equal(t, []string{"patch nodes/" + five}, b.writes(func() { b.apply(uncordon, true) }))
		b.person(`{"spec":{"unschedulable":true}}`)
		seen = b.observe().Nodes[0]
		require.True(t, seen.Cordoned && !seen.CordonedByUs)
		b.apply(uncordon, false)
		require.True(t, b.liveNode(five).Spec.Unschedulable)
	})
	t.Run("between our look and our write", func(t *testing.T) {
		b := newBench(t)
		b.node(five, nil)
		b.apply(cordon, true)
		b.nodes = &frozen{node: *b.liveNode(five)}
		b.person(`{"spec":{"unschedulable":null}}`)
		b.person(`{"spec":{"unschedulable":true}}`)
		_, err := b.Apply(t.Context(), scope, uncordon)
		require.True(t, IsConflict(err), "got %v", err)
		require.True(t, b.liveNode(five).Spec.Unschedulable)
	})
}

// Whatever we write to a node takes a stale mark with it.
func TestAStaleMarkGoesWithTheNextWrite(t *testing.T) {
	for name, write := range map[string]func(*bench){
		"the role": func(b *bench) { b.apply(plan.SetReflector{Node: five, ClusterID: "244.0.0.1"}, true) },
		"the pool": func(b *bench) {
			require.NoError(b.t, b.Nodes(scope).SetPool(b.t.Context(), plan.Node{Name: five, UID: string(b.liveNode(five).UID)}, "p"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			for unschedulable, kept := range map[bool]bool{false: false, true: true} {
				b := newBench(t)
				b.node(five, func(n *corev1.Node) {
					n.Annotations[cordonedAnnotation], n.Spec.Unschedulable = rfc3339(b.clock.Now()), unschedulable
				})
				require.Equal(t, []string{"patch nodes/" + five}, b.writes(func() { write(b) }))
				require.Equal(t, kept, has(b.liveNode(five).Annotations, cordonedAnnotation), "unschedulable: %t", unschedulable)
				b.clean()
			}
		})
	}
}

func TestANodeJoinsAndLeavesThePoolInOneWriteEach(t *testing.T) {
	b := newBench(t)
	b.node(five, func(n *corev1.Node) { n.Labels = map[string]string{"kept": "yes"} })
	nodes := b.Nodes(scope)
	listed := func() plan.Node {
		t.Helper()
		out, err := nodes.List(t.Context())
		require.NoError(t, err)
		require.Len(t, out, 1)
		return out[0]
	}
	n := listed()
	require.Equal(t, []string{"patch nodes/" + five}, b.writes(func() { require.NoError(t, nodes.SetPool(t.Context(), n, "existing-nodes")) }))
	require.Equal(t, map[string]string{"kept": "yes", v1alpha1.PoolLabel: "existing-nodes"}, b.liveNode(five).Labels)
	require.Equal(t, "existing-nodes", listed().Labels[v1alpha1.PoolLabel])
	require.Empty(t, b.writes(func() { require.NoError(t, nodes.SetPool(t.Context(), n, "existing-nodes")) }))
	require.Len(t, b.writes(func() { require.NoError(t, nodes.SetPool(t.Context(), n, "")) }), 1)
	require.Equal(t, map[string]string{"kept": "yes"}, b.liveNode(five).Labels)
	require.Empty(t, b.writes(func() { require.NoError(t, nodes.SetPool(t.Context(), n, "")) }))
	require.NoError(t, nodes.SetPool(t.Context(), plan.Node{Name: "10.240.0.99"}, ""), "a node that is gone has left")
	require.Error(t, nodes.SetPool(t.Context(), plan.Node{Name: "10.240.0.99"}, "existing-nodes"))
}

func TestAnotherMachineOfTheNameDoesNotJoin(t *testing.T) {
	for name, cached := range map[string]bool{"as the cache has it": false, "as the apiserver has it": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			old := b.node(five, nil)
			require.NoError(t, b.kube.Delete(t.Context(), old.DeepCopy()))
			b.node(five, nil)
			if cached {
				b.nodes = &frozen{node: *old}
			}
			err := b.Nodes(scope).SetPool(t.Context(), plan.Node{Name: five, UID: string(old.UID)}, "existing-nodes")
			require.True(t, IsConflict(err), "got %v", err)
			require.NotContains(t, b.liveNode(five).Labels, v1alpha1.PoolLabel)
			b.clean()
		})
	}
}

func TestTheLastWriteIsListed(t *testing.T) {
	b := newBench(t)
	b.nodes = &frozen{node: *b.node(five, nil)}
	nodes := b.Nodes(scope)
	before, err := nodes.List(t.Context())
	require.NoError(t, err)
	b.clock.Move(time.Second)
	require.NoError(t, nodes.SetPool(t.Context(), before[0], "existing-nodes"))
	after, err := nodes.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, "existing-nodes", after[0].Labels[v1alpha1.PoolLabel], "before the cache has it")
}
