package pool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// PoolLabel is carried by every node of the dedicated pool, with the pool's
// name as its value: the provider puts it there from a node's first moment.
const PoolLabel = v1alpha1.PoolLabel

// Labels that IKS gives its nodes.
const (
	workerIDLabel = "ibm-cloud.kubernetes.io/worker-id"
	regionLabel   = "ibm-cloud.kubernetes.io/region"
)

// fillIn adds what only the provider's side knows to the nodes: the machine
// behind each, whether it belongs to the pool, and if so in which of the
// provider's zones it is. members are the zones of the pool's workers by id, nil while
// nobody has said. Once the cloud has, a node with a worker that is not in the pool is
// not either, whatever its labels say: a kubelet may label its own node.
func fillIn(nodes []plan.Node, poolName string, members map[string]string) {
	behind := machines(nodes)
	for i := range nodes {
		node := &nodes[i]
		claim := workerID(*node)
		node.WorkerID = ""
		if behind[claim] == i {
			node.WorkerID = claim
		}
		zone, member := members[node.WorkerID]
		labelled := poolName != "" && node.Labels[PoolLabel] == poolName
		node.Pooled = member || labelled && (members == nil || claim == "")
		if zone != "" {
			node.Zone = zone
		}
	}
}

// machines gives each worker its node, by index. Of several that claim the same machine
// it is the one with the label that kubelets may not set, else the oldest: who comes
// later with another's providerID gets nothing, neither its place nor its end.
func machines(nodes []plan.Node) map[string]int {
	out := map[string]int{}
	for i, node := range nodes {
		claim := workerID(node)
		if claim == "" {
			continue
		}
		if first, taken := out[claim]; !taken || earlier(node, nodes[first]) {
			out[claim] = i
		}
	}
	return out
}

func earlier(a, b plan.Node) bool {
	labelled := func(n plan.Node) bool { return n.Labels[workerIDLabel] != "" }
	return cmp.Or(plan.TrueFirst(labelled(a), labelled(b)), a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name)) < 0
}

// region is the cloud region of the cluster, as the first node has it.
func region(nodes []plan.Node) string {
	for _, node := range nodes {
		if name := node.Labels[regionLabel]; name != "" {
			return name
		}
	}
	return ""
}

func workerID(node plan.Node) string {
	if id := node.Labels[workerIDLabel]; id != "" {
		return id
	}
	parts := providerIDParts(node.ProviderID)
	if len(parts) == 0 {
		return ""
	}
	return parts[len(parts)-1]
}

// ProviderClusterID is the cluster id in a providerID of the form
// ibm://account///cluster/worker, "" when there is none.
func ProviderClusterID(providerID string) string {
	parts := providerIDParts(providerID)
	if len(parts) < 2 {
		return ""
	}
	return parts[len(parts)-2]
}

func providerIDParts(providerID string) []string {
	rest, ok := strings.CutPrefix(providerID, providerIDScheme)
	if !ok {
		return nil
	}
	parts := strings.Split(rest, "/")
	if len(parts) < 3 {
		return nil
	}
	return parts
}

// poolOf is the pool as far as steps depend on it; nil when it is unknown. A
// worker's node is the one that Kubernetes says it is: a node name can come
// back with another worker behind it.
func poolOf(pool *cloud.Pool, nodes []plan.Node, taint cloud.Taint) *rollout.Pool {
	if pool == nil {
		return nil
	}
	byWorker := make(map[string]string, len(nodes))
	behind := make(map[string]string, len(nodes))
	for _, node := range nodes {
		if node.WorkerID != "" {
			byWorker[node.WorkerID] = node.Name
			behind[node.Name] = node.WorkerID
		}
	}
	out := &rollout.Pool{
		Exists:      pool.Exists,
		SizePerZone: pool.SizePerZone,
		Zones:       pool.Zones,
		Drifted:     drift(pool, nodes, taint),
	}
	for _, worker := range pool.Workers {
		node, known := byWorker[worker.ID]
		if !known && behind[worker.NodeName] == "" {
			node = worker.NodeName
		}
		out.Workers = append(out.Workers, rollout.Worker{
			ID: worker.ID, Node: node, Zone: worker.Zone,
			Failed:   worker.State == cloud.WorkerFailed,
			Deleting: worker.State == cloud.WorkerDeleting,
			Message:  worker.Message,
		})
	}
	return out
}

// drift says in what way our pool differs from the wanted one besides its size.
func drift(pool *cloud.Pool, nodes []plan.Node, want cloud.Taint) string {
	switch lacking := untainted(nodes, want); {
	case !pool.Exists || want.Key == "":
	case !pool.TaintsUnknown && !slices.Contains(pool.Taints, want):
		return fmt.Sprintf("taint %s is missing from the worker pool", written(want))
	case len(lacking) > 0:
		return fmt.Sprintf("node %s of the worker pool lacks the taint %s, so workloads may run there", lacking[0].Name, written(want))
	}
	return ""
}

// untainted are the nodes of the dedicated pool that lack its taint.
func untainted(nodes []plan.Node, want cloud.Taint) []plan.Node {
	var out []plan.Node
	for _, n := range nodes {
		if n.Pooled && n.WorkerID != "" && n.Taints != nil && !slices.Contains(n.Taints, written(want)) {
			out = append(out, n)
		}
	}
	return out
}

func written(t cloud.Taint) string { return t.Key + "=" + t.Value + ":" + t.Effect }

func taintOf(taint v1alpha1.Taint) cloud.Taint {
	return cloud.Taint{Key: taint.Key, Value: taint.Value, Effect: string(taint.Effect)}
}
