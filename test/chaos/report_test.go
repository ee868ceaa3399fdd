//go:build linux

package chaos_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

// finish puts everything into one report, in the log and in a folder, and says what did not hold.
func (s *storm) finish() error {
	report := s.Lab.Report().Only(s.Workers...)
	shares := s.ledger.shares(report)
	s.mu.Lock()
	trouble := errors.Join(s.trouble...)
	s.mu.Unlock()
	stood := stands(report)
	loss, broken := verdict(report, shares, stood), s.witness.judge()
	var text strings.Builder
	fmt.Fprintf(&text, "seed %d, %s, %d pairs of pods; again: make chaos SEED=%d TIME=%s\n\n", s.seed, time.Since(s.begun).Round(time.Second),
		len(report.Pairs), s.seed, s.length)
	fmt.Fprintln(&text, render(s.ledger.accounts(shares, report.Until)))
	fmt.Fprintln(&text, "Of two causes at a time each is given all that was sent and lost; \"all\" counts it once. In brackets: pairs with a node that was cut off.")
	fmt.Fprintln(&text)
	fmt.Fprint(&text, s.witness.summary())
	total, longest := stood.total()
	fmt.Fprintf(&text, "the machine stood still %d times, for %s in all and %s at most; %d probes were lost within a second of that, for less than %s\n",
		len(stood), total.Round(time.Millisecond), longest.Round(time.Millisecond), stood.explained(shares), brief)
	fmt.Fprintf(&text, "the manager ended by itself %d times\n", s.keeper.endings())
	for _, v := range []struct {
		what string
		err  error
	}{{"zero loss between nodes that were not cut off", loss}, {"invariants", broken}, {"healed and settled", trouble}} {
		fmt.Fprintf(&text, "%s: %s\n", v.what, holds(v.err))
	}
	if !s.control {
		s.t.Log("\n" + text.String())
	}
	s.keep(text.String())
	return errors.Join(loss, broken, trouble)
}

func holds(err error) string {
	if err == nil {
		return "yes"
	}
	return "NO\n  " + strings.ReplaceAll(err.Error(), "\n", "\n  ")
}

// keep writes the report, and what happened when.
func (s *storm) keep(text string) {
	s.t.Helper()
	dir := filepath.Join(os.TempDir(), "rrpool-chaos")
	path := filepath.Join(dir, fmt.Sprintf("%s-seed-%d.txt", s.t.Name(), s.seed))
	s.ledger.mu.Lock()
	diary := strings.Join(s.ledger.diary, "\n")
	s.ledger.mu.Unlock()
	err := os.MkdirAll(dir, 0o750)
	if err == nil {
		err = os.WriteFile(path, []byte(text+"\n"+diary+"\n"), 0o600)
	}
	s.t.Logf("the report is in %s (%v)", path, err)
}

func render(accounts []account) string {
	w := iostreams.NewTable()
	w.AppendHeader(table.Row{"CAUSE", "MAY COST", "EVENTS", "FELT", "SENT", "LOST", "IN A ROW", "LONGEST", "NOT PROBED"})
	for _, a := range accounts {
		may := a.class.String()
		if a.name == "all" {
			may = ""
		}
		w.AppendRow(table.Row{
			a.name, may, a.events, fmt.Sprintf("%.0f s", a.seconds), beside(a, func(t tally) string { return fmt.Sprint(t.sent) }),
			beside(a, func(t tally) string { return fmt.Sprint(t.lost) }), beside(a, func(t tally) string { return fmt.Sprint(t.run) }),
			beside(a, func(t tally) string { return t.outage.Round(time.Millisecond).String() }), a.bystanders.silence.Round(time.Millisecond),
		})
	}
	w.SetColumnConfigs([]table.ColumnConfig{
		iostreams.Right(3), iostreams.Right(4), iostreams.Right(5), iostreams.Right(6), iostreams.Right(7), iostreams.Right(8), iostreams.Right(9),
	})
	return w.Render()
}

// beside puts what was cut off in brackets behind the others.
func beside(a account, of func(tally) string) string {
	text := of(a.bystanders)
	if a.victims.sent > 0 {
		text += " (" + of(a.victims) + ")"
	}
	return text
}
