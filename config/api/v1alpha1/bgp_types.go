package v1alpha1

// TopologyType is the arrangement of reflectors and clients.
// +kubebuilder:validation:Enum=Single;MultiCluster;Quorum;Hierarchy;Auto
type TopologyType string

// The topologies.
const (
	// TopologySingle shares one cluster ID: every client peers with every reflector.
	TopologySingle TopologyType = "Single"
	// TopologyMultiCluster gives each reflector a cluster ID of its own.
	TopologyMultiCluster TopologyType = "MultiCluster"
	// TopologyQuorum shares one cluster ID: each client peers with more than half of the reflectors.
	TopologyQuorum TopologyType = "Quorum"
	// TopologyHierarchy gives each rack reflectors of its own, which peer with spines that join the racks.
	TopologyHierarchy TopologyType = "Hierarchy"
	// TopologyAuto is the smallest of Single, Quorum and Hierarchy that keeps every
	// reflector within MaxClientsPerReflector and survives Redundancy - 1 failures.
	TopologyAuto TopologyType = "Auto"
)

// TopologySpec says how reflectors and clients are arranged.
type TopologySpec struct {
	// Type is the arrangement. In Single, all reflectors share one cluster ID and
	// every node peers with every reflector. The others need nodes that do nothing
	// but reflect (provider IKS).
	// +kubebuilder:default=Single
	Type TopologyType `json:"type,omitempty"`
	// ClusterID is the first route-reflector cluster ID, written like an IPv4
	// address. Where more are needed, they count up from it.
	// +kubebuilder:default="244.0.0.1"
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="self != '0.0.0.0' && self.matches('^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])[.]){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])$')",message="must be written like an IPv4 address, and not 0.0.0.0"
	ClusterID string `json:"clusterID,omitempty"`
	// Redundancy is how many reflectors connect any two clients, so that one less may
	// fail at the same time. Single ignores it: there all reflectors do. In Quorum, any
	// two clients share so many reflectors. In MultiCluster each client peers with so
	// many. In Hierarchy each rack has so many, and as many spines join the racks.
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	Redundancy int32 `json:"redundancy,omitempty"`
	// MaxClientsPerReflector is the greatest number of clients that one reflector
	// serves. Left out, it is 2000 where reflectors are dedicated nodes, and 500 where
	// they run workloads as well.
	// +kubebuilder:validation:Minimum=1
	MaxClientsPerReflector int32 `json:"maxClientsPerReflector,omitempty"`
	// MaxPathsPerPrefix is the greatest number of paths to one client's prefix that a
	// node may get to hold. A topology that makes more is refused.
	// +kubebuilder:default=64
	// +kubebuilder:validation:Minimum=1
	MaxPathsPerPrefix int32 `json:"maxPathsPerPrefix,omitempty"`
	// RackLabel is the key of the node label whose value is the node's rack: nodes of
	// one rack have the same reflectors. Left out, zones are the racks; where they are
	// too few or too large, rrpool makes racks by size and labels clients with
	// rrpool.io/rack.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="!(self in ['rrpool.io/rack', 'rrpool.io/pool', 'rrpool.io/options'])",message="rrpool writes and removes the labels rrpool.io/rack, rrpool.io/pool and rrpool.io/options itself: leave the field out, or give the key of a label of yours"
	// +kubebuilder:validation:XValidation:rule="self == '' || (self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$') && self.indexOf('/') <= 253)",message="must be a label key: an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' and '.'"
	RackLabel string `json:"rackLabel,omitempty"`
	// ZoneLabel is the key of the node label whose value is the node's zone.
	// +kubebuilder:default=topology.kubernetes.io/zone
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="!(self in ['rrpool.io/rack', 'rrpool.io/pool', 'rrpool.io/options'])",message="rrpool writes the labels rrpool.io/rack, rrpool.io/pool and rrpool.io/options itself, for other ends: give another key"
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$') && self.indexOf('/') <= 253",message="must be a label key: an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' and '.'"
	ZoneLabel string `json:"zoneLabel,omitempty"`
}

// BGPSpec holds what is written to nodes and sessions.
type BGPSpec struct {
	// NodeLabel is the key of the label that marks a node as a route reflector. It cannot
	// be one of Kubernetes' own, such as node-role.kubernetes.io/worker. One of
	// node-restriction.kubernetes.io is out of reach of kubelets: no node can then give
	// itself the role.
	// +kubebuilder:default=rrpool.io/route-reflector
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([^/]*[.])?(kubernetes|k8s)[.]io/') || self.startsWith('node-restriction.kubernetes.io/')",message="labels of kubernetes.io and k8s.io have a meaning for Kubernetes, which rrpool must not change: give another key, or one of node-restriction.kubernetes.io"
	// +kubebuilder:validation:XValidation:rule="!(self in ['rrpool.io/rack', 'rrpool.io/pool', 'rrpool.io/options'])",message="rrpool writes the labels rrpool.io/rack, rrpool.io/pool and rrpool.io/options itself, for other ends: give another key"
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$') && self.indexOf('/') <= 253",message="must be a label key: an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' and '.'"
	NodeLabel string `json:"nodeLabel,omitempty"`
	// PasswordSecretRef names the Secret with the password of the reflector
	// sessions. It is read by calico-node, not by rrpool: it has to be in
	// calico-node's own namespace (kube-system, or calico-system under the
	// operator), and calico-node's service account must be allowed to get it.
	// Left out, the sessions get the password of the mesh where that has one.
	// +kubebuilder:default={}
	PasswordSecretRef SecretKeyRef `json:"passwordSecretRef,omitzero"`
}

// The defaults of spec.topology.maxClientsPerReflector. They are measured with one BIRD that starts while all its clients wait: docs/capacity.md.
const (
	// MaxClientsDedicated is the limit on nodes that do nothing but reflect.
	MaxClientsDedicated = 2000
	// MaxClientsShared is the limit on nodes that run workloads as well.
	MaxClientsShared = 500
)
