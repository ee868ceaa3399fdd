package cost

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

func renderTable(s iostreams.Streams, v view) error {
	out := func(format string, args ...any) { _, _ = fmt.Fprintf(s.Out, format, args...) }
	out("%s\n%s\n\n%s\n\n", s.Paint(iostreams.Bold, s.Fold("What the route reflectors cost", "")), s.Fold(v.Subject, ""), linesTable(s, v))
	if one := v.OneWorker; one != nil {
		out("%s\n", s.Fold(fmt.Sprintf("One worker: %[1]s%[2]s %[5]s/hour, %[1]s%[3]s/month, %[1]s%[4]s/year", least(*one), one.Hourly, one.Monthly, one.Yearly, v.Currency), "  "))
	}
	if v.Share != nil {
		out("%s\n", s.Fold("Share of the bill for all workers of the cluster: "+v.Share.text(), "  "))
	}
	if len(v.Sizes) > 0 {
		out("%s\n", s.Fold(sizesLine(v), "  "))
	}
	if len(v.Prices) > 0 {
		out("\n%s\n", s.Paint(iostreams.Bold, "Prices"))
	}
	for _, p := range v.Prices {
		what := ""
		if p.Flavor != "" {
			what = strings.TrimSuffix(p.Flavor+" in "+p.Region, " in ") + ": "
		}
		out("%s\n", s.Fold(fmt.Sprintf("%s%s %s/hour, %s, %s", what, p.Hourly, p.Currency, p.Date, shortSource(p.Source)), "  "))
	}
	if len(v.Warnings) > 0 {
		out("\n")
	}
	for _, warning := range v.Warnings {
		out("%s\n", s.Paint(iostreams.Yellow, s.Fold("‼ "+warning, "  ")))
	}
	out("\n%s\n", s.Fold(strings.Join(v.Notes, " "), ""))
	if v.Next != "" {
		out("\n%s\n", s.Fold("Next: "+v.Next, "  "))
	}
	return nil
}

// A terminal narrower than narrow gets no column of hours. The columns of numbers take
// numbersWidth without it.
const (
	narrow       = 80
	hoursWidth   = 14
	numbersWidth = 38
)

func linesTable(s iostreams.Streams, v view) string {
	row := func(zone, flavor string, sum Sum) table.Row {
		out := table.Row{zone, flavor, sum.Workers, "unknown", "unknown", "unknown"}
		if sum.Certainty != cost.Unknown {
			copy(out[3:], table.Row{least(sum) + sum.Hourly, least(sum) + sum.Monthly, least(sum) + sum.Yearly})
		}
		return out
	}
	w := iostreams.NewTable()
	w.AppendHeader(table.Row{"ZONE", "FLAVOR", "WORKERS", v.Currency + "/HOUR", v.Currency + "/MONTH", v.Currency + "/YEAR"})
	for _, line := range v.Lines {
		w.AppendRow(row(cmp.Or(line.Zone, "-"), cmp.Or(line.Flavor, "-"), line.Sum))
	}
	w.AppendSeparator()
	w.AppendRow(row("Pool", "", v.Pool))
	if v.ClusterBill != nil {
		w.AppendRow(row("All workers", "", *v.ClusterBill))
	}
	w.AppendRow(row("Full mesh", "", v.Mesh))
	columns := []table.ColumnConfig{{Number: 1}, {Number: 2}, iostreams.Right(3), iostreams.Right(4), iostreams.Right(5), iostreams.Right(6)}
	if s.Width > 0 {
		room := s.Width - numbersWidth - hoursWidth
		if s.Width < narrow {
			columns[3].Hidden, room = true, s.Width-numbersWidth
		}
		for i := range 2 {
			columns[i].WidthMax, columns[i].WidthMaxEnforcer = max(room/2, len("us-south-1")), text.WrapText
		}
	}
	w.SetColumnConfigs(columns)
	return w.Render()
}

func sizesLine(v view) string {
	var sizes []string
	for _, size := range v.Sizes {
		sizes = append(sizes, fmt.Sprintf("%s %s%s", iostreams.Number(size.Workers, "worker"), least(size), size.Monthly))
	}
	return fmt.Sprintf("Sizes, in %s/month: %s", v.Currency, strings.Join(sizes, ", "))
}

func (s shareView) text() string {
	if s.Certainty == cost.Unknown {
		return "unknown"
	}
	return strings.TrimPrefix(string(s.Certainty)+" "+s.Percent+" %", string(cost.Exact)+" ")
}

// least marks a sum that is a lower bound.
func least(sum Sum) string {
	if sum.Certainty == cost.AtLeast {
		return "≥"
	}
	return ""
}

// shortSource shortens a link to its beginning; -o json has all of it.
func shortSource(source string) string {
	link, err := url.Parse(source)
	if err != nil || link.Host == "" {
		return source
	}
	parts := strings.Split(strings.Trim(link.Path, "/"), "/")
	return strings.TrimSuffix(link.Host+"/"+strings.Join(parts[:min(2, len(parts))], "/"), "/")
}
