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
	only := flag.String("only", "", "names of scenarios, with | between them; empty: all")
	flag.Parse()
	var report modelcheck.Report
	for _, sc := range slices.Concat(modelcheck.Scenarios(false), modelcheck.Probes()) {
		if *only != "" && !slices.Contains(strings.Split(*only, "|"), sc.Name) {
			continue
		}
		r := modelcheck.Explore(sc, runtime.GOMAXPROCS(0))
		report = append(report, r)
		if r.Violation != "" {
			fmt.Print(report, "\n", r.Trace)
			os.Exit(1)
		}
	}
	fmt.Print(report)
	if len(report) == 0 {
		fmt.Fprintln(os.Stderr, "no scenario has that name")
		os.Exit(2)
	}
}
