// Package plan holds the observed state of a cluster and the actions that change it, as plain data: no client,
// no context, no logger, no clock. Its subpackages (sizing, topology, rollout and others) make the decisions.
package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Cluster is everything observed about a cluster's nodes and BGP at one moment.
type Cluster struct {
	// Nodes, sorted by name, as Kubernetes and Calico know them.
	Nodes []Node
	// BGP is the default BGPConfiguration.
	BGP BGPConfig
	// Peers are all BGPPeers, rrpool's and others, sorted by name.
	Peers []Peer
	// Statuses are the node status reports that exist, by node name.
	Statuses map[string]Status
	// Problems are the reasons why only the safety net may write ("Calico runs without BGP", "CalicoNodeStatus CRD is missing"), sorted by Reason.
	Problems []Problem
	// Locked is why not even the safety net may write, nil if it may: Calico's datastore is locked or being migrated.
	Locked *Problem
	// CalicoAPI is the API group and version in which Calico keeps its objects.
	CalicoAPI string
	// Routes say which program writes the routes to pods into the kernels of nodes.
	Routes Routes
	// BGPUnknown is why it is not known whether calico-node runs BIRD, "" if it is known. Nodes have BGP addresses even without BIRD.
	BGPUnknown string
}

// NotPassed lists the blocks that no route reflector passes on, each with its node: outside are those
// outside of all IPPools, marked are those that their node announces with a community that forbids it.
func (c Cluster) NotPassed() (outside, marked []string) {
	for i := range c.Nodes {
		for _, b := range c.Nodes[i].Blocks {
			n := &c.Nodes[i]
			text := fmt.Sprintf("%s of %s", b, n.Name)
			if !n.SpeaksBGP() {
				continue
			}
			if !c.Routes.inPool(b) {
				outside = append(outside, text)
			}
			if m := c.Routes.marked(n.Name, b); m != nil {
				marked = append(marked, text+" ("+m.Text+")")
			}
		}
	}
	return outside, marked
}

// Relied reports, if the mesh is off, whether rrpool has switched it off. The annotation on the
// BGPConfiguration shows that. If the annotation is lost, a BGPPeer of rrpool shows it: rrpool creates
// the first ones only while the mesh is on, and they are still there when the reflectors are gone.
func (c Cluster) Relied() bool {
	return c.BGP.Saved != nil || slices.ContainsFunc(c.Peers, func(p Peer) bool { return p.Owned })
}

// DatastoreOptions are the settings of the RouteReflectorPool that reading and writing the datastore depends on.
type DatastoreOptions struct {
	// RoleLabel marks route reflectors.
	RoleLabel string
	// ZoneLabel holds a node's zone.
	ZoneLabel string
	// CalicoAPI is the API group and version that held Calico's objects at the last observation, from the status; "" if not known.
	CalicoAPI string
}

// RackLabel is the label by which rrpool divides clients into racks if the cluster has no label for that.
const RackLabel = "rrpool.io/rack"

// Problem is why rrpool does not go on, with the remedy.
type Problem struct {
	// Reason is a CamelCase condition reason.
	Reason string `json:"reason"`
	// Message says what is wrong, with the value found, and what to do about it.
	Message string `json:"message"`
}

