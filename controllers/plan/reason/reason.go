// Package reason is the table of the reasons of conditions, one line for each. Conditions, commands, docs and alerts use it.
package reason

import "slices"

// Severity says what a reason means for the cluster.
type Severity string

// The severities.
const (
	// State is no problem.
	State Severity = "State"
	// Report is a problem during which the manager goes on with what it can do.
	Report Severity = "Report"
	// Provider is a problem during which no nodes are ordered or removed. Routing does not need the provider.
	Provider Severity = "Provider"
	// Refusal is a problem for which the manager changes nothing, except that the safety net switches the mesh on.
	Refusal Severity = "Refusal"
)

// Entry is a line of the table. Its section of the docs has the address plan.Page(Name).
type Entry struct {
	Name     string
	Severity Severity
	// Passing reports whether the problem may end by itself. Other problems need a person.
	Passing bool
	// Remedy is what a person does first. The section of the docs has the rest.
	Remedy string
}

var table []Entry

// All returns the table.
func All() []Entry { return slices.Clone(table) }

// Of returns the line of a reason. If the table lacks the reason, the line has only the name.
func Of(name string) Entry {
	if i := slices.IndexFunc(table, func(e Entry) bool { return e.Name == name }); i >= 0 {
		return table[i]
	}
	return Entry{Name: name}
}

func add(e Entry) string {
	table = append(table, e)
	return e.Name
}

func state(name string) string { return add(Entry{Name: name, Severity: State}) }
func report(name, remedy string) string {
	return add(Entry{Name: name, Severity: Report, Remedy: remedy})
}
func passing(name, remedy string) string { return add(Entry{name, Report, true, remedy}) }
func provider(name, remedy string) string {
	return add(Entry{Name: name, Severity: Provider, Remedy: remedy})
}

func refusal(name, remedy string) string {
	return add(Entry{Name: name, Severity: Refusal, Remedy: remedy})
}

// What takes too long, or comes back after rrpool has changed it.
var (
	MeshReversed   = report("MeshReversed", "let what writes the BGPConfiguration have nodeToNodeMeshEnabled: false and no nodeMeshPassword, or ignore these fields and the annotations rrpool.io/*")
	LabelReturns   = report("LabelReturns", "find what writes it, and stop that")
	SessionTimeout = passing("SessionTimeout", "look at the nodes named: is calico-node Ready, is TCP port 179 open between them, can the session password be read there?")
	DrainBlocked   = passing("DrainBlocked", "let the PodDisruptionBudget allow it, or delete the pods named")
	WorkersLate    = passing("WorkersLate", "look at the workers of the pool in IBM Cloud, or on existing nodes at the nodes")
)

// Clusters that rrpool does not handle.
var (
	DatastoreLocked         = refusal("DatastoreLocked", "let the migration of Calico's objects end (kubectl get datastoremigrations)")
	DatastoreChanged        = refusal("DatastoreChanged", "give the manager DATASTORE_TYPE and ETCD_* as calico-node has them")
	NodesStale              = refusal("NodesStale", "wait 10 minutes; if it lasts, restart the manager, and look at the apiserver's watches of nodes")
	NodesNotJoined          = refusal("NodesNotJoined", "delete Calico's nodes whose machines are gone (calicoctl delete node NAME)")
	CalicoTooOld            = refusal("CalicoTooOld", "upgrade Calico, or go back to the mesh and then move its objects into the apiserver")
	ObjectUnreadable        = refusal("ObjectUnreadable", "correct the fields that the message names, or delete the object")
	CalicoNotInstalled      = refusal("CalicoNotInstalled", "install Calico, say where its etcd is if it has one, or delete the RouteReflectorPool")
	BGPDisabled             = refusal("BGPDisabled", "enable BGP in Calico (spec.calicoNetwork.bgp: Enabled of the Installation, or CALICO_NETWORKING_BACKEND=bird), or delete the RouteReflectorPool")
	NodeStatusCRDMissing    = refusal("NodeStatusCRDMissing", "upgrade Calico to 3.21 or later, or set spec.rollout.gate: Timer")
	MixedASNumbers          = refusal("MixedASNumbers", "with the mesh on, remove the nodes' own AS numbers, or keep the mesh; with the mesh off, leave both as they are")
	SharedBGPAddress        = refusal("SharedBGPAddress", "let calico-node choose the right interface (IP_AUTODETECTION_METHOD, or nodeAddressAutodetectionV4 of the Installation)")
	UnusableBGPAddress      = refusal("UnusableBGPAddress", "let calico-node choose the right interface (IP_AUTODETECTION_METHOD, or nodeAddressAutodetectionV4 of the Installation)")
	ForeignReflector        = refusal("ForeignReflector", "keep your own route reflection, or switch the mesh on, and then remove its routeReflectorClusterID and the BGPPeers that belong to it")
	RoutesFromRouters       = refusal("RoutesFromRouters", "leave it as it is, and delete the RouteReflectorPool")
	NameTaken               = refusal("NameTaken", "with the mesh on, rename or delete it; with the mesh off, switch the mesh on before")
	ForeignInClusterPeer    = refusal("ForeignInClusterPeer", "with the mesh on, delete it; with the mesh off, switch the mesh on before; or keep your own route reflection")
	SelectorTooLong         = refusal("SelectorTooLong", "let it select by a label that its nodes get, or delete it")
	ForeignLabel            = refusal("ForeignLabel", "choose another label, or remove it from the nodes")
	TooFewNodes             = refusal("TooFewNodes", "add nodes, lower spec.sizing.min or spec.sizing.minPerZone, or delete the RouteReflectorPool")
	NoRoutesOverBGP         = refusal("NoRoutesOverBGP", "leave the mesh as it is, and delete the RouteReflectorPool")
	BlocksOutsideIPPools    = refusal("BlocksOutsideIPPools", "make an IPPool that contains the block, with disabled: true, or move those pods and release the block")
	BlocksMarkedNoAdvertise = refusal("BlocksMarkedNoAdvertise", "remove the community there, and add it where it is meant for")
	WriteRefused            = refusal("WriteRefused", "correct the value that the apiserver names, or let the policy allow what config/rbac lets the manager write")
	BGPUnknown              = report("BGPUnknown", "see whether BIRD runs in calico-node (CALICO_NETWORKING_BACKEND=bird), and that CalicoNodeStatus exists")
	RoutesUnknown           = refusal("RoutesUnknown", "apply the roles of this release (config/rbac)")
)

