package topology

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

// tone is what belongs to no state: the colours of paper, boxes and texts, on light and
// on dark paper.
type tone struct{ class, attribute, light, dark string }

var tones = []tone{
	{"paper", "fill", "#ffffff", "#14171a"},
	{"band", "fill", "#f4f6f8", "#1d2227"},
	{"band", "stroke", "#d5dbe1", "#3a434c"},
	{"card", "fill", "#ffffff", "#262d34"},
	{"card", "stroke", "#b9c2cb", "#55606b"},
	{"panel", "fill", "#e9edf1", "#181c20"},
	{"panel", "stroke", "#b9c2cb", "#55606b"},
	{"chip", "fill", "#ffffff", "#262d34"},
	{"ink", "fill", "#1b1f24", "#eceff2"},
	{"soft", "fill", "#57606a", "#aab3bd"},
	{"bus", "stroke", "#57606a", "#aab3bd"},
	{"joint", "fill", "#57606a", "#aab3bd"},
	{"meshed", "fill", meshColour, "#c79be3"},
	{"mesh", "stroke", meshColour, "#c79be3"},
}

// meshColour is that of the node-to-node mesh on light paper.
const meshColour = "#7a3f9d"

// pen writes SVG. Everything is said in attributes, which every program understands;
// the style sheet only adds the colours for dark paper.
type pen struct {
	strings.Builder
}

func (p *pen) put(format string, args ...any) { fmt.Fprintf(p, format, args...) }

func (p *pen) escape(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text)) // a strings.Builder takes everything
	return out.String()
}

// attributes of a class, for those who read no style sheet.
func attributes(class string) string {
	var out strings.Builder
	for word := range strings.SplitSeq(class, " ") {
		for _, t := range tones {
			if t.class == word {
				fmt.Fprintf(&out, ` %s="%s"`, t.attribute, t.light)
			}
		}
		for _, l := range looks {
			switch word {
			case "fill-" + l.name:
				fmt.Fprintf(&out, ` fill="%s"`, l.light)
			case "edge-" + l.name:
				fmt.Fprintf(&out, ` stroke="%s"`, l.light)
			case "wire-" + l.name:
				fmt.Fprintf(&out, ` stroke="%s" stroke-width="%g"`, l.light, l.width)
				if l.dash != "" {
					fmt.Fprintf(&out, ` stroke-dasharray="%s"`, l.dash)
				}
			}
		}
	}
	if class == "bus" || class == "mesh" {
		out.WriteString(` stroke-width="2"`)
	}
	return out.String()
}

// style is for dark paper. Its names are told apart from those of a page around it.
func style() string {
	var out strings.Builder
	out.WriteString("@media (prefers-color-scheme:dark){")
	for _, t := range tones {
		fmt.Fprintf(&out, ".rrpool-topology .%s{%s:%s}", t.class, t.attribute, t.dark)
	}
	for _, s := range states {
		l := looks[s]
		fmt.Fprintf(&out, ".rrpool-topology .fill-%[1]s{fill:%[2]s}.rrpool-topology .edge-%[1]s,.rrpool-topology .wire-%[1]s{stroke:%[2]s}", l.name, l.dark)
	}
	out.WriteString("}")
	return out.String()
}

// svg renders a drawing.
func svg(d drawing) string {
	p := &pen{}
	p.put(`<svg xmlns="http://www.w3.org/2000/svg" class="rrpool-topology" role="img" width="%[1]g" height="%[2]g" viewBox="0 0 %[1]g %[2]g" `+
		`font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" fill="none">`+"\n", d.Width, d.Height)
	p.put("<title>%s</title>\n<desc>%s</desc>\n<style>%s</style>\n", p.escape(d.Title), p.escape(d.Description), style())
	p.shapes(d.Back)
	for _, w := range d.Wires {
		p.put(`<path class="%s"%s d="%s"`, w.Class, attributes(w.Class), w.D)
		if w.Title == "" {
			p.put("/>\n")
			continue
		}
		p.put("><title>%s</title></path>\n", p.escape(clean(w.Title)))
	}
	p.shapes(d.Front)
	for _, m := range d.Marks {
		p.mark(m)
	}
	for _, l := range d.Labels {
		p.label(l)
	}
	p.put("</svg>\n")
	return p.String()
}

func (p *pen) shapes(all []shape) {
	for _, r := range all {
		p.put(`<rect class="%s"%s x="%g" y="%g" width="%g" height="%g"`, r.Class, attributes(r.Class), round(r.X), round(r.Y), round(r.Width), round(r.Height))
		if r.Round > 0 {
			p.put(` rx="%g"`, r.Round)
		}
		p.put("/>\n")
	}
}

// mark draws the sign of a state: whoever sees no colours sees the form.
func (p *pen) mark(m mark) {
	l, x, y := looks[m.State], round(m.X), round(m.Y)
	filled := fmt.Sprintf(`class="fill-%s"%s`, l.name, attributes("fill-"+l.name))
	drawn := fmt.Sprintf(`class="edge-%s"%s stroke-width="2"`, l.name, attributes("edge-"+l.name))
	switch m.State {
	case up:
		p.put(`<circle %s cx="%g" cy="%g" r="5"/>`+"\n", filled, x, y)
	case partial:
		p.put(`<path %s d="M%g %gl6 10h-12z"/>`+"\n", filled, x, round(y-5.5))
	case down0:
		p.put(`<path %s d="M%g %gl8 8m0 -8l-8 8"/>`+"\n", drawn, x-4, y-4)
	case unknown:
		p.put(`<circle %s cx="%g" cy="%g" r="4"/>`+"\n", drawn, x, y)
	case planned:
		p.put(`<rect %s x="%g" y="%g" width="8" height="8" rx="1"/>`+"\n", drawn, x-4, y-4)
	case idle:
		p.put(`<path %s d="M%g %gh8"/>`+"\n", drawn, x-4, y)
	}
}

func (p *pen) label(l label) {
	weight := ""
	if strings.Contains(l.Class, "strong") {
		weight = ` font-weight="700"`
	}
	p.put(`<text class="%s"%s%s font-size="%g" x="%g" y="%g" textLength="%g" lengthAdjust="spacingAndGlyphs">`,
		l.Class, attributes(l.Class), weight, l.Size, l.X, l.Y, l.Width)
	if l.Full != "" {
		p.put("<title>%s</title>", p.escape(l.Full))
	}
	p.put("%s</text>\n", p.escape(l.Text))
}

func svgOf(s iostreams.Streams, n *Network) error {
	_, err := io.WriteString(s.Out, svg(draw(n)))
	return err //nolint:wrapcheck // the caller wraps
}
