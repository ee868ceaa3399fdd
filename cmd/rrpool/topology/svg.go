package topology

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
)

// The measures of the drawing, in units of its viewBox. Texts get a textLength, so that
// they are as wide as computed whatever font the viewer has.
const (
	fontSize  = 12.0
	titleSize = 18.0
	glyph     = 0.6 // width of a character of a monospaced font, by its size
	// ascent and descent are how far a text reaches above and below its base line.
	ascent, descent = 0.95, 0.25

	// lane is as wide as the mesh on the left, and what joins reflectors on the right, need;
	// border is around the reflectors of a zone, and narrowest the least width of all.
	margin, padding, lane, border, narrowest = 20.0, 14.0, 30.0, 8.0, 640.0
	// heading is that of a zone; port is from a line of a group to its next.
	heading, lineStep, port, signRoom = 32.0, 18.0, 26.0, 20.0
	gap, groupGap, zoneGap            = 6.0, 12.0, 16.0
	// longestName is how long names of reflectors are at most: others are shortened.
	longestName = 26 * glyph * fontSize
)

// look is how a state is shown: with words in the legend, a colour on light and on dark paper, the pattern and
// width of its lines, and a sign for readers who see no colours; dot is the pattern for Graphviz.
type look struct {
	name, words, light, dark, dash string
	width                          float64
	dot, sign                      string
}

// looks of the states, in the order of the legend.
var looks = [...]look{
	up:      {"up", "all sessions up", "#0a7d5a", "#3fbf92", "none", 2, "solid", `circle class="%s" cx="%g" cy="%g" r="5"`},
	partial: {"partial", "some sessions up", "#b06000", "#f0a63c", "10 5", 2.5, "dashed", `path class="%s" d="M%g %gm0 -5.5l6 10h-12z"`},
	none:    {"down", "no session up", "#c22f0a", "#ff7b5c", "2 5", 3.5, "dotted", `path class="%s" d="M%g %gm-4 -4l8 8m0 -8l-8 8"`},
	unknown: {"unknown", "not known", "#6e7781", "#9aa4af", "14 4 3 4", 1.5, "dashed", `circle class="%s" cx="%g" cy="%g" r="4"`},
	idle:    {"idle", "no sessions", "#6e7781", "#9aa4af", "1 6", 1.5, "dotted", `path class="%s" d="M%g %gm-4 0h8"`},
	planned: {"planned", "planned", "#2f66b0", "#78aef2", "none", 2, "solid", `path class="%s" d="M%g %gm-4 -4h8l0 8h-8z"`},
}

// meshColour is that of the node-to-node mesh on light paper.
const meshColour = "#7a3f9d"

// tones are the colours that belong to no state, by class and property, on light and on dark paper.
var tones = [][4]string{
	{"paper", "fill", "#ffffff", "#14171a"},
	{"zone", "fill", "#f4f6f8", "#1d2227"},
	{"zone", "stroke", "#d5dbe1", "#3a434c"},
	{"group", "fill", "#ffffff", "#262d34"},
	{"group", "stroke", "#b9c2cb", "#55606b"},
	{"pool", "fill", "#e9edf1", "#181c20"},
	{"pool", "stroke", "#b9c2cb", "#55606b"},
	{"reflector", "fill", "#ffffff", "#262d34"},
	{"ink", "fill", "#1b1f24", "#eceff2"},
	{"soft", "fill", "#57606a", "#aab3bd"},
	{"trunk", "stroke", "#57606a", "#aab3bd"},
	{"joint", "fill", "#57606a", "#aab3bd"},
	{"mesh-joint", "fill", meshColour, "#c79be3"},
	{"mesh", "stroke", meshColour, "#c79be3"},
}

