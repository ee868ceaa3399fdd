package simulate

import (
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// view is the answer: for one topology, or for all that are compared. Its schema version
// changes when a field changes its meaning or goes away.
type view struct {
	SchemaVersion string         `json:"schemaVersion"`
	Subject       string         `json:"subject"`
	Topologies    []topologyView `json:"topologies"`
	// Auto is the topology that Auto takes where topologies are compared, "" for none.
	Auto string `json:"auto,omitempty"`
	Fail int    `json:"fail,omitempty"`
}

// topologyView is one topology. Its type is Auto only where Auto takes none.
type topologyView struct {
	Type string `json:"type"`
	// ByHand: rrpool does not build it. Refused is why the manager does not: the figures
	// are then what would come of it, and missing where it cannot be arranged at all.
	ByHand  bool          `json:"byHand,omitempty"`
	Refused *plan.Problem `json:"refused,omitempty"`
	Figures *figures      `json:"figures,omitempty"`
}

// figures are the sizes of an arrangement once it is built, and by their row tags the rows of the table. Redundancy
// is how many reflectors keep any two clients connected. Paths are to a prefix of a client, the most there are; a
// RIB has those to all prefixes, if each client announces one. Memory is what BIRD needs on the busiest reflector.
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
	// SurvivesAny is how many reflectors may fail together, whichever they are, and
	// ZonesCutting are the zones whose loss cuts clients of the others off from each other.
	SurvivesAny  int      `json:"survivesAny" row:"reflectors may fail"`
	ZonesCutting []string `json:"zonesCutting,omitempty" row:"zones that cut off"`
	// Sets of --fail reflectors: how many were tried (More: of more), and cut clients off.
	// Breaking is the first that does, and Cut are two clients that it cuts off.
	SetsTried   simulate.Count `json:"setsTried" row:"sets of reflectors"`
	SetsCutting simulate.Count `json:"setsCutting" row:"  that cut off"`
	Breaking    []string       `json:"breaking,omitempty"`
	Cut         []string       `json:"cut,omitempty"`
	// GroupPairs are the pairs of groups, and Unreached those that have no route to each
	// other although nothing has failed.
	GroupPairs int `json:"groupPairs"`
	Unreached  int `json:"groupPairsWithoutRoute"`
}

// span is what several nodes have; Mean is rounded down.
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

// answer computes what is asked.
func (r *request) answer() (view, error) {
	v := view{SchemaVersion: "rrpool.io/simulate/v1", Subject: r.cluster.String(), Fail: r.fail.Value}
	if !r.compare {
		t, err := r.simulate(r.cluster.Spec.Topology.Type)
		v.Topologies = []topologyView{t}
		return v, err
	}
	for _, kind := range []v1alpha1.TopologyType{v1alpha1.TopologySingle, v1alpha1.TopologyQuorum, v1alpha1.TopologyHierarchy, v1alpha1.TopologyMultiCluster} {
		t, err := r.simulate(kind)
		if err != nil {
			t = topologyView{Type: string(kind), Refused: &plan.Problem{Reason: "DoesNotFit", Message: iostreams.Sentence(err)}}
		}
		v.Topologies = append(v.Topologies, t)
	}
	if s, err := r.cluster.Size(v1alpha1.TopologyAuto); err == nil && s.Problem == nil {
		v.Auto = string(s.Kind)
	}
	return v, nil
}

// simulate computes one topology.
func (r *request) simulate(kind v1alpha1.TopologyType) (topologyView, error) {
	s, err := r.cluster.Size(kind)
	if err != nil {
		return topologyView{}, err
	}
	t := topologyView{Type: string(s.Kind), ByHand: r.perClient.Value > 0}
	if !t.ByHand {
		t.Refused = s.Problem
	}
	if s.Kind == v1alpha1.TopologyAuto {
		return t, nil
	}
	a, err := r.arrange(s)
	if err != nil {
		return topologyView{}, err
	}
	t.Figures = a.figures()
	a.failures(t.Figures, r.fail.Value)
	return t, nil
}

func (a *arrangement) figures() *figures {
	f := &figures{
		Nodes: len(a.nodes), Reflectors: len(a.slots), Redundancy: a.Depth, BGPPeers: len(a.Peers), Labelled: len(a.Racks),
		FullMesh: len(a.nodes) * (len(a.nodes) - 1) / 2,
	}
	ids := map[string]bool{}
	for _, slot := range a.slots {
		ids[slot.ClusterID] = true
		if slot.Spine {
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
	reflectors := a.network.Without(a.where(func(n plan.Node) bool { return n.ClusterID == "" })...)
	for _, c := range a.classes {
		name, size := c.Nodes[0], len(c.Nodes)
		sessions := a.network.Sessions(name)
		paths, rib := a.network.Held(name, a.isClient) // dedicated reflectors announce nothing
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
			if !a.slots[name].Spine {
				f.ClientsPerReflector.add(sessions-joined, size)
			}
			f.PathsOnReflector, f.ReflectorRIB = f.PathsOnReflector.Max(paths), f.ReflectorRIB.Max(rib)
		}
	}
	f.Sessions /= 2
	f.MemoryMB = memory(f)
	a.countPairs(f)
	return f
}

// countPairs counts the pairs of groups of clients, and those without a route.
func (a *arrangement) countPairs(f *figures) {
	for i, one := range a.classes {
		for _, two := range a.classes[:i] {
			x, y := one.Nodes[0], two.Nodes[0]
			if !a.isClient(x) || !a.isClient(y) {
				continue
			}
			f.GroupPairs++
			if a.network.Paths(x, y).Paths == 0 || a.network.Paths(y, x).Paths == 0 {
				f.Unreached++
			}
		}
	}
}

// memory estimates what BIRD needs on the busiest reflector, in MB, as measured with 500 to
// 5,000 clients that all connect at the same moment (docs/capacity.md): by itself, for
// each session, and for each route that it sends. With fewer sessions it needs less.
func memory(f *figures) simulate.Count {
	const alone, perSession, perRoute = 7, 0.089, 8.8e-6
	if f.SessionsPerClient.Least == 0 {
		return simulate.Count{}
	}
	routes := float64(f.ClientRIB.Paths) / float64(f.SessionsPerClient.Least) // that a session sends to a client
	megabytes := alone + float64(f.SessionsPerReflector.Most)*(perSession+routes*perRoute)
	return simulate.Count{Paths: uint64(megabytes), More: f.ClientRIB.More}
}
