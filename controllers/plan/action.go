package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Action is one write that a step asks for. Every action is idempotent. String says it
// in words, for events, plans and logs.
type Action interface{ String() string }

// SetReflector gives a node role label and cluster ID, in one write. Slot is the
// label's value, "" for that of topology.SlotSingle. StandIn: it is only tried, on a node that is there for one to come.
type SetReflector struct {
	Node, ClusterID, Slot string
	StandIn               bool
}

// SetRack puts a client into a rack: it gives the node the label RackLabel. An empty Rack takes the label away.
type SetRack struct{ Node, Rack string }

// ClearReflector takes role label and cluster ID from a node, in one write.
type ClearReflector struct{ Node string }

// PutPeer creates a BGPPeer of ours, or makes ours equal to it.
type PutPeer struct{ Peer Peer }

// DeletePeer deletes a BGPPeer of ours.
type DeletePeer struct{ Name string }

// DisableMesh switches the node-to-node mesh off and keeps on the object what
// was there before: Saved, or (SavedAbsent) that there was no object.
type DisableMesh struct {
	Saved       Mesh
	SavedAbsent bool
}

// RestoreMesh puts the mesh back as it was saved, or switches it on where nothing was saved, and notes the time.
type RestoreMesh struct{}

// NoteMesh keeps on a BGPConfiguration without our note that the mesh, which is off, is to come back like this.
type NoteMesh struct{ Saved Mesh }

// ForgetMesh removes what we kept on the BGPConfiguration, and the object
// itself where we created it and nothing was added to it since.
type ForgetMesh struct{}

// RefreshStatus demands a new report of a node: an old one is cleared, so that
// only a reporter that is alive can fill it in again.
type RefreshStatus struct{ Node string }

// CordonNode keeps new pods off a node, with our mark on it.
type CordonNode struct{ Node string }

// UncordonNode undoes CordonNode. A node without our mark is left alone.
type UncordonNode struct{ Node string }

// DrainNode evicts what runs on a node and can be evicted. It never waits.
type DrainNode struct{ Node string }

// Pause lets a moment pass between two actions of a step, where the nodes have to
// take over the first one before the second.
type Pause struct{ For time.Duration }

// ReleasePool moves the provider's pool one step towards not existing.
type ReleasePool struct{}

// EnsurePool moves the provider's pool one step towards the wanted one.
type EnsurePool struct{ Want PoolTarget }

// PoolTarget is the dedicated pool as far as the plan decides it.
type PoolTarget struct {
	SizePerZone int
	// Zones to have it in, sorted; empty: every zone of the cluster.
	Zones []string
	// Retire and Replace are worker ids, see cloud.PoolSpec.
	Retire, Replace []string
	// Refill, see cloud.PoolSpec.
	Refill bool
}

// PutFilter creates the BGPFilter of a ClusterPeering, or makes it equal to this.
type PutFilter struct {
	Name, Peering string
	Filter        PeeringFilter
}

// PutIPPool creates the disabled IPPool by which a ClusterPeering lets routes to a range be passed on to all nodes.
type PutIPPool struct {
	Name, Peering string
	CIDR          netip.Prefix
}

// DeletePeeringObject deletes a BGPFilter or an IPPool of a ClusterPeering. One that is not is left alone.
type DeletePeeringObject struct{ Kind, Name, Peering string }

// AnnounceServices makes the ranges of service addresses that Calico announces for ClusterPeerings exactly these. What
// others have written there stays.
type AnnounceServices struct{ CIDRs []netip.Prefix }

// PeeringFilter is what a ClusterPeering lets in and out: what lies in these ranges, and nothing else.
type PeeringFilter struct {
	Import []netip.Prefix
	// Pods and Services are let out. All nodes announce the range of services, and a reflector tells of it for itself only.
	Pods, Services []netip.Prefix
	// Withhold are other ranges that a node announces.
	Withhold []netip.Prefix
}

// Equal reports whether both let the same through.
func (f PeeringFilter) Equal(o PeeringFilter) bool {
	return slices.Equal(f.Import, o.Import) && slices.Equal(f.Pods, o.Pods) && slices.Equal(f.Services, o.Services) &&
		slices.Equal(f.Withhold, o.Withhold)
}

func (a SetReflector) String() string {
	if a.StandIn {
		return fmt.Sprintf("give a node the role of a route reflector (tried on %s, for a worker to come)", a.Node)
	}
	s := fmt.Sprintf("make node %s a route reflector with cluster ID %s", a.Node, a.ClusterID)
	if a.Slot != "" {
		s += " in slot " + a.Slot
	}
	return s
}

func (a SetRack) String() string {
	if a.Rack == "" {
		return fmt.Sprintf("take node %s out of its rack", a.Node)
	}
	return fmt.Sprintf("put node %s into rack %s", a.Node, a.Rack)
}

func (a ClearReflector) String() string {
	return fmt.Sprintf("take the route reflector role from node %s", a.Node)
}

// Details is an action with the values that a datastore may refuse.
func Details(a Action) string {
	if put, ok := a.(PutPeer); ok && put.Peer.ASN != 0 {
		return fmt.Sprintf("%s with AS number %d", a, put.Peer.ASN)
	}
	return a.String()
}

func (a PutPeer) String() string       { return fmt.Sprintf("write BGPPeer %s", a.Peer.Name) }
func (a DeletePeer) String() string    { return fmt.Sprintf("delete BGPPeer %s", a.Name) }
func (a PutFilter) String() string     { return fmt.Sprintf("write BGPFilter %s", a.Name) }
func (a PutIPPool) String() string     { return fmt.Sprintf("write IPPool %s for %s", a.Name, a.CIDR) }
func (DisableMesh) String() string     { return "switch the node-to-node mesh off" }
func (RestoreMesh) String() string     { return "switch the node-to-node mesh on" }
func (NoteMesh) String() string        { return "note on the BGPConfiguration how the mesh is to come back" }
func (ForgetMesh) String() string      { return "remove what was kept on the BGPConfiguration" }
func (a RefreshStatus) String() string { return fmt.Sprintf("ask node %s for a new status", a.Node) }

func (a DeletePeeringObject) String() string { return fmt.Sprintf("delete %s %s", a.Kind, a.Name) }
func (a AnnounceServices) String() string {
	return fmt.Sprintf("announce the service addresses %v", a.CIDRs)
}

func (a CordonNode) String() string   { return fmt.Sprintf("cordon node %s", a.Node) }
func (a UncordonNode) String() string { return fmt.Sprintf("uncordon node %s", a.Node) }
func (a DrainNode) String() string    { return fmt.Sprintf("evict the pods of node %s", a.Node) }
func (ReleasePool) String() string    { return "release the nodes of the pool" }
func (a Pause) String() string        { return fmt.Sprintf("wait for %s", a.For) }

func (a EnsurePool) String() string {
	s := fmt.Sprintf("bring the pool to %d per zone", a.Want.SizePerZone)
	if len(a.Want.Replace) > 0 {
		s += fmt.Sprintf(", replacing %v", a.Want.Replace)
	}
	if len(a.Want.Retire) > 0 {
		s += fmt.Sprintf(", retiring %v", a.Want.Retire)
	}
	return s
}
