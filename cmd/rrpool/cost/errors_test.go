package cost

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/cli"
)

// Bad input gets one sentence that names the field, the value and the remedy.
func TestBadInput(t *testing.T) {
	negative := cli.File(t, "version: 1\nentries: [{flavor: a, region: any, price: -1, currency: USD, date: '2026-01-01', source: me}]")
	cli.RequireBad(t, New, "cost", map[string]cli.Bad{
		"a negative number of workers":   {[]string{"--reflectors", "-3"}, []string{"--reflectors", `"-3"`, "use a whole number from 1 to 10000"}},
		"half a worker":                  {[]string{"--nodes", "1.5"}, []string{"--nodes", `"1.5"`, "use a whole number"}},
		"a pool that zones cannot share": {[]string{"--reflectors", "7", "--zones", "3"}, []string{"--reflectors", "7 reflectors", "use 6 or 9"}},
		"two sizes":                      {[]string{"--nodes", "3", "--reflectors", "5"}, []string{"[nodes reflectors] were all set"}},
		"a negative price":               {[]string{"--hourly-price", "-0.11"}, []string{"--hourly-price", `"-0.11"`, "write a decimal of 0 or more, such as 0.11"}},
		"a price that takes for ever":    {[]string{"--hourly-price", "1e999999999"}, []string{"--hourly-price", "write a decimal"}},
		"an unknown flavor":              {[]string{"--flavor", "xx9.1x1"}, []string{"--flavor", "xx9.1x1", "bx2.2x8", "give --hourly-price"}},
		"a flavor that cannot be":        {[]string{"--flavor", "bx2 2x8"}, []string{"--flavor", `"bx2 2x8"`, "such as bx2.2x8"}},
		"a flavor without its region":    {[]string{"--flavor", "bx2.2x8"}, []string{"bx2.2x8 in an unknown region", "only of bx2.2x8 in eu-de, bx2.2x8 in us-south, ", "give --hourly-price"}},
		"a region that cannot be":        {[]string{"--region", "Frankfurt am Main"}, []string{"--region", `"Frankfurt am Main"`, "such as eu-de"}},
		"a price book that is not there": {[]string{"--price-book", "/nonexistent"}, []string{"--price-book", `"/nonexistent"`, "no such file", "give the name of a file"}},
		"a negative price in the book":   {[]string{"--price-book", negative}, []string{"--price-book", "entries[0].price", `"-1"`, "write a decimal of 0 or more"}},
	})
}

// A described pool needs no cluster, not even one that is configured.
func TestNoClusterIsAskedWithoutNeed(t *testing.T) {
	a := migrated()
	t.Setenv("KUBECONFIG", cli.Serve(t, a))
	for _, args := range [][]string{{"--nodes", "3"}, {"--reflectors", "3"}, {"--zones", "3"}, {"--flavor", "bx2.4x16"}, {"--region", "eu-de"}} {
		require.Zero(t, ask(t, append([]string{"cost", "--hourly-price", "0.11"}, args...)...).Code, args)
	}
	require.Empty(t, a.asked)
	require.Zero(t, ask(t, "cost").Code)
	require.NotEmpty(t, a.asked, "without flags it is about the cluster")
}
