package check

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/test/cli"
	"github.com/rrpool/rrpool/test/controlplane"
)

// A cluster on a real apiserver that is fit, seen by one who may do everything.
func TestAFitCluster(t *testing.T) {
	w := newWorld(t)
	w.fit()
	checks, v, got := w.check("")
	require.Zero(t, got.Code, got.Out)
	require.Empty(t, got.Err)
	require.True(t, v.Fit)
	for id, c := range checks {
		require.NotEqual(t, Error, c.Status, "%s: %s", id, c.Message)
		require.NotEqual(t, Warning, c.Status, "%s: %s", id, c.Message)
	}
	for id, says := range map[string]string{
		"kubernetes-version": "Kubernetes v1.", "sight": "6 nodes", "manager-rights": fmt.Sprintf("all %d things", rightsOfManager(t)),
		"crd": "rrpool.io/v1alpha1", "manager": "2 of 2 available (image rrpool-manager)", "object": "no RouteReflectorPool", "decision": "EnsurePool",
		"datastore": "Calico v3.31.0 uses the Kubernetes datastore", "calico-node": "6 of 6 nodes (calico-system/calico-node)",
		"node-status": "CalicoNodeStatus", "password": "calico-bgp-password", "peers": "rack-switch",
		"zones": "3 zones: zone-a (2), zone-b (2), zone-c (2)", "eligible": "6 nodes can be route reflectors, and 3 are wanted",
	} {
		require.Contains(t, checks[id].Message, says, id)
	}
	require.Equal(t, []string{"172.30.0.0/16: IP-in-IP CrossSubnet"}, checks["routes"].Details, "a pool that is disabled does not count")
	require.NotContains(t, got.Out, "swordfish")
	require.Equal(t, "rrpool plan", v.Next)
	require.True(t, strings.HasPrefix(got.Out, "{\n  \"schemaVersion\": \"rrpool.io/check/v1\""))
}

// The object of the cluster, and one of a file that is to take its place.
func TestTheObject(t *testing.T) {
	w := newWorld(t)
	w.install()
	w.nodes(2, "", "zone-a", "zone-b", "zone-c")
	w.calico("kube-system", 6)
	pool := objects(t, "../../../config/samples/existing-nodes.yaml")[0]
	w.have(pool, nil)
	checks, v, got := w.check("")
	require.Zero(t, got.Code, got.Out)
	require.Equal(t, "there is a RouteReflectorPool, with mode RouteReflector", checks["object"].Message)
	require.Equal(t, "rrpool status", v.Next)

	file := cli.File(t, header+"spec: {mode: Paused, topology: {zoneLabel: example.com/room}}")
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
	w.custom("BGPConfiguration", "default", map[string]any{
		"nodeMeshPassword": map[string]any{"secretKeyRef": map[string]any{"name": "unreadable", "key": "password"}},
	})
	w.custom("BGPPeer", "by-hand", map[string]any{"nodeSelector": "all()", "peerSelector": "role == 'rr'"})
	w.custom("IPPool", "overlay", map[string]any{"cidr": "172.28.0.0/16", "vxlanMode": "Always"})
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
