//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
	"github.com/rrpool/rrpool/test/programs"
)

func TestMain(m *testing.M) {
	if err := programs.Build(context.Background(), os.Stderr, "manager"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lab.Main(m)
}

// limit is how long any one wait may take on a slow machine.
const limit = 6 * time.Minute

// start builds a site for one test.
func start(t *testing.T, options site.Options) (context.Context, *site.Site) {
	t.Helper()
	return site.ForTest(t, options)
}

// within gives ctx a time limit.
func within(t *testing.T, ctx context.Context) context.Context { //nolint:revive // t comes first in tests
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, limit)
	t.Cleanup(cancel)
	return ctx
}

// The manager runs where no cloud is: it uses none, and asks for no credentials.
func TestASiteWithoutACloud(t *testing.T) {
	nodes := append(lab.Workers(3), lab.NodeSpec{
		Name: "control-plane", Zone: "zone-1", Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""},
		Taints: []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}},
	})
	ctx, s := start(t, site.Options{Nodes: nodes})
	require.Equal(t, []string{"worker-0", "worker-1", "worker-2"}, s.Workers)
	list, err := s.Lab.Kube().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 4)
	for i := range list.Items {
		require.Empty(t, list.Items[i].Spec.ProviderID)
	}
	secrets, err := s.Lab.Kube().CoreV1().Secrets(site.Namespace).List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, secrets.Items)

	require.NoError(t, s.StartManager("--leader-elect=false"))
	require.NoError(t, s.CreatePool(ctx, func(o *v1alpha1.RouteReflectorPool) { o.Spec.Mode = v1alpha1.ModePaused }))
	require.NoError(t, s.WaitFor(within(t, ctx), "a first look", func(o *v1alpha1.RouteReflectorPool) bool {
		return o.Status.ObservedGeneration == o.Generation
	}))
	pool, err := s.Pool(ctx)
	require.NoError(t, err)
	require.Equal(t, v1alpha1.ProviderExistingNodes, pool.Spec.Provider.Type)
	t.Log(site.Describe(pool))
	reflectors, err := s.CurrentReflectors(ctx)
	require.NoError(t, err)
	require.Empty(t, reflectors)
	log, err := s.ManagerLog()
	require.NoError(t, err)
	require.NotContains(t, log, "rrpool-ibmcloud")
	require.NoError(t, s.StopManager())
	require.NoError(t, s.Lab.Report().ZeroLoss())
}

// restVariable is how long the migrated cluster is watched at rest: 30s unless set. `make soak` sets 1m.
const restVariable = "RRPOOL_REST"

// A migrated cluster at rest costs nothing: no write to the apiserver but the lease, no change in the cloud, and at
// most one read of it a minute.
func TestRest(t *testing.T) {
	lab.SkipLong(t)
	duration := 30 * time.Second
	if v := os.Getenv(restVariable); v != "" {
		var err error
		duration, err = time.ParseDuration(v)
		require.NoError(t, err, restVariable)
	}
	ctx, s := start(t, site.Options{})
	require.NoError(t, s.StartManager())
	require.NoError(t, s.CreatePool(ctx, nil))
	require.NoError(t, s.WaitReady(within(t, ctx)))
	migrating, err := s.Lab.ControlPlane().Writes(site.User(), time.Time{})
	require.NoError(t, err)
	require.Greater(t, len(migrating), 5, "the audit log sees the manager's writes")
	require.NoError(t, s.Lab.Report().Only(s.Workers...).ZeroLoss())
	time.Sleep(15 * time.Second) // the reports settle into their long period

	since := time.Now()
	reads, mutations, _ := s.Cloud.Counts()
	t.Logf("at rest for %s", duration)
	time.Sleep(duration)
	writes, err := s.Lab.ControlPlane().Writes(site.User(), since)
	require.NoError(t, err)
	leases := 0
	for _, w := range writes {
		if w.Lease() {
			leases++
			continue
		}
		t.Errorf("written at rest: %s", w)
	}
	require.NotZero(t, leases, "the manager is alive")
	nowReads, nowMutations, _ := s.Cloud.Counts()
	require.Equal(t, mutations, nowMutations)
	require.LessOrEqual(t, float64(nowReads-reads), max(2, duration.Minutes()), "reads of the cloud in %s", duration)
}
