package calico

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"testing"
	"time"

	libapiv3 "github.com/projectcalico/calico/libcalico-go/lib/apis/v3"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// Whatever rrpool does to a node is one write, undone by another, which leaves nothing.
func TestANodeIsChangedInOneWriteEach(t *testing.T) {
	const noon = "2026-05-01T12:00:00Z"
	acts := func(action plan.Action) func(*bench, plan.Node) (bool, error) {
		return func(b *bench, _ plan.Node) (bool, error) { return b.Apply(b.t.Context(), scope, action) }
	}
	joins := func(pool string) func(*bench, plan.Node) (bool, error) {
		return func(b *bench, n plan.Node) (bool, error) {
			before := len(b.liveNode(five).Labels)
			err := b.Nodes(scope).SetPool(b.t.Context(), n, pool)
			return before != len(b.liveNode(five).Labels), err
		}
	}
	for name, tc := range map[string]struct {
		do, undo            func(*bench, plan.Node) (bool, error)
		labels, annotations map[string]string
		seen                func(plan.Node) bool
	}{
		"the role": {
			acts(plan.SetReflector{Node: five, ClusterID: "244.0.0.1"}), acts(plan.ClearReflector{Node: five}),
			map[string]string{scope.RoleLabel: "true"},
			map[string]string{clusterIDAnnotation: "244.0.0.1", sinceAnnotation: noon},
			func(n plan.Node) bool { return n.HasRoleLabel && n.Marked && n.ClusterID == "244.0.0.1" },
		},
		"a rack": {
			acts(plan.SetRack{Node: five, Rack: "1"}), acts(plan.SetRack{Node: five}),
			map[string]string{plan.RackLabel: "1"},
			nil, func(n plan.Node) bool { return n.Rack == "1" },
		},
		"a cordon": {
			acts(plan.CordonNode{Node: five}), acts(plan.UncordonNode{Node: five}),
			nil,
			map[string]string{cordonedAnnotation: noon},
			func(n plan.Node) bool { return n.Cordoned && n.CordonedByUs && n.CordonMark },
		},
		"the pool": {
			joins("existing-nodes"), joins(""),
			map[string]string{v1alpha1.PoolLabel: "existing-nodes"},
			nil,
			func(n plan.Node) bool { return n.Labels[v1alpha1.PoolLabel] == "existing-nodes" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.node(five, func(n *corev1.Node) { n.Labels = map[string]string{"kept": "yes"} })
			n := b.run().observe().Nodes[0]
			for _, side := range []struct {
				do                  func(*bench, plan.Node) (bool, error)
				labels, annotations map[string]string
			}{{tc.do, tc.labels, tc.annotations}, {tc.undo, nil, nil}} {
				writes := b.writes(func() {
					for _, want := range []bool{true, false} {
						did, err := side.do(b, n)
						require.NoError(t, err)
						require.Equal(t, want, did)
					}
				})
				require.Equal(t, []string{"patch nodes/" + five}, writes)
				live := b.liveNode(five)
				require.Equal(t, labels.Merge(labels.Set{"kept": "yes"}, side.labels), labels.Set(live.Labels))
				require.Equal(t, labels.Merge(labels.Set{ipv4Annotation: five + "/24"}, side.annotations), labels.Set(live.Annotations))
				seen := b.observe().Nodes[0]
				require.Equal(t, side.labels != nil || side.annotations != nil, tc.seen(seen))
				require.Equal(t, live.Spec.Unschedulable, seen.Cordoned)
			}
		})
	}
}

// frozen is a cache that has stopped following.
type frozen struct {
	client.Reader
	node corev1.Node
}

func (f *frozen) Get(_ context.Context, _ client.ObjectKey, out client.Object, _ ...client.GetOption) error {
	f.node.DeepCopyInto(out.(*corev1.Node))
	return nil
}

func (f *frozen) List(_ context.Context, out client.ObjectList, _ ...client.ListOption) error {
	out.(*corev1.NodeList).Items = []corev1.Node{f.node}
	return nil
}

func TestWhatWasWrittenIsSeenBeforeTheCacheHasIt(t *testing.T) {
	b := newBench(t)
	b.cfg.Nodes = &frozen{node: *b.node(five, nil)}
	b.run()
	set := plan.SetReflector{Node: five, ClusterID: "244.0.0.1"}
	b.apply(set, true)
	require.True(t, b.observe().Nodes[0].Marked)
	require.Empty(t, b.writes(func() { b.apply(set, false) }))
}

