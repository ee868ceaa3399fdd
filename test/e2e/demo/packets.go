//go:build linux

package main

import (
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/rrpool/rrpool/cmd/rrpool/terminal"
	"github.com/rrpool/rrpool/test/e2e/site"
)

// packets shows what the probes between workloads saw in a phase, and judges it.
func (t *teller) packets(s *site.Site, phase string) error {
	report := s.Lab.Report().Phase(phase).Only(s.Workers...)
	sent, lost, longest := 0, 0, 0
	for _, p := range report.Pairs {
		sent += p.Sent
		lost += p.Lost
		longest = max(longest, p.LongestRun)
	}
	w := terminal.NewTable()
	w.AppendHeader(table.Row{"PAIRS OF PODS", "PACKETS SENT", "LOST", "MOST LOST IN A ROW"})
	w.AppendRow(table.Row{len(report.Pairs), sent, lost, longest})
	w.SetColumnConfigs([]table.ColumnConfig{terminal.Right(1), terminal.Right(2), terminal.Right(3), terminal.Right(4)})
	t.write("\n%s\n", w.Render())
	if err := report.ZeroLoss(); err != nil {
		return fmt.Errorf("%s: %w", phase, err)
	}
	return nil
}
