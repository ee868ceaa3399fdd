package topology

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/sizing"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// wish is a network that somebody thinks of.
type wish struct {
	// object has the size, the topology and the names, complete with all defaults.
	object *v1alpha1.RouteReflectorPool
	// nodes of the cluster; those of a dedicated pool are not among them.
	nodes int
	// zones, 0 for those of the object, or else one; reflectors, 0 for as many as sizing
	// and topology take; racks that the nodes are labelled with, 0 for none.
	zones, reflectors, racks int
}

// inventedRackLabel is the label of invented racks where the file names none.
const inventedRackLabel = "rack"

// plans are the topologies by the words of --topology.
var plans = map[string]v1alpha1.TopologyType{
	"single": v1alpha1.TopologySingle, "quorum": v1alpha1.TopologyQuorum, "hierarchy": v1alpha1.TopologyHierarchy,
	"multicluster": v1alpha1.TopologyMultiCluster, "auto": v1alpha1.TopologyAuto,
}

// invent draws a network that is not there. Its errors name the flag or field.
func invent(w wish) (Network, error) {
	zones, mode := w.zoneNames(), w.object.Spec.Mode
	if err := w.check(zones); err != nil {
		return Network{}, err
	}
	o := observed{provider: w.object.Spec.Provider.Type, planned: true}
	depth, kind := 0, v1alpha1.TopologySingle
	if mode == v1alpha1.ModeFullMesh {
		o.Nodes = w.clients(w.nodes, zones)
	} else {
		spec, perZone, err := w.size(zones)
		if err != nil {
			return Network{}, err
		}
		layout := w.arrange(&o, spec, zones, perZone)
		depth, kind = layout.Depth, layout.Kind
	}
	n := live(o)
	n.Title = fmt.Sprintf("BGP topology for %s in %s", count(w.nodes, "node"), count(len(zones), "zone"))
	if kind != v1alpha1.TopologySingle && depth > 1 {
		n.Notes = append(n.Notes, fmt.Sprintf("Any %s may fail at the same time: all clients still reach each other.", count(depth-1, "reflector")))
	}
	return n, nil
}

// check refuses numbers that do not fit each other.
func (w wish) check(zones []string) error {
	switch {
	case w.reflectors > 0 && w.object.Spec.Mode == v1alpha1.ModeFullMesh:
		return fmt.Errorf("--reflectors: %d, but spec.mode is FullMesh, which has none: leave out one of them", w.reflectors)
	case w.racks > w.nodes:
		return fmt.Errorf("--racks: %d racks for %s: give at most as many racks as nodes", w.racks, count(w.nodes, "node"))
	case w.racks > 0 && w.racks < len(zones):
		return fmt.Errorf("--racks: %d racks in %d zones, and a rack is in one zone: give at least %d", w.racks, len(zones), len(zones))
	case w.reflectors%len(zones) != 0:
		below, above := w.reflectors/len(zones)*len(zones), (w.reflectors/len(zones)+1)*len(zones)
		remedy := fmt.Sprintf("%d or %d", below, above)
		if below == 0 {
			remedy = fmt.Sprint(above)
		}
		return fmt.Errorf("--reflectors: %d reflectors cannot be the same number in each of %d zones, as rrpool has them: use %s, or other --zones",
			w.reflectors, len(zones), remedy)
	}
	return nil
}

// zoneNames are those of --zones, else those of the file, else one.
func (w wish) zoneNames() []string {
	named := w.object.Spec.Provider.IKS.Zones
	if w.zones == 0 && len(named) > 0 {
		return slices.Compact(slices.Sorted(slices.Values(named)))
	}
	var out []string
	for i := range max(w.zones, 1) {
		out = append(out, fmt.Sprintf("zone-%d", i+1))
	}
	return out
}

// existing: the reflectors are among the nodes.
func (w wish) existing() bool { return w.object.Spec.Provider.Type == v1alpha1.ProviderExistingNodes }

// size is how many nodes of each zone reflect, and the topology that it comes to. It asks
// as the manager does.
func (w wish) size(zones []string) (topology.Spec, int, error) {
	spec := w.spec()
	if kind := spec.Kind; w.existing() && kind != v1alpha1.TopologySingle && kind != v1alpha1.TopologyAuto {
		return spec, 0, fmt.Errorf("--topology: %s needs nodes that do nothing but reflect, and spec.provider.type is ExistingNodes: use single", kind)
	}
	if w.existing() {
		spec.Kind = v1alpha1.TopologySingle
	}
	asked, err := w.asked(len(zones))
	if err != nil {
		return spec, 0, err
	}
	spec, total, problem := topology.Size(spec, w.clients(w.nodes, zones), zones, asked, "")
	if problem != nil {
		return spec, 0, errors.New(problem.Message)
	}
	if err := w.within(spec.Kind, total, asked, zones); err != nil {
		return spec, 0, err
	}
	return spec, (max(total, w.reflectors) + len(zones) - 1) / len(zones), nil
}