// deaf is a client that writes, and does not hear the answer.
type deaf struct{ client.Writer }

func (d *deaf) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	return errors.Join(d.Writer.Patch(ctx, o, p, opts...), io.ErrUnexpectedEOF)
}

func TestAWriteWhoseAnswerWasLostIsNotRepeated(t *testing.T) {
	notInEtcd(t, "the role is read there before it is written")
	b := newBench(t)
	b.cfg.Nodes = &frozen{node: *b.node(five, nil)}
	b.cfg.Live = b.kube
	b.run()
	hearing := b.cfg.Writer
	b.cfg.Writer = &deaf{hearing}
	set := plan.SetReflector{Node: five, ClusterID: "244.0.0.1"}
	_, err := b.Apply(t.Context(), scope, set)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	b.cfg.Writer = hearing
	b.clock.Move(time.Minute)
	require.True(t, b.observe().Nodes[0].Marked, "the cache does not show it")
	require.Empty(t, b.writes(func() { b.apply(set, false) }))
	for name := range b.recent.doubted.Range {
		t.Errorf("%s is still doubted", name)
	}
	b.observe()
}

func TestNothingHasToBeTakenFromANodeThatIsGone(t *testing.T) {
	b := newBench(t)
	for _, action := range []plan.Action{plan.ClearReflector{Node: five}, plan.SetRack{Node: five, Rack: "1"}, plan.SetRack{Node: five}, plan.UncordonNode{Node: five}} {
		b.apply(action, false)
	}
	require.NoError(t, b.Nodes(scope).SetPool(t.Context(), plan.Node{Name: five}, ""))
	require.True(t, apierrors.IsNotFound(b.Nodes(scope).SetPool(t.Context(), plan.Node{Name: five}, "existing-nodes")))
	_, err := b.Apply(t.Context(), scope, plan.SetReflector{Node: five, ClusterID: "244.0.0.1"})
	require.True(t, apierrors.IsNotFound(err), "got %v", err)
}