// Problemf returns a problem whose message is formatted as by fmt.Sprintf.
func Problemf(reason, format string, args ...any) *Problem {
	return &Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// ProblemIf returns what Problemf returns if found is true, else nil.
func ProblemIf(found bool, reason, format string, args ...any) *Problem {
	if !found {
		return nil
	}
	return Problemf(reason, format, args...)
}

// Node is one cluster node.
type Node struct {
	// Name is the Kubernetes node name.
	Name string
	UID  string
	// Labels are the node's labels, ProviderID its spec.providerID.
	Labels     map[string]string
	ProviderID string
	// WorkerID is the cloud's id of the machine, "" outside a cloud. A node of the same name can later run on another worker.
	WorkerID string
	Zone     string
	Created  time.Time
	// Ready is the Ready condition; ReadyChanged is when it last changed.
	Ready        bool
	ReadyChanged time.Time
	// Cordoned is spec.unschedulable. CordonedByUs: the node also has rrpool's annotation, so rrpool may uncordon it.
	Cordoned, CordonedByUs bool
	// CordonMark: the node has that annotation, cordoned or not. On a node that is not cordoned the annotation is stale: somebody else
	// has uncordoned the node. UncordonNode then only removes the annotation, so that a later cordon by others is not taken for rrpool's.
	CordonMark bool
	// Leaving: a taint announces that the node will be removed (shutdown, out of service, scale-down).
	Leaving bool
	// Taints of the node, written key=value:effect; nil when they were not read.
	Taints []string
	// ControlPlane: the node carries a control-plane role label.
	ControlPlane bool
	// Pods is the number of pods on the node that are not on the host's network, nil when they were not counted.
	Pods *int
	// Deleting: the object has a deletion timestamp.
	Deleting bool
	// Pooled: the node belongs to the provider's pool. Like WorkerID and Pods it is filled in by the reconciler, not by the datastore.
	Pooled bool
	// Addresses are the BGP addresses, IPv4 before IPv6. Empty: the node speaks no BGP.
	Addresses []netip.Addr
	// MachineAddresses are the IP addresses in the Kubernetes node's status.
	MachineAddresses []netip.Addr
	// Subnets contain the BGP addresses, and possibly addresses of future nodes.
	Subnets []netip.Prefix
	// ASN is the node's own AS number, 0 for the cluster's default.
	ASN uint32
	// Unread are values of addresses and AS number that cannot be parsed. Calico ignores them too.
	Unread []string
	// HasRoleLabel: the node carries the role label. Slot is the label's value: which reflector of the topology the node is, see package topology.
	HasRoleLabel bool
	Slot         string
	// Relabel: the node lacks the label that spec.bgp.nodeLabel names. HasRoleLabel and Slot then describe the label that the field named before.
	Relabel bool
	// Rack is the value of RackLabel, "" for none.
	Rack string
	// ClusterID is Calico's routeReflectorClusterID, "" for none.
	ClusterID string
	// Marked: the node has rrpool's annotation reflector-since: rrpool gave it the role. RoleSince is when.
	Marked    bool
	RoleSince time.Time
	// Blocks are the address blocks that the node announces: those that Calico's IPAM has assigned to it, or its PodCIDRs.
	Blocks, PodCIDRs []netip.Prefix
	// CalicoNode is the state of the node's calico-node pod.
	CalicoNode CalicoNode
}

// CalicoNodeState says whether calico-node runs on a node, derived from its pods.
type CalicoNodeState string

// The states. The zero value means that the cluster shows no calico-node pods, for example because calico-node does not run in pods.
const (
	CalicoNodeUnknown CalicoNodeState = ""
	// CalicoNodeReady: a pod is Ready and is not being deleted.
	CalicoNodeReady CalicoNodeState = "Ready"
	// CalicoNodeNotReady: there is a pod, and it is not Ready or is being deleted.
	CalicoNodeNotReady CalicoNodeState = "NotReady"
	// CalicoNodeAbsent: other nodes have a pod and this one has none.
	CalicoNodeAbsent CalicoNodeState = "Absent"
)

// CalicoNode is the state of calico-node on a node.
type CalicoNode struct {
	State CalicoNodeState
	// Since is when the state began. If the pod is absent, it is when this process first observed that.
	Since time.Time
}

// Failing reports whether the node's calico-node pod is missing or not Ready.
func (c CalicoNode) Failing() bool {
	return c.State == CalicoNodeNotReady || c.State == CalicoNodeAbsent
}

// SpeaksBGP reports whether the node has a BGP address.
func (n Node) SpeaksBGP() bool { return len(n.Addresses) > 0 }

// CordonedByOthers reports whether the node is cordoned, and not by rrpool: it may be under maintenance.
func (n Node) CordonedByOthers() bool { return n.Cordoned && !n.CordonedByUs }

// Common returns the addresses of b in the address families that a has too.
func Common(a, b Node) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(b.Addresses), func(addr netip.Addr) bool { return !a.HasFamily(addr) })
}

