//go:build linux

package walkthrough

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/iksserver"
	"github.com/rrpool/rrpool/test/lab"
)

// quickStart is a newcomer's way on IKS.
const quickStart = "docs/quickstart-iks.md"

// notRunOnIKS are the blocks of the quick start that the lab has no program for.
var notRunOnIKS = []string{
	"make build", `docker buildx build --platform linux/amd64 --tag "$image" --push .`,
	`id=$(ibmcloud ks cluster get --cluster "$cluster" --output json | jq --raw-output .id)`, "ibmcloud iam service-id-delete rrpool",
}

// A newcomer who types the page goes from a cluster that has never heard of rrpool to route reflectors, back, and away, and loses nothing.
func TestQuickStartOnVPC(t *testing.T) {
	skipWalk(t)
	walkQuickStart(t, site.Options{Generation: iksserver.VPC, Bare: true})
}

func TestQuickStartOnClassic(t *testing.T) {
	skipWalk(t)
	lab.SkipLong(t)
	walkQuickStart(t, site.Options{Generation: iksserver.Classic, Zones: 2, MeshPassword: "s3cret", Bare: true})
}

func walkQuickStart(t *testing.T, o site.Options) {
	t.Helper()
	ctx, s := site.ForTest(t, o)
	pullSecret(t, ctx, s)
	runtime := s.StartRuntime()
	before, begun := bgpConfiguration(t, ctx, s), time.Now()
	w := newWalker(t, s)
	// As jq leaves it, with an end of line.
	apikey := filepath.Join(w.dir, "repository", "config", "overlays", "iks", "secret", "apikey")
	require.NoError(t, os.WriteFile(apikey, []byte(site.APIKey+"\n"), 0o600))

	w.after["rollout status"] = func() {
		require.NoError(t, runtime.Err())
		require.Equal(t, []string{"default"}, s.Cloud.Pools(site.ClusterID), "nothing happens until there is a RouteReflectorPool")
		s.Lab.Checkpoint("there")
	}
	w.after["rrpool migrate"] = func() {
		requireReflected(t, ctx, s, s.Reflectors()...)
		requireDeployedManagerDidIt(t, s, begun)
		s.Lab.Checkpoint("and back")
	}
	w.after["rrpool rollback"] = func() {
		requireMeshed(t, ctx, s)
		require.Equal(t, before, bgpConfiguration(t, ctx, s))
		require.Equal(t, []string{"default", site.PoolName}, s.Cloud.Pools(site.ClusterID), "the worker pool stays")
	}
	w.after["kubectl delete -k mycluster"] = func() {
		require.Equal(t, []string{"default"}, s.Cloud.Pools(site.ClusterID))
		_, err := s.Lab.Kube().CoreV1().Namespaces().Get(ctx, site.Namespace, metav1.GetOptions{})
		require.True(t, apierrors.IsNotFound(err), "%v", err)
		_, err = s.Pool(ctx)
		require.Error(t, err, "the CRD is gone")
	}
	w.walk(blocksOf(t, quickStart, notRunOnIKS...))
	requireNothingLost(t, s)
}

// requireDeployedManagerDidIt checks in the apiserver's log who wrote to Calico: the service account of the Deployment, by the token
// that its pods were given, and no one else; and that it never lacked a right.
func requireDeployedManagerDidIt(t *testing.T, s *site.Site, since time.Time) {
	t.Helper()
	writes, err := s.Lab.ControlPlane().Writes("", since)
	require.NoError(t, err)
	by := map[string]int{}
	for _, write := range writes {
		if write.Resource == "bgppeers" || write.Resource == "bgpconfigurations" {
			by[write.User]++
		}
		if write.User == site.User() {
			require.NotEqual(t, http.StatusForbidden, write.Code, "%s", write)
		}
	}
	require.NotEmpty(t, by)
	require.Len(t, by, 1, "%v", by)
	require.Contains(t, by, site.User())
}

// pullSecret is what IKS itself puts into the namespace default.
func pullSecret(t *testing.T, ctx context.Context, s *site.Site) { //nolint:revive // t comes first in tests
	t.Helper()
	_, err := s.Lab.Kube().CoreV1().Secrets("default").Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "all-icr-io", Namespace: "default"},
		Type:       corev1.SecretTypeDockerConfigJson,
		Data:       map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{}}`)},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// requireNothingLost checks every pair of workers.
func requireNothingLost(t *testing.T, s *site.Site) {
	t.Helper()
	report := s.Lab.Report().Only(s.Workers...)
	require.Len(t, report.Pairs, len(s.Workers)*(len(s.Workers)-1))
	sent, lost := 0, 0
	for _, p := range report.Pairs {
		sent += p.Sent
		lost += p.Lost
	}
	t.Logf("%d pairs of pods, %d packets sent, %d lost", len(report.Pairs), sent, lost)
	require.NoError(t, report.ZeroLoss())
}

// bgpConfigurationSpec is the cluster's, nil when there is none.
func bgpConfiguration(t *testing.T, ctx context.Context, s *site.Site) any { //nolint:revive // t comes first in tests
	t.Helper()
	list, err := s.Lab.Calico().BGPConfigurations().List(ctx, options.ListOptions{})
	require.NoError(t, err)
	for i := range list.Items {
		if o := &list.Items[i]; o.Name == "default" {
			return map[string]any{"spec": o.Spec, "labels": o.Labels, "annotations": o.Annotations}
		}
	}
	return nil
}
