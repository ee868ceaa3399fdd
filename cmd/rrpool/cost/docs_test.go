package cost

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/test/cli"
)

func TestTheExampleOfTheDocs(t *testing.T) {
	cli.RequireExamples(t, "cost", func(args ...string) cli.Answer { return ask(t, args...) })
}

func TestThePriceBookOfTheDocs(t *testing.T) {
	got := ask(t, "cost", "--flavor", "u3c.2x4", "--price-book", cli.File(t, cli.Blocks(t, "cost", "yaml")[0]))
	require.Zero(t, got.Code, got.Err)
	require.Contains(t, got.Out, "u3c.2x4 in any: 0.08 EUR/hour, 2026-10-01, contract 4711")
	require.Contains(t, got.Out, "leaves out: disks")
}

// The figures of what the manager reports are those of its own code.
func TestWhatTheDocsSayTheManagerReports(t *testing.T) {
	page := cli.Page(t, "cost")
	worker := cost.Worker{Region: "us-south", Flavor: "bx2.2x8"}
	reported := cost.Builtin().Status([]cost.Worker{worker, worker, worker})
	for field, value := range map[string]string{
		"`currency`": reported.Currency, "`hourly`": reported.Hourly, "`monthly`, of 720 hours": reported.Monthly, "`source`": reported.Source,
	} {
		require.Contains(t, page, "| "+field+" | `"+value+"` |")
	}
	partly, _, _ := strings.Cut(cost.Builtin().Status([]cost.Worker{worker, {Flavor: "odd.1x1"}}).Source, " the ")
	require.Contains(t, page, "`"+partly+" …`")
}

// The docs name each flavor and region of the built-in book.
func TestWhatTheDocsName(t *testing.T) {
	page := cli.Page(t, "cost")
	for _, entry := range cost.Builtin() {
		require.Contains(t, page, "`"+entry.Flavor+"`")
		require.Contains(t, page, "`"+entry.Region+"`")
	}
}