// HasFamily reports whether the node has an address of the same family, IPv4 or IPv6, as the given one.
func (n Node) HasFamily(as netip.Addr) bool {
	return slices.ContainsFunc(n.Addresses, func(a netip.Addr) bool { return a.Is4() == as.Is4() })
}

// LacksTaint reports whether the node's taints were read and do not include taint, which is written key=value:effect.
func (n Node) LacksTaint(taint string) bool {
	return n.Taints != nil && !slices.Contains(n.Taints, taint)
}

// Reports reports whether the node can report its sessions: calico-node for Windows has no status reporter.
func (n Node) Reports() bool { return n.Labels["kubernetes.io/os"] != "windows" }

// IsOurs reports whether rrpool gave the node the role, or the node is in the pool and has the role label or a cluster ID.
func (n Node) IsOurs() bool {
	return n.Marked || n.Pooled && (n.HasRoleLabel || n.ClusterID != "")
}

// HasLabelAndID reports whether a node has both the role label, with whatever slot, and a cluster ID.
func (n Node) HasLabelAndID() bool { return n.HasRoleLabel && n.ClusterID != "" }

// Zones returns the zones of the nodes that wanted accepts, sorted.
func Zones(nodes []Node, wanted func(Node) bool) []string {
	zones := map[string]bool{}
	for _, n := range nodes {
		if wanted(n) {
			zones[n.Zone] = true
		}
	}
	return slices.Sorted(maps.Keys(zones))
}

// SecretRef names one key of a Secret in calico-node's namespace.
type SecretRef struct{ Name, Key string }

// Mesh are the fields of the BGPConfiguration that rrpool changes to switch the mesh on or off.
type Mesh struct {
	// Enabled is nodeToNodeMeshEnabled as written; nil when the field is absent.
	Enabled *bool
	// Password is nodeMeshPassword, nil when absent.
	Password *SecretRef
	// MaxRestartTime is nodeMeshMaxRestartTime, nil when absent.
	MaxRestartTime *time.Duration
}

// BGPConfig is the default BGPConfiguration.
type BGPConfig struct {
	// Exists is false when the cluster runs on Calico's built-in defaults.
	Exists bool
	Mesh   Mesh
	// ASN is the cluster's AS number (64512 unless another is written).
	ASN uint32
	// Services are the service ranges that every node announces. Single addresses are announced by nodes with endpoints only.
	Services []netip.Prefix
	// Saved are the mesh settings from before rrpool switched the mesh off, from the object's annotation;
	// nil if rrpool has not switched it off. SavedAbsent: there was no BGPConfiguration before.
	// SavedUnread is why the annotation cannot be parsed: Saved is then derived from other fields.
	Saved       *Mesh
	SavedAbsent bool
	SavedUnread string
	// ManagedBy is the tool, such as Argo CD, that the object's metadata name as its manager: it may revert changes. MeshWriter is the field
	// manager that last wrote nodeToNodeMeshEnabled.
	ManagedBy, MeshWriter string
	// Restored is when rrpool switched the mesh on again, zero if it has not.
	Restored time.Time
}

// MeshOn reports whether nodes peer with each other: on unless written otherwise.
func (b BGPConfig) MeshOn() bool { return b.Mesh.Enabled == nil || *b.Mesh.Enabled }

