package topology

import (
	"cmp"
	"slices"
	"strings"
)

// schema names the form of `topology -o json`. It changes when a field changes its
// meaning or goes away.
const schema = "rrpool.io/topology/v1"

// Network is what is drawn, and what -o json shows. Clients are never one by one: their
// number does not change the size of the picture.
type Network struct {
	SchemaVersion string `json:"schemaVersion"`
	Title         string `json:"title"`
	Subtitle      string `json:"subtitle"`
	// Cluster is the context that was read, empty for a network that somebody thinks of.
	Cluster string `json:"cluster,omitempty"`
	// Live: the sessions were looked at. Otherwise they are planned.
	Live bool `json:"live"`
	// Topology that the seats of the reflectors make: "Single", or on the way from one to
	// another "Quorum and Single".
	Topology string `json:"topology,omitempty"`
	Mesh     Mesh   `json:"mesh"`
	// Zones are the frames, which in a Hierarchy are racks.
	Zones []Zone `json:"zones"`
	// Links with at least one session, from a group of clients or a reflector to a reflector.
	Links []Link `json:"links"`
	// Notes say what the picture leaves out; Warnings what is wrong.
	Notes    []string `json:"notes,omitempty"`
	Warnings []string `json:"warnings,omitempty"`

	// coming: whoever is among the reflectors without the role is about to get it.
	coming bool
}

// Mesh is Calico's node-to-node mesh: each of its nodes peers with each other.
type Mesh struct {
	On bool `json:"on"`
	// Nodes and Sessions that it has, or would have. Nobody reports their states.
	Nodes    int `json:"nodes"`
	Sessions int `json:"sessions"`
}

// Zone holds what is in one zone; its name is empty for nodes without one. Or it is a
// rack of a Hierarchy, or the spines.
type Zone struct {
	Name       string      `json:"name"`
	Kind       frameKind   `json:"kind,omitempty"`
	Reflectors []Reflector `json:"reflectors,omitempty"`
	Groups     []Group     `json:"groups,omitempty"`
}

// Reflector is a route reflector, or a node that is about to become one.
type Reflector struct {
	Name      string `json:"name"`
	ClusterID string `json:"clusterID,omitempty"`
	// Seat in the topology, where seats differ, and the zone, where the frame is none.
	Seat string `json:"seat,omitempty"`
	Zone string `json:"zone,omitempty"`
	// Role: it reflects. Detail says what else there is to know ("not Ready").
	Role   bool   `json:"role"`
	Detail string `json:"detail,omitempty"`
	// Sessions are those of all its links.
	Sessions

	// idSaid: the frame says its cluster ID.
	idSaid bool
}

// Group are the clients of a zone or rack that peer with the same reflectors, or where
// these would be too many groups, with as many in each zone.
type Group struct {
	// ID is unique in the network. Names are those of the topology's groups that its
	// clients are of, and Zones the zones that they are in where the frame is none.
	ID      string   `json:"id"`
	Names   []string `json:"groups,omitempty"`
	Zones   []string `json:"zones,omitempty"`
	Clients int      `json:"clients"`
	// Each is how many reflectors each client peers with, where they are not the same for
	// all, else 0.
	Each int `json:"each,omitempty"`
	// Pooled: they are the nodes of the dedicated pool that are not to reflect now.
	Pooled bool `json:"pooled,omitempty"`
	// NotReady counts the clients that Kubernetes calls so.
	NotReady int `json:"notReady,omitempty"`
	// All, Some and None count the clients by how many of their sessions are
	// Established, NotKnown those of which a reflector does not report, and no other
	// misses any. A client without any session is in None, or nowhere on the mesh.
	All      int `json:"all"`
	Some     int `json:"some"`
	None     int `json:"none"`
	NotKnown int `json:"notKnown,omitempty"`
}

// Link are all sessions between a group of clients, or a reflector, and a reflector.
type Link struct {
	// Group or Reflector is where it begins, To the reflector where it ends. Which of
	// two reflectors comes first says nothing.
	Group     string `json:"group,omitempty"`
	Reflector string `json:"reflector,omitempty"`
	To        string `json:"to"`
	Sessions
}

// Sessions are counted, one for each pair of nodes and address family.
type Sessions struct {
	Expected    int `json:"sessions"`
	Established int `json:"established"`
	// Unknown are those that nobody reports.
	Unknown int `json:"unknown,omitempty"`
}

func (s *Sessions) add(o Sessions) {
	s.Expected += o.Expected
	s.Established += o.Established
	s.Unknown += o.Unknown
}

// state of sessions. What is known to be down outweighs what is not known.
func (s Sessions) state() state {
	down := s.Expected - s.Established - s.Unknown
	switch {
	case s.Expected == 0:
		return idle
	case s.Established == s.Expected:
		return up
	case down == 0:
		return unknown
	case s.Established == 0:
		return down0
	}
	return partial
}

// arrange sorts everything, so that the same network looks the same however it was
// found, and sums up the sessions of each reflector.
func (n *Network) arrange() {
	n.SchemaVersion = schema
	sums := map[string]Sessions{}
	for i := range n.Links {
		l := &n.Links[i]
		if l.Reflector != "" && natural(l.Reflector, l.To) > 0 {
			l.Reflector, l.To = l.To, l.Reflector
		}
		for _, name := range []string{l.Reflector, l.To} {
			sum := sums[name]
			sum.add(l.Sessions)
			sums[name] = sum
		}
	}
	slices.SortFunc(n.Links, func(a, b Link) int {
		return cmp.Or(natural(a.Reflector, b.Reflector), natural(a.Group, b.Group), natural(a.To, b.To))
	})
	slices.SortFunc(n.Zones, compareZones)
	for i := range n.Zones {
		zone := &n.Zones[i]
		slices.SortFunc(zone.Reflectors, func(a, b Reflector) int {
			return cmp.Or(natural(a.Seat, b.Seat), natural(a.Name, b.Name))
		})
		slices.SortFunc(zone.Groups, func(a, b Group) int { return natural(a.ID, b.ID) })
		for j := range zone.Reflectors {
			zone.Reflectors[j].Sessions = sums[zone.Reflectors[j].Name]
			zone.Reflectors[j].idSaid = zone.commonID() != ""
		}
	}
	slices.Sort(n.Notes)
	slices.Sort(n.Warnings)
}

// natural compares as people count: zone 2 comes before zone 10.
func natural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		p, q := chunk(x), chunk(y)
		if c := compareChunks(p, q); c != 0 {
			return c
		}
		x, y = x[len(p):], y[len(q):]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

// chunk is the run of digits, or of anything else, that the text begins with.
func chunk(s string) string {
	digit := isDigit(s[0])
	for i := range len(s) {
		if isDigit(s[i]) != digit {
			return s[:i]
		}
	}
	return s
}

func compareChunks(a, b string) int {
	if isDigit(a[0]) && isDigit(b[0]) {
		x, y := strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
		return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
	}
	return cmp.Compare(a, b)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
