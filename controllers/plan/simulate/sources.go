package simulate

import (
	"net/netip"
	"slices"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Source is where a node gets its BGP routes to the pods of other nodes from.
type Source string

// The sources. SourceNone: neither the mesh nor a BGPPeer gives the node a session.
const (
	SourceNone Source = ""
	SourceMesh Source = "Mesh"
	// SourceReflectors: nodes that are route reflectors, rrpool's or others.
	SourceReflectors Source = "Reflectors"
	// SourceNodes: nodes that are no route reflectors, by BGPPeers.
	SourceNodes Source = "Nodes"
	// SourceRouters: routers outside of the cluster. It is not known what these pass on.
	SourceRouters Source = "Routers"
	// SourceMachines: addresses of the cluster's machines that calico-node does not use, such as those of route reflectors in pods. It is not
	// known what these pass on.
	SourceMachines Source = "Machines"
)

// Sources returns the source of each node that speaks BGP, from its configuration: sessions need not
// be Established. If a node has several sources, it returns the first of them in the list above.
func Sources(roleLabel string, c plan.Cluster) map[string]Source {
	config := NewConfiguration(roleLabel, c.Nodes, c.BGP, c.Peers)
	network := config.Network(func(string) bool { return true })
	routed := RouterPeers(roleLabel, c.Nodes, c.Peers)
	beside := peersAt(roleLabel, c.Nodes, c.Peers, func(a netip.Addr) bool {
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

// source returns the source of the nodes of a class within the cluster.
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

// RouterPeers returns the nodes with a session to a router outside of the cluster, with the name of the
// first BGPPeer for it. BGPPeers of rrpool do not count, nor do BGPPeers with pods or with the node itself.
func RouterPeers(roleLabel string, nodes []plan.Node, peers []plan.Peer) map[string]string {
	return peersAt(roleLabel, nodes, peers, func(a netip.Addr) bool { return !plan.IsMachineAddress(a, nodes) })
}

// peersAt returns the same as RouterPeers, for BGPPeers with an address for which the function are returns true.
func peersAt(roleLabel string, nodes []plan.Node, peers []plan.Peer, are func(netip.Addr) bool) map[string]string {
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
