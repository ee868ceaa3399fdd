package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProviderType is the source of the nodes that become route reflectors.
// +kubebuilder:validation:Enum=Auto;IKS;ExistingNodes
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
	// Type is the provider. Auto means IKS when nodes carry an ibm://
	// providerID, else ExistingNodes, and stays with that while existing nodes
	// are chosen. It cannot be changed while a pool of rrpool's exists.
	// +kubebuilder:default=Auto
	Type ProviderType `json:"type,omitempty"`
	// IKS describes the dedicated worker pool on IBM Cloud Kubernetes Service.
	// It is ignored by other providers.
	// +kubebuilder:default={}
	IKS IKSSpec `json:"iks,omitzero"`
	// ExistingNodes says which nodes may become route reflectors where no
	// dedicated ones are ordered. It is ignored by other providers.
	// +kubebuilder:default={}
	ExistingNodes ExistingNodesSpec `json:"existingNodes,omitzero"`
}

// SecretKeyRef names one key of a Secret. Both parts, or none, are given.
// +kubebuilder:validation:XValidation:rule="has(self.name) == has(self.key)",message="name and key of a Secret go together: give both or none"
type SecretKeyRef struct {
	// Name of the Secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower-case letters, digits, '-' and '.'"
	Name string `json:"name,omitempty"`
	// Key within the Secret's data.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be a key of a Secret: letters, digits, '-', '_' and '.'"
	Key string `json:"key,omitempty"`
}

// Endpoint is the kind of IBM Cloud API endpoint to talk to.
// +kubebuilder:validation:Enum=Public;Private
type Endpoint string

// The endpoints.
const (
	// EndpointPublic is reached over the internet.
	EndpointPublic Endpoint = "Public"
	// EndpointPrivate is reached over the private network of IBM Cloud.
	EndpointPrivate Endpoint = "Private"
)

// DeletionPolicy says what happens to the worker pool when the object is deleted.
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

// The deletion policies.
const (
	// DeletionRetain keeps the pool, and what it costs.
	DeletionRetain DeletionPolicy = "Retain"
	// DeletionDelete deletes the pool once the mesh carries the cluster again.
	DeletionDelete DeletionPolicy = "Delete"
)

// UpdateWorkers says who replaces outdated workers.
// +kubebuilder:validation:Enum=Manual;Rolling
type UpdateWorkers string

// The ways of updating workers.
const (
	// UpdateManual leaves it to a person.
	UpdateManual UpdateWorkers = "Manual"
	// UpdateRolling replaces them one after the other.
	UpdateRolling UpdateWorkers = "Rolling"
)