func TestANodeIsMappedAsCalicoReadsIt(t *testing.T) {
	v4, v6 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	since := metav1.NewTime(time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))
	notes := func(pairs ...string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Annotations = map[string]string{}
			for i := 0; i < len(pairs); i += 2 {
				n.Annotations[pairs[i]] = pairs[i+1]
			}
		}
	}
	addressed := func(v4, v6 string) func(*corev1.Node) { return notes(ipv4Annotation, v4, ipv6Annotation, v6) }
	slot, reflector := map[string]string{scope.RoleLabel: "rack-a-1", plan.RackLabel: "a"}, map[string]string{scope.ZoneLabel: "z1", scope.RoleLabel: ""}
	master, oldZone := map[string]string{"node-role.kubernetes.io/master": ""}, map[string]string{oldZoneLabel: "z2"}
	ready := func(n *corev1.Node, is corev1.ConditionStatus, since metav1.Time) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: is, LastTransitionTime: since}}
	}
	for name, c := range map[string]struct {
		node func(*corev1.Node)
		want plan.Node
	}{
		"dual stack with everything": {func(n *corev1.Node) {
			notes(ipv6Annotation, "fd00::1/64", ipv4Annotation, "10.0.0.1/24", asnAnnotation, "1.10",
				clusterIDAnnotation, "244.0.0.1", sinceAnnotation, "2026-05-01T00:00:00Z")(n)
			n.UID, n.CreationTimestamp, n.Labels = "u", since, reflector
			n.Spec = corev1.NodeSpec{Unschedulable: true, ProviderID: "ibm://x"}
			ready(n, corev1.ConditionTrue, since)
		}, plan.Node{
			UID: "u", Labels: reflector, ProviderID: "ibm://x", Zone: "z1", Created: since.Time, Ready: true, ReadyChanged: since.Time, Cordoned: true,
			Addresses: []netip.Addr{v4, v6}, Subnets: cidrs("10.0.0.0/24", "fd00::/64"), ASN: 65546, HasRoleLabel: true, ClusterID: "244.0.0.1", Marked: true, RoleSince: since.Time,
		}},
		"in a slot, and in a rack": {func(n *corev1.Node) { n.Labels = slot }, plan.Node{Labels: slot, HasRoleLabel: true, Slot: "rack-a-1", Rack: "a"}},
		"the old zone label, not Ready, going": {func(n *corev1.Node) {
			notes(ipv4Annotation, "10.0.0.1")(n)
			n.DeletionTimestamp, n.Labels = &since, oldZone
			ready(n, corev1.ConditionUnknown, metav1.Time{})
		}, plan.Node{Labels: oldZone, Zone: "z2", Deleting: true, Addresses: []netip.Addr{v4}}},
		"just made, so neither Ready nor dead": {
			func(n *corev1.Node) { n.CreationTimestamp = since }, plan.Node{Created: since.Time, ReadyChanged: since.Time},
		},
		"an address that is none":           {addressed("10.0.0.300/24", "10.0.0.1/24"), plan.Node{Unread: []string{ipv4Annotation + `="10.0.0.300/24"`, ipv6Annotation + `="10.0.0.1/24"`}}},
		"addresses that Calico cannot read": {addressed("10.0.0.1/33", "fe80::1%eth0/64"), plan.Node{Unread: []string{ipv4Annotation + `="10.0.0.1/33"`, ipv6Annotation + `="fe80::1%eth0/64"`}}},
		"a zone without a prefix length":    {addressed("::ffff:10.0.0.1", "fe80::1%eth0"), plan.Node{Addresses: []netip.Addr{v4}, Unread: []string{ipv6Annotation + `="fe80::1%eth0"`}}},
		"IPv6 only":                         {addressed("", "fd00::1/64"), plan.Node{Addresses: []netip.Addr{v6}, Subnets: cidrs("fd00::/64")}},
		"subnets of one address":            {addressed("10.0.0.1/32", "fd00::1/128"), plan.Node{Addresses: []netip.Addr{v4, v6}}},
		"an AS number that is none":         {notes(asnAnnotation, "many\x1b[2J"), plan.Node{Unread: []string{asnAnnotation + `="many\x1b[2J"`}}},
		"a cluster ID that is none":         {notes(clusterIDAnnotation, "demo1"), plan.Node{Unread: []string{clusterIDAnnotation + `="demo1"`}}},
		"a range of host bits":              {notes(clusterIDAnnotation, "10.0.0.1/24"), plan.Node{Unread: []string{clusterIDAnnotation + `="10.0.0.1/24"`}}},
		"labels of calicoctl's":             {notes(labelsAnnotation, `{"rack":"1"}`), plan.Node{Labels: map[string]string{"rack": "1"}}},
		"labels that are none":              {notes(labelsAnnotation, `{"rack":1}`), plan.Node{Unread: []string{labelsAnnotation + `="{\"rack\":1}"`}}},
		"cordoned by us, on the control plane, and shut down": {func(n *corev1.Node) {
			notes(cordonedAnnotation, "2026-05-01T00:00:00Z")(n)
			n.Labels = master
			n.Spec = corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: "x"}, {Key: "node.cloudprovider.kubernetes.io/shutdown"}}}
		}, plan.Node{
			Labels: master, Cordoned: true, CordonedByUs: true, CordonMark: true, ControlPlane: true, Leaving: true,
			Taints: []string{"x=:", "node.cloudprovider.kubernetes.io/shutdown=:"},
		}},
		"taints of a node that stays": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "DeletionCandidateOfClusterAutoscaler"}, {Key: corev1.TaintNodeNotReady}, {Key: corev1.TaintNodeUnschedulable}}
		}, plan.Node{Taints: []string{"DeletionCandidateOfClusterAutoscaler=:", "node.kubernetes.io/not-ready=:", "node.kubernetes.io/unschedulable=:"}}},
		"a person has undone our cordon": {notes(cordonedAnnotation, ""), plan.Node{CordonMark: true}},
		"a spoiled mark is a mark":       {notes(sinceAnnotation, "yesterday"), plan.Node{Marked: true}},
	} {
		t.Run(name, func(t *testing.T) {
			node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
			c.node(&node)
			c.want.Name = "n"
			if c.want.Taints == nil {
				c.want.Taints = []string{} // read, and there are none
			}
			var inKubernetes *join
			require.Equal(t, c.want, nodeOf(inKubernetes.joined(&node, scope), scope))
		})
	}
}

