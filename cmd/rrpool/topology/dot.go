package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/emicklei/dot"
)

// dotLabel has one line for each text.
func dotLabel(lines ...string) string {
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
	for i := range lines {
		lines[i] = clean(lines[i])
	}
	return strings.Join(lines, "\n")
}

// cluster is a frame around nodes.
func cluster(parent *dot.Graph, id, colour, label string) *dot.Graph {
	out := parent.Subgraph(id, dot.ClusterOption{})
	out.Attrs("style", "rounded", "color", colour, "label", dotLabel(label))
	return out
}

// dotDrawing is a network on its way to Graphviz. A line to the reflectors of a zone leads
// to the one in the middle, and ends at the frame around them.
type dotDrawing struct {
	*Network
	*dot.Graph
	frames  []*dot.Graph
	middles []dot.Node
}

// dotGraph is the network for Graphviz.
func dotGraph(n *Network) string {
	g := dotDrawing{n, dot.NewGraph(dot.Undirected), make([]*dot.Graph, len(n.Zones)), make([]dot.Node, len(n.Zones))}
	g.Attrs("compound", true, "rankdir", "LR", "ranksep", 2.5, "nodesep", 0.15, "fontname", "Helvetica", "labelloc", "t",
		"label", dotLabel(append([]string{n.Title, n.Subtitle + ", " + n.meshWords()}, n.Notes...)...))
	g.NodeInitializer(func(one dot.Node) {
		one.Attrs("shape", "box", "style", "rounded", "fontname", "Helvetica", "fontsize", 11)
	})
	g.EdgeInitializer(func(e dot.Edge) { e.Attrs("fontname", "Helvetica", "fontsize", 10) })
	groups := map[string]dot.Node{}
	for i, zone := range n.Zones {
		frame := cluster(g.Graph, fmt.Sprint("zone ", i), "#b9c2cb", zone.title())
		for j, group := range zone.Groups {
			text := []string{n.howMany(group.Clients)}
			for _, d := range n.details(zone, group) {
				text = append(text, d.text)
			}
			groups[group.ID] = frame.Node(fmt.Sprintf("group %d/%d", i, j)).Label(dotLabel(text...))
		}
		g.reflectors(i, frame)
	}
	for _, zone := range n.Zones {
		for _, group := range zone.Groups {
			for _, l := range n.lines(group) {
				g.edge(groups[group.ID], g.middles[l.zone], l.Sessions, n.lineWords(l)).Attr("lhead", g.frames[l.zone].GetID())
			}
			if n.Mesh.On {
				g.Edge(g.Node("mesh").Attr("shape", "ellipse").Label(n.meshWords()), groups[group.ID]).Attrs("color", meshColour, "style", "dashed")
			}
		}
	}
	mutual, mutualBy := n.mutual()
	for i, with := range mutualBy {
		if with.Expected > 0 {
			all := g.Node("mutual").Attr("shape", "ellipse").Label(dotLabel("between reflectors: " + n.sessionWords(mutual)))
			g.edge(g.middles[i], all, with, "").Attr("ltail", g.frames[i].GetID())
		}
	}
	if len(n.Zones) == 0 {
		g.Node("nothing").Label(nothing)
	}
	return g.String()
}

func (g *dotDrawing) reflectors(i int, zone *dot.Graph) {
	reflectors := g.Zones[i].Reflectors
	if len(reflectors) == 0 {
		return
	}
	g.frames[i] = cluster(zone, fmt.Sprint("reflectors ", i), "#57606a", g.Zones[i].zoneWords())
	for j, r := range reflectors {
		l := looks[g.of(r.Sessions)]
		node := g.frames[i].Node(fmt.Sprintf("reflector %d/%d", i, j)).Label(dotLabel(r.Name, g.reflectorWords(r), g.reflectorDetail(r)))
		node.Attrs("color", l.light, "style", "rounded,"+l.dot)
		if j == (len(reflectors)-1)/2 {
			g.middles[i] = node
		}
	}
}

func (g *dotDrawing) edge(from, to dot.Node, s Sessions, label string) dot.Edge {
	l, e := looks[g.of(s)], g.Edge(from, to)
	e.Attrs("color", l.light, "style", l.dot, "penwidth", l.width, "label", dotLabel(label))
	return e
}
