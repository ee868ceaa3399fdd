package simulate

import (
	"net/netip"
	"slices"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Source is where a node has its routes to the pods of other nodes from, as far as they come by BGP.
type Source string

// The sources. With SourceNone neither the mesh nor a BGPPeer gives the node a session that could bring any.
const (
	SourceNone Source = ""
	SourceMesh Source = "Mesh"
	// SourceReflectors: route reflectors among the nodes, whoever made them.
	SourceReflectors Source = "Reflectors"
	// SourceNodes: BGPPeers with nodes of which none is a route reflector.
	SourceNodes Source = "Nodes"
	// SourceRouters: routers outside of the cluster. What these pass on is not known here.
	SourceRouters Source = "Routers"
	// SourceMachines: addresses of machines of the cluster that are not those of calico-node, as of route reflectors in pods. Neither is what these do.
	SourceMachines Source = "Machines"
)

// Sources says for each node that speaks BGP where its routes come from as it is configured now. Whether the sessions
// are up is another question. Where there are several sources, it is the first of the list above.
func Sources(roleLabel string, c plan.Cluster) map[string]Source {
	config := NewConfiguration(roleLabel, c.Nodes, c.BGP, c.Peers)
	network := config.Network(func(string) bool { return true })
	routed := RouterPeers(roleLabel, c.Nodes, c.Peers)
	beside := speakers(roleLabel, c.Nodes, c.Peers, func(a netip.Addr) bool {
		return plan.IsMachineAddress(a, c.Nodes) && !slices.ContainsFunc(c.Nodes, func(n plan.Node) bool { return slices.Contains(n.Addresses, a) })
	})
	out := make(map[string]Source, len(config.names))
	for i, class := range network.classes {
		source := network.source(i, config.MeshOn)
		for _, node := range class.Nodes {
			switch out[node] = source; {
			case source == SourceNone && routed[node] != "":
				out[node] = SourceRouters
			case source == SourceNone && beside[node] != "":
				out[node] = SourceMachines
			}
		}
	}
	return out
}

// source is that of the nodes of a class within the cluster.
func (n *Network) source(class int, mesh bool) Source {
	if mesh && !n.classes[class].Reflects {
		return SourceMesh
	}
	out := SourceNone
	for _, l := range n.graph.links[class] {
		switch {
		case l.to == class && len(n.classes[class].Nodes) < 2:
		case n.classes[class].Reflects || n.classes[l.to].Reflects:
			return SourceReflectors
		default:
			out = SourceNodes
		}
	}
	return out
}

// RouterPeers names for each node with a session to a router outside of the cluster the first BGPPeer that gives it one. Those
// of rrpool lead to no router, and neither do those to pods or to the node itself.
func RouterPeers(roleLabel string, nodes []plan.Node, peers []plan.Peer) map[string]string {
	return speakers(roleLabel, nodes, peers, func(a netip.Addr) bool { return !plan.IsMachineAddress(a, nodes) })
}

// speakers is the same for the addresses of which that holds.
func speakers(roleLabel string, nodes []plan.Node, peers []plan.Peer, are func(netip.Addr) bool) map[string]string {
	var outside []peering
	for _, p := range peers {
		address := PeerAddress(p.PeerIP)
		if !p.Owned && p.Peering == "" && address.IsValid() && !address.IsLoopback() && !p.Workloads && are(address) {
			outside = append(outside, peering{Peer: p, global: isGlobal(p), address: address})
		}
	}
	sorter, out := newSorter(roleLabel, outside), map[string]string{}
	for i := range nodes {
		kind := sorter.kindOf(&nodes[i])
		if first := sorter.kinds[kind].from.first(sorter.kinds[kind].from); first >= 0 && nodes[i].SpeaksBGP() {
			out[nodes[i].Name] = outside[first].Name
		}
	}
	return out
}