// IKSSpec describes the dedicated worker pool on IBM Cloud Kubernetes Service.
type IKSSpec struct {
	// ClusterID is the cluster's own ID at IBM Cloud. Left out, it is field
	// cluster_id of key cluster-config.json in ConfigMap kube-system/cluster-info,
	// which IKS maintains.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9][A-Za-z0-9_-]*)?$')",message="must be an IKS cluster ID: letters, digits, '-' and '_'"
	ClusterID string `json:"clusterID,omitempty"`
	// PoolName is the name of the dedicated worker pool. A pool of that name which
	// rrpool did not create is left alone and reported. It cannot be changed while
	// a worker pool of rrpool's exists.
	// +kubebuilder:default=route-reflectors
	// +kubebuilder:validation:MaxLength=31
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')",message="must start with a lower-case letter, hold only lower-case letters, digits and '-', and not end with '-'"
	PoolName string `json:"poolName,omitempty"`
	// Flavor is the machine type of the pool's workers. Left out, it is the smallest
	// of the generation that most of the cluster's workers are of: bx2.2x8 or
	// bx3d.4x20 on VPC, u3c.2x4 on classic; where the zones do not offer it, another
	// one that they have; a pool that exists keeps its own. When it changes, workers of that flavor take over,
	// one reflector after the other, whatever updateWorkers says. They are in a
	// second pool, as IKS cannot change the first: its name is poolName and "-b".
	// Each zone has one more worker for that time.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]+([.-][A-Za-z0-9]+)*)?$')",message="must be an IKS flavor, such as bx2.2x8"
	Flavor string `json:"flavor,omitempty"`
	// CredentialsSecretRef names the Secret, in the manager's own namespace, with
	// the IBM Cloud API key.
	// +kubebuilder:default={name: rrpool-ibmcloud, key: apikey}
	// +kubebuilder:validation:XValidation:rule="has(self.name)",message="name and key of the Secret with the API key are required"
	CredentialsSecretRef SecretKeyRef `json:"credentialsSecretRef,omitzero"`
	// Credentials replace the API key. Left out, the key is used.
	Credentials IKSCredentials `json:"credentials,omitzero"`
	// ResourceGroup is the ID of the resource group of the cluster. Left out, it is
	// read from the cluster.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9][A-Za-z0-9_.-]*)?$')",message="must be a resource group ID: letters, digits, '-', '_' and '.'"
	ResourceGroup string `json:"resourceGroup,omitempty"`
	// Endpoint chooses the IBM Cloud API endpoints: Public, or Private for
	// clusters without a way to the internet.
	// +kubebuilder:default=Public
	Endpoint Endpoint `json:"endpoint,omitempty"`
	// Zones that the pool has workers in. Left out, every zone of the cluster.
	// +kubebuilder:validation:MaxItems=15
	// +kubebuilder:validation:XValidation:rule="self.all(z, z.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$'))",message="each must be an IBM Cloud zone, such as us-south-1 or dal10"
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	Zones []string `json:"zones,omitempty"`
	// OperatingSystem of the workers, as IKS names it, such as UBUNTU_24_64. Left
	// out, the cloud chooses. A change is made as that of flavor.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Z][A-Z0-9_]*)?$')",message="must be an operating system of IKS, such as UBUNTU_24_64"
	OperatingSystem string `json:"operatingSystem,omitempty"`
	// SecurityGroups, by ID, that the workers get beside the cluster's own. A worker
	// can have five, the cluster's among them. VPC only. They apply to a pool that
	// is yet to be created.
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:XValidation:rule="self.all(g, g.matches('^[A-Za-z0-9][A-Za-z0-9_-]*$'))",message="each must be the ID of a security group, such as r006-1a2b3c4d-…"
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +listType=set
	SecurityGroups []string `json:"securityGroups,omitempty"`
	// Networks that the workers are attached to, by zone. In a zone that is not
	// among them it is the network of the cluster's other workers. A change is made
	// as that of flavor.
	// +kubebuilder:validation:MaxItems=15
	// +listType=map
	// +listMapKey=zone
	Networks []ZoneNetwork `json:"networks,omitempty"`
	// WorkerVolumeEncryption names the root key that the workers' volumes are
	// encrypted with. VPC only. Left out, the cloud's own keys are used. A change of
	// the root key is made as that of flavor.
	WorkerVolumeEncryption WorkerVolumeEncryption `json:"workerVolumeEncryption,omitzero"`
	// DedicatedHostPoolID has the workers run on the dedicated hosts of that pool.
	// VPC only. A change is made as that of flavor.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9][A-Za-z0-9_-]*)?$')",message="must be the ID of a dedicated host pool: letters, digits, '-' and '_'"
	DedicatedHostPoolID string `json:"dedicatedHostPoolID,omitempty"`
	// Taint keeps workloads off the pool's workers from their first moment.
	// +kubebuilder:default={}
	Taint Taint `json:"taint,omitzero"`
	// UpdateWorkers says who replaces workers for which IBM Cloud has a newer
	// version. Manual: rrpool only reports them. Rolling: rrpool replaces them, one
	// reflector after the other. Each zone has one more worker for that time.
	// +kubebuilder:default=Manual
	UpdateWorkers UpdateWorkers `json:"updateWorkers,omitempty"`
	// DeletionPolicy says what becomes of the pool when this object is deleted:
	// Retain keeps it, and what it costs; Delete deletes it once the mesh carries
	// the cluster again.
	// +kubebuilder:default=Retain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// ZoneNetwork is what the workers in a zone are attached to: a subnet on VPC, VLANs on classic.
// +kubebuilder:validation:XValidation:rule="has(self.subnetID) != has(self.privateVLAN)",message="give a subnetID (VPC) or a privateVLAN (classic), and not both"
// +kubebuilder:validation:XValidation:rule="!has(self.publicVLAN) || has(self.privateVLAN)",message="a publicVLAN needs the privateVLAN behind the same router"
type ZoneNetwork struct {
	// Zone, such as us-south-1 or dal10.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')",message="must be an IBM Cloud zone, such as us-south-1 or dal10"
	Zone string `json:"zone"`
	// SubnetID is the ID of a subnet of the VPC in that zone.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][A-Za-z0-9_-]*$')",message="must be the ID of a subnet: letters, digits, '-' and '_'"
	SubnetID string `json:"subnetID,omitempty"`
	// PrivateVLAN is the ID of a private VLAN, not its number.
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+$')",message="must be the ID of a VLAN: digits"
	PrivateVLAN string `json:"privateVLAN,omitempty"`
	// PublicVLAN is the ID of a public VLAN behind the same router. Left out, the
	// workers have no public network.
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+$')",message="must be the ID of a VLAN: digits"
	PublicVLAN string `json:"publicVLAN,omitempty"`
}

// WorkerVolumeEncryption names a root key of a key management service (KMS): Key
// Protect or Hyper Protect Crypto Services. IKS must be authorized to read it.
// +kubebuilder:validation:XValidation:rule="[self.kmsInstanceID, self.rootKeyID].all(id, id.matches('^[A-Za-z0-9][A-Za-z0-9_-]*$')) && (!has(self.kmsAccountID) || self.kmsAccountID.matches('^[A-Za-z0-9]*$'))",message="each must be an ID, not a CRN: letters, digits, '-' and '_'"
type WorkerVolumeEncryption struct {
	// KMSInstanceID is the ID of the KMS instance: "ibmcloud ks kms instance ls".
	// +kubebuilder:validation:MaxLength=64
	KMSInstanceID string `json:"kmsInstanceID"`
	// RootKeyID is the ID of the root key: "ibmcloud ks kms crk ls".
	// +kubebuilder:validation:MaxLength=64
	RootKeyID string `json:"rootKeyID"`
	// KMSAccountID is the account of the KMS instance, where that is another one.
	// +kubebuilder:validation:MaxLength=64
	KMSAccountID string `json:"kmsAccountID,omitempty"`
}

// IKSCredentials replace the API key.
type IKSCredentials struct {
	// TrustedProfile logs in with the token of the manager's own service account,
	// so that there is no key to keep. The manager's pods need that token, for
	// audience iam (docs/install.md).
	TrustedProfile TrustedProfile `json:"trustedProfile,omitzero"`
}

// TrustedProfile names a trusted profile of IBM Cloud IAM.
// +kubebuilder:validation:XValidation:rule="has(self.id) != has(self.name)",message="give the trusted profile's id or its name: one of them, not both"
type TrustedProfile struct {
	// ID of the profile, such as Profile-9f2e1c7a-….
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][A-Za-z0-9_-]*$')",message="must be the ID of a trusted profile: letters, digits, '-' and '_'"
	ID string `json:"id,omitempty"`
	// Name of the profile in the cluster's account.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^\\\\pZ\\\\pC]([^\\\\pC]*[^\\\\pZ\\\\pC])?$')",message="must be the name of a trusted profile: on one line, without spaces around it"
	Name string `json:"name,omitempty"`
}

