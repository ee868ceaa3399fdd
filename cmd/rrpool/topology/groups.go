package topology

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rrpool/rrpool/controllers/plan"
)

// mostCards is how many groups there may be in one frame. Where there are more, those that
// peer with as many reflectors in each zone are put together, in all frames.
const mostCards = 3

// crowd is what the clients of one group have in common: the frame that they are in, the
// reflectors that they peer with, and whether they are of the pool.
type crowd struct {
	kind       frameKind
	name, with string
	pooled     bool
}

// gathering is a group on its way, with its sessions by reflector.
type gathering struct {
	Group
	crowd
	links        map[int]*Sessions
	some         map[int]bool // the reflectors of one of its clients
	names, zones map[string]bool
}

// addGroups puts the clients of a frame that peer with the same reflectors together, those
// of the pool apart.
func (s *scene) addGroups(n *Network) {
	groups := map[crowd]*gathering{}
	for i, c := range s.crowds() {
		if groups[c] == nil {
			groups[c] = &gathering{
				Group: Group{Pooled: c.pooled}, crowd: c, links: map[int]*Sessions{}, names: map[string]bool{}, zones: map[string]bool{},
			}
		}
		s.addClient(groups[c], i)
	}
	numbers := map[string]int{}
	for _, g := range sortedGroups(groups) {
		frame := n.frame(g.kind, g.name)
		numbers[frame.title()]++
		g.ID = fmt.Sprintf("%s/%d", frame.title(), numbers[frame.title()])
		frame.Groups = append(frame.Groups, g.Group)
		for member, sum := range g.links {
			n.Links = append(n.Links, Link{Group: g.ID, To: s.members[member].Name, Sessions: *sum})
		}
	}
}

// crowds gives the one of each client.
func (s *scene) crowds() []crowd {
	out := make([]crowd, len(s.clients))
	kinds, most := map[crowd]map[string]bool{}, 0
	for i, client := range s.clients {
		c := crowd{with: s.peering.with(i), pooled: s.dedicated(client)}
		c.kind, c.name = s.frameOf(client, len(s.members)+i)
		out[i] = c
		frame := crowd{kind: c.kind, name: c.name}
		if kinds[frame] == nil {
			kinds[frame] = map[string]bool{}
		}
		kinds[frame][c.with] = true
		most = max(most, len(kinds[frame]))
	}
	if most <= mostCards {
		return out
	}
	shapes := map[string]string{}
	for i, c := range out {
		if shapes[c.with] == "" {
			shapes[c.with] = s.shape(c.with)
		}
		out[i].with = shapes[c.with]
	}
	return out
}

// shape is how many reflectors of each frame, and in which families, clients peer with.
func (s *scene) shape(with string) string {
	counts := map[string]int{}
	for i := range s.members {
		if with[i] != '0' {
			kind, name := s.frameOf(s.members[i], i)
			counts[fmt.Sprintf("%s %q %c", kind, name, with[i])]++
		}
	}
	return fmt.Sprint(counts) // sorted by key
}

// sortedGroups: the pool comes last. The more reflectors, the earlier; the names decide
// the rest.
func sortedGroups(groups map[crowd]*gathering) []*gathering {
	last := map[bool]int{true: 1}
	out := make([]*gathering, 0, len(groups))
	for _, g := range groups {
		g.Names = sortedNames(g.names)
		if each := len(g.some); len(g.links) > each {
			g.Each = each
		}
		if g.kind != zoneFrame {
			g.Zones = sortedNames(g.zones)
		}
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b *gathering) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name), cmp.Compare(last[a.pooled], last[b.pooled]),
			-cmp.Compare(len(a.links), len(b.links)), slices.CompareFunc(a.Names, b.Names, natural), cmp.Compare(a.with, b.with))
	})
	return out
}

func sortedNames(set map[string]bool) []string {
	var out []string
	for name := range set {
		out = append(out, name)
	}
	slices.SortFunc(out, natural)
	return out
}

// addClient counts a client, and its sessions by reflector.
func (s *scene) addClient(g *gathering, i int) {
	client, all := s.clients[i], Sessions{}
	g.Clients++
	g.zones[client.Zone] = true
	if name := s.peering.groups[len(s.members)+i]; name != "" {
		g.names[name] = true
	}
	if !client.Ready {
		g.NotReady++
	}
	mine := map[int]bool{}
	for member := range s.members {
		with := s.sessions(s.members[member], client, s.peering.clients[member][i])
		if with.Expected == 0 {
			continue
		}
		if g.links[member] == nil {
			g.links[member] = &Sessions{}
		}
		g.links[member].add(with)
		mine[member] = true
		all.add(with)
	}
	g.some = mine
	if !s.planned {
		g.tell(all.state(), s.BGP)
	}
}

// tell counts a client by the state of its sessions.
func (g *Group) tell(is state, bgp plan.BGPConfig) {
	switch is {
	case up:
		g.All++
	case partial:
		g.Some++
	case down0:
		g.None++
	case unknown:
		g.NotKnown++
	default:
		if !bgp.MeshOn() {
			g.None++
		}
	}
}
