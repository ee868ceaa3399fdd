package check

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// facts are all that is known about a cluster. Checks use nothing else.
type facts struct {
	now time.Time
	// pre: rrpool is about to be installed.
	pre bool
	// context and server name the cluster, namespace is the manager's, file that of --filename.
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

// seen is one thing that was looked for: found where it is there. Where hidden says why it
// could not be read, it is not known. served: the apiserver knows its kind.
type seen[T any] struct {
	value         T
	found, served bool
	hidden        string
}

// rights are what users lack: of what the manager needs, the manager itself and the user, and
// of what installing needs, the user. escalates: the user may give rights that he lacks.
type rights struct {
	account                seen[struct{}]
	manager, user, install answer
	escalates              bool
}

// answer is what a user lacks of the rights that were asked for.
type answer struct {
	asked   int
	lacking []rbac.Right
	hidden  string
}

// installed are rrpool's objects. The holder of the manager's lease is looked for where there
// is no Deployment.
type installed struct {
	definition seen[*apiextensionsv1.CustomResourceDefinition]
	pool       seen[*v1alpha1.RouteReflectorPool]
	manager    seen[*appsv1.Deployment]
	holder     seen[status.Manager]
}

// calicoSeen is what is known of Calico besides what the manager observes. routes is
// FelixConfiguration's programClusterRoutes.
type calicoSeen struct {
	version   seen[string]
	nodes     seen[*appsv1.DaemonSet]
	reports   seen[[]report]
	pools     seen[[]ipPool]
	routes    seen[string]
	passwords []password
}

// report is a CalicoNodeStatus: updated is when calico-node wrote it, zero while it is blank,
// and touched is the last change of all.
type report struct {
	node             string
	period           time.Duration
	updated, touched time.Time
}

type ipPool struct{ name, cidr, ipip, vxlan string }

// password is a Secret that a field names for sessions. filled: its key has a value.
// readable: calico-node may read it.
type password struct {
	plan.SecretRef
	field            string
	filled, readable seen[bool]
}

// provider is what IBM Cloud's provider needs in the cluster: the Secret with its key, the
// pools that the cluster autoscaler resizes, and the ConfigMap with the cluster's id.
type provider struct {
	key        seen[bool]
	autoscaled seen[[]string]
	info       seen[struct{}]
}

// timer: steps wait for fixed times, and no sessions are observed.
func (f facts) timer() bool { return f.object.Spec.Rollout.Gate == v1alpha1.GateTimer }

// iks: reflectors are workers of a pool at IBM Cloud.
func (f facts) iks() bool { return f.snapshot != nil && f.snapshot.Provider == v1alpha1.ProviderIKS }

// nodes are the names of some nodes.
func (f facts) nodes(which func(plan.Node) bool) (out []string) {
	for _, n := range f.snapshot.Cluster.Nodes {
		if which(n) {
			out = append(out, n.Name)
		}
	}
	return out
}

// problem is what the datastore reports for a reason, nil for nothing.
func (f facts) problem(reason string) *plan.Problem {
	if f.snapshot == nil {
		return nil
	}
	i := slices.IndexFunc(f.snapshot.Cluster.Problems, func(p plan.Problem) bool { return p.Reason == reason })
	if i < 0 {
		return nil
	}
	return &f.snapshot.Cluster.Problems[i]
}

// providerProblem is why the provider cannot be used, zero for nothing.
func (f facts) providerProblem() plan.Problem {
	if f.snapshot == nil || f.snapshot.Obstacle == nil {
		return plan.Problem{}
	}
	return *f.snapshot.Obstacle
}

// gatherer fills in the facts and writes nothing.
type gatherer struct {
	*cluster.Connection
	facts
	// lost is why the cluster no longer answers this user, nil while it does.
	lost error
}

// gather fails only where the cluster does not answer at all, or does not know the user.
func (g *gatherer) gather(ctx context.Context) (facts, error) {
	version, err := g.Version(ctx)
	switch {
	case err != nil:
		return facts{}, g.Explain(err, "get", "/version")
	case version == "":
		return facts{}, fmt.Errorf("%s of context %q does not answer as an apiserver does: check the address, or choose another --context", g.Server, g.Name)
	}
	g.version, g.context, g.server = version, g.Name, g.Server
	for _, step := range []func(context.Context) error{g.gatherOwn, g.observe, g.gatherRights, g.gatherCalico, g.gatherProvider} {
		err := step(ctx)
		switch {
		case ctx.Err() != nil:
			return facts{}, iostreams.ErrInterrupted
		case g.lost != nil:
			return facts{}, g.lost
		case err != nil:
			return facts{}, err
		}
	}
	return g.facts, nil
}

// hide says why something could not be read. Further requests are of no use where there is
// no answer, or where the user is not known.
func (g *gatherer) hide(err error, verb, resource string) string {
	explained := g.Explain(err, verb, resource)
	if answer := apierrors.APIStatus(nil); !errors.As(err, &answer) || apierrors.IsUnauthorized(err) {
		g.lost = explained
	}
	return explained.Error()
}

// get reads one object. The kind itself may be missing as well.
func get[T client.Object](ctx context.Context, g *gatherer, object T, resource, namespace, name string) seen[T] {
	ctx, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()
	out := seen[T]{value: object}
	err := g.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
	if out.found = err == nil; !out.found && !apierrors.IsNotFound(err) {
		out.hidden = g.hide(err, "get", resource)
	}
	out.served = out.found || cluster.IsMissing(err)
	return out
}

// secretKey reports whether a key of a Secret has a value.
func (g *gatherer) secretKey(ctx context.Context, namespace, name, key string) seen[bool] {
	secret := get(ctx, g, &corev1.Secret{}, "secrets", namespace, name)
	return seen[bool]{value: len(bytes.TrimSpace(secret.value.Data[key])) > 0, found: secret.found, hidden: secret.hidden}
}

// gatherOwn reads rrpool's own objects.
func (g *gatherer) gatherOwn(ctx context.Context) (err error) {
	g.own = installed{
		definition: get(ctx, g, &apiextensionsv1.CustomResourceDefinition{}, "customresourcedefinitions.apiextensions.k8s.io", "", definitionName),
		pool:       get(ctx, g, &v1alpha1.RouteReflectorPool{}, "routereflectorpools.rrpool.io", "", v1alpha1.SingletonName),
		manager:    get(ctx, g, &appsv1.Deployment{}, "deployments.apps", g.namespace, managerName),
	}
	if !g.own.manager.found {
		g.own.holder = g.findHolder(ctx)
	}
	account := get(ctx, g, &corev1.ServiceAccount{}, "serviceaccounts", g.namespace, rbac.ServiceAccount)
	g.rights.account = seen[struct{}]{found: account.found, hidden: account.hidden}
	switch {
	case g.object != nil:
	case g.own.pool.found:
		g.object = g.own.pool.value.DeepCopy()
	default:
		if g.object, err = crd.Default(); err != nil {
			return fmt.Errorf("building a RouteReflectorPool of defaults: %w", err)
		}
	}
	return nil
}

func (g *gatherer) findHolder(ctx context.Context) (out seen[status.Manager]) {
	holder, err := status.FindHolder(ctx, g.Connection, g.namespace, g.now)
	switch {
	case err == nil:
		out.value, out.found = holder, true
	case !apierrors.IsNotFound(err):
		out.hidden = g.hide(err, "get", "leases.coordination.k8s.io")
	}
	return out
}

// observe takes the manager's view of the cluster.
func (g *gatherer) observe(ctx context.Context) error {
	object := g.object.DeepCopy()
	object.Status = v1alpha1.RouteReflectorPoolStatus{}
	if g.own.pool.found {
		object.Status = g.own.pool.value.Status
	}
	var err error
	if g.snapshot, err = snapshot.Observe(ctx, g.Connection, g.namespace, object, false); err != nil {
		g.snapshot, g.blind = nil, err.Error()
	}
	return nil
}

// defaultPeriod is Calico's, in seconds.
const defaultPeriod = 10

// calicoFields are those fields of Calico's objects that the checks need.
type calicoFields struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		CalicoVersion        string   `json:"calicoVersion"`
		ProgramClusterRoutes string   `json:"programClusterRoutes"`
		Node                 string   `json:"node"`
		UpdatePeriodSeconds  *int64   `json:"updatePeriodSeconds"`
		CIDR                 string   `json:"cidr"`
		IPIPMode             string   `json:"ipipMode"`
		VXLANMode            string   `json:"vxlanMode"`
		Disabled             bool     `json:"disabled"`
		AllowedUses          []string `json:"allowedUses"`
	} `json:"spec"`
	Status struct {
		LastUpdated string `json:"lastUpdated"`
	} `json:"status"`
}

