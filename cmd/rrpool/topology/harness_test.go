package topology

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cmd/rrpool/invent"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/topology"
	"github.com/rrpool/rrpool/test/cli"
)

const role = "rrpool.io/route-reflector"

// ask calls the command as a user does.
func ask(t *testing.T, args ...string) cli.Answer {
	t.Helper()
	return cli.Ask(t, New, args...)
}

// drawn is a network as the command draws it.
func drawn(t require.TestingT, n Network) string {
	var out strings.Builder
	require.NoError(t, iostreams.Streams{Out: &out}.Print("drawing", "dot", nil, n.print))
	return out.String()
}

// inZones makes a cluster with as many reflectors and clients in each zone, all sessions Established, the mesh off.
func inZones(zones []string, reflectors, clients int) observed {
	off := false
	o := observed{name: "prod", step: "Steady", roleLabel: role, wanted: true}
	o.BGP.Mesh.Enabled = &off
	o.Peers = topology.Single(role, topology.Session{})
	for z, zone := range zones {
		for i := range reflectors {
			o.Nodes = append(o.Nodes, node(fmt.Sprintf("10.240.%d.%d", z, 200+i), zone, z*100+i, func(n *plan.Node) {
				n.RoleLabel, n.ClusterID, n.Pooled = true, "244.0.0.1", true
				n.Labels = map[string]string{role: ""}
			}))
		}
		for i := range clients {
			o.Nodes = append(o.Nodes, node(fmt.Sprintf("10.24%d.%d.%d", z+1, i/200, i%200), zone, 10000+z*5000+i))
		}
	}
	o.report()
	return o
}

func node(name, zone string, number int, edits ...func(*plan.Node)) plan.Node {
	n := plan.Node{
		Name: name, Zone: zone, Ready: true,
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{172, 16, byte(number / 250), byte(number%250 + 1)})},
	}
	for _, edit := range edits {
		edit(&n)
	}
	return n
}

// report has every reflector say that all its sessions are Established.
func (o *observed) report() {
	o.Statuses = map[string]plan.Status{}
	for _, n := range o.Nodes {
		if n.ClusterID == "" {
			continue
		}
		st := plan.Status{Node: n.Name}
		for _, other := range o.Nodes {
			for _, addr := range other.Addresses {
				if other.Name != n.Name {
					st.Sessions = append(st.Sessions, plan.Session{Peer: addr, Kind: plan.SessionNode, Established: true})
				}
			}
		}
		slices.SortFunc(st.Sessions, func(a, b plan.Session) int { return a.Peer.Compare(b.Peer) })
		o.Statuses[n.Name] = st
	}
}

// cut ends the sessions between two nodes, as both report them.
func (o *observed) cut(a, b string) {
	byName := map[string]plan.Node{}
	for _, n := range o.Nodes {
		byName[n.Name] = n
	}
	for _, ends := range [][2]string{{a, b}, {b, a}} {
		st := o.Statuses[ends[0]]
		for i := range st.Sessions {
			if slices.Contains(byName[ends[1]].Addresses, st.Sessions[i].Peer) {
				st.Sessions[i].Established = false
			}
		}
	}
}

// change edits a node.
func (o *observed) change(name string, edit func(*plan.Node)) {
	for i := range o.Nodes {
		if o.Nodes[i].Name == name {
			edit(&o.Nodes[i])
		}
	}
}

var frankfurt = []string{"eu-de-1", "eu-de-2", "eu-de-3"}

func failing() observed {
	o := inZones(frankfurt, 2, 10)
	o.step = "AwaitSessions"
	for i := range 10 {
		o.cut("10.240.0.200", fmt.Sprintf("10.243.0.%d", i))
		o.cut("10.240.0.201", fmt.Sprintf("10.243.0.%d", i))
	}
	for _, r := range []string{"10.240.0.200", "10.240.0.201", "10.240.1.200", "10.240.1.201", "10.240.2.200", "10.240.2.201"} {
		o.cut(r, "10.241.0.7")
	}
	o.change("10.241.0.7", func(n *plan.Node) { n.Ready = false })
	o.cut("10.240.1.200", "10.241.0.3")
	o.cut("10.240.1.200", "10.240.2.200")
	o.change("10.240.2.201", func(n *plan.Node) { n.Ready = false })
	delete(o.Statuses, "10.240.2.201")
	return o
}

