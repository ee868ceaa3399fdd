package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// grouped is a number with a comma between thousands: 124,750.
func grouped(n int) string {
	out := strconv.Itoa(n)
	for i := len(out) - 3; i > 0; i -= 3 {
		out = out[:i] + "," + out[i:]
	}
	return out
}

// count is so many of something.
func count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return grouped(n) + " " + of + "s"
}

func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ", ")
}

// clean is text that every format can hold: one line of valid characters that show.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError, !unicode.IsGraphic(r), r >= 0xfffe && r <= 0xffff:
			return '�'
		case unicode.IsSpace(r):
			return ' '
		}
		return r
	}, text)
}

// title of a frame.
func (z Zone) title() string {
	if z.Kind == zoneFrame && z.Name == "" {
		return "no zone"
	}
	return strings.TrimSpace(string(z.Kind) + " " + clean(z.Name))
}

// roles counts the reflectors in the role.
func (z Zone) roles() int {
	without := func(r Reflector) bool { return !r.Role }
	return len(slices.DeleteFunc(slices.Clone(z.Reflectors), without))
}

// sessionWords count them, and says how many are up.
func (n *Network) sessionWords(s Sessions) string {
	return joined(count(s.Expected, "session"), n.established(s))
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
		return grouped(s.Established) + " up, " + grouped(s.Unknown) + " not known"
	}
	return grouped(s.Established) + " up"
}

// lineWords count clients × sessions, where every client has as many.
func (n *Network) lineWords(l line) string {
	if l.Expected%max(l.clients, 1) != 0 {
		return n.sessionWords(l.Sessions)
	}
	return joined(fmt.Sprintf("%s × %d sessions", grouped(l.clients), l.Expected/max(l.clients, 1)), n.established(l.Sessions))
}

// detail is one line of text about a group; a state other than idle has a sign.
type detail struct {
	state state
	text  string
}

// details of a group of a frame, besides its number of clients.
func (n *Network) details(z Zone, g Group) []detail {
	var out []detail
	add := func(of state, given bool, text string) {
		if given {
			out = append(out, detail{of, text})
		}
	}
	all := n.reflectors()
	if z.Kind == rackFrame && g.Each <= z.roles() {
		all = z.roles()
	}
	if n.Live {
		add(up, g.All > 0, grouped(g.All)+" with all sessions up")
		add(partial, g.Some > 0, grouped(g.Some)+" with some sessions up")
		add(none, g.None > 0, grouped(g.None)+" with no session up")
		add(unknown, g.NotKnown > 0, grouped(g.NotKnown)+" not known")
	}
	add(idle, g.Each > 0 && g.Each < all, fmt.Sprintf("with %d of %s", g.Each, count(all, "reflector")))
	add(idle, g.NotReady > 0, grouped(g.NotReady)+" not Ready")
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
		return count(nodes, "node")
	}
	return count(nodes, "client")
}

// size counts every node that speaks BGP once. The mesh joins all but the reflectors.
func (n *Network) size() string {
	all, clients, without := n.reflectors(), 0, 0
	for _, zone := range n.Zones {
		without += len(zone.Reflectors) - zone.roles()
		for _, g := range zone.Groups {
			clients += g.Clients
		}
	}
	switch {
	case all == 0:
		return "no reflectors, " + count(clients+without, "node")
	case without > 0:
		return joined(count(all, "reflector"), count(clients, "client"), count(without, "node")+" without the role")
	}
	return joined(count(all, "reflector"), count(clients, "client"))
}

// nothing is written instead of an empty drawing.
const nothing = "No node has a BGP address: there is nothing to draw."

// meshWords describe the node-to-node mesh.
func (n *Network) meshWords() string {
	if !n.Mesh.On {
		return "node-to-node mesh: off"
	}
	return fmt.Sprintf("node-to-node mesh: on, %s each with each, %s", count(n.Mesh.Nodes, "node"), count(n.Mesh.Sessions, "session"))
}

// zoneWords head the reflectors of a frame.
func (z Zone) zoneWords() string {
	what := map[frameKind]string{spineFrame: "spine", rackFrame: "reflector", zoneFrame: "reflector"}[z.Kind]
	if z.roles() == 0 {
		return "no " + what + "s"
	}
	return count(z.roles(), what)
}

// reflectorWords describe the sessions of a reflector.
func (n *Network) reflectorWords(r Reflector) string {
	switch n.of(r.Sessions) {
	case idle:
		return "no sessions"
	case planned:
		return count(r.Expected, "session")
	case unknown:
		return "not known"
	default:
	}
	return grouped(r.Established) + "/" + grouped(r.Expected) + " up"
}

// reflectorDetail is what else there is to know about a reflector; its cluster ID where
// there are several.
func (n *Network) reflectorDetail(r Reflector) string {
	id, seat := "", r.Seat
	if len(n.clusterIDs()) > 1 && r.ClusterID != "" {
		id = "cluster ID " + r.ClusterID
	}
	if seat == r.Name {
		seat = ""
	}
	return joined(seat, r.Zone, id, r.Detail)
}

// clusterIDs are the different ones, sorted.
func (n *Network) clusterIDs() []string {
	var out []string
	for _, zone := range n.Zones {
		for _, r := range zone.Reflectors {
			if r.ClusterID != "" {
				out = append(out, r.ClusterID)
			}
		}
	}
	slices.SortFunc(out, natural)
	return slices.Compact(out)
}
