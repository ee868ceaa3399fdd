package calico

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	libapiv3 "github.com/projectcalico/calico/libcalico-go/lib/apis/v3"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/api"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/model"
	cnet "github.com/projectcalico/calico/libcalico-go/lib/net"
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
	"github.com/rrpool/rrpool/test/controlplane"
)

func onlyInEtcd(t *testing.T) {
	t.Helper()
	dependsOnDatastore(t)
	if !inEtcd {
		t.Skip("of Calico's own etcd")
	}
}

// What rrpool writes is what Calico's own client reads, and a field of a newer Calico stays.
func TestWhatIsWrittenToEtcdIsAsCalicosOwnClientHasIt(t *testing.T) {
	onlyInEtcd(t)
	b := newBench(t)
	b.node(five, nil)
	b.run()
	calico := calicoctl(t, b.plane)
	below := calico.(interface{ Backend() api.Client }).Backend() // as Calico's IPAM writes
	_, err := below.Create(t.Context(), &model.KVPair{
		Key:   model.BlockAffinityKey{CIDR: cnet.MustParseCIDR("10.1.2.0/26"), Host: five, AffinityType: "host"},
		Value: &model.BlockAffinity{State: model.StateConfirmed},
	})
	require.NoError(t, err)
	b.await("the block", func(c plan.Cluster) bool { return len(c.Nodes) == 1 && len(c.Nodes[0].Blocks) == 1 })

	config := apiv3.NewBGPConfiguration()
	config.Name = defaultConfig
	config.Spec.NodeToNodeMeshEnabled = ptr.To(true)
	_, err = calico.BGPConfigurations().Create(t.Context(), config, options.SetOptions{})
	require.NoError(t, err)
	b.patch(b.custom(apiv3.KindBGPConfiguration, defaultConfig), `{"spec":{"ofTheFuture":{"kept":true}}}`)
	b.await("the mesh", func(c plan.Cluster) bool { return c.BGP.Exists })
	b.apply(plan.DisableMesh{Saved: plan.Mesh{Enabled: ptr.To(true)}}, true)
	found, err := calico.BGPConfigurations().Get(t.Context(), defaultConfig, options.GetOptions{})
	require.NoError(t, err)
	require.False(t, *found.Spec.NodeToNodeMeshEnabled)
	require.Equal(t, map[string]any{"kept": true}, b.raw(apiv3.KindBGPConfiguration, defaultConfig).Object["spec"].(map[string]any)["ofTheFuture"])

	b.apply(plan.PutPeer{Peer: clients}, true)
	peer, err := calico.BGPPeers().Get(t.Context(), clients.Name, options.GetOptions{})
	require.NoError(t, err)
	require.NotEmpty(t, peer.UID)
	require.False(t, peer.CreationTimestamp.IsZero())
	peer.Labels["of"] = "others"
	_, err = calico.BGPPeers().Update(t.Context(), peer, options.SetOptions{})
	require.NoError(t, err, "Calico takes it for one of its own")
	b.apply(plan.SetReflector{Node: five, ClusterID: "244.0.0.1"}, true)
	node, err := calico.Nodes().Get(t.Context(), five, options.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "244.0.0.1", node.Spec.BGP.RouteReflectorClusterID)
	require.Equal(t, "true", node.Labels[scope.RoleLabel])
}