func calicoObject(kind string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(schema.GroupVersionKind{Group: "crd.projectcalico.org", Version: "v1", Kind: kind})
	return out
}

func fieldsOf(o *unstructured.Unstructured) (out calicoFields) {
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &out) // a field of another type is as good as none
	return out
}

// calicoDefault reads one field of the object that is named default.
func (g *gatherer) calicoDefault(ctx context.Context, kind, resource string, field func(calicoFields) string) seen[string] {
	o := get(ctx, g, calicoObject(kind), resource+".crd.projectcalico.org", "", "default")
	return seen[string]{value: field(fieldsOf(o.value)), found: o.found, hidden: o.hidden}
}

// listCalico reads all objects of one of Calico's kinds, which may be missing itself.
func listCalico[T any](ctx context.Context, g *gatherer, kind, resource string, pick func(calicoFields) (T, bool)) (out seen[[]T]) {
	ctx, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()
	page := &unstructured.UnstructuredList{}
	page.SetGroupVersionKind(calicoObject(kind + "List").GroupVersionKind())
	for {
		err := g.List(ctx, page, client.Limit(500), client.Continue(page.GetContinue()))
		switch {
		case apierrors.IsNotFound(err):
			return out
		case err != nil:
			out.hidden = g.hide(err, "list", resource+".crd.projectcalico.org")
			return out
		}
		out.found = true
		for i := range page.Items {
			if value, use := pick(fieldsOf(&page.Items[i])); use {
				out.value = append(out.value, value)
			}
		}
		if page.GetContinue() == "" {
			return out
		}
	}
}