// style gives all classes their colours, patterns and widths.
func style() string {
	var light, dark strings.Builder
	for _, t := range tones {
		fmt.Fprintf(&light, ".%s{%s:%s}", t[0], t[1], t[2])
		fmt.Fprintf(&dark, ".%s{%s:%s}", t[0], t[1], t[3])
	}
	for _, l := range &looks {
		fmt.Fprintf(&light, ".fill-%[1]s{fill:%[2]s}.edge-%[1]s,.line-%[1]s{stroke:%[2]s}.line-%[1]s{stroke-width:%[3]g;stroke-dasharray:%[4]s}", l.name, l.light, l.width, l.dash)
		fmt.Fprintf(&dark, ".fill-%[1]s{fill:%[2]s}.edge-%[1]s,.line-%[1]s{stroke:%[2]s}", l.name, l.dark)
	}
	return light.String() + ".trunk,.mesh,.sign{stroke-width:2}.strong{font-weight:700}@media (prefers-color-scheme:dark){" + dark.String() + "}"
}

// canvas holds what is drawn. Later layers lie upon earlier ones.
type canvas struct {
	back, strokes, front, signs, texts strings.Builder
	used                               map[state]bool
}

func rect(layer *strings.Builder, x, y, width, height, corner float64, class string) {
	fmt.Fprintf(layer, `<rect class="%s" x="%g" y="%g" width="%g" height="%g" rx="%g"/>`+"\n", class, round(x), round(y), round(width), round(height), corner)
}

func (c *canvas) path(class, format string, numbers ...float64) {
	rounded := make([]any, len(numbers))
	for i, x := range numbers {
		rounded[i] = round(x)
	}
	fmt.Fprintf(&c.strokes, `<path class="%s" d="%s"/>`+"\n", class, fmt.Sprintf(format, rounded...))
}

// line draws a path of a state.
func (c *canvas) line(is state, format string, numbers ...float64) {
	c.used[is] = true
	c.path("line-"+looks[is].name, format, numbers...)
}

// sign draws that of a state around its middle.
func (c *canvas) sign(is state, x, y float64) {
	c.used[is] = true
	class := "sign edge-" + looks[is].name
	if is == up || is == partial {
		class = "fill-" + looks[is].name
	}
	fmt.Fprintf(&c.signs, "<"+looks[is].sign+"/>\n", class, round(x), round(y))
}

// render gives the drawing as SVG.
func (c *canvas) render(width, height float64, title, description string) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" role="img" width="%[1]g" height="%[2]g" viewBox="0 0 %[1]g %[2]g" `+
		`font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" fill="none">`+"\n"+
		"<title>%[3]s</title>\n<desc>%[4]s</desc>\n<style>%[5]s</style>\n"+`<rect class="paper" width="%[1]g" height="%[2]g"/>`+"\n%[6]s</svg>\n",
		width, height, escape(title), escape(description), style(),
		c.back.String()+c.strokes.String()+c.front.String()+c.signs.String()+c.texts.String())
}

func round(x float64) float64 { return math.Round(x*100) / 100 }

// widthOf is the room that a text takes.
func widthOf(words string, size float64) float64 {
	return float64(text.StringWidth(clean(words))) * glyph * size
}

// write adds a text from x on, or with right up to x, and shortens what does not fit.
func (c *canvas) write(words string, x, y, room, size float64, class string, right bool) {
	if words == "" {
		return
	}
	words, full := clean(words), ""
	if cells := max(int(room/(glyph*size)+0.001), 1); text.StringWidth(words) > cells {
		words, full = text.Snip(words, cells, "…"), "<title>"+escape(words)+"</title>"
	}
	width := round(widthOf(words, size))
	if right {
		x -= width
	}
	fmt.Fprintf(&c.texts, `<text class="%s" font-size="%g" x="%g" y="%g" textLength="%g" lengthAdjust="spacingAndGlyphs">%s%s</text>`+"\n",
		class, size, round(x), round(y), width, full, escape(words))
}

// paragraph writes as many lines as it takes, and gives their height.
func (c *canvas) paragraph(words string, x, y, room float64) float64 {
	height := 0.0
	for line := range strings.SplitSeq(text.WrapSoft(clean(words), max(int(room/(glyph*fontSize)), 1)), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			c.write(line, x, y+height+ascent*fontSize, room, fontSize, "soft", false)
			height += lineStep
		}
	}
	return height
}

func escape(words string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(clean(words))) // a strings.Builder takes everything
	return out.String()
}
