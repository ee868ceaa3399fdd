package topology

import (
	_ "embed"
	"html/template"
	"strings"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

//go:embed page.html
var page string

var pageTemplate = template.Must(template.New("topology").Funcs(template.FuncMap{"clean": clean, "zone": zoneName, "grouped": grouped}).Parse(page))

// row is a reflector as the table of the page has it.
type row struct {
	Reflector
	Rack, Zone, State string
}

// crowdRow is a group of clients as the table has it.
type crowdRow struct {
	Group
	Rack, Where, Who string
}

// view is what the page shows. Racks, Seats and Named say which columns there are.
type view struct {
	*Network
	Picture             template.HTML
	Wide                float64
	Rows                []row
	Crowds              []crowdRow
	Racks, Seats, Named bool
}

// add adds what is in a frame to the tables.
func (v *view) add(frame Zone) {
	rack := ""
	if frame.Kind != zoneFrame {
		rack, v.Racks = frame.title(), true
	}
	for _, r := range frame.Reflectors {
		zone := frame.Name
		if frame.Kind != zoneFrame {
			zone = r.Zone
		}
		v.Seats = v.Seats || r.Seat != "" && r.Seat != r.Name
		v.Rows = append(v.Rows, row{r, rack, zone, looks[v.of(r.Sessions)].words})
	}
	for _, g := range frame.Groups {
		where := frame.title()
		if frame.Kind != zoneFrame {
			where = listed(g.Zones)
		}
		v.Named = v.Named || v.groupWords(g) != ""
		v.Crowds = append(v.Crowds, crowdRow{g, rack, where, clean(strings.Join(g.Names, ", "))})
	}
}

// listed are the names of zones as text.
func listed(zones []string) string {
	var out []string
	for _, zone := range zones {
		out = append(out, zoneName(zone))
	}
	return strings.Join(out, ", ")
}

// htmlOf renders one page that needs nothing from elsewhere, and no script.
func htmlOf(s iostreams.Streams, n *Network) error {
	d := draw(n)
	v := view{Network: n, Wide: 1.25 * d.Width, Picture: template.HTML(svg(d))} //nolint:gosec // G203: our own, and every word in it is escaped
	for _, frame := range n.Zones {
		v.add(frame)
	}
	return pageTemplate.Execute(s.Out, v) //nolint:wrapcheck // the caller wraps
}

func jsonOf(s iostreams.Streams, n *Network) error { return iostreams.WriteJSON(s.Out, n) }
