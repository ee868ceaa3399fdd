package pool

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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
	"github.com/rrpool/rrpool/controllers/plan/reason"
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

// ProviderConfig is what a provider is made from. If any field changes, even the key, another provider is made.
type ProviderConfig struct {
	Type          v1alpha1.ProviderType
	ClusterID     string
	PoolName      string
	ResourceGroup string
	// Private asks for the private endpoints, which are found by Region.
	Private bool
	Region  string
	APIKey  APIKey
	// Profile, if set, is used instead of APIKey: the provider logs in with the token in TokenFile.
	Profile   v1alpha1.TrustedProfile
	TokenFile string
	// Scope, Preferred, Excluded and NotReadyGrace are for choosing among existing nodes.
	Scope               plan.DatastoreOptions
	Preferred, Excluded labels.Selector
	NotReadyGrace       time.Duration
}

// identify chooses the provider and connects it. A failure is noted in s.disconnected and no error: the data plane does not depend on a provider.
func (r *Reconciler) identify(ctx context.Context, s *Scope) {
	s.Provider, s.platform = resolve(r.Platforms, s.object.Spec.Provider.Type, s.Cluster.Nodes)
	if r.poolClient.config.Type != s.Provider {
		r.poolClient.forget() // an observation by one kind of provider says nothing about another kind
	}
	config, problem := r.providerConfig(ctx, s)
	// Commands have no token of the manager's service account. If the cloud needs one, they do not ask it.
	unasked := config.Profile != (v1alpha1.TrustedProfile{}) && config.TokenFile == ""
	if problem == nil && !unasked {
		problem = r.poolClient.use(r.connect, config)
	}
	if s.disconnected = problem; problem != nil || unasked {
		r.poolClient.disconnect()
	}
}

// connect makes a provider whose calls are measured by Metrics.
func (r *Reconciler) connect(config ProviderConfig) (cloud.Provider, error) {
	provider, err := r.Providers(config)
	if err != nil {
		return nil, err
	}
	return r.Metrics.providers.Provider(provider), nil
}

// providerConfig returns the config of the provider: the cluster and credentials, or how to choose among existing nodes.
// An invalid selector is no problem here: the way back to the mesh needs none, and in all other cases desire reports it.
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
	if s.platform == nil {
		return config, nil // Providers returns the error for an unknown type
	}
	if config.Private {
		config.Region = s.platform.Region(s.Cluster.Nodes)
	}
	named := clusterIDs(s.platform, s.Cluster.Nodes)
	var problem *plan.Problem
	if config.ClusterID, problem = r.findClusterID(ctx, s.platform, spec.IKS.ClusterID); problem != nil {
		if len(named) == 0 {
			problem.Message += "; or, as no node says that it is a worker of IBM Cloud Kubernetes Service, set spec.provider.type: ExistingNodes"
		}
		return config, problem
	}
	if problem := crossCheck(config.ClusterID, named); problem != nil {
		return config, problem
	}
	if config.Profile = spec.IKS.Credentials.TrustedProfile; config.Profile != (v1alpha1.TrustedProfile{}) {
		config.TokenFile = r.TokenFile
		return config, nil
	}
	config.APIKey, problem = r.findKey(ctx, spec.IKS.CredentialsSecretRef)
	return config, problem
}

// resolve returns the provider type, and its platform if it has one. Auto means the first platform that any node is of, else
// ExistingNodes. If the pool of existing nodes has a node from outside the platform, Auto does not choose the platform: a node
// of the platform that joins the cluster must not move the whole pool. The pool label on a platform's own node does not count.
func resolve(platforms []cloud.Platform, kind v1alpha1.ProviderType, nodes []plan.Node) (v1alpha1.ProviderType, cloud.Platform) {
	auto := kind == v1alpha1.ProviderAuto || kind == ""
	for _, p := range platforms {
		ofCloud := func(n plan.Node) bool { return p.IdentityOf(n).OfCloud }
		chosen := func(n plan.Node) bool { return !ofCloud(n) && n.Labels[v1alpha1.PoolLabel] == ExistingPool }
		if kind == p.Type() || auto && slices.ContainsFunc(nodes, ofCloud) && !slices.ContainsFunc(nodes, chosen) {
			return p.Type(), p
		}
	}
	if auto {
		return v1alpha1.ProviderExistingNodes, nil
	}
	return kind, nil
}

func (r *Reconciler) findClusterID(ctx context.Context, platform cloud.Platform, given string) (string, *plan.Problem) {
	if given != "" {
		return given, nil
	}
	// A cluster's ID never changes: once read, it is not read again.
	if r.clusterID == "" {
		id, err := platform.ClusterID(ctx, r.Live)
		if err != nil {
			return "", plan.Problemf(reason.ClusterIDUnknown, "%v: set spec.provider.iks.clusterID", err)
		}
		r.clusterID = id
	}
	return r.clusterID, nil
}

// clusterIDs returns the cluster IDs that nodes state, by node name.
func clusterIDs(platform cloud.Platform, nodes []plan.Node) map[string]string {
	out := map[string]string{}
	for _, n := range nodes {
		if id := platform.IdentityOf(n).ClusterID; id != "" {
			out[n.Name] = id
		}
	}
	return out
}

