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
// provider; another key or profile means another one.
type ProviderConfig struct {
	Type          v1alpha1.ProviderType
	ClusterID     string
	PoolName      string
	ResourceGroup string
	// Private asks for the private endpoints, which are found by Region.
	Private bool
	Region  string
	APIKey  APIKey
	// Profile takes the place of the key when it is set: it logs in with the token in TokenFile.
	Profile   v1alpha1.TrustedProfile
	TokenFile string
	// Scope, Preferred, Excluded and NotReadyGrace are for choosing among existing nodes.
	Scope               plan.DatastoreOptions
	Preferred, Excluded labels.Selector
	NotReadyGrace       time.Duration
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

// identify chooses the provider and connects it. Whatever is in the way becomes
// s.disconnected: the data plane does not depend on it.
func (r *Reconciler) identify(ctx context.Context, s *Scope) {
	s.Provider = resolve(s.object.Spec.Provider.Type, s.Cluster.Nodes)
	if r.poolClient.config.Type != s.Provider {
		r.poolClient.forget() // what one kind of pool was like says nothing about the other
	}
	config, problem := r.providerConfig(ctx, s)
	// Commands have no token of the manager's service account: they do not ask the cloud.
	unasked := config.Profile != (v1alpha1.TrustedProfile{}) && config.TokenFile == ""
	if problem == nil && !unasked {
		problem = r.poolClient.use(r.connect, config)
	}
	if s.disconnected = problem; problem != nil || unasked {
		r.poolClient.disconnect()
	}
}

// connect makes a provider whose calls are measured.
func (r *Reconciler) connect(config ProviderConfig) (cloud.Provider, error) {
	provider, err := r.Providers(config)
	if err != nil {
		return nil, err
	}
	return r.Metrics.providers.Provider(provider), nil
}

// providerConfig describes the provider: the cluster at IBM Cloud and the credentials for it, or the
// choice among existing nodes. A selector that cannot be read selects nothing there: the
// way back needs none, and desire refuses the rest.
func (r *Reconciler) providerConfig(ctx context.Context, s *Scope) (ProviderConfig, *plan.Problem) {
	spec := s.object.Spec.Provider
	if s.inPlace() {
		preferred, excluded, _ := selectors(spec.ExistingNodes)
		return ProviderConfig{
			Type: s.Provider, PoolName: ExistingPool, Scope: scopeOf(s.object),
			Preferred: preferred, Excluded: excluded, NotReadyGrace: s.object.Spec.Rollout.NotReadyGrace.Duration,
		}, nil
	}
	config := ProviderConfig{
		Type: s.Provider, PoolName: spec.IKS.PoolName, ResourceGroup: spec.IKS.ResourceGroup,
		Private: spec.IKS.Endpoint == v1alpha1.EndpointPrivate,
	}
	if config.Private {
		config.Region = region(s.Cluster.Nodes)
	}
	var problem *plan.Problem
	if config.ClusterID, problem = r.findClusterID(ctx, spec.IKS.ClusterID); problem != nil {
		if !slices.ContainsFunc(s.Cluster.Nodes, func(n plan.Node) bool { return ProviderClusterID(n.ProviderID) != "" }) {
			problem.Message += "; or, as no node says that it is a worker of IBM Cloud Kubernetes Service, set spec.provider.type: ExistingNodes"
		}
		return config, problem
	}
	if problem := crossCheck(config.ClusterID, s.Cluster.Nodes); problem != nil {
		return config, problem
	}
	if config.Profile = spec.IKS.Credentials.TrustedProfile; config.Profile != (v1alpha1.TrustedProfile{}) {
		config.TokenFile = r.TokenFile
		return config, nil
	}
	config.APIKey, problem = r.findKey(ctx, spec.IKS.CredentialsSecretRef)
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
	chosen := func(n plan.Node) bool { return !ofIBM(n) && n.Labels[v1alpha1.PoolLabel] == ExistingPool }
	if slices.ContainsFunc(nodes, ofIBM) && !slices.ContainsFunc(nodes, chosen) {
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
	unknown := func(what string, args ...any) (string, *plan.Problem) {
		return "", plan.Problemf(ReasonClusterIDUnknown, "ConfigMap %q in namespace %q %s: set spec.provider.iks.clusterID",
			clusterInfoName, clusterInfoNamespace, fmt.Sprintf(what, args...))
	}
	info := &corev1.ConfigMap{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: clusterInfoNamespace, Name: clusterInfoName}, info)
	if apierrors.IsNotFound(err) {
		return unknown("does not exist")
	}
	if err != nil {
		return unknown("cannot be read: %v", err)
	}
	var content struct {
		ClusterID string `json:"cluster_id"`
	}
	if err := json.Unmarshal([]byte(info.Data[clusterInfoKey]), &content); err != nil || content.ClusterID == "" {
		return unknown("has no field cluster_id in its key %s", clusterInfoKey)
	}
	if !clusterIDForm.MatchString(content.ClusterID) {
		return unknown("has %.80q as cluster_id in its key %s, which is no cluster ID", content.ClusterID, clusterInfoKey)
	}
	r.clusterID = content.ClusterID
	return r.clusterID, nil
}

// crossCheck compares the cluster id with the one in the nodes' providerIDs. Where some have it the others are wrong, not
// the id: a kubelet registers with whatever providerID it is given.
func crossCheck(clusterID string, nodes []plan.Node) *plan.Problem {
	of := func(n plan.Node) string { return ProviderClusterID(n.ProviderID) }
	if slices.ContainsFunc(nodes, func(n plan.Node) bool { return of(n) == clusterID }) {
		return nil
	}
	for _, node := range nodes {
		if found := of(node); found != "" {
			return plan.Problemf(ReasonClusterIDMismatch, "the cluster ID is %q, but the providerID of node %s says %q: "+
				"correct spec.provider.iks.clusterID", clusterID, node.Name, found)
		}
	}
	return nil
}

// findKey reads the API key. Its absence is a problem, never an excuse for another provider.
func (r *Reconciler) findKey(ctx context.Context, ref v1alpha1.SecretKeyRef) (APIKey, *plan.Problem) {
	missing := func(what string) (APIKey, *plan.Problem) {
		return "", plan.Problemf(ReasonCredentialsMissing, "Secret %q in namespace %q %s: store an IBM Cloud API key there: "+
			"kubectl --namespace %s create secret generic %s --from-file=%s=<file with the key>",
			ref.Name, r.Namespace, what, r.Namespace, ref.Name, ref.Key)
	}
	secret := &corev1.Secret{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: ref.Name}, secret)
	if apierrors.IsNotFound(err) {
		return missing("does not exist")
	}
	if err != nil {
		return "", plan.Problemf(ReasonCredentialsUnreadable, "Secret %q in namespace %q cannot be read: %v: grant the manager access to it",
			ref.Name, r.Namespace, err)
	}
	key := APIKey(strings.TrimSpace(string(secret.Data[ref.Key])))
	if key == "" {
		return missing(fmt.Sprintf("has no value in its key %q", ref.Key))
	}
	return key, nil
}

