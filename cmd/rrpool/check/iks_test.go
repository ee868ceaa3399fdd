package check

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/test/iksserver"
)

const apiKey = "not-to-be-shown-anywhere"

// onCloud makes the cluster one of IBM's, with a cloud that answers as IBM's does.
func (w *world) onCloud(edit ...func(*iksserver.Cluster)) *iksserver.Server {
	w.Helper()
	ibm := iksserver.New(iksserver.Config{APIKeys: []string{apiKey}})
	var zones []iksserver.Zone
	for _, id := range frankfurt {
		zones = append(zones, iksserver.Zone{ID: id, Subnets: []iksserver.Subnet{{ID: "sub-" + id, CIDR: "10.1.0.0/24", Available: 200}}})
	}
	c := iksserver.Cluster{
		ID: "c1", Name: "demo", Provider: iksserver.VPC, VPCID: "vpc-1", Zones: zones,
		Pools: []iksserver.Pool{{Name: "default", Flavor: "bx2.4x16", SizePerZone: 2, Zones: frankfurt}},
	}
	for _, f := range edit {
		f(&c)
	}
	ibm.AddCluster(c)
	server := httptest.NewServer(ibm)
	w.Cleanup(func() { ibm.Close(); server.Close() })
	w.Setenv(iks.CSEndpointVariable, server.URL)
	w.Setenv(iks.IAMEndpointVariable, server.URL)
	w.install()
	w.nodes(2, "ibm://account///c1", frankfurt...)
	w.calico("calico-system", 6)
	w.have(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster-info", Namespace: "kube-system"}, Data: map[string]string{"cluster-config.json": `{"cluster_id":"c1"}`},
	}, nil)
	return ibm
}

func (w *world) key(value string) {
	w.Helper()
	w.have(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "rrpool-ibmcloud", Namespace: snapshot.DefaultNamespace}, StringData: map[string]string{"apikey": value},
	}, nil)
}

func (w *world) autoscaler(config string) {
	w.Helper()
	w.have(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: autoscalerConfig, Namespace: "kube-system"}, Data: map[string]string{autoscalerKey: config},
	}, nil)
}

