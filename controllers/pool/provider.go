package pool

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// APIKey is a credential that does not print itself.
type APIKey string

// String implements fmt.Stringer.
func (APIKey) String() string { return "[redacted]" }

// GoString implements fmt.GoStringer.
func (k APIKey) GoString() string { return k.String() }

// MarshalText keeps the key out of JSON and structured logs.
func (k APIKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// ProviderConfig is what a provider is made from. Equal configs mean the same
// provider; another key means another one.
type ProviderConfig struct {
	Type          v1alpha1.ProviderType
	ClusterID     string
	PoolName      string
	ResourceGroup string
	// Private asks for the private endpoints, which are found by Region.
	Private bool
	Region  string
	APIKey  APIKey
	// Scope, Preferred and Excluded (selectors, "" for none) and NotReadyGrace are
	// for choosing among existing nodes.
	Scope               plan.Scope
	Preferred, Excluded string
	NotReadyGrace       time.Duration
}

// resolvedProvider is where route-reflector nodes come from.
type resolvedProvider struct {
	// kind is the provider type after Auto was resolved.
	kind   v1alpha1.ProviderType
	config ProviderConfig
	// problem says why there is no provider, nil when there is one.
	problem *plan.Problem
}

// Where IKS writes a cluster's own id.
const (
	clusterInfoNamespace = "kube-system"
	clusterInfoName      = "cluster-info"
	clusterInfoKey       = "cluster-config.json"
	providerIDScheme     = "ibm://"
)

// clusterIDForm is that of spec.provider.iks.clusterID: the ID gets into addresses.
var clusterIDForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// identify chooses the provider and connects it. Whatever is in the way becomes a
// problem in s.provider: the data plane does not depend on it.
func (r *Reconciler) identify(ctx context.Context, s *scope) {
	spec := s.object.Spec.Provider
	s.provider = resolvedProvider{kind: resolve(spec.Type, s.cluster.Nodes)}
	if r.poolClient.config.Type != s.provider.kind {
		r.poolClient.reset() // what one kind of pool was like says nothing about the other
	}
	var problem *plan.Problem
	if s.inPlace() {
		s.provider.config = existingConfig(s.object)
	} else {
		s.provider.config, problem = r.iksConfig(ctx, spec.IKS, s.cluster.Nodes)
	}
	if problem == nil {
		problem = r.poolClient.use(r.Providers, s.provider.config, r.Metrics)
	}
	if s.provider.problem = problem; problem != nil {
		r.poolClient.disconnect()
	}
}

// iksConfig finds the cluster at IBM Cloud and the key to it.
func (r *Reconciler) iksConfig(ctx context.Context, spec v1alpha1.IKSSpec, nodes []plan.Node) (ProviderConfig, *plan.Problem) {
	config := ProviderConfig{
		Type:          v1alpha1.ProviderIKS,
		PoolName:      spec.PoolName,
		ResourceGroup: spec.ResourceGroup,
		Private:       spec.Endpoint == v1alpha1.EndpointPrivate,
	}
	if config.Private {
		config.Region = region(nodes)
	}
	var problem *plan.Problem
	config.ClusterID, problem = r.findClusterID(ctx, spec.ClusterID)
	if problem == nil {
		problem = crossCheck(config.ClusterID, nodes)
	}
	if problem == nil {
		config.APIKey, problem = r.findKey(ctx, spec.CredentialsSecretRef)
	}
	return config, problem
}

// resolve turns Auto into IKS where any node is one of IBM's, unless nodes of
// others are in the pool of existing nodes already: an IBM node that joins them must
// not make all of it move. A label on one of IBM's own nodes says nothing.
func resolve(kind v1alpha1.ProviderType, nodes []plan.Node) v1alpha1.ProviderType {
	if kind != v1alpha1.ProviderAuto && kind != "" {
		return kind
	}
	ofIBM := func(n plan.Node) bool { return strings.HasPrefix(n.ProviderID, providerIDScheme) }
	enlisted := func(n plan.Node) bool { return !ofIBM(n) && n.Labels[PoolLabel] == ExistingPool }
	if slices.ContainsFunc(nodes, ofIBM) && !slices.ContainsFunc(nodes, enlisted) {
		return v1alpha1.ProviderIKS
	}
	return v1alpha1.ProviderExistingNodes
}

func (r *Reconciler) findClusterID(ctx context.Context, given string) (string, *plan.Problem) {
	if given != "" {
		return given, nil
	}
	// A cluster's id never changes: once read, it is not read again.
	if r.clusterID != "" {
		return r.clusterID, nil
	}
	info := &corev1.ConfigMap{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: clusterInfoNamespace, Name: clusterInfoName}, info)
	if apierrors.IsNotFound(err) {
		return "", clusterIDProblem("does not exist")
	}
	if err != nil {
		return "", clusterIDProblem("cannot be read: " + err.Error())
	}
	var content struct {
		ClusterID string `json:"cluster_id"`
	}
	if err := json.Unmarshal([]byte(info.Data[clusterInfoKey]), &content); err != nil || content.ClusterID == "" {
		return "", clusterIDProblem(fmt.Sprintf("has no field cluster_id in its key %s", clusterInfoKey))
	}
	if !clusterIDForm.MatchString(content.ClusterID) {
		return "", clusterIDProblem(fmt.Sprintf("has %.80q as cluster_id in its key %s, which is no cluster ID", content.ClusterID, clusterInfoKey))
	}
	r.clusterID = content.ClusterID
	return r.clusterID, nil
}

