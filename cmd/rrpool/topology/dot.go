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

// dotGraph is the network for Graphviz. A line to the reflectors of a zone ends at the
// frame around them.
func dotGraph(n *Network) string {
	g := dot.NewGraph(dot.Undirected)
	headline := n.Subtitle + ", " + n.meshWords()
	g.Attrs("compound", true, "rankdir", "LR", "ranksep", 2.5, "nodesep", 0.15, "fontname", "Helvetica", "labelloc", "t",
		"label", dotLabel(append([]string{n.Title, headline}, n.Notes...)...))
	g.NodeInitializer(func(one dot.Node) {
		one.Attrs("shape", "box", "style", "rounded", "fontname", "Helvetica", "fontsize", 11)
	})
	g.EdgeInitializer(func(e dot.Edge) { e.Attrs("fontname", "Helvetica", "fontsize", 10) })
	mutual, mutualBy := n.mutual()
	frames, middles, groups := make([]*dot.Graph, len(n.Zones)), make([]dot.Node, len(n.Zones)), map[string]dot.Node{}
	for i, zone := range n.Zones {
		frame := cluster(g, fmt.Sprint("zone ", i), "#b9c2cb", zone.title())
		for j, group := range zone.Groups {
			text := []string{n.howMany(group.Clients)}
			for _, d := range n.details(zone, group) {
				text = append(text, d.text)
			}
			groups[group.ID] = frame.Node(fmt.Sprintf("group %d/%d", i, j)).Label(dotLabel(text...))
		}
		if len(zone.Reflectors) == 0 {
			continue
		}
		frames[i] = cluster(frame, fmt.Sprint("reflectors ", i), "#57606a", zone.zoneWords())
		for j, r := range zone.Reflectors {
			l := looks[n.of(r.Sessions)]
			node := frames[i].Node(fmt.Sprintf("reflector %d/%d", i, j)).Label(dotLabel(r.Name, n.reflectorWords(r), n.reflectorDetail(r)))
			node.Attrs("color", l.light, "style", "rounded,"+l.dot)
			if j == (len(zone.Reflectors)-1)/2 {
				middles[i] = node
			}
		}
	}
	edge := func(from, to dot.Node, head, tail *dot.Graph, s Sessions, label string) {
		l := looks[n.of(s)]
		e := g.Edge(from, to)
		e.Attrs("color", l.light, "style", l.dot, "penwidth", l.width, "label", dotLabel(label))
		if head != nil {
			e.Attr("lhead", head.GetID())
		}
		if tail != nil {
			e.Attr("ltail", tail.GetID())
		}
	}
	for _, zone := range n.Zones {
		for _, group := range zone.Groups {
			for _, l := range n.lines(group) {
				edge(groups[group.ID], middles[l.zone], frames[l.zone], nil, l.Sessions, n.lineWords(l))
			}
			if n.Mesh.On {
				g.Edge(g.Node("mesh").Attr("shape", "ellipse").Label(n.meshWords()), groups[group.ID]).Attrs("color", meshColour, "style", "dashed")
			}
		}
	}
	for i, with := range mutualBy {
		if with.Expected > 0 {
			all := g.Node("mutual").Attr("shape", "ellipse").Label(dotLabel("between reflectors: " + n.sessionWords(mutual)))
			edge(middles[i], all, nil, frames[i], with, "")
		}
	}
	if len(n.Zones) == 0 {
		g.Node("nothing").Label(nothing)
	}
	return g.String()
}
