package cost

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

func printTable(s iostreams.Streams, v view) {
	s.Say(iostreams.Bold, "", "What the route reflectors cost")
	s.Say("", "", v.Subject)
	_, _ = fmt.Fprintf(s.Out, "\n%s\n\n", linesTable(s, v))
	if v.Share != "" {
		s.Say("", "  ", "Share of the bill for all workers of the cluster: "+v.Share+" %")
	}
	var sizes []string
	for _, size := range v.Sizes {
		sizes = append(sizes, iostreams.Number(size.Workers, "worker")+" "+amount(size, size.Monthly))
	}
	if len(sizes) > 0 {
		s.Say("", "  ", fmt.Sprintf("Sizes, in %s/month: %s", v.Currency, strings.Join(sizes, ", ")))
	}
	for _, p := range v.Prices {
		what := strings.TrimSuffix(cmp.Or(p.Flavor, "one worker")+" in "+p.Region, " in ")
		source := strings.SplitN(strings.TrimPrefix(p.Source, "https://"), "/", 4) // -o json has all of it
		s.Say("", "  ", fmt.Sprintf("Price of %s: %s %s/hour, %s, %s", what, cost.Short(p.Hourly(), 6), p.Currency, p.Date, strings.Join(source[:min(3, len(source))], "/")))
	}
	for _, warning := range v.Warnings {
		s.Say(iostreams.Yellow, "  ", "‼ "+warning)
	}
	s.Say("", "", "\n"+strings.Join(v.Notes, " "))
	if v.Next != "" {
		s.Say("", "  ", "\nNext: "+v.Next)
	}
}

func linesTable(s iostreams.Streams, v view) string {
	row := func(zone, flavor string, sum cost.Sum) table.Row {
		return table.Row{zone, flavor, sum.Workers, amount(sum, sum.Monthly), amount(sum, sum.Yearly)}
	}
	w := iostreams.NewTable(s.Width, 2, "ZONE", "FLAVOR", "WORKERS", v.Currency+"/MONTH", v.Currency+"/YEAR")
	for _, line := range v.Lines {
		w.AppendRow(row(cmp.Or(line.Zone, "-"), cmp.Or(line.Flavor, "-"), line.Sum))
	}
	w.AppendSeparator()
	w.AppendRow(row("Pool", "", v.Pool))
	if v.ClusterBill != nil {
		w.AppendRow(row("All workers", "", *v.ClusterBill))
	}
	return w.Render()
}

// amount is one of a sum, marked when it is a lower bound.
func amount(sum cost.Sum, of string) string {
	if sum.Certainty == cost.AtLeast {
		return "≥" + of
	}
	return cmp.Or(of, string(sum.Certainty))
}
