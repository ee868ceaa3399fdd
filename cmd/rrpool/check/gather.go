package check

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/cmd/rrpool/status"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/config/rbac"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/controllers/plan"
)

// facts holds everything that was read about a cluster. Checks use nothing else.
type facts struct {
	now time.Time
	// pre is the flag --pre: rrpool need not be installed yet.
	pre bool
	// context and server name the cluster, namespace is the manager's, file is the value of --filename.
	context, server, namespace, file string
	// version is the version of the apiserver.
	version string
	// snapshot is what the manager would observe and do. If snapshot is nil, blind says why.
	snapshot *snapshot.Snapshot
	blind    string
	// object is the RouteReflectorPool of the file, else of the cluster (stored), else one with all defaults.
	object *v1alpha1.RouteReflectorPool

	stored     seen[*v1alpha1.RouteReflectorPool]
	peerings   seen[*v1alpha1.ClusterPeeringList]
	definition seen[*apiextensionsv1.CustomResourceDefinition]
	deployment seen[*appsv1.Deployment]
	manager    status.Manager
	// managerRights says which of the rights that the manager needs are missing.
	managerRights answer

	information seen[*apiv3.ClusterInformation]
	// calicoNode is the DaemonSet that most likely is calico-node. calicoNodes names all DaemonSets with its label.
	calicoNode  seen[*appsv1.DaemonSet]
	calicoNodes []string
	backend     seen[string]
	passwords   []password

	// reporter says which of the rights that calico-node needs to report its sessions are missing.
	reporter answer
	// updates is IBM's ConfigMap that limits how many classic workers are updated at once.
	updates seen[*corev1.ConfigMap]
}

// seen is the result of reading an object. If reading failed, hidden says why, and whether the object exists is unknown.
type seen[T any] struct {
	value  T
	found  bool
	hidden string
}

// answer says which rights a user lacks, of the number asked for. If that is not known, hidden says why.
type answer struct {
	asked   int
	lacking []rbac.Right
	hidden  string
}

// password is the Secret to which field refers, with the password of BGP
// sessions. reader says which rights to read this Secret calico-node lacks.
type password struct {
	plan.SecretRef
	field  string
	secret seen[*corev1.Secret]
	reader answer
}

// iks reports whether route reflectors are workers of a pool in IBM Cloud.
func (f facts) iks() bool { return f.snapshot != nil && f.snapshot.Provider == v1alpha1.ProviderIKS }

// nodes returns the names of the nodes for which the function is true.
func (f facts) nodes(which func(plan.Node) bool) (out []string) {
	for _, n := range f.snapshot.Cluster.Nodes {
		if which(n) {
			out = append(out, n.Name)
		}
	}
	return out
}

// problem returns the problem of that reason which the datastore reports, nil for none.
func (f facts) problem(reason string) *plan.Problem {
	for _, p := range f.snapshot.Cluster.Problems {
		if p.Reason == reason {
			return &p
		}
	}
	return nil
}

// gatherer reads the facts.
type gatherer struct {
	*cluster.Connection
	facts
	// lose cancels all further requests. Its argument is the reason.
	lose context.CancelCauseFunc
}