// ExistingPool is the name of the pool that existing nodes make up.
const ExistingPool = "existing-nodes"

// selectors reads the selectors of nodes; one that is wrong is empty and a problem.
func selectors(spec v1alpha1.ExistingNodesSpec) (preferred, excluded labels.Selector, problem *plan.Problem) {
	read := func(field string, in metav1.LabelSelector) labels.Selector {
		out, err := metav1.LabelSelectorAsSelector(&in)
		if err != nil {
			problem = plan.Problemf(ReasonSelectorInvalid, "spec.provider.existingNodes.%s: %s is not a label selector: %v: correct it",
				field, metav1.FormatLabelSelector(&in), err)
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
		nodes[i].Pooled = nodes[i].Labels[v1alpha1.PoolLabel] == ExistingPool
	}
}

// anyPooled reports whether some node belongs to the pool.
func anyPooled(nodes []plan.Node) bool {
	return slices.ContainsFunc(nodes, func(n plan.Node) bool { return n.Pooled })
}

// Labels that IKS gives its nodes.
const (
	workerIDLabel = "ibm-cloud.kubernetes.io/worker-id"
	regionLabel   = "ibm-cloud.kubernetes.io/region"
)

// fillIn adds what only the provider's side knows to the nodes: the machine behind each, whether it belongs to the
// pool, and if so in which of the provider's zones it is. members are the zones of the pool's workers by id, nil
// while they are unknown. Once the cloud has answered, a node with a worker that is not in the pool is not either,
// whatever its labels say: a kubelet may label its own node.
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
		labelled := poolName != "" && node.Labels[v1alpha1.PoolLabel] == poolName
		node.Pooled = member || labelled && (members == nil || claim == "")
		if zone != "" {
			node.Zone = zone
		}
	}
}

// machines gives each worker its node, by index. Of several that claim the same machine it is the one with the
// label that kubelets may not set, else the oldest: who comes later with another's providerID gets nothing.
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

// A VPC zone is named by its region, a classic one by its metro, of which IBM's documents of locations give the regions.
var (
	zoneForm = regexp.MustCompile(`^(?:([a-z]+-[a-z]+)-\d+|([a-z]{3})\d{2})$`)
	metros   = map[string]string{
		"dal": "us-south", "wdc": "us-east", "fra": "eu-de", "lon": "eu-gb", "mad": "eu-es", "tok": "jp-tok",
		"osa": "jp-osa", "syd": "au-syd", "tor": "ca-tor", "sao": "br-sao",
	}
)

