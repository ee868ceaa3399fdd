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

// tableOf renders for people.
func tableOf(s iostreams.Streams, v view) error {
	out := func(format string, args ...any) { _, _ = fmt.Fprintf(s.Out, format, args...) }
	out("%s\n%s\n\n", s.Paint(iostreams.Bold, s.Fold("What the route reflectors cost", "")), s.Fold(v.Subject, ""))
	out("%s\n\n", linesTable(s, v))
	if one := v.OneWorker; one != nil {
		out("%s\n", s.Fold(fmt.Sprintf("One worker: %[1]s%[2]s %[5]s/hour, %[1]s%[3]s/month, %[1]s%[4]s/year", least(*one), one.Hourly, one.Monthly, one.Yearly, v.Currency), "  "))
	}
	if share := shareLine(v); share != "" {
		out("%s\n", s.Fold(share, "  "))
	}
	if len(v.Sizes) > 0 {
		out("\n%s\n", sizesTable(v))
	}
	if len(v.Prices) > 0 {
		out("\n%s\n", s.Paint(iostreams.Bold, "Prices"))
	}
	for _, p := range v.Prices {
		out("%s\n", s.Fold(fmt.Sprintf("%s%s %s/hour, %s, %s", placed(p), p.Hourly, p.Currency, p.Date, origin(p.Source)), "  "))
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

// linesTable is the pool by zone and flavor, its sum, and the mesh. A narrow
// terminal does without the hours.
func linesTable(s iostreams.Streams, v view) string {
	rows := []table.Row{{"ZONE", "FLAVOR", "WORKERS", v.Currency + "/HOUR", v.Currency + "/MONTH", v.Currency + "/YEAR"}}
	for _, line := range v.Lines {
		rows = append(rows, append(table.Row{cmp.Or(line.Zone, "-"), cmp.Or(line.Flavor, "-")}, cells(line.Sum)...))
	}
	parts := len(rows)
	rows = append(rows, append(table.Row{"Pool", ""}, cells(v.Pool)...))
	if v.ClusterBill != nil {
		rows = append(rows, append(table.Row{"All workers", ""}, cells(*v.ClusterBill)...))
	}
	rows = append(rows, append(table.Row{"Full mesh", ""}, cells(v.Mesh)...))
	room := s.Width - numbersWidth(rows)
	if s.Width > 0 && room < 2*roomForNames {
		for i := range rows {
			rows[i] = append(rows[i][:3:3], rows[i][4:]...)
		}
		room = s.Width - numbersWidth(rows)
	}
	w := iostreams.NewTable()
	w.AppendHeader(rows[0])
	w.AppendRows(rows[1:parts])
	w.AppendSeparator()
	w.AppendRows(rows[parts:])
	columns := []table.ColumnConfig{iostreams.Right(3), iostreams.Right(4), iostreams.Right(5), iostreams.Right(6)}
	if s.Width > 0 {
		for _, column := range []int{1, 2} {
			columns = append(columns, table.ColumnConfig{Number: column, WidthMax: max(room/2, roomForNames), WidthMaxEnforcer: text.WrapText})
		}
	}
	w.SetColumnConfigs(columns)
	return w.Render()
}

// roomForNames is what a zone and a flavor need at least: us-south-1.
const roomForNames = 11

// numbersWidth is what the columns of numbers take, and all gaps.
func numbersWidth(rows []table.Row) int {
	width := len(iostreams.Gap) * len(rows[0])
	for column := 2; column < len(rows[0]); column++ {
		widest := 0
		for _, row := range rows {
			widest = max(widest, text.StringWidth(fmt.Sprint(row[column])))
		}
		width += widest
	}
	return width
}

func sizesTable(v view) string {
	w := iostreams.NewTable()
	w.AppendHeader(table.Row{"WORKERS", v.Currency + "/MONTH", v.Currency + "/YEAR", ""})
	w.AppendRow(table.Row{"full mesh", "0", "0", ""})
	for _, size := range v.Sizes {
		mark := ""
		switch size.Workers {
		case v.Pool.Workers:
			mark = "<- this pool"
		case v.WantedWorkers:
			mark = "<- wanted size"
		}
		w.AppendRow(table.Row{size.Workers, least(size) + size.WholeMonthly, least(size) + size.WholeYearly, mark})
	}
	w.SetColumnConfigs([]table.ColumnConfig{iostreams.Right(1), iostreams.Right(2), iostreams.Right(3)})
	return w.Render()
}

// cells are the numbers of a sum, with cents.
func cells(sum Sum) table.Row {
	if sum.Certainty == cost.Unknown {
		return table.Row{sum.Workers, "unknown", "unknown", "unknown"}
	}
	return table.Row{sum.Workers, least(sum) + sum.Hourly, least(sum) + sum.Monthly, least(sum) + sum.Yearly}
}

// least marks what is at least so much.
func least(sum Sum) string {
	if sum.Certainty == cost.AtLeast {
		return "≥"
	}
	return ""
}

// shareLine is empty when no cluster was read.
func shareLine(v view) string {
	if v.Share == nil {
		return ""
	}
	if v.Share.Certainty == cost.Unknown {
		return "Share of the bill for all workers of the cluster: unknown"
	}
	certainty := string(v.Share.Certainty) + " "
	if v.Share.Certainty == cost.Exact {
		certainty = ""
	}
	return fmt.Sprintf("Share of the bill for all workers of the cluster: %s%s %%", certainty, v.Share.Percent)
}

// placed says what a price is for, where that is known.
func placed(p priceView) string {
	switch {
	case p.Flavor == "":
		return ""
	case p.Region == "":
		return p.Flavor + ": "
	default:
		return p.Flavor + " in " + p.Region + ": "
	}
}

// origin is a source short enough for a terminal; -o json has all of it.
func origin(source string) string {
	link, err := url.Parse(source)
	if err != nil || link.Host == "" {
		return source
	}
	parts := strings.Split(strings.Trim(link.Path, "/"), "/")
	return strings.TrimSuffix(link.Host+"/"+strings.Join(parts[:min(2, len(parts))], "/"), "/")
}
