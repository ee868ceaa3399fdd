package cost_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud/cost"
)

func decimal(t require.TestingT, text string) cost.Decimal {
	d, err := cost.ParseDecimal(text)
	require.NoError(t, err)
	return d
}

// The figures of the design document.
func TestTheFiguresOfTheDesign(t *testing.T) {
	price := decimal(t, "0.11")
	require.Equal(t, "79.2", price.Times(720).Short(2))
	require.Equal(t, "950.4", price.Times(720).Times(12).Short(2))
	for workers, monthly := range map[int]string{3: "238", 6: "475", 9: "713"} {
		require.Equal(t, monthly, price.Times(workers).Times(720).Round(0), "%d workers", workers)
	}
	require.Equal(t, "80.30", price.Times(730).Round(2))
}

// This is what floating point gets wrong: 0.1 + 0.2, and halves that it cannot hold.
func TestNothingIsLost(t *testing.T) {
	require.Zero(t, decimal(t, "0.1").Plus(decimal(t, "0.2")).Cmp(decimal(t, "0.3")))
	require.Equal(t, "1.01", decimal(t, "1.005").Round(2), "half up; the nearest float64 of 1.005 is below it")
	require.Equal(t, "3", decimal(t, "2.5").Round(0), "half up, not to even")
	require.Zero(t, decimal(t, "608.59").Over(2190).Times(2190).Cmp(decimal(t, "608.59")), "a quotient that no decimal can hold")
	require.Equal(t, "0.277895", decimal(t, "608.59").Over(2190).Short(6))
}

func TestShort(t *testing.T) {
	for text, want := range map[string]string{"100": "100", "0": "0", "1.50": "1.5", "0.001": "0", "20.00": "20", "0.999": "1"} {
		require.Equal(t, want, decimal(t, text).Short(2))
	}
	require.Equal(t, "0", cost.Decimal{}.Short(2), "the zero value is 0")
}

func TestWhatIsNoAmount(t *testing.T) {
	for _, text := range []string{"", "-1", "+1", ".5", "1.", "1,5", "1e5", "1e999999999", "1/3", "NaN", "Inf", " 1", "1 ", "0x1", "1_000", "1234567890", "0.1234567890123456789"} {
		_, err := cost.ParseDecimal(text)
		require.ErrorContains(t, err, "write a decimal of 0 or more, such as 0.11", "%q", text)
	}
}
