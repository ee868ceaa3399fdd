// Package sizing computes the number of route reflectors from the number of nodes.
package sizing

import (
	"fmt"
	"math/big"
	"regexp"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// Most is the largest number of route reflectors. It bounds the computing time for a mistyped spec.sizing.max.
const Most = 1000

// ratioForm is the syntax of spec.sizing.ratio: a decimal without an exponent.
var ratioForm = regexp.MustCompile(`^(\d+\.?\d*|\.\d+)$`)

// Reflectors returns the number of reflectors in each zone for a number of nodes (Ready, speaking
// BGP, not dedicated reflectors). In all zones together it is at least what the sizing method asks
// for, unless that would exceed max. If the spec cannot be satisfied, the error names the field.
func Reflectors(spec v1alpha1.SizingSpec, nodes, zones int) (perZone int, err error) {
	if zones < 1 {
		return 0, fmt.Errorf("sizing for %d zones: at least one zone is needed", zones)
	}
	asked, err := byMethod(spec, nodes)
	if err != nil {
		return 0, err
	}
	low, high := max(int(spec.Min), 1), int(spec.Max)
	if high > Most {
		return 0, fmt.Errorf("spec.sizing.max: %d is more than the %d route reflectors that any cluster has use for: lower it", high, Most)
	}
	if high < low {
		return 0, fmt.Errorf("spec.sizing.max: %d is below spec.sizing.min %d: raise max or lower min", high, low)
	}
	return spread(min(max(asked, low), high), zones, low, high, max(int(spec.MinPerZone), 1))
}

// byMethod returns the number that the sizing method asks for, without bounds.
func byMethod(spec v1alpha1.SizingSpec, nodes int) (int, error) {
	switch spec.Method {
	case v1alpha1.SizingPerHundred, "":
		return 3 + nodes/100, nil
	case v1alpha1.SizingLinear:
		return linear(spec.Ratio, nodes)
	case v1alpha1.SizingStepping:
		return stepping(spec.Steps, nodes)
	}
	return 0, fmt.Errorf("spec.sizing.method: unknown value %q: use PerHundred, Linear or Stepping", spec.Method)
}

// linear returns ceil(nodes × ratio), in exact arithmetic.
func linear(ratio string, nodes int) (int, error) {
	r, ok := new(big.Rat), len(ratio) <= 16 && ratioForm.MatchString(ratio)
	if ok {
		r, ok = r.SetString(ratio)
	}
	if !ok || r.Sign() <= 0 || r.Cmp(big.NewRat(1, 1)) > 0 {
		return 0, fmt.Errorf("spec.sizing.ratio: %q is not a decimal in (0,1]: use for example \"0.005\"", ratio)
	}
	r.Mul(r, new(big.Rat).SetInt64(int64(nodes)))
	whole, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	return int(whole.Int64()), nil
}

// stepping returns the reflectors of the first step that covers nodes; if none does, those of the last step.
func stepping(steps []v1alpha1.SizingStep, nodes int) (int, error) {
	if len(steps) == 0 {
		return 0, fmt.Errorf("spec.sizing.steps: empty, but spec.sizing.method is Stepping: give at least one step")
	}
	for _, s := range steps {
		if nodes <= int(s.UpToNodes) {
			return int(s.Reflectors), nil
		}
	}
	return int(steps[len(steps)-1].Reflectors), nil
}

// spread returns the number per zone, rounded up, or rounded down if rounding up would
// exceed high. If the zones together then have fewer than low, it returns an error.
func spread(total, zones, low, high, minPerZone int) (int, error) {
	share := max((total+zones-1)/zones, minPerZone)
	if share*zones > high && share > minPerZone {
		share = max(high/zones, minPerZone)
	}
	if share*zones > high {
		return 0, fmt.Errorf("spec.sizing.max: %d is too small for %d zones with at least %d each: raise max to %d",
			high, zones, share, share*zones)
	}
	if share*zones < low {
		return 0, fmt.Errorf("spec.sizing.min: %d cannot be met by %d zones with %d each without exceeding max %d: raise max",
			low, zones, share, high)
	}
	return share, nil
}
