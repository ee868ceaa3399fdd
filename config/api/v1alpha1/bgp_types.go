package v1alpha1

// TopologyType is the arrangement of reflectors and clients.
//
// +kubebuilder:validation:Enum=Single;MultiCluster;Quorum;Hierarchy
type TopologyType string

// The topologies.
const (
	// TopologySingle shares one cluster ID: every client peers with every reflector.
	TopologySingle TopologyType = "Single"
	// TopologyMultiCluster gives each reflector a cluster ID of its own.
	TopologyMultiCluster TopologyType = "MultiCluster"
	// TopologyQuorum shares one cluster ID: each client peers with more than half of the reflectors.
	TopologyQuorum TopologyType = "Quorum"
	// TopologyHierarchy gives each rack reflectors of its own, below those that join the racks.
	TopologyHierarchy TopologyType = "Hierarchy"
)

// TopologySpec says how reflectors and clients are arranged.
type TopologySpec struct {
	// Type is the arrangement. In Single, all reflectors share one cluster ID and
	// every node peers with every reflector.
	//
	// +kubebuilder:default=Single
	// +optional
	Type TopologyType `json:"type,omitempty"`
	// ClusterID is the first route-reflector cluster ID, written like an IPv4
	// address. Where more are needed, they count up from it.
	//
	// +kubebuilder:default="244.0.0.1"
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="self != '0.0.0.0' && self.matches('^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])[.]){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])$')",message="must be written like an IPv4 address, and not 0.0.0.0"
	// +optional
	ClusterID string `json:"clusterID,omitempty"`
	// Redundancy is the number of reflectors that each client peers with. Single
	// ignores it: there every client peers with all of them.
	//
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +optional
	Redundancy int32 `json:"redundancy,omitempty"`
	// MaxClientsPerReflector is the greatest number of clients that one reflector serves.
	//
	// +kubebuilder:default=500
	// +kubebuilder:validation:Minimum=1
	// +optional
	MaxClientsPerReflector int32 `json:"maxClientsPerReflector,omitempty"`
	// ZoneLabel is the key of the node label whose value is the node's zone.
	//
	// +kubebuilder:default=topology.kubernetes.io/zone
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$') && self.indexOf('/') <= 253",message="must be a label key: an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' and '.'"
	// +optional
	ZoneLabel string `json:"zoneLabel,omitempty"`
}

// BGPSpec holds what is written to nodes and sessions.
type BGPSpec struct {
	// NodeLabel is the key of the label that marks a node as a route reflector.
	//
	// +kubebuilder:default=rrpool.io/route-reflector
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$') && self.indexOf('/') <= 253",message="must be a label key: an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' and '.'"
	// +optional
	NodeLabel string `json:"nodeLabel,omitempty"`
	// PasswordSecretRef names the Secret with the password of the reflector
	// sessions. It is read by calico-node, not by rrpool: it has to be in
	// calico-node's own namespace (kube-system, or calico-system under the
	// operator), and calico-node's service account must be allowed to get it.
	// Left out, the sessions get the password of the mesh where that has one.
	//
	// +kubebuilder:default={}
	// +optional
	PasswordSecretRef SecretKeyRef `json:"passwordSecretRef,omitzero"`
}
