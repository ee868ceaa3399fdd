package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Condition types of a RouteReflectorPool, in the order they are reported.
const (
	// ConditionReady is True where the cluster is as spec.mode wants it.
	ConditionReady = "Ready"
	// ConditionProviderReady is True where the pool has all the nodes that are wanted.
	ConditionProviderReady = "ProviderReady"
	// ConditionReflectorsEstablished is True where every reflector has all its sessions.
	ConditionReflectorsEstablished = "ReflectorsEstablished"
	// ConditionMeshDisabled is True while the node-to-node mesh is off.
	ConditionMeshDisabled = "MeshDisabled"
	// ConditionProgressing is True while a step is taken or waited for.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True while there is a problem that a person may have to solve.
	ConditionDegraded = "Degraded"
)

// RouteReflectorPoolStatus reports what was observed. It is never an input.
type RouteReflectorPoolStatus struct {
	// ObservedGeneration is the metadata.generation that this status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions, Ready first, then ProviderReady, ReflectorsEstablished,
	// MeshDisabled, Progressing and Degraded. They are Unknown while the cluster
	// cannot be observed.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// CalicoAPI is the API group and version in which Calico keeps its objects:
	// crd.projectcalico.org/v1 or projectcalico.org/v3, or etcdv3 for an etcd of its own.
	CalicoAPI string `json:"calicoAPI,omitempty"`
	// Provider that is in use: iks or existing.
	Provider string `json:"provider,omitempty"`
	// Pool is the name of the worker pool that rrpool created and that exists, or
	// existing-nodes while any existing node carries the label rrpool.io/pool;
	// empty while there is none. While it is set, spec.provider.type and
	// spec.provider.iks.poolName cannot be changed.
	// +kubebuilder:validation:MaxLength=64
	Pool string `json:"pool,omitempty"`
	// Nodes counts the Ready nodes that speak BGP and are not in a dedicated pool.
	// Existing nodes that reflect count, as they run workloads too.
	Nodes int32 `json:"nodes,omitempty"`
	// Zones is the state of the pool in each zone, sorted by name.
	// +listType=map
	// +listMapKey=name
	Zones []ZoneStatus `json:"zones,omitempty"`
	// Reflectors are the route reflectors and their sessions, sorted by node.
	// +listType=map
	// +listMapKey=node
	Reflectors []ReflectorStatus `json:"reflectors,omitempty"`
	// Step is the step being taken, or waited for.
	Step StepStatus `json:"step,omitzero"`
	// Cost is what the dedicated pool costs, in any mode; absent while none of its
	// workers is a node, and on existing nodes, which cost nothing extra.
	Cost *CostStatus `json:"cost,omitempty"`
}

// ZoneStatus is the state of the pool in one zone.
type ZoneStatus struct {
	// Name of the zone.
	Name string `json:"name"`
	// Desired is the number of reflectors the zone is to have.
	Desired int32 `json:"desired"`
	// Ready is the number of the pool's nodes in the zone that are Ready.
	Ready int32 `json:"ready"`
}

// ReflectorStatus is one route reflector.
type ReflectorStatus struct {
	// Node is the Kubernetes node's name.
	Node string `json:"node"`
	// Zone of the node.
	Zone string `json:"zone,omitempty"`
	// ClusterID is the node's route-reflector cluster ID.
	ClusterID string `json:"clusterID,omitempty"`
	// SessionsEstablished counts its Established sessions with Ready nodes.
	SessionsEstablished int32 `json:"sessionsEstablished"`
	// SessionsExpected counts the sessions it should have, one for each Ready node
	// and address family.
	SessionsExpected int32 `json:"sessionsExpected"`
}

// StepStatus is the step being taken, or waited for.
type StepStatus struct {
	// Name of the step, such as DisableMesh; Steady when nothing is to be done.
	Name string `json:"name,omitempty"`
	// Rule is the name of the rule that asks for the step, as in docs/architecture.md.
	Rule string `json:"rule,omitempty"`
	// Reason says why this step, and why now.
	Reason string `json:"reason,omitempty"`
	// Since is when the step of that name began.
	Since metav1.Time `json:"since,omitzero"`
	// WaitingFor names the first of what is missing before the next step.
	// +listType=atomic
	WaitingFor []string `json:"waitingFor,omitempty"`
}

// CostStatus is what the workers of the dedicated pool cost that are nodes, by the
// prices that are built into the manager. Amounts that are not known exactly are
// absent.
type CostStatus struct {
	// Currency as an ISO 4217 code.
	Currency string `json:"currency,omitempty"`
	// Hourly is a decimal in Currency, for all of them together.
	Hourly string `json:"hourly,omitempty"`
	// Monthly is a decimal in Currency for a month of 720 hours.
	Monthly string `json:"monthly,omitempty"`
	// Source says of which days the prices are; where there is no amount, which
	// flavor and region have no price, and what is known.
	Source string `json:"source,omitempty"`
}
