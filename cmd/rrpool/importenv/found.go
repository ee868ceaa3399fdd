package importenv

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// Annotations of nodes: Calico's, and rrpool's mark.
const (
	idAnnotation    = "projectcalico.org/RouteReflectorClusterID"
	addrAnnotation  = "projectcalico.org/IPv4Address"
	addr6Annotation = "projectcalico.org/IPv6Address"
	asnAnnotation   = "projectcalico.org/ASNumber"
	markAnnotation  = "rrpool.io/reflector-since"
)

// The BGPPeers of the operators.
const (
	reflectorsPeer = "rrs-to-rrs"
	clientsPeer    = "peer-to-rrs-1"
	clientPrefix   = "peer-to-rrs-"
)

func calico(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "crd.projectcalico.org", Version: "v1", Resource: resource}
}

// Found is what there is of the operators in a cluster, and of the way to take over.
type Found struct {
	// Label is the key of their reflectors' label.
	Label string
	// Operators are their Deployments, sorted by name.
	Operators []Operator
	// Mesh: the node-to-node mesh is on.
	Mesh bool
	// Nodes that speak BGP, sorted by name.
	Nodes []Node
	// Peers of theirs, Others of somebody else between nodes of the cluster, Ours of the
	// way: sorted names of BGPPeers.
	Peers, Others, Ours []string
	// Multi: there are BGPPeers for each client, as topology multi makes them.
	Multi bool
	// ClientsSelector is the nodeSelector of peer-to-rrs-1.
	ClientsSelector string
	// ASN is the AS number of the cluster.
	ASN uint32
	// Statuses: the cluster knows CalicoNodeStatus. Watches are those of the way.
	Statuses bool
	Watches  []string
	// Leftovers are objects that are of no use without the operator, as kubectl delete
	// names them. RRPool is the mode of the RouteReflectorPool, "" without one.
	Leftovers []string
	RRPool    v1alpha1.Mode
	// Unread says what could not be read, and why.
	Unread []string
}

// Operator is the Deployment of one.
type Operator struct {
	Namespace, Name string
	// Wanted and Running are its replicas.
	Wanted, Running int32
	// Settings: it has variables that import-env can translate.
	Settings bool
}

// settings reports whether an operator's settings can be read in the cluster.
func (f *Found) settings() bool {
	return slices.ContainsFunc(f.Operators, func(o Operator) bool { return o.Settings })
}

// Node is one that speaks BGP.
type Node struct {
	Name string
	// Address is the IPv4 address that BGP uses, Address6 the IPv6 one, "" for none.
	Address, Address6 string
	ASN               uint32
	Ready             bool
	// Pods with an address of their own; -1 when nobody could count them.
	Pods int
	// ClusterID and Role, its label, make a reflector of it; Marked: it is rrpool's.
	ClusterID string
	Role      bool
	Marked    bool
	// Outside counts its sessions with routers that are no nodes, Global those of them
	// that every node has.
	Outside, Global int
	// Helper: it carries the routes of others during the takeover.
	Helper bool
}

// reflector: somebody else made it one, or half of one.
func (n Node) reflector() bool { return (n.ClusterID != "" || n.Role) && !n.Marked && !n.Helper }
