package check

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	t.Run("a pool of that name that rrpool did not make", func(t *testing.T) {
		w := newWorld(t)
		ibm := w.onCloud()
		w.key(apiKey)
		ibm.AddPool("c1", iksserver.Pool{Name: "route-reflectors", Flavor: "bx2.2x8", SizePerZone: 1, Zones: frankfurt})
		checks, _, _ := w.check("")
		require.Equal(t, Error, checks["worker-pool"].Status)
		require.Contains(t, checks["worker-pool"].Message, "was not created by rrpool")
	})
	t.Run("a cloud that is out of reach", func(t *testing.T) {
		w := newWorld(t)
		w.onCloud()
		w.key(apiKey)
		t.Setenv(iks.CSEndpointVariable, cli.Unreachable)
		t.Setenv(iks.IAMEndpointVariable, cli.Unreachable)
		checks, _, got := w.check("")
		require.Equal(t, 1, got.Code)
		require.Contains(t, checks["cloud"].Message, "CloudUnavailable")
		require.NotContains(t, got.Out+got.Err, apiKey)
	})
	t.Run("who may not read the key", func(t *testing.T) {
		w := newWorld(t)
		w.onCloud()
		w.key(apiKey)
		w.allow("no-secrets", "", managerRules(t)[""]...)
		checks := w.eventually("no-secrets", "sight", func(c Result) bool { return c.Status == OK })
		for _, id := range []string{"cluster-id", "autoscaler"} {
			require.Equal(t, Warning, checks[id].Status, "%s: %s", id, checks[id].Message)
			require.True(t, checks[id].Unchecked, id)
		}
		require.NotContains(t, checks, "credentials")
		require.NotContains(t, checks, "cloud")
	})
}