// Selectors see what calicoctl has written beside the Node's own labels, which win. What rrpool writes it finds on the Node alone.
func TestLabelsOfCalicoctlAreLabels(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Labels:      map[string]string{"rack": "here", "a": "1"},
		Annotations: map[string]string{labelsAnnotation: fmt.Sprintf(`{"rack":"there","b":"2",%q:"true",%q:"1"}`, scope.RoleLabel, plan.RackLabel)},
	}}
	var inKubernetes *join
	got := nodeOf(inKubernetes.joined(node, scope), scope)
	require.Equal(t, map[string]string{"rack": "here", "a": "1", "b": "2"}, got.Labels)
	require.False(t, got.HasRoleLabel)
	require.Len(t, node.Labels, 2, "the cache's stays as it is")
}

func TestBlocksBelongToTheNodesThatAnnounceThem(t *testing.T) {
	b := newBench(t)
	b.node(five, nil)
	b.node("10.240.0.6", nil)
	b.affinity("a", libapiv3.BlockAffinitySpec{Node: five, CIDR: "172.30.2.0/26", State: "confirmed", Type: "host"})
	b.affinity("b", libapiv3.BlockAffinitySpec{Node: five, CIDR: "172.30.1.0/26", State: "confirmed"})
	b.affinity("c", libapiv3.BlockAffinitySpec{Node: five, CIDR: "172.30.3.0/26", State: "pending", Type: "host"})
	b.affinity("d", libapiv3.BlockAffinitySpec{Node: five, CIDR: "172.30.4.0/26", State: "pendingDeletion", Type: "host"})
	b.affinity("e", libapiv3.BlockAffinitySpec{Node: "virtual", CIDR: "172.30.5.0/26", State: "confirmed", Type: "virtual"})
	b.run()
	nodes := b.observe().Nodes
	require.Equal(t, []netip.Prefix{netip.MustParsePrefix("172.30.1.0/26"), netip.MustParsePrefix("172.30.2.0/26")}, nodes[0].Blocks)
	require.Empty(t, nodes[1].Blocks)
	b.affinity("f", libapiv3.BlockAffinitySpec{Node: "10.240.0.6", CIDR: "172.30.6.0/26", State: "confirmed", Type: "host"})
	b.await("the new block", func(c plan.Cluster) bool { return len(c.Nodes[1].Blocks) == 1 })
}

func TestASeatIsTheValueOfTheRoleLabel(t *testing.T) {
	for name, tc := range map[string]struct {
		// found is the label's value when the role is given.
		found, slot, written string
		change               bool
	}{
		"no slot is that of Single":           {"true", "", "true", false},
		"the slot of Single by name":          {"true", topology.SlotSingle, "true", false},
		"a label without a value":             {"", "", "true", true},
		"a value that a person has changed":   {"yes", "", "true", true},
		"from Single to a slot":               {"true", "quorum-us-south-1-1", "quorum-us-south-1-1", true},
		"the slot that the node has":          {"spine-2", "spine-2", "spine-2", false},
		"from one slot to another":            {"rack-a-1", "rack-a-2", "rack-a-2", true},
		"from a slot to Single, not by name":  {"rack-a-1", "", "true", true},
		"a slot that a person has taken away": {"", "rack-a-1", "rack-a-1", true},
	} {
		t.Run(name, func(t *testing.T) {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Labels:      map[string]string{scope.RoleLabel: tc.found},
				Annotations: map[string]string{clusterIDAnnotation: "244.0.0.1", sinceAnnotation: "2026-05-01T00:00:00Z"},
			}}
			patch := rolePatch(n, scope, plan.SetReflector{ClusterID: "244.0.0.1", Slot: tc.slot}, "now")
			require.Equal(t, tc.change, patch != nil)
			if patch != nil {
				require.Equal(t, map[string]any{scope.RoleLabel: tc.written}, patch.labels)
			}
			patch = rolePatch(n, scope, plan.SetReflector{ClusterID: "244.0.0.2", Slot: tc.slot}, "now")
			require.Equal(t, "244.0.0.2", patch.annotations[clusterIDAnnotation], "another cluster ID")
		})
	}
}

func TestALabelWithoutARackGoesAsWell(t *testing.T) {
	b := newBench(t)
	b.node(five, func(n *corev1.Node) { n.Labels = map[string]string{plan.RackLabel: ""} })
	b.run()
	b.apply(plan.SetRack{Node: five}, true)
	require.NotContains(t, b.liveNode(five).Labels, plan.RackLabel)
}

