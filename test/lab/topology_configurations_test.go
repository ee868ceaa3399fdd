//go:build linux

package lab_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/topology"
	"github.com/rrpool/rrpool/test/lab"
)

// configuration is a topology, or what is between two of them, on the nodes of topologyNodes.
type configuration struct {
	name string
	// slots by node.
	slots map[string]slot
	// racks are the values of plan.RackLabel, by node.
	racks map[string]string
	peers []plan.Peer
	mesh  bool
	// kill are nodes whose BIRD is killed, one by one, once lab and simulator have agreed.
	kill []string
	// depth is how many must be killed to cut clients off from each other, 0 where that is for the simulator to say.
	depth int
	// control is a BGPPeer without which the simulator must disagree with the lab.
	control string
}

type slot struct{ name, clusterID string }

// asNumber is Calico's default. A peering by address must name it.
const asNumber = 64512

// topologyNodes are 6 workers and 8 dedicated nodes in three zones, all with an address block, so that the prefixes of reflectors count as well.
func topologyNodes() []lab.NodeSpec {
	dedicated := lab.Dedicated(8)
	for i := range dedicated {
		dedicated[i].Pods = 1
	}
	return append(lab.Workers(6), dedicated...)
}

// zone1, zone2 and others divide the clients into three groups, the last of which takes in whoever is in no group.
const (
	zone  = "topology.kubernetes.io/zone"
	zone1 = zone + " == 'zone-1'"
	zone2 = zone + " == 'zone-2'"
	other = zone + " not in {'zone-1', 'zone-2'}"
	// isClient selects the nodes that have no slot.
	isClient = "!" + anyReflector
)

func id(n int) string           { return fmt.Sprintf("244.0.0.%d", n) }
func oneID(int) string          { return id(1) }
func reflector(n int) string    { return fmt.Sprintf("reflector-%d", n-1) }
func in(slots ...string) string { return roleLabel + " in {'" + strings.Join(slots, "', '") + "'}" }
func starts(with string) string { return roleLabel + " starts with '" + with + "'" }
func among(group string) string { return isClient + " && " + group }

// restart is how long peers keep the routes of a BIRD that was killed: as short as can be.
func restart() *time.Duration { d := time.Second; return &d }

func peer(name, from, to string) plan.Peer {
	return plan.Peer{Name: name, NodeSelector: from, PeerSelector: to, MaxRestartTime: restart()}
}

// single has n reflectors for everyone, the first of the dedicated nodes.
func single(n int, kill ...string) configuration {
	c := configuration{
		name: fmt.Sprintf("Single with %d", n), slots: map[string]slot{}, kill: kill,
		peers: []plan.Peer{peer("clients", isClient, anyReflector), peer("reflectors", anyReflector, anyReflector)}, control: "clients",
	}
	for i := range n {
		c.slots[reflector(i+1)] = slot{"true", id(1)}
	}
	return c
}

// groups has n reflectors that all peer with each other, and gives each of three groups of clients some of them, by their numbers.
func groups(name string, n int, clusterID func(int) string, of [3][]int, kill ...string) configuration {
	c := configuration{name: name, slots: map[string]slot{}, peers: []plan.Peer{peer("reflectors", anyReflector, anyReflector)}, kill: kill, control: "clients.1"}
	for i := range n {
		c.slots[reflector(i+1)] = slot{fmt.Sprintf("slot-%d", i+1), clusterID(i + 1)}
	}
	for i, group := range []string{zone1, zone2, other} {
		var slots []string
		for _, n := range of[i] {
			slots = append(slots, fmt.Sprintf("slot-%d", n))
		}
		c.peers = append(c.peers, peer(fmt.Sprintf("clients.%d", i+1), among(group), in(slots...)))
	}
	return c
}

func everyone(name string, n int, clusterID func(int) string, kill ...string) configuration {
	c := single(n, kill...)
	c.name = name
	for i := range n {
		c.slots[reflector(i+1)] = slot{fmt.Sprintf("slot-%d", i+1), clusterID(i + 1)}
	}
	return c
}

