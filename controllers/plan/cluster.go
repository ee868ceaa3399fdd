// Package plan holds the facts about a cluster that decisions are made from, as plain data: no client, no context,
// no logger, no clock. Its subpackages compute with them (sizing, topology, rollout).
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
	// Peers are all BGPPeers, ours and others, sorted by name.
	Peers []Peer
	// Statuses are the node status reports that exist, by node name.
	Statuses map[string]Status
	// Problems are named reasons why nothing may be changed at all ("Calico
	// runs without BGP", "CalicoNodeStatus CRD is missing"), sorted by Reason.
	Problems []Problem
	// Locked is why nothing at all may be written, not even by the safety net: somebody migrates Calico's datastore.
	// Nil: it is not locked.
	Locked *Problem
	// CalicoAPI is the API group and version in which Calico keeps its objects.
	CalicoAPI string
	// Routes are who writes the routes to pods into the kernel.
	Routes Routes
	// BGPUnknown is why it is not known whether calico-node runs BIRD, "" where it is. Nodes have BGP addresses either way.
	BGPUnknown string
}

// NotPassed are the blocks of nodes that no route reflector passes on, each with its node: those outside of all IPPools, and those that their
// node marks, with the mark.
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

// DatastoreOptions are what the datastore needs to know of the RouteReflectorPool to read and write nodes.
type DatastoreOptions struct {
	// RoleLabel marks route reflectors.
	RoleLabel string
	// ZoneLabel holds a node's zone.
	ZoneLabel string
	// CalicoAPI is where Calico's objects were when the cluster was looked at before, as the status says; "" is not known.
	CalicoAPI string
}

// RackLabel is the key of the label by which rrpool divides clients into racks where no label of theirs does.
const RackLabel = "rrpool.io/rack"

// Problem is a reason to refuse, with its remedy.
type Problem struct {
	// Reason is a CamelCase condition reason.
	Reason string `json:"reason"`
	// Message says what is wrong, with the value found, and what to do about it.
	Message string `json:"message"`
}

// ReasonUnreadable is that of objects that Calico cannot read. It then takes in no other of their kind either.
const ReasonUnreadable = "ObjectUnreadable"

// Problemf makes a problem with a message in the form of fmt.Sprintf.
func Problemf(reason, format string, args ...any) *Problem {
	return &Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// ProblemIf is the same of a problem that was found, else nil.
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
	// WorkerID is the cloud's id of the machine, "" outside a cloud. A node name
	// can come back with another worker behind it.
	WorkerID string
	Zone     string
	Created  time.Time
	// Ready is the Ready condition; ReadyChanged is when it last changed.
	Ready        bool
	ReadyChanged time.Time
	// Cordoned is spec.unschedulable; CordonedByUs: it carries our mark as well, so it is ours to undo.
	Cordoned, CordonedByUs bool
	// CordonMark: the node carries our mark, cordoned or not. On a node that is not
	// cordoned it is stale: a person has uncordoned the node, and UncordonNode only
	// takes the mark away, so that a later cordon by a person is not taken for ours.
	CordonMark bool
	// Leaving: a taint says that the node is about to go (shutdown, out of service, scale-down).
	Leaving bool
	// Taints of the node, written key=value:effect; nil when they were not read.
	Taints []string
	// ControlPlane: the node carries a control-plane role label.
	ControlPlane bool
	// Pods is how many pods with an address of their own run here, nil when they were not counted.
	Pods *int
	// Deleting: the object has a deletion timestamp.
	Deleting bool
	// Pooled: the node belongs to the provider's pool. Like WorkerID and Pods it is filled
	// in by the reconciler, not by the datastore.
	Pooled bool
	// Addresses are the BGP addresses, IPv4 before IPv6. Empty: the node speaks no BGP.
	Addresses []netip.Addr
	// MachineAddresses are the addresses of the machine as Kubernetes knows them, whatever Calico has chosen.
	MachineAddresses []netip.Addr
	// Subnets are those that the BGP addresses are in, of which a part may be free.
	Subnets []netip.Prefix
	// ASN is the node's own AS number, 0 for the cluster's default.
	ASN uint32
	// Unread are what was written for addresses and AS number and is neither; Calico passes over it as well.
	Unread []string
	// HasRoleLabel: the node carries the role label. Slot is the label's value: which
	// reflector of the topology the node is, see package topology.
	HasRoleLabel bool
	Slot         string
	// Relabel: RoleLabel and Slot are those of the label that spec.bgp.nodeLabel named before. The node lacks the present one.
	Relabel bool
	// Rack is the value of RackLabel, "" for none.
	Rack string
	// ClusterID is Calico's routeReflectorClusterID, "" for none.
	ClusterID string
	// Marked: the node carries our mark, so label and cluster ID are ours; RoleSince is when we gave it the role.
	Marked    bool
	RoleSince time.Time
	// Blocks are the address blocks the node announces: those that Calico's IPAM has given it, or its PodCIDRs.
	Blocks, PodCIDRs []netip.Prefix
	// CalicoNode is what the node's calico-node pods show.
	CalicoNode CalicoNode
}

