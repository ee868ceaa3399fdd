// Command explore looks at every state of small clusters under rollout.Next, prints what
// it has found, and fails at the first broken invariant.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/test/modelcheck"
)

func main() {
	full := flag.Bool("full", false, "the whole bound, not the small one of make test")
	limit := flag.Int("limit", 0, "at most so many states a scenario; 0: what the scenario says")
	only := flag.String("only", "", "names of scenarios, with | between them; empty: all")
	flag.Parse()
	report := modelcheck.NewReport()
	all := modelcheck.Scenarios(*full)
	if strings.HasPrefix(*only, "probe: ") {
		all = modelcheck.Probes()
	}
	for _, sc := range all {
		if *only != "" && !slices.Contains(strings.Split(*only, "|"), sc.Name) {
			continue
		}
		if *limit > 0 {
			sc.Limit = *limit
		}
		r := modelcheck.Explore(sc, runtime.GOMAXPROCS(0))
		report.Add(r)
		if r.Violation != "" {
			fmt.Print(report, "\n", r.Trace)
			os.Exit(1)
		}
	}
	fmt.Print(report)
	if report.Empty() {
		fmt.Fprintln(os.Stderr, "no scenario has that name")
		os.Exit(2)
	}
}
