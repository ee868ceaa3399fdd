package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SingletonName is the only name a RouteReflectorPool may have.
const SingletonName = "default"

// ManagedByLabel and ManagedByValue mark every object that rrpool creates.
const (
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedByValue = "rrpool"
)

// Finalizer keeps the object until the node-to-node mesh carries the cluster again.
const Finalizer = "rrpool.io/restore-mesh"

// RouteReflectorPool moves a Calico cluster from the BGP full mesh to route
// reflectors, keeps it there, and takes it back.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=rrp,categories=rrpool
type RouteReflectorPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   RouteReflectorPoolSpec   `json:"spec,omitempty"`
	Status RouteReflectorPoolStatus `json:"status,omitempty"`
}

// RouteReflectorPoolList is a list of RouteReflectorPool.
//
// +kubebuilder:object:root=true
type RouteReflectorPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []RouteReflectorPool `json:"items"`
}

// Mode says how routes are to be distributed.
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
type RouteReflectorPoolSpec struct {
	Mode     Mode         `json:"mode,omitempty"`
	Provider ProviderSpec `json:"provider,omitempty"`
	Sizing   SizingSpec   `json:"sizing,omitempty"`
	Topology TopologySpec `json:"topology,omitempty"`
	BGP      BGPSpec      `json:"bgp,omitempty"`
	Rollout  RolloutSpec  `json:"rollout,omitempty"`
}

// ProviderType names who supplies the nodes that become route reflectors.
type ProviderType string

// The provider types.
const (
	// ProviderAuto is IKS when nodes carry an ibm:// providerID, else ExistingNodes.
	ProviderAuto ProviderType = "Auto"
	// ProviderIKS orders a dedicated worker pool from IBM Cloud Kubernetes Service.
	ProviderIKS ProviderType = "IKS"
	// ProviderExistingNodes chooses among the nodes that are already there.
	ProviderExistingNodes ProviderType = "ExistingNodes"
)

// ProviderSpec says where route-reflector nodes come from.
type ProviderSpec struct {
	Type          ProviderType      `json:"type,omitempty"`
	IKS           IKSSpec           `json:"iks,omitempty"`
	ExistingNodes ExistingNodesSpec `json:"existingNodes,omitempty"`
}

// SecretKeyRef names one key of a Secret in the manager's namespace.
type SecretKeyRef struct {
	Name string `json:"name,omitempty"`
	Key  string `json:"key,omitempty"`
}

// Endpoint is the kind of IBM Cloud API endpoint to talk to.
type Endpoint string

// The endpoints.
const (
	EndpointPublic  Endpoint = "Public"
	EndpointPrivate Endpoint = "Private"
)

// DeletionPolicy says what happens to the worker pool when the object is deleted.
type DeletionPolicy string

// The deletion policies.
const (
	DeletionRetain DeletionPolicy = "Retain"
	DeletionDelete DeletionPolicy = "Delete"
)

