// Package invent makes models of clusters that do not exist, for commands that run without a cluster, and sizes their pools as the manager does.
package invent

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
	"github.com/rrpool/rrpool/controllers/plan/sizing"
	"github.com/rrpool/rrpool/controllers/plan/topology"
	"github.com/rrpool/rrpool/controllers/pool"
)

// Cluster is an invented cluster, whose nodes are spread evenly over zones and racks.
type Cluster struct {
	// Spec is the spec of a RouteReflectorPool with all defaults.
	Spec v1alpha1.RouteReflectorPoolSpec
	// Nodes is the number of nodes that run workloads. If the provider is ExistingNodes, the reflectors are among them.
	Nodes int
	// Reflectors is the size of the pool, 0 for the number that sizing and topology require.
	Reflectors int
	Zones      []string
	// Racks is the number of racks, each in one zone. Nodes that do not reflect have a label with their rack, unless Racks is 0.
	Racks int
}

// Names returns prefix with the numbers 1 to n, padded with zeros so that names sort by number.
func Names(prefix string, n int) []string {
	digits := len(strconv.Itoa(n))
	out := make([]string, 0, n)
	for i := range n {
		out = append(out, fmt.Sprintf("%s%0*d", prefix, digits, i+1))
	}
	return out
}

// Check returns an error that names the flag, if the numbers in the flags do not fit each other.
func (c Cluster) Check() error {
	zones := len(c.Zones)
	switch {
	case zones > c.Nodes:
		return fmt.Errorf("--zones: %d zones for --nodes %d: give at most as many zones as nodes", zones, c.Nodes)
	case c.Racks > c.Nodes:
		return fmt.Errorf("--racks: %d racks for --nodes %d: give at most as many racks as nodes", c.Racks, c.Nodes)
	case c.Racks > 0 && c.Racks < zones:
		return fmt.Errorf("--racks: %d racks in %d zones, and a rack is in one zone: give at least %d", c.Racks, zones, zones)
	}
	if below := c.Reflectors / zones * zones; below < c.Reflectors {
		remedy := ""
		if below > 0 {
			remedy = fmt.Sprintf("%d or ", below)
		}
		return fmt.Errorf("--reflectors: %d reflectors cannot be the same number in each of %d zones, as rrpool has them: use %s%d, or other --zones",
			c.Reflectors, zones, remedy, below+zones)
	}
	return nil
}

// perZone returns the number of reflectors in each zone, by --reflectors, else by spec.sizing.
func (c Cluster) perZone() (int, error) {
	if c.Reflectors > 0 {
		return c.Reflectors / len(c.Zones), nil
	}
	perZone, err := sizing.Reflectors(c.Spec.Sizing, c.Nodes, len(c.Zones))
	if err != nil {
		return 0, fmt.Errorf("%w; or give --reflectors", err)
	}
	return perZone, nil
}

// String describes the cluster.
func (c Cluster) String() string {
	out := fmt.Sprintf("an invented cluster: %s with workloads in %s", iostreams.Number(c.Nodes, "node"), iostreams.Number(len(c.Zones), "zone"))
	if c.Racks > 0 {
		out += " and " + iostreams.Number(c.Racks, "rack")
	}
	return out
}

// Existing reports whether the reflectors are among the nodes that run workloads.
func (c Cluster) Existing() bool { return c.Spec.Provider.Type == v1alpha1.ProviderExistingNodes }

// rackLabel returns the node label that names the rack: that of the spec, else "rack" if there are racks.
func (c Cluster) rackLabel() string {
	if c.Racks == 0 {
		return c.Spec.Topology.RackLabel
	}
	return cmp.Or(c.Spec.Topology.RackLabel, "rack")
}

// Workloads returns the nodes that run workloads and do not reflect. If the provider is ExistingNodes, their number is c.Nodes minus reflectors.
func (c Cluster) Workloads(reflectors int) []plan.Node {
	count := c.Nodes
	if c.Existing() {
		count = max(count-reflectors, 0)
	}
	racks := Names("r", c.Racks)
	out := make([]plan.Node, 0, count)
	for i, name := range Names("node-", count) {
		place := i % cmp.Or(c.Racks, count)
		n := c.node(name, c.Zones[place%len(c.Zones)], i)
		if c.Racks > 0 {
			n.Labels[c.rackLabel()] = racks[place]
		}
		out = append(out, n)
	}
	return out
}

// Pool returns the nodes of the pool, perZone in each zone.
func (c Cluster) Pool(perZone int) []plan.Node {
	var out []plan.Node
	for _, zone := range c.Zones {
		for _, name := range Names("reflector-"+zone+"-", perZone) {
			n := c.node(name, zone, c.Nodes+len(out))
			n.Pooled = true
			out = append(out, n)
		}
	}
	return out
}

func (c Cluster) node(name, zone string, i int) plan.Node {
	block := netip.AddrFrom4([4]byte{172, byte(i >> 10), byte(i >> 2), byte(i << 6)}) //nolint:gosec // G115: the bytes of a number
	return plan.Node{
		Name: name, UID: name, Zone: zone, Labels: map[string]string{c.Spec.Topology.ZoneLabel: zone}, Ready: true,
		Created: time.Unix(0, 0), ReadyChanged: time.Unix(0, 0),
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})}, //nolint:gosec // G115: the bytes of a number
		Blocks:    []netip.Prefix{netip.PrefixFrom(block, 26)},
	}
}