const five = "10.240.0.5"

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
		b.cfg.Nodes = &frozen{node: *b.node(five, nil)}
		b.patch(b.liveNode(five), `{"spec":{"unschedulable":true}}`)
		_, err := b.Apply(t.Context(), scope, cordon)
		require.True(t, IsConflict(err), "got %v", err)
		require.NotContains(t, b.liveNode(five).Annotations, cordonedAnnotation)
	})
	t.Run("after they have undone ours", func(t *testing.T) {
		b := newBench(t)
		b.node(five, nil)
		b.run()
		b.apply(cordon, true)
		b.patch(b.liveNode(five), `{"spec":{"unschedulable":null}}`)
		seen := b.observe().Nodes[0]
		require.True(t, seen.CordonMark && !seen.Cordoned && !seen.CordonedByUs)
		require.Equal(t, []string{"patch nodes/" + five}, b.writes(func() { b.apply(uncordon, true) }))
		b.patch(b.liveNode(five), `{"spec":{"unschedulable":true}}`)
		seen = b.observe().Nodes[0]
		require.True(t, seen.Cordoned && !seen.CordonedByUs)
		b.apply(uncordon, false)
		require.True(t, b.liveNode(five).Spec.Unschedulable)
	})
	t.Run("between our look and our write", func(t *testing.T) {
		b := newBench(t)
		b.node(five, nil)
		b.apply(cordon, true)
		b.cfg.Nodes = &frozen{node: *b.liveNode(five)}
		b.patch(b.liveNode(five), `{"spec":{"unschedulable":null}}`)
		b.patch(b.liveNode(five), `{"spec":{"unschedulable":true}}`)
		_, err := b.Apply(t.Context(), scope, uncordon)
		require.True(t, IsConflict(err), "got %v", err)
		require.True(t, b.liveNode(five).Spec.Unschedulable)
	})
}

// Whatever we write to a node takes a stale mark with it.
func TestAStaleMarkGoesWithTheNextWrite(t *testing.T) {
	notInEtcd(t, "the role is on another object")
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
				require.Equal(t, kept, metav1.HasAnnotation(b.liveNode(five).ObjectMeta, cordonedAnnotation), "unschedulable: %t", unschedulable)
				b.clean()
			}
		})
	}
}

func TestAnotherMachineOfTheNameIsAConflict(t *testing.T) {
	notInEtcd(t, "Calico's Node stays")
	for name, cached := range map[string]bool{"as the cache has it": false, "as the apiserver has it": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			old := b.node(five, nil)
			require.NoError(t, b.kube.Delete(t.Context(), old.DeepCopy()))
			b.node(five, nil)
			if cached {
				b.cfg.Nodes = &frozen{node: *old}
				_, err := b.Apply(t.Context(), scope, plan.SetReflector{Node: five, ClusterID: "244.0.0.1"})
				require.True(t, IsConflict(err), "got %v", err)
			}
			err := b.Nodes(scope).SetPool(t.Context(), plan.Node{Name: five, UID: string(old.UID)}, "existing-nodes")
			require.True(t, IsConflict(err), "got %v", err)
			require.Empty(t, b.liveNode(five).Labels)
			b.clean()
		})
	}
}

// Another spec.bgp.nodeLabel takes no role away: the BGPPeers still select by the one before.
func TestReflectorsKeepTheirRoleWhenTheSpecNamesAnotherLabel(t *testing.T) {
	old := map[string]string{"old": "rack-a-1"}
	nodes := []plan.Node{{Marked: true, Labels: old}, {Labels: old}, {Marked: true}}
	keepFormerRoles(nodes, []plan.Peer{{Owned: true, NodeSelector: "has(old)"}, {NodeSelector: "!has(old)"}}, "new")
	require.False(t, nodes[0].HasRoleLabel, "no BGPPeer of ours has clients by it")
	keepFormerRoles(nodes, []plan.Peer{{Owned: true, NodeSelector: `!has(old) && zone == "a"`}}, "new")
	require.True(t, nodes[0].HasRoleLabel && nodes[0].Relabel && nodes[0].Slot == "rack-a-1")
	require.False(t, nodes[1].HasRoleLabel || nodes[2].HasRoleLabel, "a label that rrpool did not set, and none")
}
