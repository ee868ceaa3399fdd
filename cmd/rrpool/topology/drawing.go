package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// Drawing is the content of a drawing. Clients are counted in groups, so their number does not change the size of the drawing.
type Drawing struct {
	Title, Subtitle string
	// Live is set if the sessions have states. In an invented cluster they have none.
	Live bool
	// Topology is that of the reflectors, such as "Single"; during a change of topology both, such as "Quorum and Single".
	Topology string
	Mesh     Mesh
	// Zones are the frames: zones, or in a Hierarchy racks and the spines.
	Zones []Zone
	// Links lead from a group of clients, or from a reflector, to a reflector. Each link has at least one session.
	Links []Link
	// Remotes are the sessions of ClusterPeerings.
	Remotes []Remote
	// Notes name what the drawing leaves out, and Warnings the problems of the datastore.
	Notes    []string
	Warnings []string
}

// Mesh is Calico's node-to-node mesh. While the mesh is off, Nodes and Sessions
// are those that it would have. The states of its sessions are not reported.
type Mesh struct {
	On              bool
	Nodes, Sessions int
}

// frameKind is what a frame stands for: a zone, or in a Hierarchy a rack or the spines.
type frameKind string

const (
	zoneFrame  frameKind = ""
	rackFrame  frameKind = "rack"
	spineFrame frameKind = "spines"
)

// frame identifies a frame of the drawing. Name is empty for nodes without a zone, and for the spines.
type frame struct {
	Name string
	Kind frameKind
}

// Zone is a frame with its reflectors and clients.
type Zone struct {
	frame
	Reflectors []Reflector
	Groups     []Group
}

// Reflector is a route reflector. If it has no ClusterID, it is a node that becomes a route reflector.
type Reflector struct {
	Name      string
	ClusterID string
	// Slot is set if slots differ (not in Single). Zone is set if the frame is not a zone.
	Slot string
	Zone string
	// Detail is what else is known, such as "not Ready". Sessions is the sum of all its links.
	Detail string
	Sessions
}

// Group is the clients of one frame that peer with equally many reflectors in each frame.
type Group struct {
	// ID is unique in the drawing. Each is the number of reflectors that each client peers with.
	ID      string
	Clients int
	Each    int
	// NotReady counts the clients that Kubernetes reports as not Ready.
	NotReady int
	// All, Some and None count the clients by how many of their sessions are Established. NotKnown counts the clients of which a session
	// is not reported and no session is down. A client without sessions counts in None, or while the mesh is on, in none of the four.
	All, Some, None, NotKnown int
}

// Link is all sessions of a Group of clients, or of a Reflector, with the reflector To. A link of two reflectors has no direction.
type Link struct {
	Group     string
	Reflector string
	To        string
	Sessions
}

// Remote is a session of a Reflector with a route reflector of another cluster.
type Remote struct {
	Reflector, Peering, Address string
	Sessions
}

// Sessions counts sessions, one for each pair of nodes and address family. Unknown counts those whose state is not reported.
type Sessions struct {
	Expected, Established, Unknown int
}

func (s Sessions) plus(o Sessions) Sessions {
	return Sessions{s.Expected + o.Expected, s.Established + o.Established, s.Unknown + o.Unknown}
}

// state is one state for several sessions.
type state int

const (
	up state = iota
	partial
	none
	unknown
	idle    // no sessions
	planned // of an invented cluster
)

// of returns the common state of all sessions. If any session is down, the state is none or partial, even if others are not known.
func (n *Drawing) of(s Sessions) state {
	switch {
	case s.Expected == 0:
		return idle
	case !n.Live:
		return planned
	case s.Established == s.Expected:
		return up
	case s.Established+s.Unknown == s.Expected:
		return unknown
	case s.Established == 0:
		return none
	}
	return partial
}

// zone returns the Zone of a frame, and adds it where it is missing.
func (n *Drawing) zone(of frame) *Zone {
	i := slices.IndexFunc(n.Zones, func(z Zone) bool { return z.frame == of })
	if i < 0 {
		i = len(n.Zones)
		n.Zones = append(n.Zones, Zone{frame: of})
	}
	return &n.Zones[i]
}

// arrange sums up the sessions of each reflector, and sorts everything, so that the same cluster gives the same bytes. Spines come before
// racks, and racks before zones.
func (n *Drawing) arrange() {
	sums := map[string]Sessions{}
	for i := range n.Links {
		l := &n.Links[i]
		if l.Reflector > l.To {
			l.Reflector, l.To = l.To, l.Reflector
		}
		for _, name := range []string{l.Reflector, l.To} {
			sums[name] = sums[name].plus(l.Sessions)
		}
	}
	slices.SortFunc(n.Links, func(a, b Link) int {
		return cmp.Or(cmp.Compare(a.Reflector, b.Reflector), cmp.Compare(a.Group, b.Group), cmp.Compare(a.To, b.To))
	})
	slices.SortFunc(n.Remotes, func(a, b Remote) int {
		return cmp.Or(cmp.Compare(a.Peering, b.Peering), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Reflector, b.Reflector))
	})
	rank := map[frameKind]int{spineFrame: 0, rackFrame: 1, zoneFrame: 2}
	slices.SortFunc(n.Zones, func(a, b Zone) int {
		return cmp.Or(cmp.Compare(rank[a.Kind], rank[b.Kind]), cmp.Compare(a.Name, b.Name))
	})
	for _, zone := range n.Zones {
		slices.SortFunc(zone.Reflectors, func(a, b Reflector) int {
			return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.Name, b.Name))
		})
		for j := range zone.Reflectors {
			zone.Reflectors[j].Sessions = sums[zone.Reflectors[j].Name]
		}
	}
	slices.Sort(n.Notes)
	slices.Sort(n.Warnings)
}

