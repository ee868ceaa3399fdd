package cost

import (
	_ "embed"
	"html/template"
	"strings"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

//go:embed cost.html
var costPage string

var costTemplate = template.Must(template.New("cost").Funcs(template.FuncMap{
	"amount": func(sum Sum, text string) string {
		if sum.Certainty == cost.Unknown {
			return "unknown"
		}
		return least(sum) + text
	},
	"link": func(source string) bool { return strings.HasPrefix(source, "https://") },
}).Parse(costPage))

// htmlOf renders one page that needs nothing from elsewhere, and no script.
func htmlOf(s iostreams.Streams, v view) error {
	page := struct {
		view
		Zones, Comparison *chart
		ShareLine         string
	}{view: v, ShareLine: shareLine(v)}
	if len(v.Lines) > 0 && !v.ExistingNodes {
		zones := zonesChart(v)
		page.Zones = &zones
	}
	if len(v.Sizes) > 0 {
		sizes := sizesChart(v)
		page.Comparison = &sizes
	}
	return costTemplate.Execute(s.Out, page) //nolint:wrapcheck // the caller wraps
}
