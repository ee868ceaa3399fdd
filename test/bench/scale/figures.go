package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
)

// figures are the results for one size.
type figures struct {
	Nodes, Reflectors, Sessions int
	Topology                    string
	// Steady is the time of the migration, Cloud that until the last worker joined, BIRD that in which reporters did not report.
	Steady, Cloud, BIRD time.Duration
	// Routing counts the writes of Nodes, BGPPeers and the BGPConfiguration in the migration, Floor their possible minimum, Asked the writes of
	// CalicoNodeStatus, and Other all others: the object's status and Events.
	Routing, Floor, Asked, Other int
	// The numbers at rest. RestRequests includes those of the lease.
	RestWrites, RestRequests int
	RestCPU                  time.Duration
	RestRead, Peak           uint64
	// Reaction is the time from the end of the grace time until another worker is ordered.
	Reaction time.Duration

	user   string
	joined time.Time
}

// missed returns an error if goals are missed that do not depend on the machine.
func (f figures) missed() error {
	var errs []error
	if f.Routing != f.Floor {
		errs = append(errs, fmt.Errorf("%d nodes: %d routing writes, not %d", f.Nodes, f.Routing, f.Floor))
	}
	if f.RestWrites > 0 {
		errs = append(errs, fmt.Errorf("%d nodes: %d writes at rest, not 0", f.Nodes, f.RestWrites))
	}
	return errors.Join(errs...)
}

// printTable prints a table with a column for each size, and the ratio of the last two.
func printTable(all []figures) {
	first, rows := all[0], [][]string{}
	row := func(name string, of func(figures) string) {
		line := []string{name}
		for _, f := range all {
			line = append(line, of(f))
		}
		rows = append(rows, line)
	}
	row("nodes", func(f figures) string { return fmt.Sprint(f.Nodes) })
	if first.Reflectors > 0 {
		row("topology, reflectors", func(f figures) string { return fmt.Sprintf("%s, %d", f.Topology, f.Reflectors) })
		row("routing writes of the migration (the fewest possible)", func(f figures) string { return fmt.Sprintf("%d (%d)", f.Routing, f.Floor) })
		row("writes of reports asked for; of status and Events", func(f figures) string { return fmt.Sprintf("%d; %d", f.Asked, f.Other) })
		row("time to Steady", func(f figures) string { return seconds(f.Steady) })
		row("of it cloud; BIRD; rrpool", func(f figures) string {
			return fmt.Sprintf("%s; %s; %s", seconds(f.Cloud), seconds(f.BIRD), seconds(f.Steady-f.Cloud-f.BIRD))
		})
		row("from the grace time's end to another worker's order", func(f figures) string { return seconds(f.Reaction) })
	}
	row("writes at rest; requests", func(f figures) string { return fmt.Sprintf("%d; %d", f.RestWrites, f.RestRequests) })
	row("CPU at rest", func(f figures) string { return seconds(f.RestCPU) })
	row("bytes read at rest", func(f figures) string { return fmt.Sprintf("%.1f MB", float64(f.RestRead)/1e6) })
	row("peak RSS", func(f figures) string { return fmt.Sprintf("%d MB", f.Peak/1e6) })
	for i, r := range rows {
		fmt.Println("| " + strings.Join(r, " | ") + " |")
		if i == 0 {
			fmt.Println(strings.Repeat("|---", len(r)) + "|")
		}
	}
	if n := len(all); n > 1 {
		a, b := all[n-2], all[n-1]
		fmt.Printf("\nFrom %d to %d nodes (×%.1f): CPU at rest ×%.1f, peak RSS ×%.1f, bytes read ×%.1f\n", a.Nodes, b.Nodes, float64(b.Nodes)/float64(a.Nodes),
			b.RestCPU.Seconds()/cmp.Or(a.RestCPU.Seconds(), 1), float64(b.Peak)/float64(a.Peak), float64(b.RestRead)/float64(cmp.Or(a.RestRead, 1)))
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