// Calico may call a node by another name than Kubernetes does: everything of it is known by that of Kubernetes, and written by Calico's.
func TestANodeThatCalicoCallsByAnotherNameIsOneNode(t *testing.T) {
	onlyInEtcd(t)
	b := newBench(t)
	kube := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "kube-a"}}
	require.NoError(t, b.kube.Create(t.Context(), kube))
	kube.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: five}}
	require.NoError(t, b.kube.Status().Update(t.Context(), kube))
	n := libapiv3.NewNode()
	n.Name = "worker-17"
	n.Spec.OrchRefs = []libapiv3.OrchRef{{Orchestrator: "k8s", NodeName: "kube-a"}}
	n.Spec.BGP = &libapiv3.NodeBGPSpec{IPv4Address: five + "/24"}
	require.NoError(t, b.kube.Create(t.Context(), n))
	b.affinity("any", libapiv3.BlockAffinitySpec{Node: "worker-17", CIDR: "10.1.2.0/26", State: "confirmed", Deleted: "false"})
	b.run()
	seen := b.await("the block", func(c plan.Cluster) bool { return len(c.Nodes) == 1 && len(c.Nodes[0].Blocks) == 1 })
	require.Equal(t, "kube-a", seen.Nodes[0].Name)
	require.True(t, seen.Nodes[0].SpeaksBGP())
	require.Empty(t, seen.Problems)

	b.apply(plan.SetReflector{Node: "kube-a", ClusterID: "244.0.0.1"}, true)
	b.apply(plan.SetReflector{Node: "kube-a", ClusterID: "244.0.0.1"}, false)
	stored := &libapiv3.Node{}
	require.NoError(t, b.kube.Get(t.Context(), client.ObjectKeyFromObject(n), stored))
	require.Equal(t, "244.0.0.1", stored.Spec.BGP.RouteReflectorClusterID)
	peer := plan.Peer{Name: "rrpool.a.b.v4", Node: "kube-a", PeerIP: "10.0.0.9", ASN: 64512, Owned: true}
	b.apply(plan.PutPeer{Peer: peer}, true)
	b.apply(plan.PutPeer{Peer: peer}, false)
	live := apiv3.NewBGPPeer()
	require.NoError(t, b.kube.Get(t.Context(), client.ObjectKey{Name: peer.Name}, live))
	require.Equal(t, "worker-17", live.Spec.Node)
	require.True(t, b.watch(plan.StatusRequest{Node: "kube-a", Period: time.Second}))
	b.fill("worker-17", func(*apiv3.CalicoNodeStatusStatus) {})
	seen = b.await("the report", func(c plan.Cluster) bool { return !c.Statuses["kube-a"].Updated.IsZero() })
	require.Equal(t, "kube-a", seen.Statuses["kube-a"].Node)
	require.Equal(t, "kube-a", seen.Peers[0].Node)
	require.True(t, seen.Nodes[0].HasRoleLabel && seen.Nodes[0].Marked)
	b.clock.Move(time.Minute)
	b.apply(plan.RefreshStatus{Node: "kube-a"}, true)

	b.apply(plan.ClearReflector{Node: "kube-a"}, true)
	stored = &libapiv3.Node{}
	require.NoError(t, b.kube.Get(t.Context(), client.ObjectKeyFromObject(n), stored))
	require.Equal(t, n.Spec, stored.Spec)
	require.Empty(t, stored.Labels)
	require.Empty(t, stored.Annotations)
}

func TestHowNodesAreJoined(t *testing.T) {
	kube := func(name, address string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}}}
	}
	calico := func(name, of, address string) *libapiv3.Node {
		n := libapiv3.NewNode()
		n.Name, n.Spec.OrchRefs = name, []libapiv3.OrchRef{{Orchestrator: "k8s", NodeName: of}}
		if address != "" {
			n.Spec.BGP = &libapiv3.NodeBGPSpec{IPv4Address: address + "/24"}
		}
		return n
	}
	a, b := kube("a", "10.0.0.1"), kube("b", "10.0.0.2")
	swarm := calico("x", "a", "10.0.0.1")
	swarm.Spec.OrchRefs[0].Orchestrator = "other"
	for name, try := range map[string]struct {
		kube   []corev1.Node
		calico []*libapiv3.Node
		// of is what Calico calls the first node, problem a part of what is said.
		of, problem string
	}{
		"by reference":                     {[]corev1.Node{a}, []*libapiv3.Node{calico("x", "a", "10.0.0.9")}, "x", ""},
		"a host without BGP":               {[]corev1.Node{a}, []*libapiv3.Node{calico("x", "a", "10.0.0.1"), calico("host", "", "")}, "x", ""},
		"a host with BGP":                  {[]corev1.Node{a}, []*libapiv3.Node{calico("x", "a", "10.0.0.1"), calico("host", "", "10.0.0.9")}, "x", "no node of Kubernetes is host"},
		"left over from a node":            {[]corev1.Node{a}, []*libapiv3.Node{calico("x", "a", "10.0.0.1"), calico("y", "gone", "10.0.0.9")}, "x", ""},
		"by address":                       {[]corev1.Node{a}, []*libapiv3.Node{calico("x", "", "10.0.0.1")}, "x", ""},
		"another orchestrator's":           {[]corev1.Node{a}, []*libapiv3.Node{swarm}, "x", ""},
		"two for one, the address decides": {[]corev1.Node{a}, []*libapiv3.Node{calico("w", "a", "10.0.0.9"), calico("x", "a", "10.0.0.1")}, "x", "stand for one node of Kubernetes (x and w)"},
		"two for one, one without BGP":     {[]corev1.Node{a}, []*libapiv3.Node{calico("w", "a", ""), calico("x", "a", "10.0.0.1")}, "x", ""},
		"a reference before an address":    {[]corev1.Node{a}, []*libapiv3.Node{calico("w", "", "10.0.0.1"), calico("x", "a", "10.0.0.1")}, "x", "no node of Kubernetes is w"},
		"the name before an address":       {[]corev1.Node{a, kube("dead", "10.0.0.1")}, []*libapiv3.Node{calico("a", "", "10.0.0.1")}, "a", ""},
		"an address of another interface":  {[]corev1.Node{a}, []*libapiv3.Node{calico("a", "", "192.0.2.1")}, "a", ""},
		"an address of two":                {[]corev1.Node{a, kube("dead", "10.0.0.1")}, []*libapiv3.Node{calico("x", "", "10.0.0.1")}, "", "no node of Kubernetes is x"},
		"a name that another node has":     {[]corev1.Node{a, b}, []*libapiv3.Node{calico("b", "a", "10.0.0.1")}, "b", ""},
	} {
		byName := map[string]*libapiv3.Node{}
		for _, n := range try.calico {
			byName[n.Name] = n
		}
		j := joinNodes(try.kube, byName)
		require.Equal(t, try.of, j.calicoName("a"), name)
		if try.problem == "" {
			require.Empty(t, j.problem, name)
		}
		require.Contains(t, j.problem, try.problem, name)
	}
	j := joinNodes([]corev1.Node{a, b}, map[string]*libapiv3.Node{"b": calico("b", "a", "10.0.0.1")})
	require.Equal(t, "a", j.kubeName("b"))
	require.NotEqual(t, "a", j.kubeName("a"), "what Calico calls a is not Kubernetes' a")
}

