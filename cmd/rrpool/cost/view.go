package cost

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/controllers/plan"
)

// view is the report as it is printed. Its schema version changes when a field changes its meaning or goes away.
type view struct {
	SchemaVersion string `json:"schemaVersion"`
	GeneratedAt   string `json:"generatedAt"`
	// Subject says what the report is about.
	Subject string `json:"subject"`
	// Cluster is the name of the kubeconfig's context.
	Cluster       string `json:"cluster"`
	ExistingNodes bool   `json:"existingNodes"`
	Currency      string `json:"currency"`
	// WantedWorkers is the size that the pool is to have, 0 when it is unknown.
	WantedWorkers int `json:"wantedWorkers"`
	cost.Report
	Warnings []string `json:"warnings"`
	Notes    []string `json:"notes"`
	Next     string   `json:"next,omitempty"`
}

// newView computes the report and adds its words. called is how the user calls the command.
func newView(called string, p facts, now time.Time) view {
	v := view{
		SchemaVersion: "rrpool.io/cost/v5", GeneratedAt: now.UTC().Format(time.RFC3339), Subject: p.String(), Cluster: p.cluster,
		ExistingNodes: p.Existing, Currency: p.Prices[0].Currency, WantedWorkers: p.wanted,
		Report: cost.Compute(p.Input), Warnings: []string{},
	}
	v.warn(now)
	if !p.stored {
		v.Notes = append(v.Notes, "The cluster has no RouteReflectorPool.")
	}
	if note := p.note(); note != "" {
		v.Notes = append(v.Notes, note)
	}
	v.Notes = append(v.Notes, "The full mesh costs nothing extra.",
		fmt.Sprintf("A month is %d hours, a year 12 months. Workers only, before tax and discounts. Rounded half up.", cost.HoursPerMonth))
	if !p.Existing && len(v.Sizes) == 0 {
		v.Next = called + " --hourly-price <price of one worker> --context " + v.Cluster
	}
	return v
}

func (v *view) warn(now time.Time) {
	warn := func(format string, args ...any) { v.Warnings = append(v.Warnings, fmt.Sprintf(format, args...)) }
	if len(v.Unpriced) > 0 {
		warn("no price is known of %s: sums with them are \"at least\" or unknown; --price-book can add it", plan.Few(v.Unpriced))
	}
	for _, e := range v.Prices {
		if e.OlderThanAYear(now) {
			warn("the price of %s in %s is of %s, more than a year old: give --hourly-price or --price-book", e.Flavor, e.Region, e.Date)
		}
		if e.Excludes != "" {
			warn("the price of %s in %s leaves out: %s", e.Flavor, e.Region, e.Excludes)
		}
	}
}

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
		source := strings.SplitN(strings.TrimPrefix(p.Source, "https://"), "/", 4) // -o json has the whole address
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

// amount renders one amount of a sum: with "≥" if it is a lower bound, or as "unknown".
func amount(sum cost.Sum, of string) string {
	if sum.Certainty == cost.AtLeast {
		return "≥" + of
	}
	return cmp.Or(of, string(sum.Certainty))
}
