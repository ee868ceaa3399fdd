package check

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/test/cli"
	"github.com/rrpool/rrpool/test/iksserver"
)

const apiKey = "not-to-be-shown-anywhere"

// onCloud makes the cluster one of IBM's, with a cloud that answers as IBM's does.
func (w *world) onCloud() *iksserver.Server {
	w.Helper()
	ibm := iksserver.New(iksserver.Config{APIKeys: []string{apiKey}})
	var zones []iksserver.Zone
	for _, id := range frankfurt {
		zones = append(zones, iksserver.Zone{ID: id, Subnets: []iksserver.Subnet{{ID: "sub-" + id, CIDR: "10.1.0.0/24", Available: 200}}})
	}
	ibm.AddCluster(iksserver.Cluster{
		ID: "c1", Name: "demo", Provider: iksserver.VPC, VPCID: "vpc-1", Zones: zones,
		Pools: []iksserver.Pool{{Name: "default", Flavor: "bx2.4x16", SizePerZone: 2, Zones: frankfurt}},
	})
	server := httptest.NewServer(ibm)
	w.Cleanup(func() { ibm.Close(); server.Close() })
	w.Setenv(iks.CSEndpointVariable, server.URL)
	w.Setenv(iks.IAMEndpointVariable, server.URL)
	w.install()
	w.nodes(2, "ibm://account///c1", frankfurt...)
	w.calico("calico-system", 6)
	w.Create(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster-info", Namespace: "kube-system"}, Data: map[string]string{"cluster-config.json": `{"cluster_id":"c1"}`},
	})
	return ibm
}

func (w *world) key(value string) {
	w.Helper()
	w.Create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "rrpool-ibmcloud", Namespace: snapshot.DefaultNamespace}, StringData: map[string]string{"apikey": value},
	})
}

func TestOnIBMCloud(t *testing.T) {
	t.Run("a cluster that is fit", func(t *testing.T) {
		w := newWorld(t)
		ibm := w.onCloud()
		w.key(apiKey)
		checks, v, got := w.check("")
		require.Zero(t, got.Code, got.Out)
		require.True(t, v.Fit)
		require.Equal(t, OK, checks["provider"].Status)
		require.Contains(t, checks["provider"].Message, "IBM Cloud Kubernetes Service, which answers: no worker pool has the name route-reflectors yet")
		require.NotContains(t, got.Out+got.Err, apiKey)
		require.Equal(t, []string{"default"}, ibm.Pools("c1"), "nothing was ordered")
	})
	t.Run("a cluster that is not", func(t *testing.T) {
		w := newWorld(t)
		w.onCloud()
		checks, _, got := w.check("")
		require.Equal(t, 1, got.Code)
		require.Contains(t, checks["provider"].Message, `Secret "rrpool-ibmcloud" in namespace "rrpool-system" does not exist`)

		w.key("wrong-and-secret")
		checks, _, got = w.check("")
		require.Equal(t, 1, got.Code)
		require.Equal(t, Error, checks["provider"].Status)
		require.Contains(t, checks["provider"].Message, "CloudUnauthorized")
		require.NotContains(t, got.Out+got.Err, "wrong-and-secret")
	})
	t.Run("a cluster whose manager has a trusted profile", func(t *testing.T) {
		w := newWorld(t)
		ibm := w.onCloud()
		w.key("no longer valid, and not read")
		file := cli.PoolFile(t, "{provider: {iks: {credentials: {trustedProfile: {name: a b}}}}}")
		checks, _, got := w.check("", "--filename", file)
		require.Zero(t, got.Code)
		require.Equal(t, Note, checks["provider"].Status)
		require.NotEqual(t, Error, checks["decision"].Status, checks["decision"].Message)
		require.Empty(t, ibm.Requests())
	})
	t.Run("classic workers, which may all be updated at once", func(t *testing.T) {
		w := newWorld(t)
		w.onCloud()
		w.key(apiKey)
		node := &corev1.Node{}
		require.NoError(t, w.Admin.Get(t.Context(), client.ObjectKey{Name: frankfurt[0] + "-node-1"}, node))
		node.Labels["ibm-cloud.kubernetes.io/iaas-provider"] = "softlayer"
		require.NoError(t, w.Admin.Update(t.Context(), node))
		checks, _, _ := w.check("")
		require.Equal(t, Warning, checks["updates"].Status)
	})
}
