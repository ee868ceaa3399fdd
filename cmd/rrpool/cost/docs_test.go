package cost

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/test/cli"
)

var blocks = regexp.MustCompile("(?s)\n```(yaml|console)\n(.*?)```\n")

// docs are the blocks of docs/cost.md: the role, the price book, and the example.
func docs(t *testing.T) (role rbacv1.ClusterRole, book, example string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/cost.md")
	require.NoError(t, err)
	for _, match := range blocks.FindAllStringSubmatch(string(page), -1) {
		switch {
		case match[1] == "console":
			example = match[2]
		case strings.HasPrefix(match[2], "version:"):
			book = match[2]
		default:
			require.NoError(t, yaml.UnmarshalStrict([]byte(match[2]), &role))
		}
	}
	return role, book, example
}

func TestTheExampleOfTheDocs(t *testing.T) {
	_, _, example := docs(t)
	command, output, _ := strings.Cut(example, "\n")
	got := askIn(t, iostreams.Streams{}, strings.Fields(strings.TrimPrefix(command, "$ rrpool "))...)
	require.Equal(t, output, got.Out)
}

func TestThePriceBookOfTheDocs(t *testing.T) {
	_, book, _ := docs(t)
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