func TestOnIBMCloud(t *testing.T) {
	t.Run("a cluster that is fit", func(t *testing.T) {
		w := newWorld(t)
		ibm := w.onCloud()
		w.key(apiKey)
		w.autoscaler(`[{"name":"default","minSize":1,"maxSize":9,"enabled":true}]`)
		checks, v, got := w.check("")
		require.Zero(t, got.Code, got.Out)
		require.True(t, v.Fit)
		for id, says := range map[string]string{
			"provider": "IBM Cloud Kubernetes Service", "credentials": "has an API key", "cloud": "IBM Cloud answers", "quota": "IBM's API does not say",
			"worker-pool": "no worker pool has the name route-reflectors yet", "autoscaler": "does not resize worker pool route-reflectors",
		} {
			require.Contains(t, checks[id].Message, says, id)
			require.NotContains(t, []Status{Warning, Error}, checks[id].Status, id)
		}
		require.NotContains(t, got.Out+got.Err, apiKey)
		require.Equal(t, []string{"default"}, ibm.Pools("c1"), "nothing was ordered")
	})
	t.Run("a cluster without Calico", func(t *testing.T) {
		w := newWorld(t)
		w.onCloud(func(c *iksserver.Cluster) { c.NetworkPlugin = "OVNKubernetes" })
		w.key(apiKey)
		checks, v, got := w.check("")
		require.Equal(t, 1, got.Code)
		require.False(t, v.Fit)
		require.Equal(t, Error, checks["cloud"].Status)
		require.Contains(t, checks["cloud"].Message, `its networkPlugin is "OVNKubernetes"`)
		require.True(t, strings.HasSuffix(checks["cloud"].Link, "runbook/conditions.md#cloudunsupported"))
	})
	t.Run("a cluster that is not", func(t *testing.T) {
		w := newWorld(t)
		w.onCloud()
		checks, _, got := w.check("")
		require.Equal(t, 1, got.Code)
		require.Contains(t, checks["credentials"].Message, `Secret "rrpool-ibmcloud" in namespace "rrpool-system" does not exist`)
		require.NotContains(t, checks, "cloud", "it cannot be asked without a key")

		w.key("wrong-and-secret")
		w.autoscaler(`[{"name":"route-reflectors","minSize":1,"maxSize":9,"enabled":true}]`)
		checks, _, got = w.check("")
		require.Equal(t, 1, got.Code)
		require.Equal(t, Error, checks["cloud"].Status)
		require.Contains(t, checks["cloud"].Message, "CloudUnauthorized")
		require.True(t, strings.HasSuffix(checks["cloud"].Link, "runbook/conditions.md#cloudunauthorized"))
		require.Equal(t, Error, checks["autoscaler"].Status)
		require.NotContains(t, got.Out+got.Err, "wrong-and-secret")
	})
	t.Run("a cluster whose manager has a trusted profile", func(t *testing.T) {
		w := newWorld(t)
		ibm := w.onCloud()
		w.key("no longer valid, and not read")
		file := filepath.Join(t.TempDir(), "pool.yaml")
		require.NoError(t, os.WriteFile(file, []byte(
			"{apiVersion: rrpool.io/v1alpha1, kind: RouteReflectorPool, metadata: {name: default}, spec: {provider: {iks: {credentials: {trustedProfile: {name: a b}}}}}}",
		), 0o600))
		checks, _, got := w.check("", "--filename", file)
		require.Equal(t, 1, got.Code)
		require.Equal(t, Error, checks["credentials"].Status, "the overlay without the component mounts no token")
		require.Contains(t, checks["credentials"].Remedy, "config/overlays/iks/components/trusted-profile")
		require.Equal(t, Note, checks["cloud"].Status)
		require.NotEqual(t, Error, checks["decision"].Status, checks["decision"].Message)
		require.Empty(t, ibm.Requests())

		profile, _, _ := w.check("", "--pre", "--filename", file)
		key, _, _ := w.check("", "--pre")
		require.Contains(t, profile["install-rights"].Message, "all 37 rights", "no Secret is made")
		require.Contains(t, key["install-rights"].Message, "all 38 rights")
	})
}

// On classic infrastructure an update of all workers may take all reflectors at once, unless a rule says otherwise.
func TestUpdatesOfClassicWorkers(t *testing.T) {
	ours := func(percent int) string {
		return fmt.Sprintf(`{"MaxUnavailablePercentage":%d,"NodeSelectorKey":"rrpool.io/pool","NodeSelectorValue":"route-reflectors"}`, percent)
	}
	for name, tc := range map[string]struct {
		classic bool
		data    map[string]string
		want    Status
		says    string
	}{
		"no ConfigMap":             {true, nil, Warning, "create configmap ibm-cluster-update-configuration --from-literal 'rrpool.json=" + ours(33)},
		"no rule for the pool":     {true, map[string]string{"defaultcheck.json": `{"MaxUnavailablePercentage":1}`}, Warning, "patch configmap"},
		"a rule for two at once":   {true, map[string]string{"x.json": ours(34)}, Warning, "patch configmap"},
		"a rule for one at a time": {true, map[string]string{"drain_timeout_seconds": "120", "x.json": ours(33)}, OK, ""},
		"VPC":                      {false, nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.onCloud()
			w.key(apiKey)
			if tc.classic {
				node := &corev1.Node{}
				require.NoError(t, w.Admin.Get(t.Context(), client.ObjectKey{Name: frankfurt[0] + "-node-1"}, node))
				node.Labels["ibm-cloud.kubernetes.io/iaas-provider"] = "softlayer"
				require.NoError(t, w.Admin.Update(t.Context(), node))
			}
			if tc.data != nil {
				w.have(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: updatesConfig, Namespace: "kube-system"}, Data: tc.data}, nil)
			}
			checks, _, _ := w.check("")
			require.Equal(t, tc.want, checks["updates"].Status)
			require.Contains(t, checks["updates"].Remedy, tc.says)
		})
	}
}