// Peer is a BGPPeer.
type Peer struct {
	Name string
	// Owned: the peer has rrpool's managed-by label, and is not of a ClusterPeering.
	Owned bool
	// Peering is the name of the ClusterPeering that the peer was written for, "" for none.
	Peering string
	// Written is when rrpool last wrote the peer, zero for a peer of others.
	Written      time.Time
	Node         string
	NodeSelector string
	PeerIP       string
	PeerSelector string
	ASN          uint32
	// LocalASN is the node's AS number towards this peer (localASNumber), 0 if that is the node's own AS number.
	LocalASN uint32
	Password *SecretRef
	// MaxRestartTime is maxRestartTime, nil when absent.
	MaxRestartTime *time.Duration
	// Manual is reversePeering Manual: Calico does not configure the session on the peer's side.
	Manual bool
	// Filters are the names of the BGPFilters.
	Filters []string
	// Workloads: the peers are pods on the node itself (localWorkloadSelector).
	Workloads bool
	// KeepNextHop: the node passes routes on with their next hop unchanged. That is the default
	// in iBGP. SelfNextHop: the node sets itself as the next hop, or that cannot be ruled out.
	KeepNextHop, SelfNextHop bool
	// Extra is the canonical JSON of every other field that is set, "" for none. rrpool
	// sets none of these fields, so on a BGPPeer of rrpool they are edits by others.
	Extra string
}

// Status is one CalicoNodeStatus.
type Status struct {
	Node string
	// Updated is when this process received the report, by its own clock. It is zero for a report from
	// before the process started, and while the report is cleared. The reporter may write nothing
	// while nothing changes, so an old report may still be true: RefreshStatus shows whether it is.
	Updated time.Time
	// Written is when the reporter wrote the report, by the clock of its node; zero while the report is cleared. Unlike Updated it is kept over a
	// restart of rrpool.
	Written time.Time
	// Cleared is when the report was cleared, zero while it is filled in. If this process has not observed the
	// clearing, it is the time that the object records. Sessions and Routes are then those of the previous report.
	Cleared time.Time
	// Regular: the reporter is known to write although nothing changes, as it does if one
	// address family has no sessions. An old report then means that the reporter no longer runs.
	Regular bool
	// Sessions of the node's BIRD, sorted by address.
	Sessions []Session
	// Waiting counts the Established sessions by which BIRD does not pass on all
	// routes yet, as after its start. It is unknown while the report is cleared.
	Waiting int
	// Routes of the node's BIRD. HasRoutes: the report contains routes, because they were requested.
	Routes    []Route
	HasRoutes bool
	// RoutesUnanswered: the reporter did not answer a request for routes. Calico's reporter fails if one route has several next hops, or a
	// protocol name that it does not know, such as those of routes to workloads and of the user's BIRD templates.
	RoutesUnanswered bool
	// Unread and UnreadRoutes are the text of sessions and routes that could not be parsed, sorted. Sessions and Waiting lack these sessions; if
	// there are UnreadRoutes, Routes is empty.
	Unread, UnreadRoutes []string
}

// RoutesTimeout is how long a reporter may take to answer a request for routes, before it is asked for sessions only.
const RoutesTimeout = 30 * time.Second

// SessionKind is where a session's configuration comes from.
type SessionKind string

// The session kinds.
const (
	SessionMesh   SessionKind = "NodeMesh"
	SessionNode   SessionKind = "NodePeer"
	SessionGlobal SessionKind = "GlobalPeer"
)

// Session is one BGP session as its node sees it.
type Session struct {
	Peer        netip.Addr
	Kind        SessionKind
	Established bool
	// Since is when this process, by its own clock, received the first of an unbroken series of reports with this state; zero if it has none.
	Since time.Time
}

// Route is one path to a prefix.
type Route struct {
	Prefix netip.Prefix
	// From is the BGP peer that sent the route; the zero Addr for kernel, static and direct routes.
	From netip.Addr
}

// StatusRequest is a request for the status of one node.
type StatusRequest struct {
	Node string
	// Period between reports.
	Period time.Duration
	// Routes: report the routes as well.
	Routes bool
}
