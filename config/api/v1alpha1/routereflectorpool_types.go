package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SingletonName is the only name a RouteReflectorPool may have.
const SingletonName = "default"

// ManagedByLabel and ManagedByValue are the label of every object that rrpool creates.
const (
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedByValue = "rrpool"
)

// PoolLabel is the label of the dedicated worker pool and its nodes, and of existing nodes that are chosen. Its value is the pool's name; a second
// worker pool that replaces the first has the name of the first.
const PoolLabel = "rrpool.io/pool"

// OptionsLabel is the label of the dedicated worker pool for the flavor and options that it was ordered with.
const OptionsLabel = "rrpool.io/options"

// PoolsAnnotation is the annotation with the IDs, "ID,ID", of the worker pools that were seen with PoolLabel, as labels can be lost.
const PoolsAnnotation = "rrpool.io/worker-pools"

// RequestsAnnotation is the annotation with what was asked of the cloud within a day, which bounds further orders and removals.
const RequestsAnnotation = "rrpool.io/pool-requests"

// Finalizer keeps the object until the node-to-node mesh carries the cluster again.
const Finalizer = "rrpool.io/restore-mesh"

// RouteReflectorPool moves a Calico cluster from the BGP full mesh to route
// reflectors, keeps it there, and takes it back. There is one per cluster, named
// "default".
//
// The two rules that compare with the old object read status.pool. An update of
// the spec cannot change the status, so what they read is what the controller
// reported last.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=rrp,categories=rrpool
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`,description="Where the cluster is to go."
// +kubebuilder:printcolumn:name="Step",type=string,JSONPath=`.status.step.name`,description="The step being taken or waited for."
// +kubebuilder:printcolumn:name="Reflectors",type=string,JSONPath=`.status.conditions[?(@.type=="ReflectorsEstablished")].reason`,description="Whether the route reflectors have their sessions."
// +kubebuilder:printcolumn:name="Mesh",type=string,JSONPath=`.status.conditions[?(@.type=="MeshDisabled")].reason`,description="Whether the node-to-node mesh is on."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the cluster is where it is to go."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="there is one RouteReflectorPool per cluster, and its name is default"
// +kubebuilder:validation:XValidation:rule="self.spec.bgp.nodeLabel != self.spec.topology.zoneLabel",message="spec.bgp.nodeLabel must differ from spec.topology.zoneLabel: marking a reflector would overwrite its zone",fieldPath=".spec.bgp.nodeLabel"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.pool) || size(oldSelf.status.pool) == 0 || self.spec.provider.type == oldSelf.spec.provider.type",message="spec.provider.type cannot be changed while a pool exists (status.pool): delete the worker pool, or with existing nodes set spec.mode to FullMesh and wait, first",fieldPath=".spec.provider.type"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.pool) || size(oldSelf.status.pool) == 0 || self.spec.provider.iks.poolName == oldSelf.spec.provider.iks.poolName",message="spec.provider.iks.poolName cannot be changed while a worker pool exists (status.pool): delete the pool first",fieldPath=".spec.provider.iks.poolName"
type RouteReflectorPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the user wants. Left out, it is all defaults: the cluster
	// moves onto route reflectors.
	// +kubebuilder:default={}
	Spec RouteReflectorPoolSpec `json:"spec,omitzero"`
	// Status is what the controller observed last.
	Status RouteReflectorPoolStatus `json:"status,omitzero"`
}

// RouteReflectorPoolList is a list of RouteReflectorPool.
// +kubebuilder:object:root=true
type RouteReflectorPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []RouteReflectorPool `json:"items"`
}

// Mode says how routes are to be distributed.
// +kubebuilder:validation:Enum=RouteReflector;FullMesh;Paused
type Mode string

// The modes.
const (
	// ModeRouteReflector moves the cluster onto route reflectors and keeps it there.
	ModeRouteReflector Mode = "RouteReflector"
	// ModeFullMesh takes the cluster back to the node-to-node mesh.
	ModeFullMesh Mode = "FullMesh"
	// ModePaused observes and reports, and changes nothing.
	ModePaused Mode = "Paused"
)

// RouteReflectorPoolSpec is what the user wants.
// +kubebuilder:validation:XValidation:rule="!has(self.topology) || !has(self.topology.rackLabel) || self.topology.rackLabel != self.bgp.nodeLabel",message="spec.topology.rackLabel must differ from spec.bgp.nodeLabel, which tells route reflectors from clients: give the key of another label, or leave the field out",fieldPath=".topology.rackLabel"
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || self.provider.type != 'ExistingNodes' || self.topology.type in ['Single', 'Auto']",message="spec.topology.type must be Single or Auto while spec.provider.type is ExistingNodes: the others need nodes that do nothing but reflect (provider IKS)",fieldPath=".topology.type"
type RouteReflectorPoolSpec struct {
	// Mode says where the cluster is to go. RouteReflector moves it onto route
	// reflectors and keeps it there. FullMesh takes it back to the node-to-node
	// mesh. Paused observes and reports, and changes nothing.
	// +kubebuilder:default=RouteReflector
	Mode Mode `json:"mode,omitempty"`
	// Provider says where the nodes that become route reflectors come from.
	// +kubebuilder:default={}
	Provider ProviderSpec `json:"provider,omitzero"`
	// Sizing says how many route reflectors the cluster gets.
	// +kubebuilder:default={}
	Sizing SizingSpec `json:"sizing,omitzero"`
	// Topology says how reflectors and clients are arranged.
	// +kubebuilder:default={}
	Topology TopologySpec `json:"topology,omitzero"`
	// BGP holds what is written to nodes and sessions.
	// +kubebuilder:default={}
	BGP BGPSpec `json:"bgp,omitzero"`
	// Rollout tunes how carefully changes are made.
	// +kubebuilder:default={}
	Rollout RolloutSpec `json:"rollout,omitzero"`
}
