package topology

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/rrpool/rrpool/cmd/rrpool/invent"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// tabulate prints the figures of an invented cluster. If there is one topology and the manager would refuse it, the error says why.
func (f *flags) tabulate(c invent.Cluster, s iostreams.Streams) error {
	v, err := f.figuresOf(c)
	if err != nil {
		return err
	}
	if err := s.Print("figures", f.output, v, v.print); err != nil {
		return err
	}
	if refused := v.Topologies[0].Refused; !f.compare && refused != nil {
		return errors.New(refused.Reason + ": " + refused.Message)
	}
	return nil
}

// print writes the table and the notes below it.
func (v view) print(s iostreams.Streams) {
	s.Say(iostreams.Bold, "", v.Subject)
	if len(v.Topologies) > 1 || v.Topologies[0].Figures != nil {
		_, _ = fmt.Fprintf(s.Out, "\n%s\n", rows(v))
	}
	s.Say("", "", "")
	colours := map[string]string{"×": iostreams.Red, "‼": iostreams.Yellow, "√": iostreams.Green}
	for _, note := range notes(v) {
		symbol, _, _ := strings.Cut(note, " ")
		s.Say(colours[symbol], "  ", note)
	}
}

// rows renders the table, with a row for each figure and a column for each topology. If topologies
// are compared, a cell has only the most that one node has, else also the least and the mean.
func rows(v view) string {
	compared, header := len(v.Topologies) > 1, []any{""}
	for _, t := range v.Topologies {
		if compared && t.Type == string(v1alpha1.TopologyMultiCluster) {
			t.Type = "Multi-\nCluster"
		}
		header = append(header, t.Type)
	}
	names := len(header)
	if compared {
		names = 1
	}
	w := iostreams.NewTable(0, names, header...)
	kind := reflect.TypeFor[figures]()
	for i := range kind.NumField() {
		name := kind.Field(i).Tag.Get("row")
		row := table.Row{name}
		for _, t := range v.Topologies {
			cell := "-"
			if t.Figures != nil {
				cell = cellText(reflect.ValueOf(*t.Figures).Field(i).Interface(), compared)
			}
			row = append(row, cell)
		}
		w.AppendRow(row)
	}
	return w.Render()
}

// cellText renders a figure for a cell.
func cellText(figure any, compared bool) string {
	switch f := figure.(type) {
	case int:
		return brief(uint64(f)) //nolint:gosec // G115: a count
	case span:
		if compared || f.Least == f.Most {
			return fmt.Sprint(f.Most)
		}
		return fmt.Sprintf("%d to %d, %d on average", f.Least, f.Most, f.Mean)
	case simulate.Count:
		if f.More {
			return "≥" + brief(f.Paths)
		}
		return brief(f.Paths)
	case []string:
		return cmp.Or(strings.Join(f, ", "), "none")
	}
	return fmt.Sprint(figure)
}

// brief renders a number in at most six characters.
func brief(n uint64) string {
	value := float64(n)
	for _, unit := range []string{"k", "M", "G", "T", "P", "E"} {
		if value /= 1000; n >= 1_000_000 && value < 1000 {
			return fmt.Sprintf("%.1f%s", value, unit)
		}
	}
	return fmt.Sprint(n)
}

// notes gives the lines below the table: what the manager would refuse, and what may fail.
func notes(v view) []string {
	var out []string
	note := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, t := range slices.DeleteFunc(slices.Clone(v.Topologies), func(t topologyView) bool { return t.Refused == nil }) {
		note("× rrpool refuses %s: %s: %s", t.Type, t.Refused.Reason, t.Refused.Message)
	}
	switch {
	case len(v.Topologies) > 1 && v.Auto == "":
		return append(out, "‼ Auto takes none of them.")
	case len(v.Topologies) > 1:
		return append(out, "√ Auto takes "+v.Auto+".")
	}
	switch f := v.Topologies[0].Figures; {
	case f == nil:
	case f.SurvivesAny > 0:
		note("√ Any %s may fail: every client keeps a route to every other.", iostreams.Number(f.SurvivesAny, "reflector"))
	default:
		note("‼ The loss of one reflector can cut clients off from each other.")
	}
	return out
}
