package topology

import (
	"cmp"
	"slices"
)

// Network is what is drawn. Clients are counted in groups, so their number does not change the size of the drawing.
type Network struct {
	Title, Subtitle string
	// Live: the sessions have states, as those of a planned cluster have not.
	Live bool
	// Topology of the reflectors: "Single", or on the way to another "Quorum and Single".
	Topology string
	Mesh     Mesh
	// Zones are the frames, which in a Hierarchy are racks.
	Zones []Zone
	// Links with at least one session, from a group of clients or a reflector to a reflector.
	Links []Link
	// Notes name what the drawing leaves out; Warnings what is wrong.
	Notes    []string
	Warnings []string
}

// Mesh is Calico's node-to-node mesh, with the nodes and sessions that it has, or would
// have. The states of its sessions are not reported.
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

// frame is one of a kind; its name is empty for nodes without a zone.
type frame struct {
	Name string
	Kind frameKind
}

// Zone holds what is in one frame.
type Zone struct {
	frame
	Reflectors []Reflector
	Groups     []Group
}

// Reflector is a route reflector, or without a cluster ID a node that is about to become one.
type Reflector struct {
	Name      string
	ClusterID string
	// Slot in the topology, where slots differ, and the zone, where the frame is none.
	Slot string
	Zone string
	// Detail is what else is known ("not Ready"), and Sessions are those of all its links.
	Detail string
	Sessions
}

// Group are the clients of a frame that peer with as many reflectors in each frame.
type Group struct {
	// ID is unique in the network. Each is how many reflectors each client peers with.
	ID      string
	Clients int
	Each    int
	// NotReady counts the clients that Kubernetes reports as not Ready.
	NotReady int
	// All, Some and None count the clients by how many of their sessions are Established,
	// NotKnown those with a session that is not reported and none that is down. A client
	// without sessions is in None, or while the mesh is on in none of these.
	All, Some, None, NotKnown int
}

// Link are all sessions of a Group of clients, or of a Reflector, with the reflector To.
// Which of two reflectors comes first has no meaning.
type Link struct {
	Group     string
	Reflector string
	To        string
	Sessions
}

// Sessions are counted, one for each pair of nodes and address family. Unknown are those
// whose state is not reported.
type Sessions struct {
	Expected, Established, Unknown int
}

func (s Sessions) plus(o Sessions) Sessions {
	return Sessions{s.Expected + o.Expected, s.Established + o.Established, s.Unknown + o.Unknown}
}

// state of sessions together. Each has a colour, and for readers who cannot tell colours
// apart a pattern, a sign and words.
type state int

const (
	up state = iota
	partial
	none
	unknown
	idle // no sessions
	planned
)

// of is the state of sessions. One that is down outweighs those that are not known.
func (n *Network) of(s Sessions) state {
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

// zone finds what is in a frame, or makes it.
func (n *Network) zone(of frame) *Zone {
	i := slices.IndexFunc(n.Zones, func(z Zone) bool { return z.frame == of })
	if i < 0 {
		i = len(n.Zones)
		n.Zones = append(n.Zones, Zone{frame: of})
	}
	return &n.Zones[i]
}

// arrange sorts everything, so that the same network gives the same bytes, and sums up
// the sessions of each reflector. Spines come before racks, and these before zones.
func (n *Network) arrange() {
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

// line is what is drawn as one: the sessions of a group with the reflectors of a zone. Of
// the reflectors with each other it is those that have an end in the zone.
type line struct {
	clients, zone int
	Sessions
}

// lines of a group, by zone; of the group without an ID, those between reflectors.
func (n *Network) lines(g Group) []line {
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
func (n *Network) mutual() (all Sessions) {
	for _, l := range n.Links {
		if l.Group == "" {
			all = all.plus(l.Sessions)
		}
	}
	return all
}