// CalicoNodeState says whether calico-node runs on a node, as far as its pods show.
type CalicoNodeState string

// The states. The zero value: the pods cannot be seen, as where calico-node is no pod.
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
	// Since is when the state began. The absence of a pod has no time in the API:
	// Since is then when this process first saw it.
	Since time.Time
}

// Failing reports whether the pods show that calico-node is not running as it should.
func (c CalicoNode) Failing() bool {
	return c.State == CalicoNodeNotReady || c.State == CalicoNodeAbsent
}

// SpeaksBGP reports whether the node has sessions to wait for.
func (n Node) SpeaksBGP() bool { return len(n.Addresses) > 0 }

// CordonedByOthers reports whether the node is cordoned, and not by us: a person may be at work on it.
func (n Node) CordonedByOthers() bool { return n.Cordoned && !n.CordonedByUs }

// Common gives the addresses of b in the families that a has too.
func Common(a, b Node) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(b.Addresses), func(addr netip.Addr) bool { return !a.HasFamily(addr) })
}

// HasFamily reports whether the node has an address of the same family as this one.
func (n Node) HasFamily(as netip.Addr) bool {
	return slices.ContainsFunc(n.Addresses, func(a netip.Addr) bool { return a.Is4() == as.Is4() })
}

// LacksTaint reports whether the node's taints were read and this one, written as they are, is not among them.
func (n Node) LacksTaint(taint string) bool {
	return n.Taints != nil && !slices.Contains(n.Taints, taint)
}

// Reports reports whether calico-node can say what sessions the node has: the one for Windows has no status reporter.
func (n Node) Reports() bool { return n.Labels["kubernetes.io/os"] != "windows" }

// IsOurs reports whether the node is a route reflector of ours, or what is left of one.
func (n Node) IsOurs() bool {
	return n.Marked || n.Pooled && (n.HasRoleLabel || n.ClusterID != "")
}

// Zones are those of the nodes that are so, sorted.
func Zones(nodes []Node, so func(Node) bool) []string {
	zones := map[string]bool{}
	for _, n := range nodes {
		if so(n) {
			zones[n.Zone] = true
		}
	}
	return slices.Sorted(maps.Keys(zones))
}

// SecretRef names one key of a Secret in calico-node's namespace.
type SecretRef struct{ Name, Key string }

// Mesh is the part of the BGPConfiguration that is switched together.
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
	// ASN is the cluster's AS number (64512 where nothing else is written).
	ASN uint32
	// Services are the ranges of service addresses that every node announces, of a single address those with endpoints.
	Services []netip.Prefix
	// Saved is the mesh as it was before we switched it off, kept on the object
	// itself; nil when we have not changed it. SavedAbsent: there was no object. SavedUnread: why
	// what was kept cannot be read, so that Saved is what else shows it.
	Saved       *Mesh
	SavedAbsent bool
	SavedUnread string
	// ManagedBy is the tool that the object is described to elsewhere, as Argo CD, and would be brought back by, as far as its metadata show; Writer
	// who has written nodeToNodeMeshEnabled last.
	ManagedBy, MeshWriter string
	// Restored is when we switched the mesh on again, zero while we have not.
	Restored time.Time
}

