package topology

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

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

// askIn is ask with some of the streams given.
func askIn(t *testing.T, s iostreams.Streams, args ...string) cli.Answer {
	t.Helper()
	return cli.AskIn(t, s, New, args...)
}

// rendered is a network in one of the formats.
func rendered(t require.TestingT, n Network, format string) string {
	var out captured
	render := map[string]func(iostreams.Streams, *Network) error{
		"svg": svgOf, "dot": dotOf, "mermaid": mermaidOf, "json": jsonOf, "html": htmlOf,
	}[format]
	require.NoError(t, render(iostreams.Streams{Out: &out}, &n))
	return string(out)
}

type captured []byte

func (c *captured) Write(p []byte) (int, error) {
	*c = append(*c, p...)
	return len(p), nil
}

var formats = []string{"svg", "dot", "mermaid", "json", "html"}

// cluster makes a cluster with as many reflectors and clients in each zone, all sessions
// Established, the mesh off.
func cluster(zones []string, reflectors, clients int) observed {
	off := false
	o := observed{name: "prod", step: "Steady", provider: v1alpha1.ProviderIKS, coming: true}
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
		st := plan.Status{Node: n.Name, Agent: true}
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
	o := cluster(frankfurt, 2, 10)
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

// meshed is a cluster before its migration: nobody reflects.
func meshed() observed {
	o := cluster(frankfurt, 0, 40)
	o.BGP, o.Peers, o.step = plan.BGPConfig{ASN: 64512}, nil, ""
	return o
}

// rolledBack is a cluster after the way back, whose pool is still there.
func rolledBack() observed {
	o := cluster(frankfurt, 1, 2)
	o.BGP, o.Peers, o.coming = plan.BGPConfig{ASN: 64512}, nil, false
	for i := range o.Nodes {
		o.Nodes[i].RoleLabel, o.Nodes[i].ClusterID, o.Nodes[i].Labels = false, "", nil
	}
	o.report()
	return o
}

// ordered is a cluster whose pool has just come.
func ordered() observed {
	o := rolledBack()
	o.coming, o.step = true, "WritePeers"
	return o
}

// migrating has its reflectors, and one that is still without its role; the mesh is on.
func migrating() observed {
	o := cluster(frankfurt, 1, 40)
	o.BGP, o.step = plan.BGPConfig{ASN: 64512}, "AwaitSessions"
	o.change("10.240.2.200", func(n *plan.Node) { n.RoleLabel, n.ClusterID, n.Labels = false, "", nil })
	o.report()
	for i := range 15 {
		o.cut("10.240.1.200", fmt.Sprintf("10.242.0.%d", i))
	}
	return o
}

// weird has names that nobody should give.
func weird() observed {
	long := "a-very-long-zone-name-that-somebody-has-thought-of-in-a-bad-hour-and-cannot-change-any-more"
	o := cluster([]string{long, `<script>alert("1")</script> & 'co'`, "", "東京 \x00\u202e\n#;|`\\"}, 2, 3)
	o.name = `kind "<b>` + long + long
	o.change("10.240.0.200", func(n *plan.Node) { n.Name = long + ".with.a.domain.example.com" })
	o.change("10.240.1.201", func(n *plan.Node) { n.Name, n.ClusterID = `]]>"\n<!--`, "244.0.0.2" })
	o.report()
	return o
}

// quorum has clients that peer with some of the reflectors only.
func quorum() observed {
	o := cluster(frankfurt, 1, 30)
	o.Peers = o.Peers[1:]
	for i, r := range []string{"10.240.0.200", "10.240.1.200", "10.240.2.200"} {
		o.change(r, func(n *plan.Node) { n.ClusterID = fmt.Sprintf("244.0.0.%d", i+1); n.Labels["r"] = fmt.Sprint(i) })
		o.Peers = append(o.Peers, plan.Peer{Name: fmt.Sprint("q", i), NodeSelector: fmt.Sprintf("!has(%s) && q != '%d'", role, i), PeerSelector: fmt.Sprintf("r == '%d'", i)})
	}
	for i := range o.Nodes {
		if o.Nodes[i].ClusterID == "" {
			o.Nodes[i].Labels = map[string]string{"q": fmt.Sprint(i % 3)}
		}
	}
	return o
}

// arranged is a cluster of a topology as rrpool leaves it, all sessions Established. The
// nodes of the pool are called as in cluster.
func arranged(kind v1alpha1.TopologyType, w wish) (observed, error) {
	var err error
	if w.object, err = crd.Default(); err != nil {
		return observed{}, err
	}
	w.object.Spec.Topology.Type = kind
	o := observed{name: "prod", step: "Steady", provider: v1alpha1.ProviderIKS, coming: true}
	zones := w.zoneNames()
	spec, perZone, err := w.size(zones)
	if err != nil {
		return observed{}, err
	}
	w.arrange(&o, spec, zones, perZone)
	for i := range o.Nodes {
		if n := &o.Nodes[i]; n.Pooled {
			n.Name = fmt.Sprintf("10.240.%d.%d", i%len(zones), 200+i)
		} else {
			n.Name = fmt.Sprintf("10.241.%d.%d", i/200, i%200)
		}
	}
	o.report()
	return o, nil
}

func object(t *testing.T, kind v1alpha1.TopologyType) *v1alpha1.RouteReflectorPool {
	t.Helper()
	out, err := crd.Default()
	require.NoError(t, err)
	out.Spec.Topology.Type = kind
	return out
}

// brokenTiers is a Hierarchy in trouble: a spine is not Ready, another one has no session
// with a reflector of the first rack, and that reflector misses two clients.
func brokenTiers() (observed, error) {
	o, err := arranged(v1alpha1.TopologyHierarchy, wish{nodes: 60, zones: 3})
	if err != nil {
		return o, err
	}
	seats := map[string]string{}
	for _, n := range o.Nodes {
		seats[n.Seat] = n.Name
	}
	o.change(seats["spine-3"], func(n *plan.Node) { n.Ready = false })
	o.cut(seats["spine-2"], seats["rack-zone-1-1"])
	missed := 0
	for _, n := range o.Nodes {
		if !n.Pooled && n.Zone == "zone-1" && missed < 2 {
			o.cut(seats["rack-zone-1-1"], n.Name)
			missed++
		}
	}
	return o, nil
}

// changing is a cluster on the way from Single to a Hierarchy: the third reflectors do
// not have their seats yet, and clients still peer with them all.
func changing() (observed, error) {
	o, err := arranged(v1alpha1.TopologyHierarchy, wish{nodes: 30, zones: 3})
	if err != nil {
		return o, err
	}
	for i := range o.Nodes {
		if n := &o.Nodes[i]; strings.HasSuffix(n.Seat, "-3") {
			n.Seat, n.ClusterID, n.Labels[role] = topology.SeatSingle, "244.0.0.1", topology.SeatSingle
		}
	}
	o.Peers = append(o.Peers, topology.Fenced(role, topology.Session{})...)
	o.step = "AwaitSessions"
	return o, nil
}

// racks are many zones, in one of which something is wrong.
func racks() observed {
	var names []string
	for i := range 12 {
		names = append(names, fmt.Sprintf("rack-%d", i+1))
	}
	o := cluster(names, 1, 20)
	o.provider = v1alpha1.ProviderExistingNodes
	for i := range 20 {
		o.cut("10.240.4.200", fmt.Sprintf("10.247.0.%d", i))
	}
	o.cut("10.240.4.200", "10.248.0.1")
	return o
}

// dual has two address families, and BGPPeers that lead elsewhere.
func dual() observed {
	o := cluster([]string{"a", "b"}, 2, 5)
	for i := range o.Nodes {
		v4 := o.Nodes[i].Addresses[0].As4()
		o.Nodes[i].Addresses = append(o.Nodes[i].Addresses, netip.AddrFrom16([16]byte{0xfd, 14: v4[2], 15: v4[3]}))
	}
	o.Peers = append(o.Peers, plan.Peer{Name: "tor-b", PeerIP: "192.0.2.2"}, plan.Peer{Name: "tor-a", PeerIP: "192.0.2.1"})
	o.Nodes = append(o.Nodes, plan.Node{Name: "silent", Ready: true})
	o.report()
	return o
}

// scenes are the pictures that are kept, in every format.
func scenes(t require.TestingT) map[string]Network {
	out, err := scenesOnce()
	require.NoError(t, err)
	return out
}

var scenesOnce = sync.OnceValues(func() (map[string]Network, error) {
	out := map[string]Network{}
	for name, o := range map[string]observed{
		"three-reflectors": cluster(frankfurt, 1, 10),
		"failing":          failing(),
		"mesh":             meshed(),
		"migrating":        migrating(),
		"rolled-back":      rolledBack(),
		"ordered":          ordered(),
		"large":            cluster(frankfurt, 11, 1667),
		"one-zone":         cluster([]string{"only"}, 3, 50),
		"weird-names":      weird(),
		"quorum":           quorum(),
		"racks":            racks(),
		"dual-stack":       dual(),
		"nothing":          {name: "empty"},
	} {
		out[name] = live(o)
	}
	object, err := crd.Default()
	if err != nil {
		return nil, err
	}
	for name, w := range map[string]wish{
		"invented-500":   {object: object, nodes: 500, zones: 3},
		"invented-large": {object: object, nodes: 2000, zones: 3, reflectors: 33},
	} {
		if out[name], err = invent(w); err != nil {
			return nil, err
		}
	}
	for name, arrange := range seated {
		o, err := arrange()
		if err != nil {
			return nil, err
		}
		out[name] = live(o)
	}
	return out, nil
})

// seated are clusters of the topologies in which reflectors differ.
var seated = map[string]func() (observed, error){
	"topology-quorum": func() (observed, error) {
		return arranged(v1alpha1.TopologyQuorum, wish{nodes: 90, zones: 3, reflectors: 9})
	},
	"topology-quorum-by-size": func() (observed, error) {
		return arranged(v1alpha1.TopologyQuorum, wish{nodes: 300, zones: 3, racks: 30, reflectors: 15})
	},
	"topology-multicluster": func() (observed, error) {
		return arranged(v1alpha1.TopologyMultiCluster, wish{nodes: 90, zones: 3, reflectors: 3})
	},
	"topology-hierarchy": func() (observed, error) {
		return arranged(v1alpha1.TopologyHierarchy, wish{nodes: 5000, zones: 3, racks: 10, reflectors: 33})
	},
	"topology-hierarchy-by-size": func() (observed, error) {
		return arranged(v1alpha1.TopologyHierarchy, wish{nodes: 6000, zones: 2})
	},
	"topology-hierarchy-failing": brokenTiers,
	"topology-changing":          changing,
}
