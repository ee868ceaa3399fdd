package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/config/rbac"
	"github.com/rrpool/rrpool/controllers/plan"
)

// facts are all that is known about a cluster. They are gathered once, and checks look
// at nothing else.
type facts struct {
	now time.Time
	// pre: rrpool is about to be installed.
	pre bool
	// context, server and namespace say where was looked. file is that of --filename.
	context, server, namespace, file string

	// version is the apiserver's.
	version string
	// snapshot is what the manager would see and do; where it is nil, blind says why.
	snapshot *snapshot.Snapshot
	blind    string
	// object is what is checked for: that of the file, of the cluster, or the defaults.
	object *v1alpha1.RouteReflectorPool

	rights  rights
	own     installed
	calico  calicoSeen
	provide provider
}

// seen is one thing that was looked for.
type seen[T any] struct {
	value T
	// found: it is there.
	found bool
	// hidden says why it could not be looked at, "" if it could.
	hidden string
}

// rights are who may do what.
type rights struct {
	// account is the manager's ServiceAccount.
	account seen[struct{}]
	// manager is what the manager lacks, user what the user lacks of the same.
	manager, user answer
	// install is what the user lacks of what installing takes. escalates: the user may
	// give away rights that he does not have.
	install   answer
	escalates bool
}

// answer is what a user lacks of the rights that were asked for.
type answer struct {
	asked   int
	lacking []right
	hidden  string
}

// installed is what there is of rrpool in the cluster.
type installed struct {
	definition seen[*apiextensionsv1.CustomResourceDefinition]
	// served: the apiserver knows the kind, whoever may read its definition.
	served  bool
	pool    seen[*v1alpha1.RouteReflectorPool]
	manager seen[*appsv1.Deployment]
	// holder is who holds the manager's lease; looked for where no Deployment is seen.
	holder seen[status.Manager]
}

// calicoSeen is what is known of Calico besides what the manager looks at.
type calicoSeen struct {
	// version as ClusterInformation has it.
	version seen[string]
	nodes   seen[*appsv1.DaemonSet]
	reports seen[[]report]
	pools   seen[[]ipPool]
	// routes is FelixConfiguration's programClusterRoutes, "" where it is not set.
	routes    seen[string]
	passwords []password
}

// report is a CalicoNodeStatus.
type report struct {
	node   string
	period time.Duration
	// updated is when its reporter wrote it, zero while it is blank; touched is when
	// anybody did.
	updated, touched time.Time
}

// ipPool is an IPPool.
type ipPool struct {
	name, cidr  string
	ipip, vxlan string
}

// password is a Secret that sessions take their password from.
type password struct {
	plan.SecretRef
	// field is where it is named.
	field string
	// filled: its key has a value. readable: calico-node may read it.
	filled, readable seen[bool]
}

// provider is what is known of where reflectors come from, besides what the manager
// looks at.
type provider struct {
	// key: the Secret with the API key has a value.
	key seen[bool]
	// autoscaled are the worker pools that the cluster autoscaler resizes.
	autoscaled seen[[]string]
	// info: the ConfigMap that tells the cluster's id is there.
	info seen[struct{}]
}

// timer: steps wait for fixed times, and no sessions are observed.
func (f facts) timer() bool { return f.object.Spec.Rollout.Gate == v1alpha1.GateTimer }

// iks: reflectors are workers of a pool at IBM Cloud.
func (f facts) iks() bool { return f.snapshot != nil && f.snapshot.Provider == v1alpha1.ProviderIKS }

// problem is what the datastore itself says is in the way, nil for nothing.
func (f facts) problem(reason string) *plan.Problem {
	if f.snapshot == nil {
		return nil
	}
	for i, p := range f.snapshot.Cluster.Problems {
		if p.Reason == reason {
			return &f.snapshot.Cluster.Problems[i]
		}
	}
	return nil
}