// hierarchy has racks, given by the selectors of their clients, each with a cluster ID and so many reflectors, and spines.
func hierarchy(name string, racks []string, each, spines int, kill ...string) configuration {
	c := configuration{name: name, slots: map[string]slot{}, peers: []plan.Peer{peer("spines", starts("spine-"), starts("rack-"))}, kill: kill, control: "clients.1"}
	next := 1
	for r, clientsOfRack := range racks {
		var slots []string
		for n := range each {
			slots = append(slots, fmt.Sprintf("rack-%d-%d", r+1, n+1))
			c.slots[reflector(next)] = slot{slots[n], id(r + 2)}
			next++
		}
		c.peers = append(c.peers, peer(fmt.Sprintf("clients.%d", r+1), among(clientsOfRack), in(slots...)))
	}
	for n := range spines {
		c.slots[reflector(next)] = slot{fmt.Sprintf("spine-%d", n+1), id(1)}
		next++
	}
	return c
}

// beside is a topology that is there together with another: slots and peers of both.
func (c configuration) beside(name string, o configuration) configuration {
	c.name = name
	c.slots = maps.Clone(c.slots)
	maps.Copy(c.slots, o.slots)
	c.peers = slices.Clone(c.peers)
	for _, p := range o.peers {
		p.Name += ".second"
		c.peers = append(c.peers, p)
	}
	return c
}

// halves are two racks: zone 1, and everyone else.
var halves = []string{zone1, "!(" + zone1 + ")"}

func multiCluster3() configuration {
	return everyone("MultiCluster with 3, all clients with all", 3, id, reflector(2))
}

func hierarchy2x3() configuration {
	return hierarchy("Hierarchy of 2 racks with 3, and 2 spines", halves, 3, 2, reflector(1), reflector(7))
}

// configurations are what the simulator is held to. Those between two topologies are there while one becomes the other.
func configurations() []configuration {
	ring3of5 := [3][]int{{1, 2, 3}, {3, 4, 5}, {5, 1, 2}}
	ring4of6 := [3][]int{{1, 2, 3, 4}, {3, 4, 5, 6}, {5, 6, 1, 2}}
	return []configuration{
		single(1, reflector(1)),
		single(2, reflector(2)),
		single(3, reflector(1), reflector(3)),
		groups("Quorum with 3 of 5: losing one can cut groups off", 5, oneID, ring3of5, reflector(5)),
		groups("Quorum with 4 of 6: losing one cannot, and losing two can", 6, oneID, ring4of6, reflector(3), reflector(4)),
		groups("Quorum that is none: the cluster is in two parts", 6, oneID, [3][]int{{1, 2, 3}, {4, 5, 6}, {1, 2, 3}}, reflector(4)),
		multiCluster3(),
		groups("MultiCluster with 3 of 4", 4, id, [3][]int{{1, 2, 3}, {2, 3, 4}, {3, 4, 1}}, reflector(3)),
		groups("MultiCluster with 3 of 5", 5, id, ring3of5, reflector(1), reflector(4)),
		hierarchy2x3(),
		rackLabels(hierarchy("Hierarchy of 2 racks with 2, and 1 spine: losing it cuts the racks off", []string{plan.RackLabel + " == '1'", plan.RackLabel + " != '1'"}, 2, 1, reflector(5))),
		hierarchy("Hierarchy of 2 racks with 2: no spine yet", halves, 2, 0, reflector(1)),
		beforeTheMeshGoes(),
		everyone("", 5, oneID, reflector(4)).beside("Single beside the groups of a Quorum", groups("", 5, oneID, ring3of5)),
		narrowed().beside("Single beside a rack and the spines of a Hierarchy, apart", halfOfAHierarchy()),
		single(3, reflector(1)).beside("Single, which takes in all reflectors, beside a rack and the spines of a Hierarchy", halfOfAHierarchy()),
		withPeeringOrder(),
		arranged("Quorum as rrpool arranges it", topology.Spec{Kind: v1alpha1.TopologyQuorum}, 6, 3),
		arranged("MultiCluster as rrpool arranges it", topology.Spec{Kind: v1alpha1.TopologyMultiCluster}, 3, 2),
		arranged("Hierarchy by zone as rrpool arranges it", topology.Spec{Kind: v1alpha1.TopologyHierarchy}, 8, 2),
		arranged("Hierarchy by size as rrpool arranges it", topology.Spec{Kind: v1alpha1.TopologyHierarchy, MaxClients: 4, ZoneLabel: "no.such/label"}, 6, 2),
	}
}

