//go:build linux

package image

import (
	"context"
	"encoding/pem"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/iksserver"
)

const (
	apiKey    = "not-to-be-seen"
	clusterID = "c1"
	rootsFile = "etc/ssl/certs/ca-certificates.crt" // where Go looks first
)

// wish creates a pool on IBM Cloud, with what the user and IKS put there.
func wish(t *testing.T, c *cluster) (client.Client, *v1alpha1.RouteReflectorPool) {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	admin, err := client.New(c.plane.AdminConfig(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	pool := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}}
	pool.Spec.Provider.Type = v1alpha1.ProviderIKS
	for _, o := range []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "rrpool-ibmcloud"}, StringData: map[string]string{"apikey": apiKey}},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-info"},
			Data:       map[string]string{"cluster-config.json": `{"cluster_id":"` + clusterID + `"}`},
		},
		pool,
	} {
		require.NoError(t, admin.Create(t.Context(), o))
		t.Cleanup(func() { // the manager that would do so is gone
			require.NoError(t, admin.Patch(context.Background(), o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
			require.NoError(t, client.IgnoreNotFound(admin.Delete(context.Background(), o)))
		})
	}
	return admin, pool
}

// The manager believes the cloud when the image's certificates vouch for it, and does not
// give its API key to another.
func TestTheManagerTrustsTheCertificatesOfTheImageOnly(t *testing.T) {
	image, root := unpacked(t)
	c := install(t)
	manager := c.container(t)
	cloud := iksserver.New(iksserver.Config{APIKeys: []string{apiKey}})
	cloud.AddCluster(iksserver.Cluster{ID: clusterID, Name: "test", Provider: iksserver.VPC, VPCID: "r006-test"})
	web := httptest.NewUnstartedServer(cloud)
	web.Config.ErrorLog = log.New(io.Discard, "", 0) // that a client hangs up is what we want
	web.StartTLS()
	t.Cleanup(web.Close)
	admin, pool := wish(t, c)
	run := func(until func() bool) {
		env := append(c.environment(t, image, manager), "IBMCLOUD_CS_API_ENDPOINT="+web.URL, "IBMCLOUD_IAM_API_ENDPOINT="+web.URL)
		started, _ := launch(t, newBox(t, root, c.secrets), image.command(manager), env)
		require.Eventually(t, until, patience, 50*time.Millisecond)
		requireEnds(t, started, patience)
	}
	run(func() bool {
		require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(pool), pool))
		for _, condition := range pool.Status.Conditions {
			if strings.Contains(condition.Message, "x509: certificate signed by unknown authority") {
				t.Logf("%s: %s", condition.Type, condition.Message)
				return true
			}
		}
		return false
	})
	require.Empty(t, cloud.Requests())

	bundle, err := os.OpenFile(filepath.Join(root, rootsFile), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	require.NoError(t, pem.Encode(bundle, &pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}))
	require.NoError(t, bundle.Close())
	run(func() bool { return len(cloud.Requests()) > 1 }) // the token was given, and used
}
