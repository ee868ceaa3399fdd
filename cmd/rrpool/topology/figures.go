package topology

import (
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rrpool/rrpool/cmd/rrpool/invent"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// view is what -o json prints: one topology, or all that are compared. SchemaVersion, which
// names a former command (simulate), changes when a field changes its meaning or goes away.
type view struct {
	SchemaVersion string         `json:"schemaVersion"`
	Subject       string         `json:"subject"`
	Topologies    []topologyView `json:"topologies"`
	// Auto is the topology that Auto takes, empty if it takes none, or if topologies are not compared.
	Auto string `json:"auto,omitempty"`
}

// topologyView is one topology. Its Type is Auto only if Auto takes no topology.
type topologyView struct {
	Type string `json:"type"`
	// Refused is why the manager would not build this topology. Figures are then
	// those of the refused topology, and nil if the nodes cannot be arranged at all.
	Refused *plan.Problem `json:"refused,omitempty"`
	Figures *figures      `json:"figures,omitempty"`
}

// figures are the numbers of a topology. The tag row is the name of the number's row in the table. Redundancy is how
// many reflectors connect any two clients: one less may fail. Paths are the most to one prefix of a client; a RIB
// has the paths to all prefixes, if each client announces one. MemoryMB is what BIRD needs on the busiest reflector.
type figures struct {
	Nodes                  int            `json:"nodes" row:"all nodes"`
	Clients                int            `json:"clients" row:"clients"`
	Reflectors             int            `json:"reflectors" row:"reflectors"`
	Spines                 int            `json:"spines" row:"  spines among them"`
	Redundancy             int            `json:"redundancy" row:"redundancy"`
	ClusterIDs             int            `json:"clusterIDs" row:"cluster IDs"`
	Groups                 int            `json:"groups" row:"groups of clients"`
	ClientsPerGroup        span           `json:"clientsPerGroup" row:"  clients in a group"`
	Labelled               int            `json:"clientsLabelled" row:"clients labelled"`
	BGPPeers               int            `json:"bgpPeers" row:"BGPPeers"`
	Sessions               int            `json:"sessions" row:"sessions"`
	FullMesh               int            `json:"fullMeshSessions" row:"  in a full mesh"`
	SessionsPerClient      span           `json:"sessionsPerClient" row:"  of a client"`
	SessionsPerReflector   span           `json:"sessionsPerReflector" row:"  of a reflector"`
	ClientsPerReflector    span           `json:"clientsPerReflector" row:"    with clients"`
	ReflectorsPerReflector span           `json:"reflectorsPerReflector" row:"    with reflectors"`
	PathsOnClient          simulate.Count `json:"pathsOnClient" row:"paths on a client"`
	PathsOnReflector       simulate.Count `json:"pathsOnReflector" row:"paths on a reflector"`
	ClientRIB              simulate.Count `json:"clientRIB" row:"RIB of a client"`
	ReflectorRIB           simulate.Count `json:"reflectorRIB" row:"RIB of a reflector"`
	MemoryMB               simulate.Count `json:"reflectorMemoryMB" row:"MB for BIRD"`
	// SurvivesAny is how many reflectors may fail together, whichever they are. ZonesCutting
	// are the zones whose loss cuts clients in other zones off from each other.
	SurvivesAny  int      `json:"survivesAny" row:"reflectors may fail"`
	ZonesCutting []string `json:"zonesCutting,omitempty" row:"zones that cut off"`
}

// span is the range of a number over several nodes or groups. Mean is rounded down.
type span struct {
	Least int `json:"least"`
	Most  int `json:"most"`
	Mean  int `json:"mean"`

	sum, count int
}

func (s *span) add(value, times int) {
	if s.count == 0 || value < s.Least {
		s.Least = value
	}
	s.Most, s.sum, s.count = max(s.Most, value), s.sum+value*times, s.count+times
	s.Mean = s.sum / s.count
}

// figuresOf computes the figures of the topologies that are asked for.
func (f *flags) figuresOf(c invent.Cluster) (view, error) {
	v := view{SchemaVersion: "rrpool.io/simulate/v2", Subject: c.String()}
	if !f.compare {
		t, err := topologyOf(c, c.Spec.Topology.Type)
		v.Topologies = []topologyView{t}
		return v, err
	}
	for _, kind := range []v1alpha1.TopologyType{v1alpha1.TopologySingle, v1alpha1.TopologyQuorum, v1alpha1.TopologyHierarchy, v1alpha1.TopologyMultiCluster} {
		t, err := topologyOf(c, kind)
		if err != nil {
			t = topologyView{Type: string(kind), Refused: &plan.Problem{Reason: "DoesNotFit", Message: iostreams.Sentence(err)}}
		}
		v.Topologies = append(v.Topologies, t)
	}
	if s, err := c.Size(v1alpha1.TopologyAuto); err == nil && s.Problem == nil {
		v.Auto = string(s.Kind)
	}
	return v, nil
}

// topologyOf computes one topology of a cluster.
func topologyOf(c invent.Cluster, kind v1alpha1.TopologyType) (topologyView, error) {
	s, err := c.Size(kind)
	if err != nil {
		return topologyView{}, err
	}
	t := topologyView{Type: string(s.Kind), Refused: s.Problem}
	if s.Kind != v1alpha1.TopologyAuto {
		t.Figures = newArrangement(c, s).figures(c.Zones)
	}
	return t, nil
}

// arrangement is a layout of the planner, and the configuration and network that result from it.
type arrangement struct {
	topology.Layout
	nodes   map[string]plan.Node
	config  *simulate.Configuration
	network *simulate.Network
}

func newArrangement(c invent.Cluster, s invent.Sized) *arrangement {
	layout, cluster := c.Arrange(s)
	a := &arrangement{Layout: layout, nodes: map[string]plan.Node{}, config: simulate.NewConfiguration(s.RoleLabel, cluster.Nodes, cluster.BGP, cluster.Peers)}
	for _, n := range cluster.Nodes {
		a.nodes[n.Name] = n
	}
	a.network = a.without(func(plan.Node) bool { return false })
	return a
}

func (a *arrangement) isClient(name string) bool { return !a.nodes[name].Pooled }

// without returns the network while the nodes that down accepts are down.
func (a *arrangement) without(down func(plan.Node) bool) *simulate.Network {
	return a.config.Network(func(name string) bool { return !down(a.nodes[name]) })
}

func (a *arrangement) figures(zones []string) *figures {
	f := &figures{Nodes: len(a.nodes), Redundancy: a.Depth, BGPPeers: len(a.Peers), Labelled: len(a.Racks), FullMesh: len(a.nodes) * (len(a.nodes) - 1) / 2}
	ids := sets.New[string]()
	for _, n := range a.nodes {
		if n.ClusterID == "" {
			continue
		}
		ids.Insert(n.ClusterID)
		f.Reflectors++
		if isSpine(n) {
			f.Spines++
		}
	}
	f.ClusterIDs = len(ids)
	for _, g := range a.Groups {
		if g.Clients > 0 {
			f.ClientsPerGroup.add(g.Clients, 1)
		}
	}
	f.Groups = f.ClientsPerGroup.count
	a.countSessions(f)
	f.MemoryMB = memory(f)
	for _, zone := range zones {
		if len(a.without(func(n plan.Node) bool { return n.Zone == zone }).Unreached(a.isClient)) > 0 {
			f.ZonesCutting = append(f.ZonesCutting, zone)
		}
	}
	f.SurvivesAny = max(a.network.Depth(min(a.Depth+1, f.Reflectors), a.isClient)-1, 0)
	return f
}

// countSessions adds the clients, sessions and paths. It computes them once for each class of equal nodes.
func (a *arrangement) countSessions(f *figures) {
	reflectors := a.without(func(n plan.Node) bool { return n.ClusterID == "" })
	for _, c := range a.network.Classes() {
		name, size := c.Nodes[0], len(c.Nodes)
		sessions := a.network.Sessions(name)
		paths, rib := a.network.HeldPaths(name, a.isClient) // dedicated reflectors announce nothing
		f.Sessions += sessions * size
		switch {
		case a.isClient(name):
			f.Clients += size
			f.SessionsPerClient.add(sessions, size)
			f.PathsOnClient, f.ClientRIB = f.PathsOnClient.Max(paths), f.ClientRIB.Max(rib)
		case c.Reflects:
			joined := reflectors.Sessions(name)
			f.SessionsPerReflector.add(sessions, size)
			f.ReflectorsPerReflector.add(joined, size)
			if !isSpine(a.nodes[name]) {
				f.ClientsPerReflector.add(sessions-joined, size)
			}
			f.PathsOnReflector, f.ReflectorRIB = f.PathsOnReflector.Max(paths), f.ReflectorRIB.Max(rib)
		}
	}
	f.Sessions /= 2
}

// memory estimates what BIRD needs on the busiest reflector, in MB. The constants are MB, fitted to measurements with 500
// to 5,000 clients that all connect at the same moment (docs/capacity.md). With fewer sessions the estimate is too high.
func memory(f *figures) simulate.Count {
	const alone, perSession, perRoute = 7, 0.089, 8.8e-6
	if f.SessionsPerClient.Least == 0 {
		return simulate.Count{}
	}
	routes := float64(f.ClientRIB.Paths) / float64(f.SessionsPerClient.Least) // sent to a client on one session
	megabytes := alone + float64(f.SessionsPerReflector.Most)*(perSession+routes*perRoute)
	return simulate.Count{Paths: uint64(megabytes), More: f.ClientRIB.More}
}