// providerProblem is the reason why the provider cannot be used, "" for none.
func (f facts) providerProblem() string {
	if f.snapshot == nil || f.snapshot.Obstacle == nil {
		return ""
	}
	return f.snapshot.Obstacle.Reason
}

// gatherer finds out what there is to know. It writes nothing.
type gatherer struct {
	*cluster.Connection
	facts
	// lost is why the cluster no longer answers, nil while it does.
	lost error
}

// newGatherer makes one whose questions follow each other without a pause: there are
// many, and each is small.
func newGatherer(c *cluster.Connection, f facts) (*gatherer, error) {
	config := rest.CopyConfig(c.Config)
	config.QPS = -1
	fast, err := client.New(config, client.Options{Scheme: c.Scheme(), Mapper: c.RESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster of context %q: %w", c.Name, err)
	}
	f.context, f.server = c.Name, c.Server
	return &gatherer{Connection: &cluster.Connection{Client: fast, Config: config, Name: c.Name, Server: c.Server, Timeout: c.Timeout}, facts: f}, nil
}

// gather fails only where the cluster does not answer at all, or does not know the user.
func (g *gatherer) gather(ctx context.Context) (facts, error) {
	if err := g.askVersion(ctx); err != nil {
		return facts{}, err
	}
	for _, step := range []func(context.Context) error{g.lookAtOwn, g.lookAsManager, g.lookAtRights, g.lookAtCalico, g.lookAtProvider} {
		if err := step(ctx); err != nil {
			return facts{}, err
		}
		switch {
		case ctx.Err() != nil:
			return facts{}, iostreams.ErrInterrupted
		case g.lost != nil:
			return facts{}, g.lost
		}
	}
	return g.facts, nil
}

func (g *gatherer) askVersion(ctx context.Context) error {
	// Everybody may ask for this, so it tells a cluster that is out of reach from one
	// that does not let us look.
	web, err := rest.HTTPClientFor(g.Config)
	if err != nil {
		return fmt.Errorf("connecting to the cluster of context %q: %w", g.Name, err)
	}
	config := rest.CopyConfig(g.Config)
	config.NegotiatedSerializer = serializer()
	c, err := rest.UnversionedRESTClientForConfigAndClient(config, web)
	if err != nil {
		return fmt.Errorf("connecting to the cluster of context %q: %w", g.Name, err)
	}
	var answer struct {
		GitVersion string `json:"gitVersion"`
	}
	body, err := c.Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return g.Explain(err, "get", "/version")
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.GitVersion == "" {
		return fmt.Errorf("%s of context %q does not answer as an apiserver does: check the address, or choose another --context", g.Server, g.Name)
	}
	g.version = answer.GitVersion
	return nil
}

// look reads one object. What is not there is not found; what may not be looked at is
// hidden.
func (g *gatherer) look(ctx context.Context, object client.Object, resource, namespace, name string) (found bool, hidden string) {
	ctx, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()
	switch err := g.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object); {
	case err == nil:
		return true, ""
	case apierrors.IsNotFound(err):
		return false, ""
	default:
		return false, g.hide(err, "get", resource)
	}
}

// hide says why something could not be looked at. Where there is no answer at all, there
// is no sense in further questions.
func (g *gatherer) hide(err error, verb, resource string) string {
	explained := g.Explain(err, verb, resource)
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
		g.lost = explained
	}
	return explained.Error()
}

