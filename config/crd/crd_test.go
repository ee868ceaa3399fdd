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
		"another kind":          {"apiVersion: v1\nkind: Node", `this is "Node" of apiVersion "v1": give a RouteReflectorPool of rrpool.io/v1alpha1`},
		"nothing":               {"", "nothing is in it: give a RouteReflectorPool of rrpool.io/v1alpha1"},
		"another one below":     {head + "---\n" + head, `there is also "RouteReflectorPool"`},
		"a Secret beside it":    {"apiVersion: v1\nkind: Secret\n---\n" + head, `there is also "Secret" of apiVersion "v1" in it`},
		"a broken one below":    {head + "---\nspec: [", "this is no YAML"},
		"one after another":     {`{"apiVersion": "rrpool.io/v1alpha1", "kind": "RouteReflectorPool"} {"kind": "Node"}`, "there is something after the object"},
		"no name":               {"apiVersion: rrpool.io/v1alpha1\nkind: RouteReflectorPool", "metadata.name: it is missing: write default"},
		"a slip in metadata":    {strings.Replace(head, "name", "lables: {a: b}, name", 1), "metadata.lables: there is no such field"},
		"a label that is none":  {strings.Replace(head, "name", "labels: {a: 'b c'}, name", 1), "metadata.labels"},
		"a zone twice":          {head + "spec: {provider: {iks: {zones: [a, a]}}}", `Duplicate value: "a"`},
		"an unknown field":      {head + "spec: {sizing: {minimum: 3}}", "spec.sizing.minimum: there is no such field"},
		"an unknown word":       {head + "spec: {mode: Mesh}", `spec.mode: Unsupported value: "Mesh"`},
		"a negative number":     {head + "spec: {sizing: {min: -1}}", "spec.sizing.min"},
		"a relation":            {head + "spec: {sizing: {min: 9, max: 3}}", "spec.sizing"},
		"a relation of labels":  {head + "spec: {topology: {rackLabel: a}, bgp: {nodeLabel: a}}", "spec.topology.rackLabel"},
		"a label of rrpool's":   {head + "spec: {topology: {rackLabel: rrpool.io/rack}}", "spec.topology.rackLabel"},
		"busy nodes for racks":  {head + "spec: {topology: {type: Hierarchy}, provider: {type: ExistingNodes}}", "spec.topology.type"},
		"another name":          {strings.Replace(head, "default", "other", 1), "its name is default"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := crd.Read([]byte(tc.content))
			require.ErrorContains(t, err, tc.says)
		})
	}
}