// MeshOn reports whether nodes peer with each other: on unless written otherwise.
func (b BGPConfig) MeshOn() bool { return b.Mesh.Enabled == nil || *b.Mesh.Enabled }

// Peer is a BGPPeer.
type Peer struct {
	Name string
	// Owned: it carries our managed-by label, and is not of a ClusterPeering.
	Owned bool
	// Peering is the ClusterPeering that it was written for, "" for none.
	Peering string
	// Written is when we last wrote it, zero for those of others.
	Written      time.Time
	Node         string
	NodeSelector string
	PeerIP       string
	PeerSelector string
	ASN          uint32
	// LocalASN is the node's AS number towards this peer (localASNumber), 0 where it is the node's own.
	LocalASN uint32
	Password *SecretRef
	// MaxRestartTime is maxRestartTime, nil when absent.
	MaxRestartTime *time.Duration
	// Manual is reversePeering Manual: Calico adds no other side by itself.
	Manual bool
	// Filters are the names of the BGPFilters.
	Filters []string
	// Workloads: the peers are pods on the node itself (localWorkloadSelector).
	Workloads bool
	// KeepNextHop: what is passed on keeps its next hop. In iBGP it does by default, and SelfNextHop is that it does not there either, or may not.
	KeepNextHop, SelfNextHop bool
	// Extra is the canonical JSON of every other field that is set, "" for none.
	// Ours have none, so anything here is an edit by others.
	Extra string
}

// Status is one CalicoNodeStatus.
type Status struct {
	Node string
	// Updated is when we received the report, by our own clock; zero for one that was already there when we
	// started, or that was cleared and not yet filled in again. The reporter need not write while nothing changes,
	// so an old report is not wrong, merely unproven: see RefreshStatus.
	Updated time.Time
	// Written is when the reporter wrote the report, by the clock of its node; zero
	// while the report is cleared. Unlike Updated it outlasts a restart.
	Written time.Time
	// Cleared is when the report was cleared, zero while it is filled in. Where this
	// process has not seen it happen, it is the time that the clearing left on the
	// object. Sessions and Routes then are what it said before.
	Cleared time.Time
	// Regular: the reporter has been seen writing although nothing had changed, as it does where one address family
	// has no sessions. Its silence then means that it is gone.
	Regular bool
	// Sessions of the node's BIRD, sorted by address.
	Sessions []Session
	// Waiting counts the sessions that are Established although BIRD passes on nothing by
	// them, or not everything yet, as after a start. It says nothing of a cleared report.
	Waiting int
	// Routes known to BIRD, only while they are asked for; HasRoutes says whether.
	Routes    []Route
	HasRoutes bool
	// RoutesUnanswered: the reporter did not answer while routes were asked for. Calico's fails as a whole where one route is of several next hops, or of a
	// protocol whose name it does not know, as those to workloads and of BIRD templates of the user's are.
	RoutesUnanswered bool
	// Unread are the sessions that could not be read, UnreadRoutes the same of routes, each with its text, sorted. What they
	// say is not known: Sessions and Waiting lack them, and with UnreadRoutes no route is known.
	Unread, UnreadRoutes []string
}

// RoutesTimeout is how long a reporter that is asked for routes has to answer, before it is asked without.
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
	// Since is when we first received it in this state without interruption, by our own clock; zero while unproven.
	Since time.Time
}

// Route is one path to a prefix.
type Route struct {
	Prefix netip.Prefix
	// From is the BGP peer that sent it; invalid for kernel, static and direct routes.
	From netip.Addr
}

// StatusRequest asks for the status of one node.
type StatusRequest struct {
	Node string
	// Period between reports.
	Period time.Duration
	// Routes: report the routes as well.
	Routes bool
}
