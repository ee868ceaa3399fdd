package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PeeringFinalizer keeps a ClusterPeering until nothing that was written for it is left.
const PeeringFinalizer = "rrpool.io/remove-peering"

// PeeringLabel is carried by every object of Calico's that is written for a
// ClusterPeering, with its name as the value.
const PeeringLabel = "rrpool.io/peering"

// ClusterPeering lets the pods of two Calico clusters in one network reach each
// other: the route reflectors of both have BGP sessions with each other. Each
// cluster has a ClusterPeering for the other one, and a RouteReflectorPool in mode
// RouteReflector.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=cpr,categories=rrpool
// +kubebuilder:printcolumn:name="AS",type=integer,JSONPath=`.status.remote.asNumber`,description="The AS number of the remote cluster."
// +kubebuilder:printcolumn:name="Sessions",type=string,JSONPath=`.status.conditions[?(@.type=="SessionsEstablished")].reason`,description="Whether the sessions with the remote reflectors are Established."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether both clusters can reach each other."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 40",message="the name must have at most 40 lower-case letters, digits and '-': the names of Calico's objects are made from it"
type ClusterPeering struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the user wants.
	Spec ClusterPeeringSpec `json:"spec"`
	// Status is what the controller observed last.
	Status ClusterPeeringStatus `json:"status,omitzero"`
}

// ClusterPeeringList is a list of ClusterPeering.
//
// +kubebuilder:object:root=true
type ClusterPeeringList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterPeering `json:"items"`
}

// NextHop says where packets to this cluster go first.
//
// +kubebuilder:validation:Enum=Reflectors;Nodes
type NextHop string

// The next hops.
const (
	// NextHopReflectors is the route reflectors of the cluster that has the pods.
	NextHopReflectors NextHop = "Reflectors"
	// NextHopNodes is the node that has the pod.
	NextHopNodes NextHop = "Nodes"
)

// ClusterPeeringSpec is what the user wants.
type ClusterPeeringSpec struct {
	// Remote is the other cluster.
	Remote RemoteCluster `json:"remote"`
	// PasswordSecretRef names the Secret with the password of the sessions, which
	// must be the same in both clusters. It is read by calico-node, not by rrpool: it
	// has to be in calico-node's own namespace, and calico-node's service account
	// must be allowed to get it. Left out, the sessions have no password.
	//
	// +kubebuilder:default={}
	PasswordSecretRef SecretKeyRef `json:"passwordSecretRef,omitzero"`
	// Advertise says what the remote cluster learns of this one.
	//
	// +kubebuilder:default={}
	Advertise Advertise `json:"advertise,omitzero"`
	// NextHop of what is advertised. Reflectors: packets from the remote cluster come
	// in at this cluster's route reflectors. Nodes: they go straight to the node,
	// which must be reachable from the remote cluster's nodes.
	//
	// +kubebuilder:default=Reflectors
	NextHop NextHop `json:"nextHop,omitempty"`
}

// RemoteCluster says how the other cluster is known.
//
// +kubebuilder:validation:XValidation:rule="has(self.kubeconfigSecretRef) != has(self.static)",message="give kubeconfigSecretRef or static: one of them, not both"
type RemoteCluster struct {
	// KubeconfigSecretRef names the Secret, in the manager's own namespace, with a
	// kubeconfig for the remote cluster: "rrpool peering kubeconfig" prints one. The
	// remote's reflectors are followed then.
	//
	// +kubebuilder:validation:XValidation:rule="has(self.name)",message="name and key of the Secret with the kubeconfig are required"
	KubeconfigSecretRef SecretKeyRef `json:"kubeconfigSecretRef,omitzero"`
	// Static describes the remote cluster where its API cannot be reached from here.
	Static *StaticRemote `json:"static,omitempty"`
	// AllowedCIDRs limits what the remote cluster may declare: each of its ranges of
	// pods and services must lie in one of these, or nothing new is written. Left out,
	// it may declare any that is not in use here.
	//
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MaxLength=49
	// +listType=set
	AllowedCIDRs []string `json:"allowedCIDRs,omitempty"`
}

// StaticRemote describes a cluster.
type StaticRemote struct {
	// ASNumber of its nodes.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4294967295
	// +kubebuilder:validation:XValidation:rule="!(self in [23456, 65535, 4294967295])",message="AS numbers 23456, 65535 and 4294967295 are reserved: no cluster has one"
	ASNumber int64 `json:"asNumber"`
	// Reflectors are the BGP addresses of its route reflectors.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=45
	// +listType=set
	Reflectors []string `json:"reflectors"`
	// PodCIDRs are the ranges of its pods.
	//
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MaxLength=49
	// +listType=set
	PodCIDRs []string `json:"podCIDRs,omitempty"`
	// ServiceCIDRs are the ranges of its services that it advertises.
	//
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MaxLength=49
	// +listType=set
	ServiceCIDRs []string `json:"serviceCIDRs,omitempty"`
}

// Advertise says what the remote cluster learns of this one.
type Advertise struct {
	// Pods advertises the pods of all enabled IPPools.
	//
	// +kubebuilder:default=true
	Pods *bool `json:"pods,omitempty"`
	// Services advertises the cluster IPs of services. Every node of this cluster then
	// announces ServiceCIDRs, to its other BGP peers as well.
	//
	// +kubebuilder:default=true
	Services *bool `json:"services,omitempty"`
	// ServiceCIDRs are the ranges of cluster IPs. Left out, they are what Calico
	// announces already, else those of the ServiceCIDR objects of Kubernetes 1.33 and
	// later.
	//
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=49
	// +listType=set
	ServiceCIDRs []string `json:"serviceCIDRs,omitempty"`
}

// Condition types of a ClusterPeering beside Ready, in the order they are reported.
const (
	// ConditionRemoteKnown is True where the remote cluster could be read.
	ConditionRemoteKnown = "RemoteKnown"
	// ConditionSessionsEstablished is True where all sessions between the reflectors of both clusters are Established.
	ConditionSessionsEstablished = "SessionsEstablished"
)

// ClusterPeeringStatus reports what was observed. It is never an input.
type ClusterPeeringStatus struct {
	// ObservedGeneration is the metadata.generation that this status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions, Ready first, then RemoteKnown and SessionsEstablished.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Remote is the remote cluster as last seen.
	Remote *RemoteStatus `json:"remote,omitempty"`
	// Sessions between the reflectors of both clusters, sorted by node and address.
	//
	// +listType=atomic
	Sessions []PeeringSession `json:"sessions,omitempty"`
	// Advertised are the ranges of this cluster that the remote one may learn.
	//
	// +listType=atomic
	Advertised []string `json:"advertised,omitempty"`
}

// RemoteStatus is a remote cluster.
type RemoteStatus struct {
	// ASNumber of its nodes.
	ASNumber int64 `json:"asNumber"`
	// Reflectors are the BGP addresses of its route reflectors.
	//
	// +listType=atomic
	Reflectors []string `json:"reflectors,omitempty"`
	// PodCIDRs are the ranges of its pods.
	//
	// +listType=atomic
	PodCIDRs []string `json:"podCIDRs,omitempty"`
	// ServiceCIDRs are the ranges of its services that it advertises.
	//
	// +listType=atomic
	ServiceCIDRs []string `json:"serviceCIDRs,omitempty"`
}

// PeeringSession is one BGP session with the remote cluster.
type PeeringSession struct {
	// Node is the route reflector here.
	Node string `json:"node"`
	// Peer is the address of the remote one.
	Peer string `json:"peer"`
	// Established is true while both exchange routes.
	Established bool `json:"established"`
}
