package topology

import (
	"fmt"
	"strings"

	"github.com/emicklei/dot"
)

// looks is how a line is drawn, by the state of its sessions. Lines differ in more than colour, for readers who see no colours.
var looks = [...]struct {
	colour, style string
	width         float64
}{
	up: {"#0a7d5a", "solid", 2}, partial: {"#b06000", "dashed", 2.5}, none: {"#c22f0a", "dotted", 3.5},
	unknown: {"#6e7781", "dashed", 1.5}, idle: {"#6e7781", "dotted", 1.5}, planned: {"#2f66b0", "solid", 2},
}

// font is the font of all texts.
const font = "Helvetica"

// dotGraph renders the drawing for Graphviz. A line to the reflectors of a
// zone leads to the middle reflector, but is cut off at the frame around them.
func dotGraph(n *Drawing) string {
	g := dot.NewGraph(dot.Undirected)
	g.Attrs("compound", true, "rankdir", "LR", "ranksep", 2.5, "nodesep", 0.15, "fontname", font, "labelloc", "t",
		"label", dotLabel(append([]string{n.Title, n.Subtitle + ", " + n.meshWords()}, n.Notes...)...))
	g.NodeInitializer(func(one dot.Node) { one.Attrs("shape", "box", "style", "rounded", "fontname", font, "fontsize", 11) })
	g.EdgeInitializer(func(e dot.Edge) { e.Attrs("fontname", font, "fontsize", 10) })
	groups, reflectors, pools, middles := map[string]dot.Node{}, map[string]dot.Node{}, make([]*dot.Graph, len(n.Zones)), make([]dot.Node, len(n.Zones))
	for i, zone := range n.Zones {
		frame := dotFrame(g, fmt.Sprint("zone ", i), "#b9c2cb", zone.title())
		for _, group := range zone.Groups {
			groups[group.ID] = frame.Node("group " + group.ID).Label(dotLabel(append([]string{n.howMany(group.Clients)}, n.details(zone, group)...)...))
		}
		if len(zone.Reflectors) > 0 {
			pools[i] = dotFrame(frame, fmt.Sprint("reflectors ", i), "#57606a", zone.zoneWords())
		}
		for j, r := range zone.Reflectors {
			look := looks[n.of(r.Sessions)]
			node := pools[i].Node("reflector " + r.Name).Label(dotLabel(r.Name, n.reflectorWords(r), n.reflectorDetail(r)))
			node.Attrs("color", look.colour, "style", "rounded,"+look.style)
			reflectors[r.Name] = node
			if j == (len(zone.Reflectors)-1)/2 {
				middles[i] = node
			}
		}
	}
	n.dotEdges(g, groups, pools, middles)
	for _, r := range n.Remotes {
		there := g.Node("remote "+r.Peering+" "+r.Address).Attr("style", "filled").Attr("fillcolor", "#eaeef2").Label(dotLabel(r.Address, "ClusterPeering "+r.Peering))
		n.dotEdge(g, reflectors[r.Reflector], there, r.Sessions, "")
	}
	if len(n.Zones) == 0 {
		g.Node("nothing").Label("No node has a BGP address: there is nothing to draw.")
	}
	return g.String()
}

func (n *Drawing) dotEdge(g *dot.Graph, from, to dot.Node, s Sessions, label string) dot.Edge {
	look, e := looks[n.of(s)], g.Edge(from, to)
	e.Attrs("color", look.colour, "style", look.style, "penwidth", look.width, "label", label)
	return e
}

func (n *Drawing) dotEdges(g *dot.Graph, groups map[string]dot.Node, pools []*dot.Graph, middles []dot.Node) {
	for _, zone := range n.Zones {
		for _, group := range zone.Groups {
			for _, l := range n.lines(group) {
				n.dotEdge(g, groups[group.ID], middles[l.zone], l.Sessions, n.lineWords(l)).Attr("lhead", pools[l.zone].GetID())
			}
			if n.Mesh.On {
				g.Edge(g.Node("mesh").Attr("shape", "ellipse").Label(n.meshWords()), groups[group.ID]).Attrs("color", "#7a3f9d", "style", "dashed")
			}
		}
	}
	for _, l := range n.lines(Group{}) {
		all := g.Node("mutual").Attr("shape", "ellipse").Label("between reflectors: " + n.sessionWords(n.mutual()))
		n.dotEdge(g, middles[l.zone], all, l.Sessions, "").Attr("ltail", pools[l.zone].GetID())
	}
}

// dotFrame adds a frame for nodes.
func dotFrame(parent *dot.Graph, id, colour, label string) *dot.Graph {
	out := parent.Subgraph(id, dot.ClusterOption{})
	out.Attrs("style", "rounded", "color", colour, "fontname", font, "label", label)
	return out
}

// dotLabel makes a label with a line for each text.
func dotLabel(lines ...string) string { return strings.Join(filled(lines), "\n") }
