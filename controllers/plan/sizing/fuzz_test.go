package sizing

import (
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// decimal reads a ratio as the API documents it, by hand: digits with at most one point
// among them, more than 0 and at most 1. It gives the value times 10^places.
func decimal(text string) (value *big.Int, places int, ok bool) {
	whole, fraction, _ := strings.Cut(text, ".")
	if whole+fraction == "" || strings.Trim(whole+fraction, "0123456789") != "" || len(text) > 16 {
		return nil, 0, false
	}
	value, places = new(big.Int), len(fraction)
	for _, digit := range whole + fraction {
		value.Mul(value, big.NewInt(10)).Add(value, big.NewInt(int64(digit-'0')))
	}
	return value, places, value.Sign() > 0 && value.Cmp(power(places)) <= 0
}

func power(places int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)
}

// A ratio is accepted just where it is a plain decimal in (0,1], and gives the number that
// arithmetic by hand gives.
func FuzzRatio(f *testing.F) {
	for _, seed := range []string{
		"0.005", "1", "1.0", ".5", "0", "0.0", "1.01", "-0.1", "+0.1", "1/2", "5e-3", "1e-1000000", "0x1p-2", "0.", "1.", "", ".", "0_1", "٠.٥",
		"NaN", "Inf", " 0.5", "0.5\n", "0.00000000000001",
	} {
		f.Add(seed, uint16(500))
	}
	f.Fuzz(func(t *testing.T, ratio string, nodes uint16) {
		got, err := linear(ratio, int(nodes))
		value, places, ok := decimal(ratio)
		if !ok {
			require.ErrorContains(t, err, "spec.sizing.ratio: ")
			require.ErrorContains(t, err, `use for example "0.005"`)
			return
		}
		require.NoError(t, err)
		product := value.Mul(value, big.NewInt(int64(nodes)))
		rounded, rest := new(big.Int).QuoRem(product, power(places), new(big.Int))
		if rest.Sign() > 0 {
			rounded.Add(rounded, big.NewInt(1))
		}
		require.Equal(t, rounded.Int64(), int64(got))
	})
}

// However a spec is put together, it is refused with a field and a remedy, or it gives a
// number that holds all bounds and that can be carried out.
func FuzzSizing(f *testing.F) {
	f.Add("PerHundred", "0.005", int32(0), int32(0), int32(3), int32(25), int32(1), uint16(500), uint8(3))
	f.Add("Linear", "1", int32(0), int32(0), int32(1), int32(1<<31-1), int32(1), uint16(65535), uint8(1))
	f.Add("Stepping", "", int32(10), int32(1<<31-1), int32(1<<31-1), int32(1<<31-1), int32(1<<31-1), uint16(11), uint8(255))
	f.Add("", "", int32(-1), int32(-1), int32(-1), int32(-1), int32(-1), uint16(0), uint8(0))
	f.Fuzz(func(t *testing.T, method, ratio string, upTo, reflectors, low, high, perZone int32, nodes uint16, zones uint8) {
		spec := v1alpha1.SizingSpec{
			Method: v1alpha1.SizingMethod(method), Ratio: ratio, Steps: []v1alpha1.SizingStep{{UpToNodes: upTo, Reflectors: reflectors}},
			Min: low, Max: high, MinPerZone: perZone,
		}
		each, err := Reflectors(spec, int(nodes), int(zones))
		if err != nil {
			require.Regexp(t, `^(spec\.sizing\.\w+: .*: .|sizing for 0 zones: )`, err.Error())
			return
		}
		all := each * int(zones)
		require.LessOrEqual(t, all, max(int(high), 1))
		require.GreaterOrEqual(t, all, int(low))
		require.GreaterOrEqual(t, each, max(int(perZone), 1))
	})
}