// Without Calico's Node nothing is written by the name that Kubernetes has.
func TestANodeThatCalicoDoesNotHaveYetIsAConflict(t *testing.T) {
	onlyInEtcd(t)
	b := newBench(t)
	require.NoError(t, b.kube.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "kube-a"}}))
	b.run()
	_, err := b.Apply(t.Context(), scope, plan.PutPeer{Peer: plan.Peer{Name: "rrpool.a.b.v4", Node: "kube-a", PeerIP: "10.0.0.9", ASN: 64512, Owned: true}})
	require.True(t, IsConflict(err), "got %v", err)
	require.False(t, b.watch(plan.StatusRequest{Node: "kube-a", Period: time.Second}))
}

// In another datastore than before nothing is found, and that proves nothing.
func TestAnotherDatastoreIsLocked(t *testing.T) {
	b := newBench(t)
	b.run()
	for before, locked := range map[string]bool{"": false, GroupV1.String(): inEtcd, GroupV3.String(): inEtcd, EtcdAPI: !inEtcd} {
		elsewhere := scope
		elsewhere.CalicoAPI = before
		seen, err := b.Observe(t.Context(), elsewhere)
		require.NoError(t, err)
		require.Equal(t, locked, seen.Locked != nil, before)
		if locked {
			require.Equal(t, reason.DatastoreChanged, seen.Locked.Reason)
		}
	}
}

// An older Calico does not know all that rrpool writes, and etcd does not say so.
func TestACalicoThatIsTooOldForItsEtcdIsAProblem(t *testing.T) {
	require.Nil(t, tooOldForEtcd(""))
	require.Nil(t, tooOldForEtcd("master"))
	require.Nil(t, tooOldForEtcd("v3.31.0"))
	require.Nil(t, tooOldForEtcd("v3.33.1"))
	require.Equal(t, reason.CalicoTooOld, tooOldForEtcd("v3.30.3").Reason)
	onlyInEtcd(t)
	b := newBench(t)
	b.node(five, nil)
	info := b.custom(apiv3.KindClusterInformation, defaultConfig)
	b.run()
	b.patch(info, `{"spec":{"calicoVersion":"v3.30.3"}}`)
	b.await("the problem", func(c plan.Cluster) bool { return len(c.Problems) == 1 && c.Problems[0].Reason == reason.CalicoTooOld })
}

