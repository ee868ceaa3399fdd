package topology

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

// dotText quotes centred lines for Graphviz.
func dotText(lines ...string) string { return dotLines("", `\n`, lines) }

// dotLines quotes lines, each of which but the last ends with between, and the last with
// end. A backslash in them would begin one of Graphviz's own escapes.
func dotLines(end, between string, lines []string) string {
	var out []string
	for _, line := range lines {
		if line != "" {
			out = append(out, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(clean(line)))
		}
	}
	return `"` + strings.Join(out, between) + end + `"`
}

// dotWriter writes indented statements.
type dotWriter struct {
	strings.Builder
	depth int
}

func (w *dotWriter) put(format string, args ...any) {
	w.WriteString(strings.Repeat("  ", w.depth))
	fmt.Fprintf(w, format+"\n", args...)
}

func (w *dotWriter) open(format string, args ...any) {
	w.put(format+" {", args...)
	w.depth++
}

func (w *dotWriter) close() {
	w.depth--
	w.put("}")
}

// dotEdge are the attributes of a line of a state.
func dotEdge(s state) string {
	l := looks[s]
	return fmt.Sprintf("color=%q, style=%q, penwidth=%g", l.light, l.dot, l.width)
}

// dot renders for Graphviz. The lines are those of the SVG: they end at the frame that
// holds the reflectors of a zone.
func dot(n *Network) string {
	w := &dotWriter{}
	w.open("graph topology")
	w.put("graph [compound=true, rankdir=LR, ranksep=2.5, nodesep=0.15, fontname=\"Helvetica\", labelloc=t, labeljust=l, label=%s]",
		dotLines(`\l`, `\l`, append([]string{n.Title, n.headline()}, n.Notes...)))
	w.put(`node [shape=box, style=rounded, fontname="Helvetica", fontsize=11]`)
	w.put(`edge [fontname="Helvetica", fontsize=10]`)
	for i, zone := range n.Zones {
		w.zone(n, i, zone)
	}
	for i, zone := range n.Zones {
		for j, g := range zone.Groups {
			w.wires(n, fmt.Sprintf("group_%d_%d", i, j), n.wires(g))
		}
	}
	w.trunk(n)
	w.hubs(n)
	if len(n.Zones) == 0 {
		w.put("nothing [label=%s]", dotText(nothing))
	}
	w.close()
	return w.String()
}

func (w *dotWriter) zone(n *Network, i int, zone Zone) {
	w.open("subgraph cluster_zone_%d", i)
	w.put(`graph [style=rounded, color="#b9c2cb", label=%s]`, dotText(zone.title()))
	for j, g := range zone.Groups {
		lines := []string{n.howMany(g.Clients)}
		for _, l := range n.lines(g) {
			lines = append(lines, l.text)
		}
		w.put("group_%d_%d [color=%q, label=%s]", i, j, looks[n.ofGroup(g)].light, dotText(lines...))
	}
	if len(zone.Reflectors) > 0 {
		w.open("subgraph cluster_reflectors_%d", i)
		w.put(`graph [style=rounded, color="#57606a", label=%s]`, dotText(n.panelWords(i, n.ring())))
		for j, r := range slices.Backward(zone.Reflectors) { // Graphviz begins at the bottom
			l := looks[n.of(r.Sessions)]
			w.put("reflector_%d_%d [color=%q, style=\"rounded,%s\", label=%s]", i, j, l.light, l.dot, dotText(r.Name, n.chipText(r), n.detailOf(r)))
		}
		w.close()
	}
	w.close()
}

// middle is the reflector of a zone that an edge to its frame leads to.
func middle(n *Network, zone int) string {
	return fmt.Sprintf("reflector_%d_%d", zone, (len(n.Zones[zone].Reflectors)-1)/2)
}

func (w *dotWriter) wires(n *Network, from string, wires []wire) {
	for _, one := range wires {
		if one.trunk {
			w.put("%s -- trunk [%s, label=%s]", from, dotEdge(n.of(one.Sessions)), dotText(one.words(n)))
			continue
		}
		zone := one.zones[0]
		w.put("%s -- %s [lhead=cluster_reflectors_%d, %s, label=%s]", from, middle(n, zone), zone, dotEdge(n.of(one.Sessions)), dotText(one.words(n)))
	}
}

// trunk spreads the lines of many zones.
func (w *dotWriter) trunk(n *Network) {
	spread := n.spread()
	if len(spread) == 0 {
		return
	}
	w.put("trunk [shape=point, width=0.12]")
	for zone := range n.Zones {
		if sum, ok := spread[zone]; ok {
			w.put("trunk -- %s [lhead=cluster_reflectors_%d, %s]", middle(n, zone), zone, dotEdge(n.of(sum)))
		}
	}
}

// hubs are what joins the reflectors with each other, and the nodes of the mesh.
func (w *dotWriter) hubs(n *Network) {
	if r := n.ring(); r.total.Expected > 0 {
		w.put("ring [shape=ellipse, style=solid, label=%s]", dotText(r.words(n)))
		for zone, with := range r.byZone {
			if with.Expected > 0 {
				if n.Zones[zone].Kind == spineFrame { // on the other side of the ring
					w.put("ring -- %s [lhead=cluster_reflectors_%d, %s]", middle(n, zone), zone, dotEdge(n.of(with)))
					continue
				}
				w.put("%s -- ring [ltail=cluster_reflectors_%d, %s]", middle(n, zone), zone, dotEdge(n.of(with)))
			}
		}
	}
	if !n.Mesh.On || len(n.Zones) == 0 {
		return
	}
	w.put("mesh [shape=ellipse, style=dashed, color=%q, label=%s]", meshColour, dotText(n.meshLine()))
	for i, zone := range n.Zones {
		for j := range zone.Groups {
			w.put("mesh -- group_%d_%d [color=%q, style=dashed]", i, j, meshColour)
		}
	}
}

func dotOf(s iostreams.Streams, n *Network) error {
	_, err := io.WriteString(s.Out, dot(n))
	return err //nolint:wrapcheck // the caller wraps
}