// line is the sessions that are drawn as one line: those of a group with the
// reflectors of a zone, or those between reflectors that have an end in the zone.
type line struct {
	clients, zone int
	Sessions
}

// lines returns the lines of a group, one for each zone. If the group has no ID, they are the lines between reflectors.
func (n *Drawing) lines(g Group) []line {
	home, out := map[string]int{}, make([]line, len(n.Zones))
	for i, zone := range n.Zones {
		out[i] = line{clients: g.Clients, zone: i}
		for _, r := range zone.Reflectors {
			home[r.Name] = i
		}
	}
	for _, l := range n.Links {
		if l.Group != g.ID {
			continue
		}
		to := home[l.To]
		out[to].Sessions = out[to].plus(l.Sessions)
		if from, known := home[l.Reflector]; known && from != to {
			out[from].Sessions = out[from].plus(l.Sessions)
		}
	}
	return slices.DeleteFunc(out, func(l line) bool { return l.Expected == 0 })
}

// mutual counts the sessions that reflectors have with each other.
func (n *Drawing) mutual() (all Sessions) {
	for _, l := range n.Links {
		if l.Group == "" {
			all = all.plus(l.Sessions)
		}
	}
	return all
}

func joined(parts ...string) string { return strings.Join(filled(parts), ", ") }

// filled returns the parts that are not empty.
func filled(parts []string) []string {
	return slices.DeleteFunc(parts, func(part string) bool { return part == "" })
}

// title returns the words that name a frame.
func (z frame) title() string {
	if z.Kind == zoneFrame && z.Name == "" {
		return "no zone"
	}
	return strings.TrimSpace(string(z.Kind) + " " + z.Name)
}

// roles counts the reflectors that have a cluster ID.
func (z Zone) roles() int {
	without := func(r Reflector) bool { return r.ClusterID == "" }
	return len(slices.DeleteFunc(slices.Clone(z.Reflectors), without))
}

// sessionWords counts sessions, and says how many are up.
func (n *Drawing) sessionWords(s Sessions) string {
	return joined(iostreams.Number(s.Expected, "session"), n.established(s))
}

func (n *Drawing) established(s Sessions) string {
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

// lineWords gives clients × sessions, if the sum is a multiple of the number of clients.
func (n *Drawing) lineWords(l line) string {
	if l.Expected%max(l.clients, 1) != 0 {
		return n.sessionWords(l.Sessions)
	}
	return joined(fmt.Sprintf("%d × %d sessions", l.clients, l.Expected/max(l.clients, 1)), n.established(l.Sessions))
}

// details returns what is known of a group besides its number of clients.
func (n *Drawing) details(z Zone, g Group) (out []string) {
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

// reflectors counts the reflectors of all zones that have a cluster ID.
func (n *Drawing) reflectors() (all int) {
	for _, zone := range n.Zones {
		all += zone.roles()
	}
	return all
}

// howMany counts nodes. They are called clients if there are reflectors.
func (n *Drawing) howMany(nodes int) string {
	if n.reflectors() == 0 {
		return iostreams.Number(nodes, "node")
	}
	return iostreams.Number(nodes, "client")
}

// subtitle counts the nodes by their roles, and names the topology, the cluster ID and the step.
func (n *Drawing) subtitle(step string) string {
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

// meshWords describes the node-to-node mesh.
func (n *Drawing) meshWords() string {
	if !n.Mesh.On {
		return "node-to-node mesh: off"
	}
	return fmt.Sprintf("node-to-node mesh: on, %s each with each, %s", iostreams.Number(n.Mesh.Nodes, "node"), iostreams.Number(n.Mesh.Sessions, "session"))
}

// zoneWords counts the reflectors of a frame.
func (z Zone) zoneWords() string {
	what := map[frameKind]string{spineFrame: "spine", rackFrame: "reflector", zoneFrame: "reflector"}[z.Kind]
	if z.roles() == 0 {
		return "no " + what + "s"
	}
	return iostreams.Number(z.roles(), what)
}

// reflectorWords describes the sessions of a reflector.
func (n *Drawing) reflectorWords(r Reflector) string {
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

// reflectorDetail returns what differs between reflectors: slot, zone, cluster ID where there are several, and problems.
func (n *Drawing) reflectorDetail(r Reflector) string {
	id, slot := "", strings.TrimPrefix(r.Slot, r.Name) // in an invented cluster the name is the slot
	if len(n.clusterIDs()) > 1 && r.ClusterID != "" {
		id = "cluster ID " + r.ClusterID
	}
	return joined(slot, r.Zone, id, r.Detail)
}

// clusterIDs returns the different cluster IDs, sorted.
func (n *Drawing) clusterIDs() []string {
	out := sets.New[string]()
	for _, zone := range n.Zones {
		for _, r := range zone.Reflectors {
			out.Insert(r.ClusterID)
		}
	}
	return sets.List(out.Delete(""))
}
