//go:build linux

package e2e_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/iksserver"
	"github.com/rrpool/rrpool/test/lab"
)

// The manager is killed right after each kind of step, on the way there and back, and the next one goes on. In
// between, what people do to a migrated cluster is put right. Nothing is lost.
func TestKilledAfterEachStepAndDrift(t *testing.T) {
	lab.SkipLong(t)
	ctx, s := start(t, site.Options{Zones: 3, Generation: iksserver.VPC, MeshPassword: "s3cret"})
	before := bgpConfiguration(t, ctx, s)
	require.NoError(t, s.StartManager("--leader-elect=false"))

	s.Lab.Checkpoint("killed on the way there")
	require.NoError(t, s.CreatePool(ctx, nil))
	killed := killAfterEachStep(t, ctx, s)
	require.Subset(t, killed, []string{"EnsurePool", "WritePeers", "PromoteReflectors", "AwaitSessions", "AwaitRoutes", "DisableMesh"})
	requireMigrated(t, ctx, s, 3)

	for _, drift := range []struct {
		name string
		do   func()
	}{
		{"the mesh is switched on", func() {
			c, err := s.Lab.Calico().BGPConfigurations().Get(ctx, "default", options.GetOptions{})
			require.NoError(t, err)
			*c.Spec.NodeToNodeMeshEnabled = true
			_, err = s.Lab.Calico().BGPConfigurations().Update(ctx, c, options.SetOptions{})
			require.NoError(t, err)
		}},
		{"a reflector's label is removed", func() { patchReflector(t, ctx, s, `{"metadata":{"labels":{"rrpool.io/route-reflector":null}}}`) }},
		{"a reflector's cluster ID is removed", func() {
			patchReflector(t, ctx, s, `{"metadata":{"annotations":{"projectcalico.org/RouteReflectorClusterID":null}}}`)
		}},
		{"a BGPPeer is deleted", func() {
			_, err := s.Lab.Calico().BGPPeers().Delete(ctx, "rrpool-reflectors", options.DeleteOptions{})
			require.NoError(t, err)
		}},
		{"a BGPPeer is edited", func() {
			p, err := s.Lab.Calico().BGPPeers().Get(ctx, "rrpool-reflectors", options.GetOptions{})
			require.NoError(t, err)
			p.Spec.PeerSelector = "has(nothing)"
			_, err = s.Lab.Calico().BGPPeers().Update(ctx, p, options.SetOptions{})
			require.NoError(t, err)
		}},
	} {
		s.Lab.Checkpoint(drift.name)
		version := leftRest(t, ctx, s)
		drift.do()
		require.NoError(t, s.WaitFor(within(t, ctx), drift.name+", and put right", func(o *v1alpha1.RouteReflectorPool) bool {
			return o.ResourceVersion != version && isReady(o) &&
				meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReflectorsEstablished)
		}))
		require.NoError(t, s.Lab.WaitReflected(within(t, ctx), s.Reflectors()...))
		requireMigrated(t, ctx, s, 3)
	}

	s.Lab.Checkpoint("killed on the way back")
	require.NoError(t, s.SetMode(ctx, v1alpha1.ModeFullMesh))
	killed = killAfterEachStep(t, ctx, s)
	require.Subset(t, killed, []string{"RestoreMesh", "AwaitMesh", "DemoteReflectors", "DeletePeers", "ForgetMesh"})
	requireMeshed(t, ctx, s, before)
	require.NoError(t, s.Lab.Report().Only(s.Workers...).ZeroLoss())
}

// killAfterEachStep kills and restarts the manager the moment it reports a step of a kind that it was not yet
// killed after, until it reports Ready, and names the steps.
func killAfterEachStep(t *testing.T, ctx context.Context, s *site.Site) []string { //nolint:revive // t comes first in tests
	t.Helper()
	var killed []string
	err := s.Follow(within(t, ctx), func(o *v1alpha1.RouteReflectorPool) bool {
		if isReady(o) {
			return true
		}
		step := o.Status.Step.Name
		if step == "" || o.Status.ObservedGeneration != o.Generation || slices.Contains(killed, step) {
			return false
		}
		s.KillManager()
		killed = append(killed, step)
		require.NoError(t, s.StartManager("--leader-elect=false"))
		return false
	})
	require.NoError(t, err)
	t.Logf("killed after %s", strings.Join(killed, ", "))
	return killed
}

func isReady(o *v1alpha1.RouteReflectorPool) bool {
	return o.Status.ObservedGeneration == o.Generation && meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReady)
}

// leftRest gives the object's version at rest, so that what follows can be distinguished.
func leftRest(t *testing.T, ctx context.Context, s *site.Site) string { //nolint:revive // t comes first in tests
	t.Helper()
	require.NoError(t, s.WaitReady(within(t, ctx)))
	time.Sleep(2 * time.Second) // let the last status be written
	o, err := s.Pool(ctx)
	require.NoError(t, err)
	return o.ResourceVersion
}

func patchReflector(t *testing.T, ctx context.Context, s *site.Site, patch string) { //nolint:revive // t comes first in tests
	t.Helper()
	o, err := s.Pool(ctx)
	require.NoError(t, err)
	_, err = s.Lab.Kube().CoreV1().Nodes().Patch(ctx, o.Status.Reflectors[0].Node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(t, err)
}
