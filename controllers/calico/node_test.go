package calico

import (
	"context"
	"net/netip"
	"testing"
	"time"

	libapiv3 "github.com/projectcalico/calico/libcalico-go/lib/apis/v3"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/controllers/plan"
)

func TestARoleIsGivenAndTakenInOneWriteEach(t *testing.T) {
	b := newBench(t)
	b.node("10.240.0.5", func(n *corev1.Node) { n.Labels = map[string]string{"kept": "yes"} })
	b.run()
	set := plan.SetReflector{Node: "10.240.0.5", ClusterID: "244.0.0.1"}
	require.Equal(t, []string{"patch nodes/10.240.0.5"}, b.writes(func() { b.apply(set, true) }))
	live := b.liveNode("10.240.0.5")
	require.Equal(t, map[string]string{"kept": "yes", scope.RoleLabel: "true"}, live.Labels)
	require.Equal(t, "244.0.0.1", live.Annotations[clusterIDAnnotation])
	seen := b.observe().Nodes[0]
	require.True(t, seen.RoleLabel && seen.Marked && seen.RoleSince.Equal(b.clock.Now()))
	require.Equal(t, "244.0.0.1", seen.ClusterID)

	b.clock.Move(time.Hour)
	require.Empty(t, b.writes(func() { b.apply(set, false) }))
	set.ClusterID = "244.0.0.2"
	require.Len(t, b.writes(func() { b.apply(set, true) }), 1)

	clearIt := plan.ClearReflector{Node: "10.240.0.5"}
	require.Equal(t, []string{"patch nodes/10.240.0.5"}, b.writes(func() { b.apply(clearIt, true) }))
	live = b.liveNode("10.240.0.5")
	require.Equal(t, map[string]string{"kept": "yes"}, live.Labels)
	require.Equal(t, map[string]string{ipv4Annotation: "10.240.0.5/24"}, live.Annotations)
	require.Empty(t, b.writes(func() { b.apply(clearIt, false) }))
	b.apply(plan.ClearReflector{Node: "10.240.0.99"}, false)
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
	b.nodes = &frozen{node: *b.node("10.240.0.5", nil)}
	b.run()
	set := plan.SetReflector{Node: "10.240.0.5", ClusterID: "244.0.0.1"}
	b.apply(set, true)
	require.True(t, b.observe().Nodes[0].Marked)
	require.Empty(t, b.writes(func() { b.apply(set, false) }))
}

func TestANodeThatCameBackAsAnotherIsAConflict(t *testing.T) {
	b := newBench(t)
	old := b.node("10.240.0.5", nil)
	require.NoError(t, b.kube.Delete(t.Context(), old.DeepCopy()))
	b.node("10.240.0.5", nil)
	b.nodes = &frozen{node: *old}
	_, err := b.Apply(t.Context(), scope, plan.SetReflector{Node: "10.240.0.5", ClusterID: "244.0.0.1"})
	require.True(t, IsConflict(err), "got %v", err)
	require.NotContains(t, b.liveNode("10.240.0.5").Labels, scope.RoleLabel)
}

func TestARoleForANodeThatIsNotThereFails(t *testing.T) {
	b := newBench(t)
	_, err := b.Apply(t.Context(), scope, plan.SetReflector{Node: "10.240.0.5", ClusterID: "244.0.0.1"})
	require.True(t, apierrors.IsNotFound(err), "got %v", err)
}

