package picture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// observed is a cluster as it was looked at.
type observed struct {
	plan.Cluster
	// name of the context, step of the manager ("" while nobody has asked for reflectors).
	name, step string
	// provider after Auto was resolved.
	provider v1alpha1.ProviderType
	// coming: somebody wants route reflectors, so that nodes of the pool without the role
	// are about to get it.
	coming bool
}

// scene sorts the nodes of a cluster.
type scene struct {
	observed
	// members reflect, or are about to; clients are all others that speak BGP.
	members, clients []plan.Node
	peering          peering
}

// live draws what is there: the nodes by their roles, the sessions by the BGPPeers, and
// their states by the reports of the reflectors.
func live(o observed) Network {
	s := scene{observed: o}
	silent := 0
	for _, node := range sortedByName(o.Nodes) {
		switch {
		case !node.SpeaksBGP():
			silent++
		case s.isMember(node):
			s.members = append(s.members, node)
		default:
			s.clients = append(s.clients, node)
		}
	}
	var strange []string
	s.peering, strange = peeringOf(o.Peers, s.members, s.clients)
	n := Network{Cluster: o.name, Live: true, Mesh: s.mesh(), Title: "BGP topology of cluster " + o.name, coming: o.coming}
	s.addMembers(&n)
	s.addGroups(&n)
	s.addPairs(&n)
	n.Notes = append(n.Notes, s.peering.notes()...)
	if silent > 0 {
		n.Notes = append(n.Notes, count(silent, "node")+" without a BGP address: not drawn")
	}
	n.Warnings = strange
	for _, p := range o.Problems {
		n.Warnings = append(n.Warnings, p.Message)
	}
	n.Subtitle = s.subtitle(&n)
	n.arrange()
	return n
}

func sortedByName(nodes []plan.Node) []plan.Node {
	return slices.SortedFunc(slices.Values(nodes), func(a, b plan.Node) int { return cmp.Compare(a.Name, b.Name) })
}

// isMember: whoever has a cluster ID reflects, whoever gave it; the node label alone, or
// being a worker of a dedicated pool while somebody wants route reflectors, says that it
// is to. Without that such a worker is a node like any other.
func (s *scene) isMember(n plan.Node) bool {
	return n.ClusterID != "" || n.RoleLabel || s.coming && s.dedicated(n)
}

// dedicated: the node is there for nothing but reflecting.
func (s *scene) dedicated(n plan.Node) bool {
	return n.Pooled && s.provider != v1alpha1.ProviderExistingNodes
}

func (s *scene) mesh() Mesh {
	m := Mesh{On: s.BGP.MeshOn()}
	var families [2]int
	for _, node := range slices.Concat(s.members, s.clients) {
		if node.ClusterID != "" {
			continue // Calico takes such a node out of the mesh
		}
		m.Nodes++
		for family := range families {
			if hasFamily(node, family) {
				families[family]++
			}
		}
	}
	for _, with := range families {
		m.Sessions += with * (with - 1) / 2
	}
	return m
}

func (s *scene) addMembers(n *Network) {
	for _, node := range s.members {
		zone := n.zone(node.Zone)
		zone.Reflectors = append(zone.Reflectors, Reflector{
			Name: node.Name, ClusterID: node.ClusterID, Role: node.ClusterID != "", Detail: s.detail(node),
		})
	}
}

// detail is what a reflector's name does not say.
func (s *scene) detail(n plan.Node) string {
	var out []string
	switch {
	case n.ClusterID == "" && n.RoleLabel && s.coming:
		out = append(out, "no cluster ID yet")
	case n.ClusterID == "" && n.RoleLabel:
		out = append(out, "no cluster ID")
	case n.ClusterID == "":
		out = append(out, "no role yet")
	case !n.RoleLabel:
		out = append(out, "without rrpool's label")
	}
	if !n.Ready {
		out = append(out, "not Ready")
	}
	return strings.Join(out, ", ")
}

// zone finds the zone of that name, or makes it.
func (n *Network) zone(name string) *Zone {
	i := slices.IndexFunc(n.Zones, func(z Zone) bool { return z.Name == name })
	if i < 0 {
		i = len(n.Zones)
		n.Zones = append(n.Zones, Zone{Name: name})
	}
	return &n.Zones[i]
}

// addGroups puts the clients of a zone that peer with the same reflectors together, those
// of the pool apart.
func (s *scene) addGroups(n *Network) {
	type key struct {
		zone, with string
		pooled     bool
	}
	groups, links := map[key]*Group{}, map[key]map[int]*Sessions{}
	for i, client := range s.clients {
		k := key{client.Zone, s.peering.with(i), s.dedicated(client)}
		if groups[k] == nil {
			groups[k], links[k] = &Group{Pooled: k.pooled}, map[int]*Sessions{}
		}
		s.addClient(groups[k], links[k], i)
	}
	keys := make([]key, 0, len(groups))
	for k := range groups {
		keys = append(keys, k)
	}
	// The pool comes last. The more reflectors, the earlier; the names decide the rest.
	last := map[bool]int{true: 1}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.zone, b.zone), cmp.Compare(last[a.pooled], last[b.pooled]),
			-cmp.Compare(len(links[a]), len(links[b])), cmp.Compare(a.with, b.with))
	})
	numbers := map[string]int{}
	for _, k := range keys {
		numbers[k.zone]++
		g := groups[k]
		g.ID = fmt.Sprintf("%s/%d", zoneName(k.zone), numbers[k.zone])
		zone := n.zone(k.zone)
		zone.Groups = append(zone.Groups, *g)
		for member, sum := range links[k] {
			n.Links = append(n.Links, Link{Group: g.ID, To: s.members[member].Name, Sessions: *sum})
		}
	}
}

// addClient counts a client, and its sessions by reflector.
func (s *scene) addClient(g *Group, links map[int]*Sessions, i int) {
	client, all := s.clients[i], Sessions{}
	g.Clients++
	if !client.Ready {
		g.NotReady++
	}
	for member := range s.members {
		with := s.sessions(s.members[member], client, s.peering.clients[member][i])
		if with.Expected == 0 {
			continue
		}
		if links[member] == nil {
			links[member] = &Sessions{}
		}
		links[member].add(with)
		all.add(with)
	}
	switch all.state() {
	case up:
		g.All++
	case partial:
		g.Some++
	case down0:
		g.None++
	case unknown:
		g.NotKnown++
	default:
		if !s.BGP.MeshOn() {
			g.None++
		}
	}
}

// addPairs adds the sessions that reflectors have with each other.
func (s *scene) addPairs(n *Network) {
	for i, a := range s.members {
		for j := i + 1; j < len(s.members); j++ {
			if with := s.between(a, s.members[j], s.peering.members[i][j]); with.Expected > 0 {
				n.Links = append(n.Links, Link{Reflector: a.Name, To: s.members[j].Name, Sessions: with})
			}
		}
	}
}

func (s *scene) subtitle(n *Network) string {
	parts := []string{n.size()}
	if ids := n.clusterIDs(); len(ids) == 1 {
		parts = append(parts, "cluster ID "+ids[0])
	}
	if s.step != "" {
		parts = append(parts, "step "+s.step)
	}
	return strings.Join(parts, ", ")
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
