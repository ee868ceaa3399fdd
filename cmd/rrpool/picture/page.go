package picture

import (
	_ "embed"
	"html/template"

	"github.com/rrpool/rrpool/cmd/rrpool/terminal"
)

//go:embed page.html
var page string

var pageTemplate = template.Must(template.New("topology").Funcs(template.FuncMap{"clean": clean, "zone": zoneName, "grouped": grouped}).Parse(page))

// row is a reflector as the table of the page has it.
type row struct {
	Reflector
	Zone, State string
}

// htmlOf renders one page that needs nothing from elsewhere, and no script.
func htmlOf(s terminal.Streams, n *Network) error {
	d := draw(n)
	view := struct {
		*Network
		Picture template.HTML
		Wide    float64
		Rows    []row
	}{Network: n, Wide: 1.25 * d.Width, Picture: template.HTML(svg(d))} //nolint:gosec // G203: our own, and every word in it is escaped
	for _, zone := range n.Zones {
		for _, r := range zone.Reflectors {
			state := looks[n.of(r.Sessions)]
			view.Rows = append(view.Rows, row{r, zone.Name, state.words})
		}
	}
	return pageTemplate.Execute(s.Out, view) //nolint:wrapcheck // the caller wraps
}

func jsonOf(s terminal.Streams, n *Network) error { return terminal.WriteJSON(s.Out, n) }