func TestANodeIsMappedAsCalicoReadsIt(t *testing.T) {
	v4, v6 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	since := metav1.NewTime(time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))
	for name, c := range map[string]struct {
		node corev1.Node
		want plan.Node
		bad  string
	}{
		"dual stack with everything": {
			corev1.Node{
				ObjectMeta: metav1.ObjectMeta{
					Name: "n", UID: "u", CreationTimestamp: since,
					Labels: map[string]string{scope.ZoneLabel: "z1", scope.RoleLabel: ""},
					Annotations: map[string]string{
						ipv6Annotation: "fd00::1/64", ipv4Annotation: "10.0.0.1/24", asnAnnotation: "1.10",
						clusterIDAnnotation: "244.0.0.1", sinceAnnotation: "2026-05-01T00:00:00Z",
					},
				},
				Spec: corev1.NodeSpec{Unschedulable: true, ProviderID: "ibm://x"},
				Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
					{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: since},
				}},
			},
			plan.Node{
				Name: "n", UID: "u", Labels: map[string]string{scope.ZoneLabel: "z1", scope.RoleLabel: ""}, ProviderID: "ibm://x",
				Zone: "z1", Created: since.Time, Ready: true, ReadyChanged: since.Time, Cordoned: true,
				Addresses: []netip.Addr{v4, v6}, ASN: 65546, RoleLabel: true, ClusterID: "244.0.0.1", Marked: true, RoleSince: since.Time,
			},
			"",
		},
		"in a seat, and in a rack": {
			corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{scope.RoleLabel: "rack-a-1", plan.RackLabel: "a"}}},
			plan.Node{
				Name: "n", Labels: map[string]string{scope.RoleLabel: "rack-a-1", plan.RackLabel: "a"},
				RoleLabel: true, Seat: "rack-a-1", Rack: "a",
			},
			"",
		},
		"the old zone label, not Ready, going": {
			corev1.Node{
				ObjectMeta: metav1.ObjectMeta{
					Name: "n", DeletionTimestamp: &since, Labels: map[string]string{oldZoneLabel: "z2"},
					Annotations: map[string]string{ipv4Annotation: "10.0.0.1"},
				},
				Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}},
			},
			plan.Node{Name: "n", Labels: map[string]string{oldZoneLabel: "z2"}, Zone: "z2", Deleting: true, Addresses: []netip.Addr{v4}},
			"",
		},
		"an address that is none": {
			corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{
				ipv4Annotation: "10.0.0.300/24", ipv6Annotation: "10.0.0.1/24", asnAnnotation: "many",
			}}},
			plan.Node{Name: "n"},
			`projectcalico.org/IPv4Address="10.0.0.300/24", projectcalico.org/IPv6Address="10.0.0.1/24", projectcalico.org/ASNumber="many"`,
		},
		"addresses that Calico cannot read": {
			corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{
				ipv4Annotation: "10.0.0.1/33", ipv6Annotation: "fe80::1%eth0/64",
			}}},
			plan.Node{Name: "n"},
			`projectcalico.org/IPv4Address="10.0.0.1/33", projectcalico.org/IPv6Address="fe80::1%eth0/64"`,
		},
		"a zone without a prefix length": {
			corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{
				ipv4Annotation: "::ffff:10.0.0.1", ipv6Annotation: "fe80::1%eth0",
			}}},
			plan.Node{Name: "n", Addresses: []netip.Addr{v4}},
			`projectcalico.org/IPv6Address="fe80::1%eth0"`,
		},
		"IPv6 only": {
			corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{ipv6Annotation: "fd00::1/64"}}},
			plan.Node{Name: "n", Addresses: []netip.Addr{v6}},
			"",
		},
		"cordoned by us, on the control plane, and shut down": {
			corev1.Node{
				ObjectMeta: metav1.ObjectMeta{
					Name: "n", Labels: map[string]string{"node-role.kubernetes.io/master": ""},
					Annotations: map[string]string{cordonedAnnotation: "2026-05-01T00:00:00Z"},
				},
				Spec: corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: "x"}, {Key: "node.cloudprovider.kubernetes.io/shutdown"}}},
			},
			plan.Node{
				Name: "n", Labels: map[string]string{"node-role.kubernetes.io/master": ""},
				Cordoned: true, CordonedByUs: true, CordonMark: true, ControlPlane: true, Leaving: true,
				Taints: []string{"x=:", "node.cloudprovider.kubernetes.io/shutdown=:"},
			},
			"",
		},
		"a person has undone our cordon": {
			corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{cordonedAnnotation: ""}}},
			plan.Node{Name: "n", CordonMark: true},
			"",
		},
		"a spoiled mark is a mark": {
			corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{sinceAnnotation: "yesterday"}}},
			plan.Node{Name: "n", Marked: true},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.want.Taints == nil {
				c.want.Taints = []string{} // read, and there are none
			}
			require.Equal(t, c.want, nodeOf(&c.node, scope))
			require.Equal(t, c.bad, unreadable(&c.node))
		})
	}
}

func TestATaintSaysThatANodeLeaves(t *testing.T) {
	for key, leaving := range map[string]bool{
		"node.kubernetes.io/out-of-service":         true,
		"node.cloudprovider.kubernetes.io/shutdown": true,
		"ToBeDeletedByClusterAutoscaler":            true,
		"karpenter.sh/disrupted":                    true,
		"DeletionCandidateOfClusterAutoscaler":      false,
		"node.kubernetes.io/not-ready":              false,
		"node.kubernetes.io/unschedulable":          false,
		"node-role.kubernetes.io/control-plane":     false,
	} {
		t.Run(key, func(t *testing.T) {
			n := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: key}}}}
			require.Equal(t, leaving, nodeOf(n, scope).Leaving)
		})
	}
}

func TestBlocksBelongToTheNodesThatAnnounceThem(t *testing.T) {
	b := newBench(t)
	b.node("10.240.0.5", nil)
	b.node("10.240.0.6", nil)
	b.affinity("a", libapiv3.BlockAffinitySpec{Node: "10.240.0.5", CIDR: "172.30.2.0/26", State: "confirmed", Type: "host"})
	b.affinity("b", libapiv3.BlockAffinitySpec{Node: "10.240.0.5", CIDR: "172.30.1.0/26", State: "confirmed"})
	b.affinity("c", libapiv3.BlockAffinitySpec{Node: "10.240.0.5", CIDR: "172.30.3.0/26", State: "pending", Type: "host"})
	b.affinity("d", libapiv3.BlockAffinitySpec{Node: "10.240.0.5", CIDR: "172.30.4.0/26", State: "pendingDeletion", Type: "host"})
	b.affinity("e", libapiv3.BlockAffinitySpec{Node: "virtual", CIDR: "172.30.5.0/26", State: "confirmed", Type: "virtual"})
	b.run()
	nodes := b.observe().Nodes
	require.Equal(t, []netip.Prefix{netip.MustParsePrefix("172.30.1.0/26"), netip.MustParsePrefix("172.30.2.0/26")}, nodes[0].Blocks)
	require.Empty(t, nodes[1].Blocks)
	b.affinity("f", libapiv3.BlockAffinitySpec{Node: "10.240.0.6", CIDR: "172.30.6.0/26", State: "confirmed", Type: "host"})
	b.await("the new block", func(c plan.Cluster) bool { return len(c.Nodes[1].Blocks) == 1 })
}
