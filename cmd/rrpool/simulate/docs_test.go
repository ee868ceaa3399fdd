package simulate

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/cli"
)

const docs = "../../../docs"

var (
	blocks = regexp.MustCompile("(?s)\n```console\n(.*?)```\n")
	pages  = []string{"simulate", "topologies"}
)

func page(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(docs, name+".md"))
	require.NoError(t, err)
	return string(content)
}

// Each example of the docs is what the command says. A line of … leaves lines out.
func TestTheExamplesOfTheDocs(t *testing.T) {
	for _, name := range pages {
		t.Run(name, func(t *testing.T) {
			found := blocks.FindAllStringSubmatch(page(t, name), -1)
			require.NotEmpty(t, found)
			for _, match := range found {
				command, output, _ := strings.Cut(match[1], "\n")
				got := cli.Ask(t, New, strings.Fields(strings.TrimPrefix(command, "$ rrpool "))...).Out
				for i, part := range strings.Split(output, "…\n") {
					before, after, found := strings.Cut(got, part)
					require.True(t, found, "%s says\n%s\nand not\n%s", command, got, part)
					require.False(t, i == 0 && before != "", "%s begins with\n%s", command, before)
					got = after
				}
				if !strings.HasSuffix(output, "…\n") {
					require.Empty(t, got, command)
				}
			}
		})
	}
}

// The table of sizes is what the command says.
func TestTheTableOfSizes(t *testing.T) {
	var want strings.Builder
	want.WriteString("| nodes | Single | Quorum | Hierarchy | MultiCluster | Auto takes |\n|---|---|---|---|---|---|\n")
	for _, size := range []int{100, 500, 1000, 2000, 3000, 5000} {
		v := ask(t, "--nodes", strconv.Itoa(size), "--zones", "3", "--compare")
		fmt.Fprintf(&want, "| %d |", size)
		for _, one := range v.Topologies {
			if one.Refused != nil {
				want.WriteString(" – |")
				continue
			}
			f := one.Figures
			fmt.Fprintf(&want, " %d reflectors, %d sessions, %d paths |", f.Reflectors, f.SessionsPerReflector.Most, f.PathsOnClient.Paths)
		}
		fmt.Fprintf(&want, " %s |\n", cmp.Or(v.Auto, "none"))
	}
	require.Contains(t, page(t, "topologies"), want.String())
}
