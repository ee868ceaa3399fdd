package forecast

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/test/cli"
)

// input is an invented cluster and the default object.
func input(t require.TestingT, nodes, zones int, provider v1alpha1.ProviderType) Input {
	object, err := crd.Default()
	require.NoError(t, err)
	return Input{Object: object, Provider: provider, Cluster: Invent(nodes, zones, provider), Now: cli.Now}
}

func forecastOf(t require.TestingT, in Input) *Forecast {
	f, err := Run(context.Background(), in)
	require.NoError(t, err)
	return f
}

// after is the input that a forecast ends with.
func after(f *Forecast, mode v1alpha1.Mode) Input {
	object := f.in.Object.DeepCopy()
	object.Spec.Mode = mode
	return Input{
		Object: object, Provider: f.in.Provider, Cluster: f.Final.Cluster, Pool: f.Final.Pool, Pods: f.in.Pods, Now: cli.Now.Add(24 * time.Hour),
	}
}

// Whatever the cluster, the manager gets to the end, rests there, and gets back. With
// dedicated nodes nobody loses a packet, with existing ones the pods of the first one.
func TestEveryForecastEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		provider := rapid.SampledFrom([]v1alpha1.ProviderType{v1alpha1.ProviderIKS, v1alpha1.ProviderExistingNodes}).Draw(t, "provider")
		nodes := rapid.IntRange(3, 7).Draw(t, "nodes")
		in := input(t, nodes, rapid.IntRange(1, min(3, nodes)).Draw(t, "zones"), provider)
		lost := 0
		if provider == v1alpha1.ProviderExistingNodes {
			lost = 1
			if rapid.Bool().Draw(t, "an idle node") {
				in.Pods, lost = map[string]int{in.Cluster.Nodes[0].Name: 0}, 0
			}
		}
		there := forecastOf(t, in)
		if there.Problem != nil && there.Problem.Reason == "TooFewNodes" {
			require.Empty(t, there.writes())
			return
		}
		require.True(t, there.Settled, there.Problem)
		require.Len(t, there.Loss, lost)
		require.False(t, there.After.MeshOn)
		require.GreaterOrEqual(t, there.After.Reflectors, 3)

		rest := forecastOf(t, after(there, v1alpha1.ModeRouteReflector))
		require.True(t, rest.Settled)
		require.Empty(t, rest.writes(), "at rest nothing is written")

		back := forecastOf(t, after(there, v1alpha1.ModeFullMesh))
		require.True(t, back.Settled)
		require.Len(t, back.Loss, lost)
		require.True(t, back.After.MeshOn)
		require.Zero(t, back.After.Reflectors)
	})
}

// The same cluster done carelessly: the forecast says who pays for it.
func TestAForecastNamesWhoLoses(t *testing.T) {
	in := input(t, 6, 3, v1alpha1.ProviderExistingNodes)
	in.Object.Spec.Provider.ExistingNodes.Promotion = v1alpha1.PromotionImmediate
	in.Pods = map[string]int{}
	for i, n := range in.Cluster.Nodes {
		in.Pods[n.Name] = 10 + i
	}
	f := forecastOf(t, in)
	require.True(t, f.Settled)
	require.Len(t, f.Loss, 3, "every node whose role changes")
	for _, l := range f.Loss {
		require.Equal(t, "PromoteReflectors", l.Step)
		require.GreaterOrEqual(t, l.Pods, 10)
	}
}

// A pool that grows and shrinks, and one that is drained first.
func TestForecastsOfChanges(t *testing.T) {
	there := forecastOf(t, input(t, 9, 3, v1alpha1.ProviderIKS))
	grow := after(there, v1alpha1.ModeRouteReflector)
	grow.Object.Spec.Sizing.Min = 6
	bigger := forecastOf(t, grow)
	require.True(t, bigger.Settled)
	require.Equal(t, 6, bigger.After.Reflectors)
	require.Empty(t, bigger.Loss)

	shrink := after(bigger, v1alpha1.ModeRouteReflector)
	shrink.Object.Spec.Sizing.Min = 3
	smaller := forecastOf(t, shrink)
	require.True(t, smaller.Settled, smaller.Problem)
	require.Equal(t, 3, smaller.After.Reflectors)
	require.Empty(t, smaller.Loss)

	in := input(t, 6, 3, v1alpha1.ProviderExistingNodes)
	in.Object.Spec.Provider.ExistingNodes.Promotion = v1alpha1.PromotionDrain
	in.Pods = map[string]int{"node-0001": 2, "node-0002": 2, "node-0003": 2, "node-0004": 2, "node-0005": 2, "node-0006": 2}
	drained := forecastOf(t, in)
	require.True(t, drained.Settled)
	require.Empty(t, drained.Loss, "the first one was empty by then")
	require.Contains(t, drained.writes()[0], "into the pool")
}

// What the manager refuses, the forecast says, and what it is told to stop, it stops.
func TestForecastsWithoutAnEnd(t *testing.T) {
	in := input(t, 6, 3, v1alpha1.ProviderIKS)
	in.Cluster.Nodes[2].ASN = 64513
	f := forecastOf(t, in)
	require.False(t, f.Settled)
	require.NotNil(t, f.Problem)
	require.Empty(t, f.writes())

	paused := input(t, 6, 3, v1alpha1.ProviderIKS)
	paused.Object.Spec.Mode = v1alpha1.ModePaused
	f = forecastOf(t, paused)
	require.Empty(t, f.writes())

	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err := Run(ctx, input(t, 6, 3, v1alpha1.ProviderIKS))
	require.ErrorIs(t, err, context.Canceled)
}
