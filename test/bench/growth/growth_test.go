package growth_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/test/bench/growth"
)

func TestAPowerLawHasItsExponentWhateverTheFactorAndTheSizes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		factor := rapid.Float64Range(1e-6, 1e6).Draw(t, "factor")
		exponent := rapid.Float64Range(-3, 3).Draw(t, "exponent")
		var points []growth.Point
		size := 1.0
		for range rapid.IntRange(2, 6).Draw(t, "points") {
			size *= rapid.Float64Range(1.1, 10).Draw(t, "times")
			points = append(points, growth.Point{Size: size, Value: factor * math.Pow(size, exponent)})
		}
		fitted, err := growth.Fit(points)
		require.NoError(t, err)
		require.InDelta(t, exponent, fitted, 1e-6)
		steps, err := growth.Steps(points)
		require.NoError(t, err)
		require.Len(t, steps, len(points)-1)
		for _, step := range steps {
			require.InDelta(t, exponent, step.Exponent(), 1e-6)
		}
	})
}

func TestGrowthOfMeasuredFigures(t *testing.T) {
	points := []growth.Point{{500, 0.5}, {1000, 2.3}, {2000, 12}}
	steps, err := growth.Steps(points)
	require.NoError(t, err)
	require.Len(t, steps, 2)
	require.InDelta(t, 2, steps[0].Size, 1e-9)
	require.InDelta(t, 4.6, steps[0].Value, 1e-9)
	require.InDelta(t, 5.2, steps[1].Value, 0.02)
	fitted, err := growth.Fit(points)
	require.NoError(t, err)
	require.InDelta(t, math.Log2(24)/2, fitted, 1e-9) // evenly spaced: the ends decide
}

func TestWhatHasNoGrowthIsRefused(t *testing.T) {
	for name, points := range map[string][]growth.Point{
		"a single size":            {{100, 1}},
		"nothing":                  nil,
		"a figure of zero":         {{100, 0}, {200, 1}},
		"a size twice":             {{100, 1}, {100, 1}},
		"sizes that do not ascend": {{200, 1}, {100, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := growth.Fit(points)
			require.Error(t, err)
		})
	}
}