// gather reads the facts about a cluster. If object is nil, it takes the cluster's RouteReflectorPool, or else one
// with all defaults. It fails only if the apiserver does not answer or does not accept the user, or if ctx ends.
func (f *flags) gather(ctx context.Context, c *cluster.Connection, object *v1alpha1.RouteReflectorPool, now time.Time) (facts, error) {
	version, err := c.Version(ctx)
	if err != nil {
		return facts{}, c.Explain(err, "get", "/version")
	}
	asking, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	g := &gatherer{Connection: c, lose: lose, facts: facts{
		now: now, pre: f.pre, context: c.Name, server: c.Server, namespace: f.Namespace, file: f.filename, version: version,
	}}
	g.definition = get(asking, g, &apiextensionsv1.CustomResourceDefinition{}, "", definitionName)
	g.stored = get(asking, g, &v1alpha1.RouteReflectorPool{}, "", v1alpha1.SingletonName)
	peerings := &v1alpha1.ClusterPeeringList{}
	g.peerings = found(g, peerings, g.List(asking, peerings), "list")
	g.deployment = get(asking, g, &appsv1.Deployment{}, g.namespace, status.ManagerName)
	g.manager = status.FindManager(asking, c, g.namespace, now)
	if g.stored.found {
		object = cmp.Or(object, g.stored.value)
	}
	g.object = cmp.Or(object, crd.Default()).DeepCopy()
	g.object.Status = g.stored.value.Status
	if g.snapshot, err = snapshot.Observe(asking, c, f.Namespace, g.object.DeepCopy(), false); err != nil {
		g.snapshot, g.blind = nil, err.Error()
	}
	if !g.pre {
		g.managerRights = g.missing(asking, rbac.Rights(f.Namespace), serviceAccount(g.namespace, rbac.ServiceAccount))
	}
	g.gatherCalico(asking)
	if g.classic() {
		g.updates = get(asking, g, &corev1.ConfigMap{}, "kube-system", updatesConfig)
	}
	switch {
	case ctx.Err() != nil:
		return facts{}, iostreams.ErrInterrupted
	case asking.Err() != nil:
		return facts{}, context.Cause(asking) //nolint:wrapcheck // hide has explained it
	}
	return g.facts, nil
}

// hide returns why an object could not be read. If the server does not answer or does not accept the user, hide cancels all further requests.
func (g *gatherer) hide(err error, verb string, object runtime.Object) string {
	kind, _ := g.GroupVersionKindFor(object)
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	explained := g.Explain(err, verb, resource.GroupResource().String())
	if unreachable := (*url.Error)(nil); errors.As(err, &unreachable) || apierrors.IsUnauthorized(err) {
		g.lose(explained)
	}
	return explained.Error()
}

// get reads an object. If the apiserver does not know the kind, the object counts as not found.
func get[T client.Object](ctx context.Context, g *gatherer, object T, namespace, name string) seen[T] {
	err := g.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
	return found(g, object, err, "get")
}

func found[T runtime.Object](g *gatherer, object T, err error, verb string) seen[T] {
	out := seen[T]{value: object, found: err == nil}
	if err != nil && !apierrors.IsNotFound(err) {
		out.hidden = g.hide(err, verb, object)
	}
	return out
}

// gatherCalico reads the facts about Calico that the manager's snapshot does not have.
func (g *gatherer) gatherCalico(ctx context.Context) {
	_ = g.FindCalico(ctx) // check sight reports the error
	g.information = get(ctx, g, &apiv3.ClusterInformation{}, "", "default")
	g.calicoNodes, g.calicoNode = g.daemonSets(ctx)
	if g.calicoNode.found {
		g.backend = g.backendOf(ctx, g.calicoNode.value)
	}
	if ref := g.object.Spec.BGP.PasswordSecretRef; ref.Name != "" {
		g.gatherPassword(ctx, &plan.SecretRef{Name: ref.Name, Key: ref.Key}, "spec.bgp.passwordSecretRef")
	}
	if g.snapshot != nil {
		g.reporter = g.mayReport(ctx)
		bgp := g.snapshot.Cluster.BGP
		g.gatherPassword(ctx, bgp.Mesh.Password, "nodeMeshPassword")
	}
}

// likelier is a comparison function that sorts the likelier calico-node first, as any tenant may use its label. It compares, in this
// order: hostNetwork, whether any node should run the DaemonSet, whether it is in one of Calico's namespaces, its number of nodes.
func likelier(a, b *appsv1.DaemonSet) int {
	is := func(what func(*appsv1.DaemonSet) bool) int { return plan.TrueFirst(what(a), what(b)) }
	return cmp.Or(
		is(func(d *appsv1.DaemonSet) bool { return d.Spec.Template.Spec.HostNetwork }),
		is(func(d *appsv1.DaemonSet) bool { return d.Status.DesiredNumberScheduled > 0 }),
		is(func(d *appsv1.DaemonSet) bool { return slices.Contains(calicoNamespaces, d.Namespace) }),
		cmp.Compare(b.Status.DesiredNumberScheduled, a.Status.DesiredNumberScheduled),
	)
}

