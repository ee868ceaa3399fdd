package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Action is one write that a step asks for. Every action is idempotent. String describes it in a short phrase, for events, plans and logs.
type Action interface{ String() string }

// SetReflector gives a node the role label and a cluster ID, in one write. Slot is the label's value, "" for
// topology.SlotSingle. If StandIn is set, it is a dry run: Node is an existing node that stands for one that does not exist yet.
type SetReflector struct {
	Node, ClusterID, Slot string
	StandIn               bool
}

// SetRack puts a client into a rack: it sets the node's label RackLabel. An empty Rack removes the label.
type SetRack struct{ Node, Rack string }

// ClearReflector removes role label and cluster ID from a node, in one write.
type ClearReflector struct{ Node string }

// PutPeer creates one of rrpool's BGPPeers, or updates it.
type PutPeer struct{ Peer Peer }

// DeletePeer deletes one of rrpool's BGPPeers.
type DeletePeer struct{ Name string }

// DisableMesh switches the node-to-node mesh off and saves the former settings in an
// annotation of the BGPConfiguration. SavedAbsent records that there was no BGPConfiguration.
type DisableMesh struct {
	Saved       Mesh
	SavedAbsent bool
}

// RestoreMesh restores the saved mesh settings. If none were saved, it switches the mesh on. It records the time.
type RestoreMesh struct{}

// NoteMesh saves the mesh settings that RestoreMesh is to restore, if the mesh is off and the BGPConfiguration has no saved settings.
type NoteMesh struct{ Saved Mesh }

// ForgetMesh removes the saved mesh settings from the BGPConfiguration. If rrpool
// created the object and nothing was added to it since, it deletes the object.
type ForgetMesh struct{}

// RefreshStatus requests a new report of a node: it clears the old one, which only a running reporter fills in again.
type RefreshStatus struct{ Node string }

// CordonNode cordons a node and marks it with rrpool's annotation.
type CordonNode struct{ Node string }

// UncordonNode undoes CordonNode. It changes no node without rrpool's annotation.
type UncordonNode struct{ Node string }

// DrainNode evicts those pods of a node that can be evicted, and does not wait for them to end.
type DrainNode struct{ Node string }

// Pause waits between two actions of a step, so that the nodes apply the first one before the second is written.
type Pause struct{ For time.Duration }

// ReleasePool takes one step towards deleting the provider's pool.
type ReleasePool struct{}

// EnsurePool takes one step towards the wanted pool.
type EnsurePool struct{ Want PoolTarget }

// PoolTarget is the part of the wanted pool that the plan decides. cloud.PoolSpec explains the fields.
type PoolTarget struct {
	SizePerZone int
	// Zones are sorted; if there are none, the pool is in every zone of the cluster.
	Zones []string
	// Retire and Replace are worker ids.
	Retire, Replace []string
	Refill          bool
}

// PutFilter creates the BGPFilter of a ClusterPeering, or updates it.
type PutFilter struct {
	Name, Peering string
	Filter        PeeringFilter
}

// PutIPPool creates the disabled IPPool of a ClusterPeering, because route reflectors only pass on routes that are in some IPPool.
type PutIPPool struct {
	Name, Peering string
	CIDR          netip.Prefix
}

// DeletePeeringObject deletes a BGPFilter or an IPPool, if it belongs to the ClusterPeering.
type DeletePeeringObject struct{ Kind, Name, Peering string }

// AnnounceServices sets the service ranges that Calico announces for ClusterPeerings. Ranges that others have added to the BGPConfiguration stay.
type AnnounceServices struct{ CIDRs []netip.Prefix }

// PeeringFilter lists the only ranges whose routes a ClusterPeering imports and exports.
type PeeringFilter struct {
	Import []netip.Prefix
	// Pods and Services are exported. Every node announces the service ranges, and a reflector exports only its own routes to them.
	Pods, Services []netip.Prefix
	// Withhold are ranges that are not exported although nodes announce them.
	Withhold []netip.Prefix
}

// Equal reports whether both filters accept the same routes.
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

// Details describes an action with the values that a datastore may refuse.
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