// IKSSpec describes the dedicated worker pool on IBM Cloud Kubernetes Service.
type IKSSpec struct {
	ClusterID            string         `json:"clusterID,omitempty"`
	PoolName             string         `json:"poolName,omitempty"`
	Flavor               string         `json:"flavor,omitempty"`
	CredentialsSecretRef SecretKeyRef   `json:"credentialsSecretRef,omitempty"`
	ResourceGroup        string         `json:"resourceGroup,omitempty"`
	Endpoint             Endpoint       `json:"endpoint,omitempty"`
	Zones                []string       `json:"zones,omitempty"`
	Taint                Taint          `json:"taint,omitempty"`
	DeletionPolicy       DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// Taint keeps workloads off the dedicated nodes.
type Taint struct {
	Key    string             `json:"key,omitempty"`
	Value  string             `json:"value,omitempty"`
	Effect corev1.TaintEffect `json:"effect,omitempty"`
}

// Promotion is the way a node that already runs workloads becomes a route reflector.
type Promotion string

// The promotions.
const (
	PromotionStaged    Promotion = "Staged"
	PromotionCordon    Promotion = "Cordon"
	PromotionDrain     Promotion = "Drain"
	PromotionImmediate Promotion = "Immediate"
)

// ExistingNodesSpec says which existing nodes may become route reflectors, and how.
type ExistingNodesSpec struct {
	Preferred metav1.LabelSelector `json:"preferred,omitempty"`
	Excluded  metav1.LabelSelector `json:"excluded,omitempty"`
	Promotion Promotion            `json:"promotion,omitempty"`
}

// SizingMethod is the rule that turns a number of nodes into a number of reflectors.
type SizingMethod string

// The sizing methods.
const (
	// SizingPerHundred is 3 below 100 nodes, else 3 + nodes/100 (whole hundreds).
	SizingPerHundred SizingMethod = "PerHundred"
	// SizingLinear is ceil(nodes × ratio).
	SizingLinear SizingMethod = "Linear"
	// SizingStepping is the first step whose upToNodes is not exceeded.
	SizingStepping SizingMethod = "Stepping"
)

// SizingSpec says how many route reflectors the cluster gets.
type SizingSpec struct {
	Method SizingMethod `json:"method,omitempty"`
	// Ratio is reflectors per node, a decimal in (0,1], for method Linear.
	Ratio      string       `json:"ratio,omitempty"`
	Steps      []SizingStep `json:"steps,omitempty"`
	Min        int32        `json:"min,omitempty"`
	Max        int32        `json:"max,omitempty"`
	MinPerZone int32        `json:"minPerZone,omitempty"`
}

// SizingStep is one step of method Stepping.
type SizingStep struct {
	UpToNodes  int32 `json:"upToNodes"`
	Reflectors int32 `json:"reflectors"`
}

// TopologyType is the arrangement of reflectors and clients.
type TopologyType string

// The topologies.
const (
	TopologySingle       TopologyType = "Single"
	TopologyMultiCluster TopologyType = "MultiCluster"
	TopologyQuorum       TopologyType = "Quorum"
	TopologyHierarchy    TopologyType = "Hierarchy"
)

// TopologySpec says how reflectors and clients are arranged.
type TopologySpec struct {
	Type                   TopologyType `json:"type,omitempty"`
	ClusterID              string       `json:"clusterID,omitempty"`
	Redundancy             int32        `json:"redundancy,omitempty"`
	MaxClientsPerReflector int32        `json:"maxClientsPerReflector,omitempty"`
	ZoneLabel              string       `json:"zoneLabel,omitempty"`
}

// BGPSpec holds what is written to nodes and sessions.
type BGPSpec struct {
	// NodeLabel is the label key that marks a node as a route reflector.
	NodeLabel string `json:"nodeLabel,omitempty"`
	// PasswordSecretRef names the Secret, in calico-node's own namespace, with
	// the password of the reflector sessions.
	PasswordSecretRef SecretKeyRef `json:"passwordSecretRef,omitempty"`
}

// Gate is the kind of proof a step waits for.
type Gate string

// The gates.
const (
	// GateSessions waits for observed BGP sessions (CalicoNodeStatus).
	GateSessions Gate = "Sessions"
	// GateTimer waits for fixed times, where the node status reporter does not exist.
	GateTimer Gate = "Timer"
)

// RolloutSpec tunes how carefully changes are made.
type RolloutSpec struct {
	Gate           Gate            `json:"gate,omitempty"`
	SessionTimeout metav1.Duration `json:"sessionTimeout,omitempty"`
	NotReadyGrace  metav1.Duration `json:"notReadyGrace,omitempty"`
	SafetyNet      SafetyNetSpec   `json:"safetyNet,omitempty"`
	RemovalDelay   metav1.Duration `json:"removalDelay,omitempty"`
}

// SafetyNetSpec says when the mesh is switched on because too few reflectors serve.
type SafetyNetSpec struct {
	MinServing int32           `json:"minServing,omitempty"`
	After      metav1.Duration `json:"after,omitempty"`
}

// Condition types of a RouteReflectorPool, in the order they are reported.
const (
	ConditionReady                 = "Ready"
	ConditionProviderReady         = "ProviderReady"
	ConditionReflectorsEstablished = "ReflectorsEstablished"
	ConditionMeshDisabled          = "MeshDisabled"
	ConditionProgressing           = "Progressing"
	ConditionDegraded              = "Degraded"
)

// RouteReflectorPoolStatus reports what was observed. It is never an input.
type RouteReflectorPoolStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	// Provider that is in use: "iks", "existing", …
	Provider string `json:"provider,omitempty"`
	// Nodes counts the Ready nodes that speak BGP and are not in the dedicated pool.
	Nodes      int32             `json:"nodes,omitempty"`
	Zones      []ZoneStatus      `json:"zones,omitempty"`
	Reflectors []ReflectorStatus `json:"reflectors,omitempty"`
	Step       StepStatus        `json:"step,omitempty"`
	Cost       *CostStatus       `json:"cost,omitempty"`
}

// ZoneStatus is the state of the pool in one zone.
type ZoneStatus struct {
	Name    string `json:"name"`
	Desired int32  `json:"desired"`
	Ready   int32  `json:"ready"`
}

// ReflectorStatus is one route reflector.
type ReflectorStatus struct {
	Node                string `json:"node"`
	Zone                string `json:"zone,omitempty"`
	ClusterID           string `json:"clusterID,omitempty"`
	SessionsEstablished int32  `json:"sessionsEstablished"`
	SessionsExpected    int32  `json:"sessionsExpected"`
}

// StepStatus is the step being taken, or waited for.
type StepStatus struct {
	Name       string      `json:"name,omitempty"`
	Reason     string      `json:"reason,omitempty"`
	Since      metav1.Time `json:"since,omitempty"`
	WaitingFor []string    `json:"waitingFor,omitempty"`
}

// CostStatus is what the dedicated pool costs. Unknown prices are absent, never guessed.
type CostStatus struct {
	Currency string `json:"currency,omitempty"`
	// Hourly is a decimal in Currency.
	Hourly string `json:"hourly,omitempty"`
	// Monthly is a decimal in Currency for a month of 720 hours.
	Monthly string `json:"monthly,omitempty"`
	// Source names the price's source and date, or says why it is unknown.
	Source string `json:"source,omitempty"`
}
