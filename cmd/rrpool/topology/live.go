package topology

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/topology"
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
	// planned: nobody has looked at the sessions, because there are none yet.
	planned bool
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
	n := Network{
		Cluster: o.name, Live: !o.planned, Topology: kindsOf(s.members), Mesh: s.mesh(),
		Title: "BGP topology of cluster " + o.name, coming: o.coming,
	}
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
	for i, node := range s.members {
		kind, name := s.frameOf(node, i)
		r := Reflector{Name: node.Name, ClusterID: node.ClusterID, Role: node.ClusterID != "", Detail: s.detail(node)}
		if kind != zoneFrame {
			r.Zone = node.Zone
		}
		if topology.KindOf(node.Seat) != v1alpha1.TopologySingle {
			r.Seat = node.Seat
		}
		frame := n.frame(kind, name)
		frame.Reflectors = append(frame.Reflectors, r)
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

// frame finds the frame of that kind and name, or makes it.
func (n *Network) frame(kind frameKind, name string) *Zone {
	i := slices.IndexFunc(n.Zones, func(z Zone) bool { return z.Kind == kind && z.Name == name })
	if i < 0 {
		i = len(n.Zones)
		n.Zones = append(n.Zones, Zone{Name: name, Kind: kind})
	}
	return &n.Zones[i]
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
	if n.Topology != "" && n.Topology != string(v1alpha1.TopologySingle) {
		parts = append(parts, "topology "+n.Topology)
	}
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
