package topology

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ", ")
}

// title of a frame.
func (z frame) title() string {
	if z.Kind == zoneFrame && z.Name == "" {
		return "no zone"
	}
	return strings.TrimSpace(string(z.Kind) + " " + z.Name)
}

// roles counts the reflectors in the role.
func (z Zone) roles() int {
	without := func(r Reflector) bool { return r.ClusterID == "" }
	return len(slices.DeleteFunc(slices.Clone(z.Reflectors), without))
}

// sessionWords count them, and says how many are up.
func (n *Network) sessionWords(s Sessions) string {
	return joined(iostreams.Number(s.Expected, "session"), n.established(s))
}

func (n *Network) established(s Sessions) string {
	switch is := n.of(s); {
	case is == planned || is == idle:
		return ""
	case is == up:
		return "all up"
	case is == none:
		return "none up"
	case s.Unknown == s.Expected:
		return "not known"
	case s.Unknown > 0:
		return fmt.Sprintf("%d up, %d not known", s.Established, s.Unknown)
	}
	return fmt.Sprintf("%d up", s.Established)
}

// lineWords count clients × sessions, where every client has as many.
func (n *Network) lineWords(l line) string {
	if l.Expected%max(l.clients, 1) != 0 {
		return n.sessionWords(l.Sessions)
	}
	return joined(fmt.Sprintf("%d × %d sessions", l.clients, l.Expected/max(l.clients, 1)), n.established(l.Sessions))
}

// details of a group of a frame, besides its number of clients.
func (n *Network) details(z Zone, g Group) (out []string) {
	add := func(clients int, text string) {
		if clients > 0 {
			out = append(out, fmt.Sprint(clients, text))
		}
	}
	add(g.All, " with all sessions up")
	add(g.Some, " with some sessions up")
	add(g.None, " with no session up")
	add(g.NotKnown, " not known")
	all := n.reflectors()
	if z.Kind == rackFrame && g.Each <= z.roles() {
		all = z.roles()
	}
	if g.Each > 0 && g.Each < all {
		out = append(out, fmt.Sprintf("with %d of %s", g.Each, iostreams.Number(all, "reflector")))
	}
	add(g.NotReady, " not Ready")
	return out
}

// reflectors counts those in the role.
func (n *Network) reflectors() (all int) {
	for _, zone := range n.Zones {
		all += zone.roles()
	}
	return all
}

// howMany counts nodes, which are clients where there are reflectors.
func (n *Network) howMany(nodes int) string {
	if n.reflectors() == 0 {
		return iostreams.Number(nodes, "node")
	}
	return iostreams.Number(nodes, "client")
}

// subtitle counts the nodes by their roles, and says what else there is to the whole.
func (n *Network) subtitle(step string) string {
	all, without, clients := n.reflectors(), 0, 0
	for _, zone := range n.Zones {
		without += len(zone.Reflectors) - zone.roles()
		for _, g := range zone.Groups {
			clients += g.Clients
		}
	}
	parts := []string{"no reflectors", iostreams.Number(clients+without, "node")}
	if all > 0 {
		parts = []string{iostreams.Number(all, "reflector"), iostreams.Number(clients, "client")}
	}
	if all > 0 && without > 0 {
		parts = append(parts, iostreams.Number(without, "node")+" without the role")
	}
	if n.Topology != "" && n.Topology != string(v1alpha1.TopologySingle) {
		parts = append(parts, "topology "+n.Topology)
	}
	if ids := n.clusterIDs(); len(ids) == 1 {
		parts = append(parts, "cluster ID "+ids[0])
	}
	if step != "" {
		parts = append(parts, "step "+step)
	}
	return strings.Join(parts, ", ")
}

// meshWords describe the node-to-node mesh.
func (n *Network) meshWords() string {
	if !n.Mesh.On {
		return "node-to-node mesh: off"
	}
	return fmt.Sprintf("node-to-node mesh: on, %s each with each, %s", iostreams.Number(n.Mesh.Nodes, "node"), iostreams.Number(n.Mesh.Sessions, "session"))
}

// zoneWords head the reflectors of a frame.
func (z Zone) zoneWords() string {
	what := map[frameKind]string{spineFrame: "spine", rackFrame: "reflector", zoneFrame: "reflector"}[z.Kind]
	if z.roles() == 0 {
		return "no " + what + "s"
	}
	return iostreams.Number(z.roles(), what)
}

// reflectorWords describe the sessions of a reflector.
func (n *Network) reflectorWords(r Reflector) string {
	switch n.of(r.Sessions) {
	case idle:
		return "no sessions"
	case planned:
		return iostreams.Number(r.Expected, "session")
	case unknown:
		return "not known"
	default:
	}
	return fmt.Sprintf("%d/%d up", r.Established, r.Expected)
}

// reflectorDetail is what else there is to know about a reflector; its cluster ID where there are several.
func (n *Network) reflectorDetail(r Reflector) string {
	id, slot := "", strings.TrimPrefix(r.Slot, r.Name) // in a planned cluster they are the same
	if len(n.clusterIDs()) > 1 && r.ClusterID != "" {
		id = "cluster ID " + r.ClusterID
	}
	return joined(slot, r.Zone, id, r.Detail)
}

// clusterIDs are the different ones, sorted.
func (n *Network) clusterIDs() []string {
	out := sets.New[string]()
	for _, zone := range n.Zones {
		for _, r := range zone.Reflectors {
			out.Insert(r.ClusterID)
		}
	}
	return sets.List(out.Delete(""))
}
