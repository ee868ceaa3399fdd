package pool

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
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

// origin is where route-reflector nodes come from.
type origin struct {
	// kind is the provider type after Auto was resolved.
	kind   v1alpha1.ProviderType
	config ProviderConfig
	// problem says why there is no provider, nil when there is one.
	problem *plan.Problem
}

// Where IKS tells a cluster its own id.
const (
	clusterInfoNamespace = "kube-system"
	clusterInfoName      = "cluster-info"
	clusterInfoKey       = "cluster-config.json"
	providerIDScheme     = "ibm://"
)

// clusterIDForm is that of spec.provider.iks.clusterID: the ID gets into addresses.
var clusterIDForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// identify chooses the provider and connects it. Whatever is in the way becomes a
// problem in t.origin: the data plane does not depend on it.
func (r *Reconciler) identify(ctx context.Context, t *turn) {
	spec := t.object.Spec.Provider
	t.origin = origin{kind: resolve(spec.Type, t.cluster.Nodes)}
	if r.supply.config.Type != t.origin.kind {
		r.supply.reset() // what one kind of pool was like says nothing about the other
	}
	var problem *plan.Problem
	if t.busy() {
		t.origin.config = existingConfig(t.object)
	} else {
		t.origin.config, problem = r.iksConfig(ctx, spec.IKS, t.cluster.Nodes)
	}
	if problem == nil {
		problem = r.supply.use(r.Providers, t.origin.config, r.Metrics)
	}
	if t.origin.problem = problem; problem != nil {
		r.supply.disconnect()
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