// Sized is a topology with the number of reflectors in each zone.
type Sized struct {
	topology.Spec
	PerZone int
	// Problem is why the manager would refuse this topology, nil if it would not.
	Problem *plan.Problem
}

// Size sizes the pool for a topology as the manager does.
func (c Cluster) Size(kind v1alpha1.TopologyType) (Sized, error) {
	if c.Existing() {
		if kind != v1alpha1.TopologySingle && kind != v1alpha1.TopologyAuto {
			return Sized{}, fmt.Errorf("spec.topology.type: %s needs dedicated reflectors, and spec.provider.type is ExistingNodes: use Single", kind)
		}
		kind = v1alpha1.TopologySingle
	}
	perZone, err := c.perZone()
	if err != nil {
		return Sized{}, err
	}
	out := Sized{Spec: topology.ReadSpec(c.Spec.Topology, c.Spec.BGP.NodeLabel, !c.Existing()), PerZone: perZone}
	out.Kind, out.RackLabel = kind, c.rackLabel()
	zones := len(c.Zones)
	asked := perZone * zones
	spec, total, problem := topology.Size(out.Spec, c.Workloads(0), c.Zones, asked, "")
	out.Spec, out.Problem = spec, problem
	if c.Reflectors == 0 {
		out.PerZone = (total + zones - 1) / zones
	}
	if problem == nil {
		out.Problem = c.tooMany(out.Kind, asked, total)
	}
	if all := out.PerZone * zones; c.Existing() && all >= c.Nodes {
		return Sized{}, fmt.Errorf("--nodes: %d nodes would be %d reflectors and no client: give more", c.Nodes, all)
	}
	return out, nil
}

// tooMany returns a problem if the topology requires more reflectors (total) than --reflectors or the spec allows, else nil.
func (c Cluster) tooMany(kind v1alpha1.TopologyType, asked, total int) *plan.Problem {
	limit := int(c.Spec.Sizing.Max)
	switch {
	case c.Reflectors > 0 && total > asked:
		return plan.Problemf(reason.SizingInvalid, "--reflectors: %d, and topology %s takes %d here: give so many, or leave it out", asked, kind, total)
	case c.Reflectors == 0 && total > max(limit, asked):
		return pool.BeyondMax(kind, limit, total, c.Nodes, len(c.Zones))
	}
	return nil
}

// InFullMesh returns the cluster before rrpool changes anything.
func (c Cluster) InFullMesh() plan.Cluster {
	return plan.Cluster{BGP: plan.BGPConfig{ASN: 64512}, Nodes: c.Workloads(0), Statuses: map[string]plan.Status{}}
}

// Arrange returns the layout that the planner makes, and the cluster with the roles and BGPPeers of this layout.
func (c Cluster) Arrange(s Sized) (topology.Layout, plan.Cluster) {
	pool, clients := c.Pool(s.PerZone), c.Workloads(s.PerZone*len(c.Zones))
	layout := topology.Arrange(s.Spec, topology.Session{}, clients, pool, c.Zones, s.PerZone)
	bgp := plan.BGPConfig{Exists: true, Mesh: plan.Mesh{Enabled: new(false)}, ASN: 64512}
	return layout, plan.Cluster{BGP: bgp, Nodes: layout.Applied(append(pool, clients...), s.RoleLabel), Peers: layout.Peers}
}

// Flags are the flags that describe an invented cluster.
type Flags struct {
	Nodes, zones, reflectors, racks int
	topology, file                  string
}

// Register adds the flags to a command.
func (f *Flags) Register(cmd *cobra.Command) {
	iostreams.Count(cmd, &f.Nodes, "nodes", 1, 50000, "`number` of nodes that run workloads")
	iostreams.Count(cmd, &f.zones, "zones", 1, 100, "`number` of zones; default those in the file, else 1")
	iostreams.Count(cmd, &f.reflectors, "reflectors", 1, 100,
		"`number` of nodes in the pool, all zones together; default as many as sizing and topology take")
	iostreams.Count(cmd, &f.racks, "racks", 1, 300, "`number` of racks that the nodes are labelled with; default none")
	iostreams.Choice(cmd, &f.topology, "topology", "",
		"`topology`: Auto, Single, Quorum, Hierarchy or MultiCluster; default that of the file, else Auto",
		"Auto", "Single", "Quorum", "Hierarchy", "MultiCluster")
	iostreams.File(cmd, &f.file, "file with a RouteReflectorPool, whose spec counts; - for standard input")
}

// Cluster returns the cluster that the flags and the file describe.
func (f *Flags) Cluster(cmd *cobra.Command, s iostreams.Streams) (Cluster, error) {
	object, err := snapshot.Object(f.file, s.In)
	if err != nil {
		return Cluster{}, err
	}
	c := Cluster{Spec: cmp.Or(object, crd.Default()).Spec, Nodes: f.Nodes, Reflectors: f.reflectors, Racks: f.racks}
	if f.file == "" || cmd.Flags().Changed("topology") {
		c.Spec.Topology.Type = v1alpha1.TopologyType(f.topology)
	}
	if c.Zones = Names("zone-", max(f.zones, 1)); f.zones == 0 && len(c.Spec.Provider.IKS.Zones) > 0 {
		c.Zones = slices.Compact(slices.Sorted(slices.Values(c.Spec.Provider.IKS.Zones)))
	}
	return c, c.Check()
}
