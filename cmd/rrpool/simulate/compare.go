package simulate

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// row is one figure of each topology.
type row struct {
	name string
	of   func(t topologyView) string
}

// compared shows the topologies beside each other.
func compared(s iostreams.Streams, v view) {
	w := iostreams.NewTable()
	header := table.Row{""}
	for _, t := range v.Topologies {
		header = append(header, heading(t.Type))
	}
	w.AppendHeader(header)
	rows := append(sizes(), verdicts(v.Fail)...)
	for _, r := range rows {
		line := table.Row{r.name}
		for _, t := range v.Topologies {
			line = append(line, r.of(t))
		}
		w.AppendRow(line)
	}
	var right []table.ColumnConfig
	for i := range v.Topologies {
		right = append(right, iostreams.Right(i+2))
	}
	w.SetColumnConfigs(right)
	_, _ = fmt.Fprintf(s.Out, "%s\n\n", w.Render())
	_, _ = fmt.Fprintln(s.Out, s.Fold("Numbers per client and per reflector are the most that one has.", ""))
	refusals(s, v)
}

// heading breaks the one name that is long.
func heading(kind string) string {
	if kind == string(v1alpha1.TopologyMultiCluster) {
		return "Multi-\nCluster"
	}
	return kind
}

// sizes are the rows with numbers.
func sizes() []row {
	number := func(name string, of func(*figures) string) row {
		return row{name, func(t topologyView) string {
			if t.Figures == nil {
				return "-"
			}
			return of(t.Figures)
		}}
	}
	return []row{
		{"rrpool builds it", func(t topologyView) string {
			if t.Refused != nil {
				return "no"
			}
			return "yes"
		}},
		number("reflectors", func(f *figures) string { return fmt.Sprint(f.Reflectors) }),
		number("redundancy", func(f *figures) string { return fmt.Sprint(f.Redundancy) }),
		number("clients per RR", func(f *figures) string { return fmt.Sprint(f.ClientsPerReflector.Most) }),
		number("RRs per RR", func(f *figures) string { return fmt.Sprint(f.ReflectorsPerReflector.Most) }),
		number("sessions per RR", func(f *figures) string { return fmt.Sprint(f.SessionsPerReflector.Most) }),
		number("sessions per client", func(f *figures) string { return fmt.Sprint(f.SessionsPerClient.Most) }),
		number("groups", func(f *figures) string { return fmt.Sprint(f.Groups) }),
		number("BGPPeers", func(f *figures) string { return fmt.Sprint(f.BGPPeers) }),
		number("paths, client", func(f *figures) string { return f.PathsOnClient.brief() }),
		number("paths, RR", func(f *figures) string { return f.PathsOnReflector.brief() }),
		number("RIB, client", func(f *figures) string { return f.ClientRIB.brief() }),
		number("RIB, RR", func(f *figures) string { return f.ReflectorRIB.brief() }),
		number("memory, RR", func(f *figures) string { return f.Memory.short() }),
	}
}

// verdicts are the rows about failures.
func verdicts(fail int) []row {
	judge := func(name string, of func(*failuresView) string) row {
		return row{name, func(t topologyView) string {
			switch {
			case t.Failures == nil:
				return "-"
			case t.Failures.Partitioned:
				return "cut"
			}
			return of(t.Failures)
		}}
	}
	out := []row{
		judge("any RRs may fail", func(f *failuresView) string { return fmt.Sprint(f.SurvivesAny) }),
		judge("a zone may fail", func(f *failuresView) string {
			verdict := "-" // there is one zone
			for _, z := range f.Zones {
				switch {
				case z.Cut:
					return "no"
				case z.Remain:
					verdict = "yes"
				}
			}
			return verdict
		}),
	}
	if fail > 0 {
		out = append(out, judge(fmt.Sprintf("%d down that cut", fail), func(f *failuresView) string {
			var cutting uint64
			for _, set := range f.Sets {
				cutting += set.Cutting
			}
			if cutting == 0 {
				return "none"
			}
			return fmt.Sprintf("%s/%s", brief(cutting), brief(f.Tried))
		}))
	}
	return out
}

// refusals say why, and what Auto takes.
func refusals(s iostreams.Streams, v view) {
	var notes []string
	for _, t := range v.Topologies {
		if t.Refused != nil {
			notes = append(notes, fmt.Sprintf("× %s: %s: %s", t.Type, t.Refused.Reason, t.Refused.Message))
		}
	}
	if len(notes) > 0 {
		_, _ = fmt.Fprintln(s.Out)
	}
	for _, note := range notes {
		say(s, iostreams.Red, strings.TrimSuffix(note, ".")+".")
	}
	_, _ = fmt.Fprintln(s.Out)
	if v.Auto == "" {
		say(s, iostreams.Yellow, "‼ Auto takes none of them.")
		return
	}
	say(s, iostreams.Green, "√ Auto takes "+v.Auto+".")
}

func (p paths) brief() string { return atLeast(p.AtLeast) + brief(p.Paths) }

// brief is a number of at most six characters.
func brief(n uint64) string {
	if n < 1_000_000 {
		return fmt.Sprint(n)
	}
	value := float64(n)
	for _, unit := range []string{"k", "M", "G", "T", "P", "E"} {
		if value /= 1000; value < 1000 {
			return fmt.Sprintf("%.1f%s", value, unit)
		}
	}
	return fmt.Sprint(n)
}