// Calico's kube-controllers copies labels. The role label that others put on the Kubernetes Node goes from both.
func TestALabelThatWouldBeCopiedAgainGoesFromBothNodes(t *testing.T) {
	onlyInEtcd(t)
	b := newBench(t)
	b.node(five, func(n *corev1.Node) {
		n.Labels = map[string]string{scope.RoleLabel: "true", v1alpha1.PoolLabel: "existing-nodes"}
	})
	require.True(t, b.run().observe().Nodes[0].HasRoleLabel, "as it was copied")
	calls := 0
	b.cfg.Permit = func(context.Context) error {
		if calls++; calls == 2 {
			return errors.New("refused at the second write")
		}
		return nil
	}
	_, err := b.Apply(t.Context(), scope, plan.ClearReflector{Node: five})
	require.Error(t, err)
	b.apply(plan.ClearReflector{Node: five}, true)
	kube := &corev1.Node{}
	require.NoError(t, b.kube.Get(t.Context(), client.ObjectKey{Name: five}, kube))
	require.Equal(t, map[string]string{v1alpha1.PoolLabel: "existing-nodes"}, kube.Labels)
	require.False(t, b.observe().Nodes[0].HasRoleLabel)
	require.NoError(t, b.Nodes(scope).SetPool(t.Context(), plan.Node{Name: five, UID: string(kube.UID)}, ""))
	require.Empty(t, b.observe().Nodes[0].Labels[v1alpha1.PoolLabel], "the copy of the pool label counts for nothing")

	// Without the copy the label on the Kubernetes Node is none for Calico.
	b.patch(kube, `{"metadata":{"labels":{"`+scope.RoleLabel+`":"true"}}}`)
	require.False(t, b.observe().Nodes[0].HasRoleLabel)
	b.apply(plan.ClearReflector{Node: five}, false)

	// kube-controllers takes away what it has copied once.
	b.patch(b.custom(libapiv3.KindNode, five), `{"metadata":{"annotations":{"`+copiedAnnotation+`":"{\"zone\":\"a\",\"`+scope.RoleLabel+`\":\"true\"}"}}}`)
	b.await("the annotation", func(plan.Cluster) bool { return b.store.calicoNodes()[five].Annotations[copiedAnnotation] != "" })
	b.apply(plan.SetReflector{Node: five, ClusterID: "244.0.0.1"}, true)
	stored := &libapiv3.Node{}
	require.NoError(t, b.kube.Get(t.Context(), client.ObjectKey{Name: five}, stored))
	require.JSONEq(t, `{"zone":"a"}`, stored.Annotations[copiedAnnotation])
	require.NoError(t, b.kube.Get(t.Context(), client.ObjectKey{Name: five}, kube))
	require.NotContains(t, kube.Labels, scope.RoleLabel)

	// calico-node that finds no address leaves the cluster ID only.
	stored.Spec.BGP.IPv4Address = ""
	require.NoError(t, b.kube.Update(t.Context(), stored))
	b.await("no address", func(c plan.Cluster) bool { return !c.Nodes[0].SpeaksBGP() })
	b.apply(plan.ClearReflector{Node: five}, true)
	stored = &libapiv3.Node{}
	require.NoError(t, b.kube.Get(t.Context(), client.ObjectKey{Name: five}, stored))
	require.Nil(t, stored.Spec.BGP, "an empty one is invalid to Calico")
}

// Calico's own clients write Nodes: what was not seen is no ground for a write.
func TestANodeThatWasWrittenMeanwhileIsAConflict(t *testing.T) {
	onlyInEtcd(t)
	b := newBench(t)
	b.node(five, nil)
	b.run()
	b.await("the node", func(c plan.Cluster) bool { return len(c.Nodes) == 1 && c.Nodes[0].SpeaksBGP() })
	b.cfg.Permit = func(context.Context) error { // between the look and the write
		b.patch(b.custom(libapiv3.KindNode, five), `{"metadata":{"labels":{"copied":"yes"}}}`)
		return nil
	}
	_, err := b.Apply(t.Context(), scope, plan.SetReflector{Node: five, ClusterID: "244.0.0.1"})
	require.True(t, IsConflict(err), "got %v", err)
	b.cfg.Permit = func(context.Context) error { return nil }
	b.apply(plan.SetReflector{Node: five, ClusterID: "244.0.0.1"}, true)
	require.Equal(t, "yes", b.liveNode(five).Labels["copied"])
}

// An etcd that hangs is an error that names it, nothing is written meanwhile, and it is over when it answers.
func TestEtcdThatHangsIsAnErrorUntilItAnswers(t *testing.T) {
	onlyInEtcd(t)
	etcd, err := controlplane.StartEtcd(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(etcd.Stop)
	b := newBench(t)
	b.moveTo(etcd)
	b.node(five, nil)
	b.run()
	b.watch(plan.StatusRequest{Node: five, Period: time.Second})
	require.NoError(t, etcd.Pause())
	require.Eventually(t, func() bool {
		_, err := b.Observe(t.Context(), scope)
		return err != nil && strings.Contains(err.Error(), "ETCD_ENDPOINTS=")
	}, time.Minute, 50*time.Millisecond)
	require.ErrorContains(t, b.Failing(), "check the address")
	_, err = b.Apply(t.Context(), scope, plan.SetReflector{Node: five, ClusterID: "244.0.0.1"})
	require.Error(t, err)
	require.NoError(t, etcd.Resume())
	b.fill(five, func(*apiv3.CalicoNodeStatusStatus) {})
	b.await("the end", func(c plan.Cluster) bool { return len(c.Nodes) == 1 })
	require.Zero(t, b.observe().Statuses[five].Updated, "a report that came in between proves nothing")
}