// lookAtOwn looks for what there is of rrpool.
func (g *gatherer) lookAtOwn(ctx context.Context) error {
	own := &g.own
	d := &apiextensionsv1.CustomResourceDefinition{}
	own.definition.value = d
	own.definition.found, own.definition.hidden = g.look(ctx, d, "customresourcedefinitions.apiextensions.k8s.io", "", definitionName)
	stored := &v1alpha1.RouteReflectorPool{}
	bounded, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()
	err := g.Get(bounded, client.ObjectKey{Name: v1alpha1.SingletonName}, stored)
	switch {
	case err == nil:
		own.served, own.pool = true, seen[*v1alpha1.RouteReflectorPool]{value: stored, found: true}
	case apierrors.IsUnauthorized(err):
		return g.Explain(err, "get", "routereflectorpools.rrpool.io")
	case cluster.IsMissing(err):
		own.served = true
	case !apierrors.IsNotFound(err):
		own.pool.hidden = g.hide(err, "get", "routereflectorpools.rrpool.io")
	}
	own.manager.value = &appsv1.Deployment{}
	own.manager.found, own.manager.hidden = g.look(ctx, own.manager.value, "deployments.apps", g.namespace, managerName)
	if !own.manager.found {
		own.holder = g.lookForHolder(ctx)
	}
	g.rights.account.found, g.rights.account.hidden = g.look(ctx, &corev1.ServiceAccount{}, "serviceaccounts", g.namespace, rbac.ServiceAccount)
	switch {
	case g.object != nil:
	case own.pool.found:
		g.object = stored.DeepCopy()
	default:
		if g.object, err = crd.Default(); err != nil {
			return fmt.Errorf("making up a RouteReflectorPool: %w", err)
		}
	}
	return nil
}

// lookAsManager looks with the manager's eyes.
func (g *gatherer) lookAsManager(ctx context.Context) error {
	c := *g.Connection
	c.Client = known{c.Client, g.own.pool.value}
	s, err := snapshot.Take(ctx, &c, g.namespace, g.object.DeepCopy(), false)
	switch {
	case errors.Is(err, iostreams.ErrInterrupted):
		return err
	case err != nil:
		g.blind = err.Error()
	default:
		g.snapshot = s
	}
	return nil
}

// known is a client for the manager's eyes that has the RouteReflectorPool already: a
// cluster can be looked at before anybody may read it there, or it is known at all.
type known struct {
	client.Client
	pool *v1alpha1.RouteReflectorPool
}

// Get implements client.Reader.
func (k known) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	pool, ok := object.(*v1alpha1.RouteReflectorPool)
	switch {
	case !ok:
		return k.Client.Get(ctx, key, object, options...) //nolint:wrapcheck // callers look at the error's type
	case k.pool == nil:
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("routereflectorpools").GroupResource(), key.Name) //nolint:wrapcheck // as the apiserver says it
	}
	k.pool.DeepCopyInto(pool)
	return nil
}

// lookAtProvider looks for what the provider depends on in the cluster.
func (g *gatherer) lookAtProvider(ctx context.Context) error {
	if !g.iks() {
		return nil
	}
	ref, secret := g.object.Spec.Provider.IKS.CredentialsSecretRef, &corev1.Secret{}
	p := &g.provide
	p.key.found, p.key.hidden = g.look(ctx, secret, "secrets", g.namespace, ref.Name)
	p.key.value = len(bytes.TrimSpace(secret.Data[ref.Key])) > 0
	p.info.found, p.info.hidden = g.look(ctx, &corev1.ConfigMap{}, "configmaps", "kube-system", "cluster-info")
	config := &corev1.ConfigMap{}
	p.autoscaled.found, p.autoscaled.hidden = g.look(ctx, config, "configmaps", "kube-system", autoscalerConfig)
	if p.autoscaled.found {
		p.autoscaled = autoscaledPools(config.Data[autoscalerKey])
	}
	return nil
}

// autoscaledPools reads the autoscaler's configuration.
func autoscaledPools(text string) seen[[]string] {
	out := seen[[]string]{found: true}
	var pools []struct {
		Name    string `json:"name"`
		Enabled bool   `json:"enabled"`
	}
	if text == "" {
		return out
	}
	if err := json.Unmarshal([]byte(text), &pools); err != nil {
		out.hidden = fmt.Sprintf("key %s of ConfigMap kube-system/%s is no JSON: correct it", autoscalerKey, autoscalerConfig)
	}
	for _, p := range pools {
		if p.Enabled {
			out.value = append(out.value, p.Name)
		}
	}
	return out
}