// crossCheck returns a problem if nodes state cluster IDs and none of them is clusterID. One node that
// agrees is enough: a kubelet registers with whatever providerID it is given, so the others may be wrong.
func crossCheck(clusterID string, named map[string]string) *plan.Problem {
	nodes := slices.Sorted(maps.Keys(named))
	if len(nodes) == 0 || slices.Contains(slices.Collect(maps.Values(named)), clusterID) {
		return nil
	}
	return plan.Problemf(reason.ClusterIDMismatch, "the cluster ID is %q, but the providerID of node %s says %q: "+
		"correct spec.provider.iks.clusterID", clusterID, nodes[0], named[nodes[0]])
}

// findKey reads the API key. If the key is missing, that is a problem: rrpool does not fall back to another provider.
func (r *Reconciler) findKey(ctx context.Context, ref v1alpha1.SecretKeyRef) (APIKey, *plan.Problem) {
	missing := func(what string) (APIKey, *plan.Problem) {
		return "", plan.Problemf(reason.CredentialsMissing, "Secret %q in namespace %q %s: store an IBM Cloud API key there: "+
			"kubectl --namespace %s create secret generic %s --from-file=%s=<file with the key>",
			ref.Name, r.Namespace, what, r.Namespace, ref.Name, ref.Key)
	}
	secret := &corev1.Secret{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: ref.Name}, secret)
	if apierrors.IsNotFound(err) {
		return missing("does not exist")
	}
	if err != nil {
		return "", plan.Problemf(reason.CredentialsUnreadable, "Secret %q in namespace %q cannot be read: %v: grant the manager access to it",
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

// selectors parses the selectors for existing nodes. An invalid selector selects everything, and is a problem.
func selectors(spec v1alpha1.ExistingNodesSpec) (preferred, excluded labels.Selector, problem *plan.Problem) {
	read := func(field string, in metav1.LabelSelector) labels.Selector {
		out, err := metav1.LabelSelectorAsSelector(&in)
		if err != nil {
			problem = plan.Problemf(reason.SelectorInvalid, "spec.provider.existingNodes.%s: %s is not a label selector: %v: correct it",
				field, metav1.FormatLabelSelector(&in), err)
			return labels.Everything()
		}
		return out
	}
	return read("preferred", spec.Preferred), read("excluded", spec.Excluded), problem
}

// markExisting does what fillIn does for a cloud: an existing node is its own worker, and its label says whether it is in the pool.
func markExisting(nodes []plan.Node) {
	for i := range nodes {
		nodes[i].WorkerID = nodes[i].Name
		nodes[i].Pooled = nodes[i].Labels[v1alpha1.PoolLabel] == ExistingPool
	}
}

// anyPooled reports whether any node belongs to the pool.
func anyPooled(nodes []plan.Node) bool {
	return slices.ContainsFunc(nodes, func(n plan.Node) bool { return n.Pooled })
}

// fillIn sets for each node the worker behind it, whether the node is in the pool and, if so, its zone. members
// are the zones of the pool's workers by ID, nil while unknown. Once they are known, a node whose worker is not
// in the pool is not in the pool either, whatever its labels say: a kubelet may label its own node.
func fillIn(platform cloud.Platform, nodes []plan.Node, poolName string, members map[string]string) {
	said := make([]cloud.Identity, len(nodes))
	for i, n := range nodes {
		if platform != nil {
			said[i] = platform.IdentityOf(n)
		}
	}
	behind := nodesOfWorkers(nodes, said)
	for i := range nodes {
		node, claim := &nodes[i], said[i].WorkerID
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

// nodesOfWorkers returns the index of each worker's node. If several nodes claim the same worker, the node
// with the protected label gets it, else the oldest: a later node with another node's providerID gets nothing.
func nodesOfWorkers(nodes []plan.Node, said []cloud.Identity) map[string]int {
	out := map[string]int{}
	for i, node := range nodes {
		claim := said[i].WorkerID
		first, taken := out[claim]
		if claim != "" && (!taken || cmp.Or(plan.TrueFirst(said[i].Protected, said[first].Protected),
			node.Created.Compare(nodes[first].Created), cmp.Compare(node.Name, nodes[first].Name)) < 0) {
			out[claim] = i
		}
	}
	return out
}

// poolOf returns what steps need to know of the pool, nil while it is unknown. A worker's node is the
// node that claims it. The node name in the cloud's answer counts only if that node claims no worker:
// a new worker may get the name of an earlier node. With rolling, outdated workers are to be replaced.
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

// drift says that the wanted taint is missing from rrpool's pool or from one of its nodes, "" for neither.
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

// untainted returns the nodes of the dedicated pool that lack its taint. It leaves out nodes of former workers, which are replaced in any case.
func untainted(pool *cloud.Pool, nodes []plan.Node, want cloud.Taint) []plan.Node {
	var out []plan.Node
	for _, n := range nodes {
		if n.Pooled && n.WorkerID != "" && n.LacksTaint(written(want)) && !former(pool, n) {
			out = append(out, n)
		}
	}
	return out
}

// former reports whether the worker behind a node is to be replaced by one with other options.
func former(pool *cloud.Pool, n plan.Node) bool {
	return pool != nil && slices.ContainsFunc(pool.Workers, func(w cloud.Worker) bool { return w.Former && w.ID == n.WorkerID })
}

func written(t cloud.Taint) string { return t.Key + "=" + t.Value + ":" + t.Effect }

func taintOf(taint v1alpha1.Taint) cloud.Taint {
	return cloud.Taint{Key: taint.Key, Value: taint.Value, Effect: string(taint.Effect)}
}
