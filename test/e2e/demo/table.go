//go:build linux

package main

import (
	"context"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/rrpool/rrpool/test/e2e/site"
)

// table shows reflectors, sessions and packets, and judges the phase.
func (t *teller) table(ctx context.Context, s *site.Site, phase string) error {
	pool, err := s.Pool(ctx)
	if err != nil {
		return err
	}
	t.write("\n")
	if len(pool.Status.Reflectors) > 0 {
		w := table.NewWriter()
		w.AppendHeader(table.Row{"reflector", "zone", "cluster ID", "sessions"})
		for _, r := range pool.Status.Reflectors {
			w.AppendRow(table.Row{r.Node, r.Zone, r.ClusterID, fmt.Sprintf("%d of %d Established", r.SessionsEstablished, r.SessionsExpected)})
		}
		t.write("%s\n", w.Render())
	}
	w := table.NewWriter()
	w.AppendHeader(table.Row{"node", "sessions", "of them mesh"})
	for _, name := range s.Workers {
		sessions, err := s.Lab.Sessions(name)
		if err != nil {
			return err
		}
		up, mesh := 0, 0
		for _, session := range sessions {
			if session.Established() {
				up++
			}
			if session.Mesh() {
				mesh++
			}
		}
		w.AppendRow(table.Row{name, fmt.Sprintf("%d of %d Established", up, len(sessions)), mesh})
	}
	t.write("%s\n", w.Render())
	return t.packets(s, phase)
}

// packets shows what the probes between workloads saw.
func (t *teller) packets(s *site.Site, phase string) error {
	report := s.Lab.Report().Phase(phase).Only(s.Workers...)
	sent, lost, longest := 0, 0, 0
	for _, p := range report.Pairs {
		sent += p.Sent
		lost += p.Lost
		longest = max(longest, p.LongestRun)
	}
	w := table.NewWriter()
	w.AppendHeader(table.Row{"pairs of pods", "packets sent", "lost", "most in a row"})
	w.AppendRow(table.Row{len(report.Pairs), sent, lost, longest})
	t.write("%s\n", w.Render())
	if err := report.ZeroLoss(); err != nil {
		return fmt.Errorf("%s: %w", phase, err)
	}
	return nil
}
