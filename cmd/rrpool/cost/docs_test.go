package cost

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/test/cli"
)

var blocks = regexp.MustCompile("(?s)\n```(yaml|console)\n(.*?)```\n")

// docs are the blocks of docs/cost.md: the price book, and the example.
func docs(t *testing.T) (book, example string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/cost.md")
	require.NoError(t, err)
	for _, match := range blocks.FindAllStringSubmatch(string(page), -1) {
		if match[1] == "console" {
			example = match[2]
		} else {
			book = match[2]
		}
	}
	return book, example
}

func TestTheExampleOfTheDocs(t *testing.T) {
	_, example := docs(t)
	command, output, _ := strings.Cut(example, "\n")
	got := askIn(t, iostreams.Streams{}, strings.Fields(strings.TrimPrefix(command, "$ rrpool "))...)
	require.Equal(t, output, got.Out)
}

func TestThePriceBookOfTheDocs(t *testing.T) {
	book, _ := docs(t)
	got := ask(t, "cost", "--flavor", "u3c.2x4", "--price-book", cli.File(t, book))
	require.Zero(t, got.Code, got.Err)
	require.Contains(t, got.Out, "u3c.2x4 in any: 0.08 EUR/hour, 2026-10-01, contract 4711")
	require.Contains(t, got.Out, "leaves out: disks")
}

// The figures of what the manager reports are those of its own code.
func TestWhatTheDocsSayTheManagerReports(t *testing.T) {
	content, err := os.ReadFile("../../../docs/cost.md")
	require.NoError(t, err)
	worker := cost.Worker{Region: "us-south", Flavor: "bx2.2x8"}
	reported := cost.Status([]cost.Worker{worker, worker, worker})
	for field, value := range map[string]string{
		"`currency`": reported.Currency, "`hourly`": reported.Hourly, "`monthly`, of 720 hours": reported.Monthly, "`source`": reported.Source,
	} {
		require.Contains(t, string(content), "| "+field+" | `"+value+"` |")
	}
	partly, _, _ := strings.Cut(cost.Status([]cost.Worker{worker, {Flavor: "odd.1x1"}}).Source, " the ")
	require.Contains(t, string(content), "`"+partly+" …`")
}

// The docs name each flavor and region of the built-in book.
func TestWhatTheDocsName(t *testing.T) {
	content, err := os.ReadFile("../../../docs/cost.md")
	require.NoError(t, err)
	page := string(content)
	for _, entry := range cost.Builtin() {
		require.Contains(t, page, "`"+entry.Flavor+"`")
		require.Contains(t, page, "`"+entry.Region+"`")
	}
}