// crossCheck compares the cluster id with the one in the nodes' providerIDs.
func crossCheck(clusterID string, nodes []plan.Node) *plan.Problem {
	for _, node := range nodes {
		if found := ProviderClusterID(node.ProviderID); found != "" && found != clusterID {
			return mismatchProblem(clusterID, found, node.Name)
		}
	}
	return nil
}

// findKey reads the API key. Its absence is a problem, never an excuse for
// another provider.
func (r *Reconciler) findKey(ctx context.Context, ref v1alpha1.SecretKeyRef) (APIKey, *plan.Problem) {
	secret := &corev1.Secret{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: ref.Name}, secret)
	if apierrors.IsNotFound(err) {
		return "", credentialsProblem(ref, r.Namespace, "does not exist")
	}
	if err != nil {
		return "", &plan.Problem{
			Reason: ReasonCredentialsUnreadable,
			Message: fmt.Sprintf("Secret %q in namespace %q cannot be read: %v: grant the manager access to it",
				ref.Name, r.Namespace, err),
		}
	}
	key := APIKey(strings.TrimSpace(string(secret.Data[ref.Key])))
	if key == "" {
		return "", credentialsProblem(ref, r.Namespace, fmt.Sprintf("has no value in its key %q", ref.Key))
	}
	return key, nil
}

// ExistingPool is the name of the pool that existing nodes make up.
const ExistingPool = "existing-nodes"

// inPlace: the route reflectors are nodes that run workloads too.
func (s *scope) inPlace() bool { return s.provider.kind == v1alpha1.ProviderExistingNodes }

// existingConfig describes the choice among existing nodes. A selector that cannot
// be read selects nothing here: the way back needs none, and desire refuses the rest.
func existingConfig(object *v1alpha1.RouteReflectorPool) ProviderConfig {
	preferred, excluded, _ := selectors(object.Spec.Provider.ExistingNodes)
	return ProviderConfig{
		Type:          v1alpha1.ProviderExistingNodes,
		PoolName:      ExistingPool,
		Scope:         scopeOf(object),
		Preferred:     preferred.String(),
		Excluded:      excluded.String(),
		NotReadyGrace: object.Spec.Rollout.NotReadyGrace.Duration,
	}
}

// selectors reads the selectors of nodes; one that is wrong is empty and a problem.
func selectors(spec v1alpha1.ExistingNodesSpec) (preferred, excluded labels.Selector, problem *plan.Problem) {
	read := func(field string, in metav1.LabelSelector) labels.Selector {
		out, err := metav1.LabelSelectorAsSelector(&in)
		if err != nil {
			problem = selectorProblem(field, in, err)
			return labels.Everything()
		}
		return out
	}
	return read("preferred", spec.Preferred), read("excluded", spec.Excluded), problem
}

// markExisting is fillIn for nodes that were there before: each is its own machine, and
// belongs to the pool when it says so.
func markExisting(nodes []plan.Node) {
	for i := range nodes {
		nodes[i].WorkerID = nodes[i].Name
		nodes[i].Pooled = nodes[i].Labels[PoolLabel] == ExistingPool
	}
}

// anyPooled reports whether some node belongs to the pool.
func anyPooled(nodes []plan.Node) bool {
	return slices.ContainsFunc(nodes, func(n plan.Node) bool { return n.Pooled })
}

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
// they are unknown. Once the cloud has answered, a node with a worker that is not in the pool is
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
// later with another's providerID gets nothing.
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
