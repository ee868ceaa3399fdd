package simulate

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/cli"
)

func TestTheExamplesOfTheDocs(t *testing.T) {
	for _, page := range []string{"simulate", "topologies"} {
		cli.RequireExamples(t, page, func(args ...string) cli.Answer { return cli.Ask(t, New, args...) })
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
	require.Contains(t, cli.Page(t, "topologies"), want.String())
}
