// Package sizing turns a number of nodes into a number of route reflectors.
package sizing

import (
	"fmt"
	"math/big"
	"regexp"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// Most is the greatest number of route reflectors. What is computed for each of them
// would otherwise take hours for a slip of the finger.
const Most = 1000

// ratioForm is that of spec.sizing.ratio, and keeps exponents out of the arithmetic.
var ratioForm = regexp.MustCompile(`^(\d+\.?\d*|\.\d+)$`)

// Reflectors gives the number of reflectors in each zone, the same in all, for a cluster of nodes (Ready, speaking BGP,
// not dedicated to reflecting) in zones. All together they are at least what the sizing rule asks for, unless that
// would exceed max. It fails when the spec cannot be satisfied and names the field.
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

// byMethod applies the rule, without any bounds.
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

// linear is ceil(nodes × ratio), in exact arithmetic.
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

// stepping is the first step that covers nodes; past the last one, the last one counts.
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

// spread gives every zone the same share, rounded up; down where up would exceed high and down still keeps low.
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
