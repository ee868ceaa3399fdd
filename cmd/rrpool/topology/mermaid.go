package topology

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

// yamlText quotes for the head of a Mermaid text, which is YAML: it takes what JSON does.
// Mermaid in turn would take a name for HTML.
func yamlText(text string) string {
	quoted, err := json.Marshal(strings.NewReplacer("<", "‹", ">", "›", "&", "+").Replace(clean(text)))
	if err != nil {
		return `""` // a string always can be
	}
	return string(quoted)
}

// mermaidText quotes for Mermaid, which would take much for its own syntax, Markdown or
// HTML: everything that is not plainly text becomes an entity in its notation.
func mermaidText(lines ...string) string {
	var out []string
	for _, line := range lines {
		if line == "" {
			continue
		}
		var escaped strings.Builder
		for _, r := range clean(line) {
			if strings.ContainsRune(" ,.:/()-+=×…", r) || isWord(r) {
				escaped.WriteRune(r)
			} else {
				fmt.Fprintf(&escaped, "#%d;", r)
			}
		}
		out = append(out, escaped.String())
	}
	return `"` + strings.Join(out, "<br/>") + `"`
}

func isWord(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// mermaidWriter numbers the lines, because their styles follow by number.
type mermaidWriter struct {
	dotWriter
	styles []string // "" for one that is not seen
	// used are the classes that things have.
	used map[state]bool
}

// link writes a line between two things, with or without words.
func (w *mermaidWriter) link(from, to, words string, s state) {
	l := looks[s]
	if words != "" {
		words = "|" + mermaidText(words) + "|"
	}
	w.put("%s ----%s %s", from, words, to)
	style := fmt.Sprintf("stroke:%s,stroke-width:%gpx", l.light, l.width)
	if l.dash != "" {
		style += ",stroke-dasharray:" + l.dash
	}
	w.styles = append(w.styles, style)
}

// mermaid renders a flowchart for Markdown.
func mermaid(n *Network) string {
	w := &mermaidWriter{used: map[state]bool{}}
	w.put("---\ntitle: %s\n---", yamlText(n.Title+": "+n.headline()))
	w.open("flowchart LR")
	w.groups(n)
	w.reflectors(n)
	w.lines(n)
	w.hubs(n)
	if len(n.Zones) == 0 {
		w.put("nothing[%s]", mermaidText(nothing))
	}
	for i, style := range w.styles {
		if style == "" {
			continue
		}
		w.put("linkStyle %d %s", i, style)
	}
	for _, s := range states {
		l := looks[s]
		if !w.used[s] {
			continue
		}
		extra := ""
		if l.dash != "" {
			extra = ",stroke-dasharray:" + l.dash
		}
		w.put("classDef %s stroke:%s,stroke-width:%gpx%s", l.name, l.light, l.width, extra)
	}
	return w.String()
}

// class is how a thing of that state looks.
func (w *mermaidWriter) class(s state) string {
	w.used[s] = true
	return looks[s].name
}

// open begins a block, which end closes.
func (w *mermaidWriter) open(format string, args ...any) {
	w.put(format, args...)
	w.depth++
}

func (w *mermaidWriter) end() {
	w.depth--
	w.put("end")
}

// groups come first and outside of the frames: Mermaid lays frames over the words on
// lines that pass behind them.
func (w *mermaidWriter) groups(n *Network) {
	for i, zone := range n.Zones {
		for j, g := range zone.Groups {
			lines := []string{zone.title(), n.howMany(g.Clients)}
			for _, l := range n.lines(g) {
				lines = append(lines, l.text)
			}
			w.put("group%d_%d([%s]):::%s", i, j, mermaidText(lines...), w.class(n.ofGroup(g)))
		}
	}
}

func (w *mermaidWriter) reflectors(n *Network) {
	for i, zone := range n.Zones {
		if len(zone.Reflectors) == 0 {
			continue
		}
		w.open("subgraph reflectors%d[%s]", i, mermaidText(zone.title()+": "+n.panelWords(i, n.ring())))
		w.put("direction LR")
		for j, r := range zone.Reflectors {
			w.put("reflector%d_%d[%s]:::%s", i, j, mermaidText(r.Name, n.chipText(r), n.detailOf(r)), w.class(n.of(r.Sessions)))
		}
		w.grid(i, len(zone.Reflectors))
		w.end()
	}
}

// grid puts the reflectors of a zone below each other, in several columns when they are
// many, by lines that are not seen.
func (w *mermaidWriter) grid(zone, reflectors int) {
	const inColumn = 4
	columns := (reflectors + inColumn - 1) / inColumn
	rows := (reflectors + columns - 1) / columns
	for j := range reflectors - rows {
		w.put("reflector%d_%d ~~~ reflector%d_%d", zone, j, zone, j+rows)
		w.styles = append(w.styles, "")
	}
}

func (w *mermaidWriter) lines(n *Network) {
	for i, zone := range n.Zones {
		for j, g := range zone.Groups {
			for _, one := range n.wires(g) {
				to := "trunk"
				if !one.trunk {
					to = fmt.Sprintf("reflectors%d", one.zones[0])
				}
				w.link(fmt.Sprintf("group%d_%d", i, j), to, one.words(n), n.of(one.Sessions))
			}
		}
	}
	spread := n.spread()
	if len(spread) == 0 {
		return
	}
	w.put(`trunk((" "))`)
	for zone := range n.Zones {
		if sum, ok := spread[zone]; ok {
			w.link("trunk", fmt.Sprintf("reflectors%d", zone), "", n.of(sum))
		}
	}
}

// hubs are what joins the reflectors with each other, and the nodes of the mesh.
func (w *mermaidWriter) hubs(n *Network) {
	if r := n.ring(); r.total.Expected > 0 {
		w.put("ring{{%s}}", mermaidText(r.words(n)))
		for zone, with := range r.byZone {
			if with.Expected > 0 {
				from, to := fmt.Sprintf("reflectors%d", zone), "ring"
				if n.Zones[zone].Kind == spineFrame { // on the other side of the ring
					from, to = to, from
				}
				w.link(from, to, "", n.of(with))
			}
		}
	}
	if !n.Mesh.On || len(n.Zones) == 0 {
		return
	}
	w.put("mesh{{%s}}", mermaidText(n.meshLine()))
	for i, zone := range n.Zones {
		for j := range zone.Groups {
			w.put("mesh -.- group%d_%d", i, j)
			w.styles = append(w.styles, "stroke:"+meshColour+",stroke-width:2px")
		}
	}
}

func mermaidOf(s iostreams.Streams, n *Network) error {
	_, err := io.WriteString(s.Out, mermaid(n))
	return err //nolint:wrapcheck // the caller wraps
}