// migrating has its reflectors, and one that is still without its role; the mesh is on.
func migrating() observed {
	o := inZones(frankfurt, 1, 40)
	o.BGP, o.step = plan.BGPConfig{ASN: 64512}, "AwaitSessions"
	o.change("10.240.2.200", func(n *plan.Node) { n.RoleLabel, n.ClusterID, n.Labels = false, "", nil })
	o.report()
	for i := range 15 {
		o.cut("10.240.1.200", fmt.Sprintf("10.242.0.%d", i))
	}
	return o
}

// arranged is a cluster of a topology as rrpool leaves it, all sessions Established. The
// nodes are called as in inZones.
func arranged(t require.TestingT, kind v1alpha1.TopologyType, nodes, zones, racks, reflectors int) observed {
	o := observed{name: "prod", step: "Steady", roleLabel: role, wanted: true}
	c := ofKind(kind, nodes, zones, racks, reflectors)
	_, err := o.arrange(c)
	require.NoError(t, err)
	for i := range o.Nodes {
		if n := &o.Nodes[i]; n.Pooled {
			n.Name = fmt.Sprintf("10.240.%d.%d", i%zones, 200+i)
		} else {
			n.Name = fmt.Sprintf("10.241.%d.%d", i/200, i%200)
		}
	}
	o.report()
	return o
}

func ofKind(kind v1alpha1.TopologyType, nodes, zones, racks, reflectors int) invent.Cluster {
	object := crd.Default()
	object.Spec.Topology.Type = kind
	return invent.Cluster{Spec: object.Spec, Nodes: nodes, Zones: invent.Names("zone-", zones), Racks: racks, Reflectors: reflectors}
}

// changing is a cluster on the way from Single to a Hierarchy: the third reflectors do
// not have their slots yet, and clients still peer with them all.
func changing(t require.TestingT) observed {
	o := arranged(t, v1alpha1.TopologyHierarchy, 30, 3, 0, 0)
	for i := range o.Nodes {
		if n := &o.Nodes[i]; strings.HasSuffix(n.Slot, "-3") {
			n.Slot, n.ClusterID, n.Labels[role] = topology.SlotSingle, "244.0.0.1", topology.SlotSingle
		}
	}
	o.Peers = append(o.Peers, topology.Scoped(role, topology.Session{})...)
	o.step = "AwaitSessions"
	return o
}

// dual has two address families, and BGPPeers that lead elsewhere.
func dual() observed {
	o := inZones([]string{"a", "b"}, 2, 5)
	for i := range o.Nodes {
		v4 := o.Nodes[i].Addresses[0].As4()
		o.Nodes[i].Addresses = append(o.Nodes[i].Addresses, netip.AddrFrom16([16]byte{0xfd, 14: v4[2], 15: v4[3]}))
	}
	o.Peers = append(o.Peers, plan.Peer{Name: "tor-b", PeerIP: "192.0.2.2"}, plan.Peer{Name: "tor-a", PeerIP: "192.0.2.1"})
	o.Nodes = append(o.Nodes, plan.Node{Name: "silent", Ready: true})
	o.report()
	return o
}

// clusters are those that are drawn in the tests, by name.
func clusters(t require.TestingT) map[string]observed {
	// Before its migration no node reflects.
	meshed := inZones(frankfurt, 0, 40)
	meshed.BGP, meshed.Peers, meshed.step, meshed.wanted = plan.BGPConfig{ASN: 64512}, nil, "", false
	return map[string]observed{
		"failing": failing(), "mesh": meshed, "migrating": migrating(),
		"33 reflectors": inZones(frankfurt, 11, 1667), "one zone": inZones([]string{"only"}, 3, 50),
		"dual stack": dual(), "no nodes": {name: "empty"}, "changing": changing(t),
		"quorum":       arranged(t, v1alpha1.TopologyQuorum, 300, 3, 30, 15),
		"multicluster": arranged(t, v1alpha1.TopologyMultiCluster, 90, 3, 0, 3),
		"racks":        arranged(t, v1alpha1.TopologyHierarchy, 5000, 3, 10, 33),
	}
}