// gatherCalico reads what the manager does not read of Calico.
func (g *gatherer) gatherCalico(ctx context.Context) error {
	g.calico = calicoSeen{
		version: g.calicoDefault(ctx, "ClusterInformation", "clusterinformations", func(f calicoFields) string { return f.Spec.CalicoVersion }),
		nodes:   g.calicoNode(ctx),
		reports: listCalico(ctx, g, "CalicoNodeStatus", "caliconodestatuses", reportOf),
		pools: listCalico(ctx, g, "IPPool", "ippools", func(f calicoFields) (ipPool, bool) {
			use := !f.Spec.Disabled && (f.Spec.AllowedUses == nil || slices.Contains(f.Spec.AllowedUses, "Workload"))
			return ipPool{name: f.Metadata.Name, cidr: f.Spec.CIDR, ipip: f.Spec.IPIPMode, vxlan: f.Spec.VXLANMode}, use
		}),
		routes: g.calicoDefault(ctx, "FelixConfiguration", "felixconfigurations", func(f calicoFields) string { return f.Spec.ProgramClusterRoutes }),
	}
	g.calico.version.found = g.calico.version.value != ""
	refs := map[string]*plan.SecretRef{}
	if ref := g.object.Spec.BGP.PasswordSecretRef; ref.Name != "" {
		refs["spec.bgp.passwordSecretRef"] = &plan.SecretRef{Name: ref.Name, Key: ref.Key}
	}
	if g.snapshot != nil {
		bgp := g.snapshot.Cluster.BGP
		refs["nodeMeshPassword"] = bgp.Mesh.Password
		if bgp.Mesh.Password == nil && bgp.Saved != nil {
			refs["nodeMeshPassword, kept for the way back"] = bgp.Saved.Password
		}
	}
	for _, field := range slices.Sorted(maps.Keys(refs)) {
		if ref := refs[field]; ref != nil {
			g.calico.passwords = append(g.calico.passwords, g.password(ctx, *ref, field))
		}
	}
	return nil
}

