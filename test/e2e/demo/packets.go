//go:build linux

package main

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/test/lab/probe"
)

// packets shows what the probes between workloads saw in a phase.
func (t *teller) packets(report probe.Report) {
	sent, lost := report.Totals()
	longest := 0
	for _, p := range report.Pairs {
		longest = max(longest, p.LongestRun)
	}
	w := iostreams.NewTable()
	w.AppendHeader(table.Row{"PAIRS OF PODS", "PACKETS SENT", "LOST", "MOST LOST IN A ROW"})
	w.AppendRow(table.Row{len(report.Pairs), sent, lost, longest})
	w.SetColumnConfigs([]table.ColumnConfig{iostreams.Right(1), iostreams.Right(2), iostreams.Right(3), iostreams.Right(4)})
	t.write(append([]string{""}, strings.Split(w.Render(), "\n")...)...)
}

// verdict is how it ends when there is no loss as the README defines it: single packets
// may be lost, where BIRD swaps a route in the kernel.
func verdict(reports ...probe.Report) string {
	sent, lost := 0, 0
	for _, r := range reports {
		s, l := r.Totals()
		sent, lost = sent+s, lost+l
	}
	if lost > 0 {
		return fmt.Sprintf("Done: %d of %d packets between workloads were lost, no two in a row, there and back", lost, sent)
	}
	return "Done: nothing was lost between workloads, there and back"
}
