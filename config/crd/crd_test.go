package crd_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
)

const head = "apiVersion: rrpool.io/v1alpha1\nkind: RouteReflectorPool\nmetadata: {name: default}\n"

func TestWhatIsLeftOpenIsFilledIn(t *testing.T) {
	object, err := crd.Read([]byte(head + "spec: {sizing: {min: 5, max: 9}, provider: {existingNodes: {promotion: Drain}}}"))
	require.NoError(t, err)
	require.Equal(t, int32(5), object.Spec.Sizing.Min)
	require.Equal(t, v1alpha1.SizingPerHundred, object.Spec.Sizing.Method)
	require.Equal(t, "route-reflectors", object.Spec.Provider.IKS.PoolName)
	require.Equal(t, v1alpha1.PromotionDrain, object.Spec.Provider.ExistingNodes.Promotion)
	saved, err := crd.Read([]byte("---\n# saved while it was deleted\n---\n" + strings.Replace(head, "name", "deletionTimestamp: '2026-01-01T00:00:00Z', name", 1) + "status: {pool: old}"))
	require.NoError(t, err)
	require.Nil(t, saved.DeletionTimestamp)
	require.Empty(t, saved.Status.Pool)
	empty := crd.Default()
	require.Equal(t, v1alpha1.ModeRouteReflector, empty.Spec.Mode)
	require.Equal(t, "244.0.0.1", empty.Spec.Topology.ClusterID)
	require.Equal(t, int32(64), empty.Spec.Topology.MaxPathsPerPrefix)
	require.Zero(t, empty.Spec.Topology.MaxClientsPerReflector, "it depends on what the reflectors are")
}

func TestWhatAnApiserverWouldRefuse(t *testing.T) {
	for name, tc := range map[string]struct{ content, says string }{
		"no YAML":               {"spec: [", "this is no YAML"},
		"a field written twice": {head + "spec: {mode: FullMesh, mode: Paused}", "this is no YAML"},
		"another kind":          {"apiVersion: v1\nkind: Node", "this has Node of apiVersion v1"},
		"nothing":               {"", "give a file with one RouteReflectorPool of apiVersion rrpool.io/v1alpha1 alone: this has nothing"},
		"another one below":     {head + "---\n" + head, "this has RouteReflectorPool of apiVersion rrpool.io/v1alpha1, RouteReflectorPool"},
		"a Secret beside it":    {"apiVersion: v1\nkind: Secret\n---\n" + head, "this has Secret of apiVersion v1, RouteReflectorPool"},
		"a broken one below":    {head + "---\nspec: [", "this is no YAML"},
		"one after another":     {`{"apiVersion": "rrpool.io/v1alpha1", "kind": "RouteReflectorPool"} {"kind": "Node"}`, "there is something after the object"},
		"no name":               {"apiVersion: rrpool.io/v1alpha1\nkind: RouteReflectorPool", "metadata.name: Required value"},
		"a slip in metadata":    {strings.Replace(head, "name", "lables: {a: b}, name", 1), `unknown field "metadata.lables"`},
		"a label that is none":  {strings.Replace(head, "name", "labels: {a: 'b c'}, name", 1), "metadata.labels"},
		"an unknown field":      {head + "spec: {sizing: {minimum: 3}}", `unknown field "spec.sizing.minimum"`},
		"another name":          {strings.Replace(head, "default", "other", 1), "its name is default"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := crd.Read([]byte(tc.content))
			require.ErrorContains(t, err, tc.says)
		})
	}
}