// asked is how many reflectors the flag or the sizing says, all zones together.
func (w wish) asked(zones int) (int, error) {
	if w.reflectors > 0 {
		return w.reflectors, nil
	}
	size, err := sizing.Reflectors(w.object.Spec.Sizing, w.nodes, zones)
	if err != nil {
		return 0, fmt.Errorf("%w; or give --reflectors", err)
	}
	return size.PerZone * zones, nil
}

// within refuses what the topology takes beyond what was asked for, and more reflectors
// than there are nodes.
func (w wish) within(kind v1alpha1.TopologyType, total, asked int, zones []string) error {
	takes := fmt.Sprintf("topology %s takes %d route reflectors for %s in %s", kind, total, count(w.nodes, "node"), count(len(zones), "zone"))
	limit := int(w.object.Spec.Sizing.Max)
	switch {
	case w.reflectors > 0 && total > w.reflectors:
		return fmt.Errorf("--reflectors: %d is too few: %s: give %d", w.reflectors, takes, total)
	case w.reflectors == 0 && total > max(limit, asked):
		return fmt.Errorf("spec.sizing.max: %d is too small: %s: raise max to %d, or give --reflectors %d", limit, takes, total, total)
	case w.existing() && max(total, w.reflectors) > w.nodes:
		return fmt.Errorf("--nodes: %d nodes cannot hold %d reflectors, which are among them on existing nodes: give more", w.nodes, max(total, w.reflectors))
	}
	return nil
}

// spec is what the planner reads.
func (w wish) spec() topology.Spec {
	spec := topology.Read(w.object.Spec.Topology, w.object.Spec.BGP.NodeLabel, !w.existing())
	spec.RackLabel = w.rackLabel()
	return spec
}

func (w wish) rackLabel() string {
	if label := w.object.Spec.Topology.RackLabel; label != "" || w.racks == 0 {
		return label
	}
	return inventedRackLabel
}

// arrange puts the nodes and BGPPeers there as they are once all is done. A worker of the
// pool that gets no seat stays in the pool.
func (w wish) arrange(o *observed, spec topology.Spec, zones []string, perZone int) topology.Layout {
	all := w.nodes
	if w.existing() {
		all -= perZone * len(zones)
	}
	clients, pool := w.clients(all, zones), w.pool(zones, perZone)
	layout := topology.Arrange(spec, topology.Session{}, clients, pool, zones, perZone)
	clients, pool = layout.Written(clients, spec.RoleLabel), layout.Written(pool, spec.RoleLabel)
	for i, n := range pool {
		if n.Seat != "" && n.Seat != topology.SeatSingle {
			pool[i].Name = n.Seat
		}
	}
	off := false
	o.BGP.Mesh.Enabled = &off
	o.Nodes, o.Peers = slices.Concat(pool, clients), layout.Peers
	return layout
}

// clients are so many, evenly in the zones, or in the racks, which are in one zone each.
func (w wish) clients(all int, zones []string) []plan.Node {
	out := make([]plan.Node, 0, all)
	for i := range all {
		place := i
		if w.racks > 0 {
			place %= w.racks
		}
		n := w.node(fmt.Sprintf("node %d", i+1), zones[place%len(zones)], i)
		if w.racks > 0 {
			n.Labels[w.rackLabel()] = fmt.Sprint(place + 1)
		}
		out = append(out, n)
	}
	return out
}

// pool are the nodes that are to reflect.
func (w wish) pool(zones []string, perZone int) []plan.Node {
	var out []plan.Node
	for i, zone := range zones {
		for j := range perZone {
			n := w.node(fmt.Sprintf("reflector %d-%d", i+1, j+1), zone, w.nodes+len(out))
			n.Pooled = true
			out = append(out, n)
		}
	}
	return out
}

// node makes the node of that number.
func (w wish) node(name, zone string, number int) plan.Node {
	return plan.Node{
		Name: name, UID: name, Zone: zone, Ready: true, Labels: map[string]string{w.object.Spec.Topology.ZoneLabel: zone},
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(number >> 16), byte(number >> 8), byte(number)})}, //nolint:gosec // G115: the bytes of a number
	}
}
