package cost_test

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud/cost"
)

func decimal(t require.TestingT, text string) *big.Rat {
	d, err := cost.ParseDecimal(text)
	require.NoError(t, err)
	return d
}

func TestShort(t *testing.T) {
	for text, want := range map[string]string{"100": "100", "0": "0", "1.50": "1.5", "0.001": "0", "20.00": "20", "0.999": "1", "1.005": "1.01"} {
		require.Equal(t, want, cost.Short(decimal(t, text), 2), "half up; the nearest float64 of 1.005 is below it")
	}
	entry := cost.Entry{Price: "608.59", Hours: 2190}
	require.Equal(t, "0.277895", cost.Short(entry.Hourly(), 6), "a quotient that no decimal can hold")
}

func TestWhatIsNoAmount(t *testing.T) {
	for _, text := range []string{"", "-1", "+1", ".5", "1.", "1,5", "1e5", "1e999999999", "1/3", "NaN", "Inf", " 1", "1 ", "0x1", "1_000", "1234567890", "0.1234567890123456789"} {
		_, err := cost.ParseDecimal(text)
		require.ErrorContains(t, err, "write a decimal of 0 or more, such as 0.11", "%q", text)
	}
}
