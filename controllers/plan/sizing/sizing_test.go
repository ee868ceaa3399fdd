package sizing_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan/sizing"
)

func spec(method v1alpha1.SizingMethod) v1alpha1.SizingSpec {
	return v1alpha1.SizingSpec{Method: method, Ratio: "0.005", Min: 3, Max: 25, MinPerZone: 1}
}

// The tables of the design documents.
func TestReflectors(t *testing.T) {
	const perHundred = v1alpha1.SizingPerHundred
	for name, tc := range map[string]struct {
		method            v1alpha1.SizingMethod
		zones, minPerZone int
		want              map[int]int // nodes → reflectors in each zone
	}{
		"PerHundred is 3 below 100, else 3 + nodes/100": {
			perHundred, 1, 1, map[int]int{0: 3, 1: 3, 99: 3, 100: 4, 199: 4, 200: 5, 500: 8, 1000: 13, 2200: 25, 5000: 25},
		},
		"Linear at 0.005":                    {v1alpha1.SizingLinear, 1, 1, map[int]int{1: 3, 200: 3, 1000: 5, 1001: 6, 5000: 25}},
		"Stepping, and past the last step":   {v1alpha1.SizingStepping, 1, 1, map[int]int{1: 3, 200: 3, 201: 7, 1000: 7, 4000: 7}},
		"two zones get two each":             {perHundred, 2, 1, map[int]int{50: 2}},
		"three zones get one each":           {perHundred, 3, 1, map[int]int{50: 1}},
		"four zones get one each":            {perHundred, 4, 1, map[int]int{50: 1}},
		"minPerZone wins over the rule":      {perHundred, 3, 2, map[int]int{50: 2}},
		"rounding up stops at max (25 of 3)": {perHundred, 3, 1, map[int]int{5000: 8}},
	} {
		t.Run(name, func(t *testing.T) {
			for nodes, want := range tc.want {
				s := spec(tc.method)
				s.MinPerZone = int32(tc.minPerZone)
				s.Steps = []v1alpha1.SizingStep{{UpToNodes: 200, Reflectors: 3}, {UpToNodes: 1000, Reflectors: 7}}
				got, err := sizing.Reflectors(s, nodes, tc.zones)
				require.NoError(t, err)
				require.Equal(t, want, got, "%d nodes", nodes)
			}
		})
	}
}

func TestRefusalsNameTheField(t *testing.T) {
	for name, tc := range map[string]struct {
		edit  func(*v1alpha1.SizingSpec)
		zones int
		want  string
	}{
		"max below min":              {func(s *v1alpha1.SizingSpec) { s.Max = 2 }, 1, "spec.sizing.max: 2 is below"},
		"ratio not a number":         {func(s *v1alpha1.SizingSpec) { s.Method, s.Ratio = "Linear", "many" }, 1, `spec.sizing.ratio: "many"`},
		"no steps":                   {func(s *v1alpha1.SizingSpec) { s.Method = "Stepping" }, 1, "spec.sizing.steps: empty"},
		"unknown method":             {func(s *v1alpha1.SizingSpec) { s.Method = "Magic" }, 1, `spec.sizing.method: unknown value "Magic"`},
		"no zones":                   {func(*v1alpha1.SizingSpec) {}, 0, "at least one zone"},
		"more zones than max allows": {func(s *v1alpha1.SizingSpec) { s.Max = 4 }, 5, "raise max to 5"},
		"min unreachable under max":  {func(s *v1alpha1.SizingSpec) { s.Min, s.Max = 5, 5 }, 2, "spec.sizing.min: 5"},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec(v1alpha1.SizingPerHundred)
			tc.edit(&s)
			_, err := sizing.Reflectors(s, 10, tc.zones)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestBoundsHoldAndMoreNodesNeverMeanFewerReflectors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := spec(rapid.SampledFrom([]v1alpha1.SizingMethod{v1alpha1.SizingPerHundred, v1alpha1.SizingLinear}).Draw(t, "method"))
		s.Min = rapid.Int32Range(1, 10).Draw(t, "min")
		s.Max = rapid.Int32Range(s.Min, 60).Draw(t, "max")
		nodes, zones := rapid.IntRange(0, 6000).Draw(t, "nodes"), rapid.IntRange(1, 6).Draw(t, "zones")
		got, err := sizing.Reflectors(s, nodes, zones)
		if err != nil {
			return
		}
		require.GreaterOrEqual(t, got, 1)
		require.GreaterOrEqual(t, got*zones, int(s.Min))
		require.LessOrEqual(t, got*zones, int(s.Max))
		more, err := sizing.Reflectors(s, nodes+rapid.IntRange(0, 500).Draw(t, "growth"), zones)
		require.NoError(t, err)
		require.GreaterOrEqual(t, more, got)
	})
}
