package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// grouped is a number that can be read at a glance: 124,750.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	var out strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			out.WriteByte(',')
		}
		out.WriteRune(d)
	}
	return out.String()
}

// count is so many of something.
func count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return grouped(n) + " " + of + "s"
}

// soMany says how many of the sessions are up, in one or two words.
func (n *Network) soMany(s Sessions) string {
	switch n.of(s) {
	case planned, idle:
		return ""
	case up:
		return "all up"
	case down0:
		return "none up"
	case unknown:
		if s.Established == 0 {
			return "not known"
		}
	default: // some of them
	}
	text := grouped(s.Established) + " up"
	if s.Unknown > 0 {
		text += ", " + grouped(s.Unknown) + " not known"
	}
	return text
}

// sessions counts them, and says how many are up.
func (n *Network) sessions(s Sessions) string {
	return joined(count(s.Expected, "session"), n.soMany(s))
}

func joined(parts ...string) string {
	var out []string
	for _, part := range parts {
		if part != "" {
			out = append(out, part)
		}
	}
	return strings.Join(out, ", ")
}

// zoneName is how a zone is called.
func zoneName(name string) string {
	if name == "" {
		return "no zone"
	}
	return clean(name)
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

// lines of a group besides its number of clients, each with the state it tells of.
func (n *Network) lines(g Group) []line {
	var out []line
	if words := n.groupWords(g); words != "" {
		out = append(out, line{idle, words})
	}
	if len(g.Zones) > 0 {
		out = append(out, line{idle, "in " + few(g.Zones, "zone")})
	}
	if g.Pooled {
		out = append(out, line{idle, "in the pool, without the role"})
	}
	if n.Live {
		for _, part := range []struct {
			count int
			state state
			words string
		}{
			{g.All, up, "with all sessions up"},
			{g.Some, partial, "with some sessions up"},
			{g.None, down0, "with no session up"},
			{g.NotKnown, unknown, "not known"},
		} {
			if part.count > 0 {
				out = append(out, line{part.state, grouped(part.count) + " " + part.words})
			}
		}
	}
	if with, all := n.peersOf(g); g.Each > 0 {
		out = append(out, line{idle, fmt.Sprintf("each with %d of %s", g.Each, count(all, "reflector"))})
	} else if with > 0 && with < all {
		out = append(out, line{idle, fmt.Sprintf("with %d of %s", with, count(all, "reflector"))})
	}
	if g.NotReady > 0 {
		out = append(out, line{idle, grouped(g.NotReady) + " not Ready"})
	}
	return out
}

// line is one line of text about a state; idle has no mark.
type line struct {
	state state
	text  string
}

// groupWords name the groups of the topology that clients are of, where the frame does
// not say it.
func (n *Network) groupWords(g Group) string {
	for _, zone := range n.Zones {
		if len(g.Names) == 1 && g.Names[0] == zone.Name && slices.ContainsFunc(zone.Groups, func(o Group) bool { return o.ID == g.ID }) {
			return ""
		}
	}
	return few(g.Names, "group")
}

// few names one thing, and counts several.
func few(names []string, what string) string {
	switch len(names) {
	case 0:
		return ""
	case 1:
		return what + " " + names[0]
	}
	return count(len(names), what)
}

// peersOf counts the reflectors that a group peers with, and those that there are: in a
// rack those of the rack, as long as it peers with no other.
func (n *Network) peersOf(g Group) (with, all int) {
	home, racks := n.home(), map[int]bool{}
	for _, l := range n.Links {
		if l.Group == g.ID {
			with++
			racks[home[l.To]] = true
		}
	}
	for zone := range racks {
		if len(racks) == 1 && n.Zones[zone].Kind == rackFrame {
			return with, roles(n.Zones[zone].Reflectors)
		}
	}
	return with, n.reflectors()
}

// roles counts those that reflect.
func roles(reflectors []Reflector) int {
	out := 0
	for _, r := range reflectors {
		if r.Role {
			out++
		}
	}
	return out
}

// reflectors counts those in the role.
func (n *Network) reflectors() int {
	all := 0
	for _, zone := range n.Zones {
		all += roles(zone.Reflectors)
	}
	return all
}

// clients counts those of all groups.
func (n *Network) clients() int {
	all := 0
	for _, zone := range n.Zones {
		for _, g := range zone.Groups {
			all += g.Clients
		}
	}
	return all
}

// howMany counts the nodes of a group, or of all. Without reflectors nobody is a client.
func (n *Network) howMany(nodes int) string {
	if n.reflectors() == 0 {
		return count(nodes, "node")
	}
	return count(nodes, "client")
}

// size says how large the network is. Every node that speaks BGP is counted once; the mesh
// joins all but the reflectors.
func (n *Network) size() string {
	all, without := n.reflectors(), 0
	for _, zone := range n.Zones {
		without += len(zone.Reflectors)
	}
	without -= all
	if all == 0 {
		return "no reflectors, " + n.howMany(n.clients()+without)
	}
	text := count(all, "reflector")
	for _, zone := range n.Zones {
		if spines := roles(zone.Reflectors); zone.Kind == spineFrame && spines > 0 {
			text += fmt.Sprintf(" (%s)", count(spines, "spine"))
		}
	}
	text += ", " + n.howMany(n.clients())
	if without > 0 {
		text += fmt.Sprintf(", %s without the role", count(without, "node"))
	}
	return text
}

// nothing is said instead of a picture of nothing.
const nothing = "No node has a BGP address: there is nothing to draw."

// headline is the subtitle, and that there is no mesh: a mesh would be seen.
func (n *Network) headline() string {
	if n.Mesh.On {
		return n.Subtitle
	}
	return n.Subtitle + ", " + n.meshLine()
}

// meshLine says what the node-to-node mesh is.
func (n *Network) meshLine() string {
	if !n.Mesh.On {
		return "node-to-node mesh: off"
	}
	return fmt.Sprintf("node-to-node mesh: on, %s each with each, %s", count(n.Mesh.Nodes, "node"), count(n.Mesh.Sessions, "session"))
}

// chipText is what is said about the sessions of a reflector.
func (n *Network) chipText(r Reflector) string {
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

// detailOf is what else is to be said about a reflector; its cluster ID where there are
// several, unless its frame says it.
func (n *Network) detailOf(r Reflector) string {
	id, seat, zone := "", r.Seat, ""
	if len(n.clusterIDs()) > 1 && r.ClusterID != "" && !r.idSaid {
		id = "cluster ID " + r.ClusterID
	}
	if seat == r.Name {
		seat = ""
	}
	if r.Zone != "" {
		zone = zoneName(r.Zone)
	}
	return joined(seat, zone, id, r.Detail)
}

// commonID is the cluster ID that all reflectors of a rack have, or all spines, "" for none.
func (z Zone) commonID() string {
	if z.Kind == zoneFrame || len(z.Reflectors) == 0 {
		return ""
	}
	id := z.Reflectors[0].ClusterID
	if slices.ContainsFunc(z.Reflectors, func(r Reflector) bool { return r.ClusterID != id }) {
		return ""
	}
	return id
}