// calicoNode reads the DaemonSet from the first of the namespaces where it can be.
func (g *gatherer) calicoNode(ctx context.Context) (out seen[*appsv1.DaemonSet]) {
	ctx, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()
	for _, namespace := range calicoNamespaces {
		var list appsv1.DaemonSetList
		err := g.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{"k8s-app": calicoNodeLabel})
		switch {
		case err != nil:
			out.hidden = g.hide(err, "list", "daemonsets.apps")
		case len(list.Items) > 0:
			return seen[*appsv1.DaemonSet]{value: &list.Items[0], found: true}
		}
	}
	return out
}

func reportOf(f calicoFields) (report, bool) {
	seconds := int64(defaultPeriod)
	if f.Spec.UpdatePeriodSeconds != nil {
		seconds = *f.Spec.UpdatePeriodSeconds
	}
	out := report{node: f.Spec.Node, period: time.Duration(seconds) * time.Second, touched: f.Metadata.CreationTimestamp.Time}
	out.updated, _ = time.Parse(time.RFC3339, f.Status.LastUpdated)
	for _, field := range f.Metadata.ManagedFields {
		if field.Time != nil && field.Time.After(out.touched) {
			out.touched = field.Time.Time
		}
	}
	return out, true
}

// password reads whether a Secret has the password, and asks whether calico-node may read it.
func (g *gatherer) password(ctx context.Context, ref plan.SecretRef, field string) password {
	out := password{SecretRef: ref, field: field}
	if !g.calico.nodes.found {
		out.filled.hidden = "calico-node, whose namespace it has to be in, was not found"
		return out
	}
	d := g.calico.nodes.value
	out.filled = g.secretKey(ctx, d.Namespace, ref.Name, ref.Key)
	var rights []rbac.Right
	for _, verb := range []string{"get", "list", "watch"} {
		rights = append(rights, rbac.Right{Verb: verb, Resource: "secrets", Namespace: d.Namespace, Name: ref.Name})
	}
	a := g.lacks(ctx, rights, serviceAccount(d.Namespace, cmp.Or(d.Spec.Template.Spec.ServiceAccountName, "default")))
	out.readable = seen[bool]{value: len(a.lacking) == 0, found: true, hidden: a.hidden}
	return out
}

// gatherProvider reads the objects that IBM Cloud's provider needs.
func (g *gatherer) gatherProvider(ctx context.Context) error {
	if !g.iks() {
		return nil
	}
	ref := g.object.Spec.Provider.IKS.CredentialsSecretRef
	g.provide.key = g.secretKey(ctx, g.namespace, ref.Name, ref.Key)
	info := get(ctx, g, &corev1.ConfigMap{}, "configmaps", "kube-system", "cluster-info")
	g.provide.info = seen[struct{}]{found: info.found, hidden: info.hidden}
	config := get(ctx, g, &corev1.ConfigMap{}, "configmaps", "kube-system", autoscalerConfig)
	g.provide.autoscaled = seen[[]string]{hidden: config.hidden}
	if config.found {
		g.provide.autoscaled = autoscaledPools(config.value.Data[autoscalerKey])
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