// daemonSets returns the names of all DaemonSets with calico-node's label, and the one that most likely is
// calico-node. If the user may not list DaemonSets in all namespaces, it looks in Calico's namespaces only.
func (g *gatherer) daemonSets(ctx context.Context) (names []string, main seen[*appsv1.DaemonSet]) {
	all := &appsv1.DaemonSetList{}
	answer := found(g, all, g.List(ctx, all), "list")
	if answer.hidden != "" {
		all.Items = nil
		for _, namespace := range calicoNamespaces {
			some := &appsv1.DaemonSetList{}
			if found(g, some, g.List(ctx, some, client.InNamespace(namespace)), "list").hidden == "" {
				all.Items = append(all.Items, some.Items...)
			}
		}
	}
	for i := range all.Items {
		d := &all.Items[i]
		if !slices.Contains(calicoNodeLabels, d.Spec.Template.Labels["k8s-app"]) {
			continue
		}
		names = append(names, d.Namespace+"/"+d.Name)
		if !main.found || likelier(d, main.value) < 0 {
			main = seen[*appsv1.DaemonSet]{value: d, found: true}
		}
	}
	if !main.found {
		main.hidden = answer.hidden
	}
	return names, main
}

// backendOf reads the networking backend that calico-node's DaemonSet sets, empty for the default.
func (g *gatherer) backendOf(ctx context.Context, d *appsv1.DaemonSet) seen[string] {
	variable := calico.Backend(d.Spec.Template.Spec.Containers)
	switch from := variable.ValueFrom; {
	case from == nil:
		return seen[string]{value: variable.Value, found: true}
	case variable.Name == calico.BackendVariable && from.ConfigMapKeyRef != nil:
		config := get(ctx, g, &corev1.ConfigMap{}, d.Namespace, from.ConfigMapKeyRef.Name)
		return seen[string]{value: config.value.Data[from.ConfigMapKeyRef.Key], found: config.found, hidden: config.hidden}
	}
	return seen[string]{hidden: variable.Name + " is in something that is not read"}
}

// mayReport asks whether calico-node may read and update CalicoNodeStatuses. If Calico's datastore is etcd, calico-node needs no right for that.
func (g *gatherer) mayReport(ctx context.Context) answer {
	d := g.calicoNode.value
	switch {
	case g.inEtcd():
		return answer{}
	case !g.calicoNode.found:
		return answer{hidden: cmp.Or(g.calicoNode.hidden, "calico-node was not found")}
	}
	var rights []rbac.Right
	for _, verb := range []string{"get", "list", "watch", "update"} {
		rights = append(rights, rbac.Right{Verb: verb, Group: strings.Split(g.snapshot.Cluster.CalicoAPI, "/")[0], Resource: "caliconodestatuses"})
	}
	return g.missing(ctx, rights, serviceAccount(d.Namespace, cmp.Or(d.Spec.Template.Spec.ServiceAccountName, "default")))
}

// gatherPassword reads the Secret to which field refers, and asks whether calico-node may read this Secret.
func (g *gatherer) gatherPassword(ctx context.Context, ref *plan.SecretRef, field string) {
	if ref == nil {
		return
	}
	out := password{SecretRef: *ref, field: field, secret: seen[*corev1.Secret]{hidden: "calico-node, whose namespace it has to be in, was not found"}}
	if d := g.calicoNode.value; g.calicoNode.found {
		out.secret = get(ctx, g, &corev1.Secret{}, d.Namespace, ref.Name)
		var rights []rbac.Right
		for _, verb := range []string{"get", "list", "watch"} {
			rights = append(rights, rbac.Right{Verb: verb, Resource: "secrets", Namespace: d.Namespace, Name: ref.Name})
		}
		out.reader = g.missing(ctx, rights, serviceAccount(d.Namespace, cmp.Or(d.Spec.Template.Spec.ServiceAccountName, "default")))
	}
	g.passwords = append(g.passwords, out)
}