// region is the cloud region of the cluster, as the first node has it that has one, by a label or by its zone.
func region(nodes []plan.Node) string {
	for _, label := range []string{regionLabel, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion} {
		for _, node := range nodes {
			if name := node.Labels[label]; name != "" {
				return name
			}
		}
	}
	for _, label := range []string{"ibm-cloud.kubernetes.io/zone", corev1.LabelTopologyZone} {
		for _, node := range nodes {
			if parts := zoneForm.FindStringSubmatch(node.Labels[label]); len(parts) > 2 && parts[1]+metros[parts[2]] != "" {
				return parts[1] + metros[parts[2]]
			}
		}
	}
	return ""
}

func workerID(node plan.Node) string {
	if id := node.Labels[workerIDLabel]; id != "" {
		return id
	}
	_, worker := splitProviderID(node.ProviderID)
	return worker
}

// ProviderClusterID is the cluster id in a node's providerID, "" when there is none.
func ProviderClusterID(providerID string) string {
	cluster, _ := splitProviderID(providerID)
	return cluster
}

// providerIDForm is that of IKS. Others have IDs that begin in the same way, as karpenter's ibm:///region/instance.
var providerIDForm = regexp.MustCompile(`^ibm://[^/]*///([A-Za-z0-9][A-Za-z0-9_-]{0,63})/([A-Za-z0-9][A-Za-z0-9._-]{0,127})$`)

// splitProviderID takes a providerID of the form ibm://account///cluster/worker apart. Any other says nothing.
func splitProviderID(providerID string) (cluster, worker string) {
	parts := providerIDForm.FindStringSubmatch(providerID)
	if parts == nil {
		return "", ""
	}
	return parts[1], parts[2]
}

// poolOf is the pool as far as steps depend on it; nil when it is unknown. A worker's node is the one that
// Kubernetes says it is: a node name can come back with another worker behind it. With rolling, outdated workers are to
// be replaced.
func poolOf(pool *cloud.Pool, nodes []plan.Node, taint cloud.Taint, rolling bool) *rollout.ObservedPool {
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
	out := &rollout.ObservedPool{
		Exists:      pool.Exists,
		SizePerZone: pool.SizePerZone,
		Zones:       pool.Zones,
		Drifted:     drift(pool, nodes, taint),
		Emptied:     pool.Emptied,
	}
	for _, worker := range pool.Workers {
		node, known := byWorker[worker.ID]
		if !known && behind[worker.NodeName] == "" {
			node = worker.NodeName
		}
		out.Workers = append(out.Workers, rollout.ObservedWorker{
			ID: worker.ID, Node: node, Zone: worker.Zone,
			Failed:   worker.State == cloud.WorkerFailed,
			Deleting: worker.State == cloud.WorkerDeleting, LeavingSince: worker.LeavingSince, DeleteFailed: worker.DeleteFailed,
			Pending:  worker.State == cloud.WorkerProvisioning,
			Outdated: worker.Former || rolling && worker.Outdated != "", Former: worker.Former,
			Message: worker.Message,
		})
	}
	return out
}

// drift says in what way our pool differs from the wanted one besides its size.
func drift(pool *cloud.Pool, nodes []plan.Node, want cloud.Taint) string {
	switch lacking := untainted(pool, nodes, want); {
	case !pool.Exists || want.Key == "":
	case !pool.TaintsUnknown && !slices.Contains(pool.Taints, want):
		return fmt.Sprintf("taint %s is missing from the worker pool", written(want))
	case len(lacking) > 0:
		return fmt.Sprintf("node %s of the worker pool lacks the taint %s, so workloads may run there", lacking[0].Name, written(want))
	}
	return ""
}

// untainted are the nodes of the dedicated pool that lack its taint, and do not give way to others anyway.
func untainted(pool *cloud.Pool, nodes []plan.Node, want cloud.Taint) []plan.Node {
	var out []plan.Node
	for _, n := range nodes {
		if n.Pooled && n.WorkerID != "" && n.LacksTaint(written(want)) && !former(pool, n) {
			out = append(out, n)
		}
	}
	return out
}

// former: the worker behind a node gives way to one with other options.
func former(pool *cloud.Pool, n plan.Node) bool {
	return pool != nil && slices.ContainsFunc(pool.Workers, func(w cloud.Worker) bool { return w.Former && w.ID == n.WorkerID })
}

func written(t cloud.Taint) string { return t.Key + "=" + t.Value + ":" + t.Effect }

func taintOf(taint v1alpha1.Taint) cloud.Taint {
	return cloud.Taint{Key: taint.Key, Value: taint.Value, Effect: string(taint.Effect)}
}
