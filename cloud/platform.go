package cloud

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// Platform recognises the nodes of one cloud, and the cluster that they make
// up, by what Kubernetes shows of them. It sends no requests to the cloud.
type Platform interface {
	// Type returns the provider that orders this cloud's machines.
	Type() v1alpha1.ProviderType
	// IdentityOf reads what a node says about its machine.
	IdentityOf(plan.Node) Identity
	// Region returns the region of the cloud in which the nodes are, "" if no node says it.
	Region([]plan.Node) string
	// ClusterID reads the ID that the cloud has given the cluster. The error says where the ID is missing.
	ClusterID(context.Context, client.Reader) (string, error)
}

// Identity is what a node says about its machine. A kubelet can set any of these values when it registers, except a Protected WorkerID.
type Identity struct {
	// OfCloud says that the node is a machine of this cloud.
	OfCloud bool
	// ClusterID and WorkerID are the cloud's IDs, "" if the node does not say them.
	ClusterID, WorkerID string
	// Protected says that WorkerID is from a label that kubelets may not set.
	Protected bool
}