// What is wrong with spec.
var (
	TopologyNotSupported = refusal("TopologyNotSupported", "use Single, which is what Auto takes there")
	TooManyClients       = refusal("TooManyClients", "set spec.topology.type to the one in the message, or to Auto")
	TooManyPaths         = refusal("TooManyPaths", "set spec.topology.type to the one in the message, or lower spec.topology.redundancy")
	TooManyRacks         = refusal("TooManyRacks", "name a label that many nodes share, or leave spec.topology.rackLabel out")
	SizingInvalid        = refusal("SizingInvalid", "correct the field that the message names")
	SelectorInvalid      = refusal("SelectorInvalid", "correct the field that the message names")
)

// The provider's problems. A reason that consists of Cloud and a cloud.Kind is an error of the provider.
var (
	CredentialsMissing    = provider("CredentialsMissing", "create the Secret with the command in the message")
	CredentialsUnreadable = provider("CredentialsUnreadable", "apply config/rbac again")
	ClusterIDUnknown      = provider("ClusterIDUnknown", "set spec.provider.iks.clusterID")
	ClusterIDMismatch     = provider("ClusterIDMismatch", "correct spec.provider.iks.clusterID")
	PoolConflict          = provider("PoolConflict", "for rrpool's own pool run the command in the message, which puts the label back; for a pool of others choose another spec.provider.iks.poolName, or remove that pool")
	PoolAutoscaled        = provider("PoolAutoscaled", "disable the autoscaler for this pool in ConfigMap kube-system/iks-ca-configmap")
	PoolProblem           = report("PoolProblem", "raise a quota, or free the capacity that the message names")
	CloudUnauthorized     = provider("CloudUnauthorized", "give the key's identity, or the profile, the role Operator or Administrator on the cluster, or store another key")
	CloudQuotaExceeded    = provider("CloudQuotaExceeded", "raise the quota, or make spec.sizing smaller")
	CloudInvalidInput     = provider("CloudInvalidInput", "correct what the message names")
	CloudUnsupported      = provider("CloudUnsupported", "keep the cluster as it is and delete the RouteReflectorPool, or on Satellite set spec.provider.type: ExistingNodes")
	CloudNotFound         = provider("CloudNotFound", "check spec.provider.iks.clusterID and resourceGroup")
	CloudUnexpected       = provider("CloudUnexpected", "look for what else changes the pool: the cluster autoscaler, Terraform, a person")
	CloudRateLimited      = add(Entry{"CloudRateLimited", Provider, true, "wait"})
	CloudUnavailable      = add(Entry{"CloudUnavailable", Provider, true, "check the network between the manager and the cloud, a proxy, and the cloud's status page"})
)

// What fails on the nodes, or in the manager.
var (
	CalicoNodeNotRunning = report("CalicoNodeNotRunning", "find out why calico-node does not run there")
	NodesUnserved        = report("NodesUnserved", "look at calico-node on the nodes named, and whether TCP port 179 is open there")
	ObservationFailed    = passing("ObservationFailed", "read the message: forbidden means to apply config/rbac again, a time-out to look at the apiserver")
	StepFailed           = passing("StepFailed", "read the message: forbidden means to apply config/rbac again, a webhook to let the manager write")
)

// What is no problem. The name of a step can be a reason too.
var (
	AsExpected      = state("AsExpected")
	Paused          = state("Paused")
	PoolReady       = state("PoolReady")
	AllEstablished  = state("AllEstablished")
	MeshOff         = state("MeshOff")
	MeshOn          = state("MeshOn")
	PoolMissing     = state("PoolMissing")
	WorkersPending  = state("WorkersPending")
	NotObserved     = state("NotObserved")
	NoReflectors    = state("NoReflectors")
	SessionsMissing = state("SessionsMissing")
	TimerGate       = state("TimerGate")
)
