package calico

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/controllers/plan/reason"
)

// late is a cache that stands still for some lists.
type late struct {
	client.Reader
	before *frozen
	lists  int
}

func (l *late) List(ctx context.Context, out client.ObjectList, options ...client.ListOption) error {
	if l.lists--; l.lists >= 0 {
		return l.before.List(ctx, out, options...)
	}
	return l.Reader.List(ctx, out, options...)
}

// empty is a cache without nodes.
type empty struct{ client.Reader }

func (empty) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// exact is an apiserver that answers from etcd: its watch cache may lack what has just been written.
type exact struct{ client.Reader }

func (e exact) List(ctx context.Context, out client.ObjectList, options ...client.ListOption) error {
	return e.Reader.List(ctx, out, append(options, &client.ListOptions{Raw: &metav1.ListOptions{}})...)
}

// mute is an apiserver that does not answer.
type mute struct{ client.Reader }

func (mute) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("no answer")
}

func TestAWatchOfNodesThatStandsStillStopsEverythingButTheSafetyNet(t *testing.T) {
	b := newBench(t)
	reflector := func(n *corev1.Node) { n.Labels = map[string]string{scope.RoleLabel: "true"} }
	b.node(five, reflector)
	b.cfg.Live = exact{b.kube}
	b.run()
	still := func() { b.cfg.Nodes = &frozen{node: *b.liveNode(five)} }
	edit := func() {
		b.patch(b.liveNode(five), `{"metadata":{"annotations":{"edited":"`+b.clock.Now().String()+`"}}}`)
	}
	fine := func(why string) {
		t.Helper()
		require.Empty(t, b.observe().Problems, why)
	}
	stale := func(names, why string) {
		t.Helper()
		seen := b.observe() // no failure: see rollout.safetyNet, which goes first
		require.Len(t, seen.Problems, 1, why)
		require.Equal(t, reason.NodesStale, seen.Problems[0].Reason)
		require.Contains(t, seen.Problems[0].Message, names)
	}
	still()
	fine("nothing has changed")
	edit()
	fine("it was just looked at")
	b.clock.Move(nodesCheckPeriod)
	stale(five, "an older version")
	stale(five, "it does not end by itself")
	b.cfg.Nodes = b.kube
	stale(five, "it is not looked at all the time")
	b.clock.Move(nodesRecheckPeriod)
	fine("it is looked at soon until it goes on")

	still()
	edit()
	b.clock.Move(nodesCheckPeriod)
	b.cfg.Nodes = &late{Reader: b.kube, before: b.cfg.Nodes.(*frozen), lists: 3}
	fine("it is given a moment")

	still()
	require.NoError(t, b.kube.Delete(t.Context(), b.liveNode(five)))
	b.clock.Move(nodesCheckPeriod)
	stale(five, "one that is gone")
	if inEtcd {
		return // a node that is new there stands for none of Kubernetes, which is another problem
	}
	b.cfg.Nodes = b.kube
	b.clock.Move(nodesRecheckPeriod)
	fine("nothing is left of it")
	b.node("10.240.0.6", reflector)
	b.clock.Move(nodesCheckPeriod)
	b.cfg.Nodes = empty{}
	stale("10.240.0.6", "one that is new")

	b.cfg.Nodes, b.cfg.Live = b.kube, mute{}
	b.clock.Move(nodesRecheckPeriod)
	stale("10.240.0.6", "without an answer it is not over")
	b.cfg.Live = exact{b.kube}
	b.clock.Move(nodesRecheckPeriod)
	fine("with one it is")
	b.cfg.Live = mute{}
	b.clock.Move(nodesCheckPeriod)
	fine("a request may fail")
	b.clock.Move(nodesUnknownLimit)
	stale("no answer", "but not all for a minute")
}

// slow is an apiserver that takes five seconds for an answer.
type slow struct {
	client.Reader
	clock *clock
	asked int
}

func (s *slow) List(ctx context.Context, out client.ObjectList, options ...client.ListOption) error {
	s.asked++
	s.clock.Move(5 * time.Second)
	return s.Reader.List(ctx, out, options...)
}

func TestASlowAPIServerIsAskedSeldom(t *testing.T) {
	b := newBench(t).run()
	b.cfg.Nodes = empty{}
	s := &slow{Reader: empty{}, clock: b.clock}
	b.cfg.Live = s
	for range 100 {
		require.Empty(t, b.observe().Problems)
		b.clock.Move(time.Second)
	}
	require.Equal(t, 2, s.asked)
}

func TestACacheAheadOfTheListIsNotBehind(t *testing.T) {
	node := func(name, version string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
	}
	live := &metav1.PartialObjectMetadataList{
		ListMeta: metav1.ListMeta{ResourceVersion: "10"},
		Items:    []metav1.PartialObjectMetadata{{ObjectMeta: node("a", "5").ObjectMeta}},
	}
	require.Empty(t, behindOf(live, []corev1.Node{node("a", "11"), node("b", "12")}))
	require.Equal(t, "a", behindOf(live, []corev1.Node{node("b", "12")}))
	require.Equal(t, "b", behindOf(live, []corev1.Node{node("a", "5"), node("b", "9")}))
}