// Taint keeps workloads off the dedicated nodes.
type Taint struct {
	// Key of the taint, as a label key is written.
	// +kubebuilder:default=rrpool.io/dedicated
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$') && self.indexOf('/') <= 253",message="must be a label key: an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' and '.'"
	Key string `json:"key,omitempty"`
	// Value of the taint, as a label value is written.
	// +kubebuilder:default=route-reflector
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="must be a label value that is not empty: letters, digits, '-', '_' and '.'"
	Value string `json:"value,omitempty"`
	// Effect on pods that do not tolerate the taint: NoExecute or NoSchedule.
	// PreferNoSchedule would let workloads onto the reflectors.
	// +kubebuilder:default=NoExecute
	// +kubebuilder:validation:Enum=NoExecute;NoSchedule
	Effect corev1.TaintEffect `json:"effect,omitempty"`
}

// Promotion is the way a node that already runs workloads becomes a route reflector.
// +kubebuilder:validation:Enum=Staged;Cordon;Drain;Immediate
type Promotion string

// The promotions.
const (
	// PromotionStaged moves the node's routes to other reflectors first: nothing is lost.
	PromotionStaged Promotion = "Staged"
	// PromotionCordon keeps new pods off the node first.
	PromotionCordon Promotion = "Cordon"
	// PromotionDrain moves all pods off the node first.
	PromotionDrain Promotion = "Drain"
	// PromotionImmediate costs the node's own pods about two seconds.
	PromotionImmediate Promotion = "Immediate"
)

// ExistingNodesSpec says which existing nodes may become route reflectors, and how.
type ExistingNodesSpec struct {
	// Preferred nodes are chosen first. Empty prefers none.
	// +kubebuilder:default={}
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, (e.operator in ['In', 'NotIn']) ? (has(e.values) && e.values.size() > 0) : ((e.operator in ['Exists', 'DoesNotExist']) && (!has(e.values) || e.values.size() == 0)))",message="matchExpressions: In and NotIn need values, Exists and DoesNotExist take none, and there are no other operators"
	Preferred metav1.LabelSelector `json:"preferred,omitzero"`
	// Excluded nodes are never chosen. Empty excludes none.
	// +kubebuilder:default={}
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, (e.operator in ['In', 'NotIn']) ? (has(e.values) && e.values.size() > 0) : ((e.operator in ['Exists', 'DoesNotExist']) && (!has(e.values) || e.values.size() == 0)))",message="matchExpressions: In and NotIn need values, Exists and DoesNotExist take none, and there are no other operators"
	Excluded metav1.LabelSelector `json:"excluded,omitzero"`
	// Promotion is the way a node that runs workloads becomes a reflector. Staged
	// loses nothing. Cordon and Drain keep new pods, or all pods, off it first.
	// Immediate costs the node's own pods about two seconds.
	// +kubebuilder:default=Staged
	Promotion Promotion `json:"promotion,omitempty"`
}
