package check

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/test/cli"
	"github.com/rrpool/rrpool/test/controlplane"
)

// The object of the cluster, and one of a file that is to take its place.
func TestTheObject(t *testing.T) {
	w := newWorld(t)
	w.install()
	w.nodes(2, "", "zone-a", "zone-b", "zone-c")
	w.calico("kube-system", 6)
	pool := objects(t, "../../../config/samples/existing-nodes.yaml")[0]
	w.Create(pool)
	checks, v, got := w.check("")
	require.Zero(t, got.Code, got.Out)
	require.Equal(t, "there is a RouteReflectorPool, with mode RouteReflector", checks["object"].Message)
	require.Equal(t, "rrpool status", v.Next)

	file := cli.PoolFile(t, "{mode: Paused, topology: {zoneLabel: example.com/room}}")
	checks, v, got = w.check("", "--filename", file)
	require.Zero(t, got.Code, got.Out)
	require.Equal(t, file+" is valid, with mode Paused; what follows is for it", checks["object"].Message)
	require.Contains(t, checks["zones"].Message, "without the zone label example.com/room")
	require.Equal(t, "rrpool plan --filename "+file, v.Next)
}

// Much that is wrong in a real cluster, and each found.
func TestABrokenCluster(t *testing.T) {
	w := newWorld(t)
	w.nodes(1, "", "zone-a", "zone-b", "zone-c")
	w.calico("calico-system", 3)
	w.password("calico-system", "unreadable", false)
	w.Calico(meshPassword, "unreadable")
	w.Calico("kind: BGPPeer\nmetadata: {name: by-hand}\nspec: {nodeSelector: all(), peerSelector: role == 'rr'}")
	w.Calico("kind: IPPool\nmetadata: {name: overlay}\nspec: {cidr: 172.28.0.0/16, vxlanMode: Always}")
	node := &corev1.Node{}
	require.NoError(t, w.Admin.Get(t.Context(), client.ObjectKey{Name: "zone-a-node-1"}, node))
	node.Annotations["projectcalico.org/ASNumber"] = "65001"
	node.Annotations["projectcalico.org/RouteReflectorClusterID"] = "1.0.0.1"
	require.NoError(t, w.Admin.Update(t.Context(), node))
	checks, v, got := w.check("")
	require.Equal(t, 1, got.Code)
	require.Empty(t, got.Err, "the answer says it")
	for id, says := range map[string]string{
		"manager-rights": "the manager lacks", "manager": "the manager does not run: there is neither a lease nor a Deployment rrpool-manager in namespace rrpool-system", "password": "calico-node may not read", "as-numbers": "2 different AS numbers",
		"reflectors": "zone-a-node-1", "peers": "by-hand", "eligible": "3 route reflectors are wanted of 3 nodes that speak BGP",
	} {
		require.Equal(t, Error, checks[id].Status, id)
		require.Contains(t, checks[id].Message, says, id)
	}
	require.Contains(t, checks["routes"].Message, "Felix programs the routes to the pods of 1 IPPool")
	require.Equal(t, "rrpool check", v.Next)
}

// Without our CRD nothing else is in the way of looking.
func TestNoCRD(t *testing.T) {
	w := newWorld(t)
	w.nodes(2, "", "zone-a", "zone-b", "zone-c")
	w.calico("kube-system", 6)
	t.Cleanup(func() {
		require.NoError(t, controlplane.InstallCRDs(w.AdminConfig(), controlplane.OwnCRDs()))
	})
	require.NoError(t, w.Admin.Delete(t.Context(), &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: definitionName}}))
	checks := w.eventually("", "crd", func(c Result) bool { return c.Status == Error })
	require.Equal(t, "rrpool's CRD routereflectorpools.rrpool.io is not installed", checks["crd"].Message)
	require.Equal(t, OK, checks["decision"].Status, "the cluster can be looked at all the same: %s", checks["decision"].Message)
	checks, _, got := w.check("", "--pre")
	require.Zero(t, got.Code, got.Out)
	require.Equal(t, Note, checks["crd"].Status)
}