// arranged is what rrpool itself makes of so many dedicated nodes, if 2 reflectors are to keep clients in touch. Some of them are lost.
func arranged(name string, spec topology.Spec, reflectors, lost int) configuration {
	spec.ClusterID, spec.Redundancy, spec.MaxPaths, spec.RoleLabel = id(1), 2, 64, roleLabel
	spec.MaxClients, spec.ZoneLabel = cmp.Or(spec.MaxClients, 2000), cmp.Or(spec.ZoneLabel, zone)
	var clients, pooled []plan.Node
	for _, s := range topologyNodes() {
		n := plan.Node{Name: s.Name, Zone: s.Zone, Ready: true, Labels: map[string]string{zone: s.Zone}}
		if strings.HasPrefix(s.Name, "worker-") {
			clients = append(clients, n)
		} else if len(pooled) < reflectors {
			pooled = append(pooled, n)
		}
	}
	layout := topology.Arrange(spec, topology.Session{MaxRestartTime: restart()}, clients, pooled, []string{"zone-1", "zone-2", "zone-3"}, reflectors/3)
	c := configuration{name: name, slots: map[string]slot{}, racks: layout.Racks, peers: layout.Peers, depth: layout.Depth}
	for i, s := range layout.Slots {
		if s.Node == "" {
			continue
		}
		c.slots[s.Node] = slot{s.Name, s.ClusterID}
		if i < lost {
			c.kill = append(c.kill, s.Node)
		}
	}
	for _, p := range c.peers {
		if strings.HasPrefix(p.NodeSelector, isClient) {
			c.control = p.Name
		}
	}
	return c
}

// rackLabels puts a client of each zone into a rack that a label names.
func rackLabels(c configuration) configuration {
	c.racks = map[string]string{"worker-0": "1", "worker-1": "1", "worker-2": "1", "worker-3": "2"}
	c.kill = []string{reflector(5)}
	return c
}

func beforeTheMeshGoes() configuration {
	c := single(2, reflector(1))
	c.name, c.mesh = "Single with 2 beside the mesh", true
	return c
}

// narrowed is Single whose peers do not take in the reflectors of others.
func narrowed() configuration {
	c := single(3, reflector(1))
	c.peers = []plan.Peer{peer("clients", isClient, in("true")), peer("reflectors", in("true"), in("true"))}
	return c
}

// halfOfAHierarchy has one of two racks, on other nodes than Single.
func halfOfAHierarchy() configuration {
	c := configuration{slots: map[string]slot{}, peers: []plan.Peer{
		peer("clients.1", among(zone1), starts("rack-1-")), peer("spines", starts("spine-"), starts("rack-")),
	}}
	for i := range 3 {
		c.slots[reflector(4+i)] = slot{fmt.Sprintf("rack-1-%d", i+1), id(3)}
	}
	for i := range 2 {
		c.slots[reflector(7+i)] = slot{fmt.Sprintf("spine-%d", i+1), id(2)}
	}
	return c
}

// withPeeringOrder is Single on nodes with pods.
func withPeeringOrder() configuration {
	c := single(3, reflector(2))
	c.name = "Single with 3 in peering order"
	c.peers = append(c.peers[:1], inOrder(1, 2, 3)...)
	return c
}

// inOrder are BGPPeers between every two reflectors: the earlier one's, with the later one's address.
func inOrder(numbers ...int) []plan.Peer {
	var out []plan.Peer
	for i, later := range numbers {
		for _, earlier := range numbers[:i] {
			out = append(out, plan.Peer{
				Name: fmt.Sprintf("pair-%d-%d", earlier, later), Node: reflector(earlier), PeerIP: reflector(later), ASN: asNumber, MaxRestartTime: restart(),
			})
		}
	}
	return out
}
