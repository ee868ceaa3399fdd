// Package cluster connects a command to its Kubernetes cluster. Its errors are sentences for the user.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/discovery"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/version"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/controllers/calico/etcd"
)

// Access holds the flags that choose the cluster. kubectl has the same flags.
type Access struct {
	kubeconfig, context string
	timeout             time.Duration
}

// Register defines the flags of a in flags.
func (a *Access) Register(flags *pflag.FlagSet) {
	flags.StringVar(&a.kubeconfig, "kubeconfig", "", "kubeconfig file; default: $KUBECONFIG, ~/.kube/config")
	flags.StringVar(&a.context, "context", "", "context of the kubeconfig; default: its current one")
	flags.DurationVar(&a.timeout, "request-timeout", 15*time.Second, "how long the cluster may take to answer")
}

// Connection is a client of the cluster, without a cache.
type Connection struct {
	client.Client
	Config *rest.Config
	// Name is the name of the kubeconfig's context, Server the address of the apiserver.
	Name, Server string
	// Calico is the API group of Calico's objects, set by FindCalico.
	Calico schema.GroupVersion
	// Timeout bounds each request.
	Timeout time.Duration
}

// Connect makes a client without a request to the cluster. Its kinds are built in (see mapper), so the user needs no right to discovery.
func (a *Access) Connect() (*Connection, error) {
	if a.timeout <= 0 {
		return nil, fmt.Errorf("--request-timeout: %s is no time to wait: use for example 15s", a.timeout)
	}
	config, name, err := a.load()
	if err != nil {
		return nil, err
	}
	config.Timeout = a.timeout
	config.QPS = -1 // the apiserver limits requests itself
	config.UserAgent = version.UserAgent(iostreams.Program)
	config.WarningHandler = rest.NoWarnings{}
	scheme := runtime.NewScheme()
	utilruntime.Must(errors.Join(clientscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper()})
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: context %q does not describe a cluster: %w", name, err)
	}
	return &Connection{Client: c, Config: config, Name: name, Server: config.Host, Timeout: a.timeout}, nil
}

func (a *Access) load() (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = a.kubeconfig
	rules.WarnIfAllMissing = false
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: a.context})
	raw, err := loader.RawConfig()
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, "", fmt.Errorf("--kubeconfig: %q is not there: give the name of a kubeconfig file", a.kubeconfig)
	case err != nil:
		return nil, "", fmt.Errorf("--kubeconfig: no kubeconfig can be read: %w", err)
	}
	name := raw.CurrentContext
	if a.context != "" {
		name = a.context
		if _, known := raw.Contexts[name]; !known {
			return nil, "", fmt.Errorf("--context: %q is not in the kubeconfig: choose one that kubectl config get-contexts lists", name)
		}
	}
	config, err := loader.ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, "", errors.New("no cluster is known: give --kubeconfig, or set KUBECONFIG")
	case err != nil:
		return nil, "", fmt.Errorf("--kubeconfig: context %q cannot be used: %w", name, err)
	}
	return config, name, nil
}

// Version returns the version of the apiserver, which every user may read. An error of the request is returned unchanged.
func (c *Connection) Version(ctx context.Context) (string, error) {
	asking, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return "", fmt.Errorf("connecting to the cluster of context %q: %w", c.Name, err)
	}
	answer, err := asking.ServerVersionWithContext(ctx)
	if err != nil {
		return "", err //nolint:wrapcheck // callers look at the error's type
	}
	return answer.GitVersion, nil
}

// Read returns the RouteReflectorPool, nil if there is none, and all nodes.
func (c *Connection) Read(ctx context.Context) (object *v1alpha1.RouteReflectorPool, nodes []corev1.Node, err error) {
	if object, err = c.Pool(ctx); err != nil {
		return nil, nil, err
	}
	var list corev1.NodeList
	for {
		if err := c.List(ctx, &list, client.Limit(500), client.Continue(list.Continue)); err != nil {
			return nil, nil, c.Explain(err, "list", "nodes")
		}
		if nodes = append(nodes, list.Items...); list.Continue == "" {
			return object, nodes, nil
		}
	}
}

// Pool returns the RouteReflectorPool, nil if there is none.
func (c *Connection) Pool(ctx context.Context) (*v1alpha1.RouteReflectorPool, error) {
	var object v1alpha1.RouteReflectorPool
	err := c.Get(ctx, client.ObjectKey{Name: v1alpha1.SingletonName}, &object)
	switch {
	case IsMissing(err):
		return nil, nil
	case err != nil:
		return nil, c.Explain(err, "get", "routereflectorpools.rrpool.io")
	}
	return &object, nil
}

// Peerings returns all ClusterPeerings without managedFields, none if their CRD is not installed.
func (c *Connection) Peerings(ctx context.Context) ([]v1alpha1.ClusterPeering, error) {
	var list v1alpha1.ClusterPeeringList
	if err := c.List(ctx, &list); client.IgnoreNotFound(err) != nil {
		return nil, c.Explain(err, "list", "clusterpeerings.rrpool.io")
	}
	for i := range list.Items {
		list.Items[i].ManagedFields = nil
	}
	return list.Items, nil
}

// IsMissing reports whether err says that an object does not exist although its kind does. For an
// unknown kind the apiserver answers "page not found", which the client marks as an unexpected response.
func IsMissing(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Explain turns the error of a request into a sentence that also says what to do.
func (c *Connection) Explain(err error, verb, resource string) error {
	var unreachable *url.Error
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the user of context %q may not %s %s: ask for a ClusterRole that allows it (kubectl auth can-i %s %s says when)",
			c.Name, verb, resource, verb, resource)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the cluster does not accept the credentials of context %q: log in again", c.Name)
	case apierrors.IsNotFound(err) && schema.ParseGroupResource(resource).Group != "":
		return fmt.Errorf("the cluster of context %q does not know %s: install rrpool's CRD (kubectl apply --server-side -k config/crd), or choose another --context", c.Name, resource)
	case errors.Is(err, context.Canceled):
		return iostreams.ErrInterrupted
	case errors.Is(err, context.DeadlineExceeded), os.IsTimeout(err):
		return fmt.Errorf("%s of context %q did not answer within %s: check the network, or give more --request-timeout", c.Server, c.Name, c.Timeout)
	case errors.As(err, &unreachable):
		return fmt.Errorf("%s of context %q cannot be reached (%w): check the address and the network, or choose another --context", c.Server, c.Name, iostreams.Reason(unreachable.Err))
	default:
		return fmt.Errorf("asking %s of context %q to %s %s: %s", c.Server, c.Name, verb, resource, strings.TrimSuffix(err.Error(), "."))
	}
}

// FindCalico finds out in which API group, or in which etcd, Calico keeps its objects, and
// makes the client read them there. If that fails, c.Calico is crd.projectcalico.org/v1.
func (c *Connection) FindCalico(ctx context.Context) error {
	if c.Calico != (schema.GroupVersion{}) {
		return nil
	}
	var choice calico.GroupChoice
	ofCalico, err := etcd.FromEnvironment()
	switch {
	case ofCalico != nil:
		choice.Group, c.Client = calico.GroupV3, inEtcd{c.Client, ofCalico}
	case err == nil:
		choice, err = calico.ChooseGroup(ctx, c.Config)
	}
	c.Calico = cmp.Or(choice.Group, calico.GroupV1)
	c.Scheme().AddKnownTypes(c.Calico, &apiv3.BGPConfiguration{}, &apiv3.ClusterInformation{}, &apiv3.FelixConfiguration{}, &apiv3.IPPoolList{})
	metav1.AddToGroupVersion(c.Scheme(), c.Calico)
	return err
}

// InEtcd reports whether FindCalico found that Calico keeps its objects in an etcd of its own.
func (c *Connection) InEtcd() bool {
	_, is := c.Client.(inEtcd)
	return is
}

// inEtcd is a client that reads Calico's objects from etcd, and all others from the apiserver.
type inEtcd struct {
	client.Client
	etcd *etcd.Client
}

// of returns the client that reads o: that of etcd if o is of Calico's group, else that of the apiserver.
func (c inEtcd) of(o runtime.Object) client.Reader {
	if kind, err := apiutil.GVKForObject(o, c.etcd.Scheme()); err == nil && kind.Group == calico.GroupV3.Group {
		return c.etcd
	}
	return c.Client
}

// Get implements client.Reader.
func (c inEtcd) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	return c.of(into).Get(ctx, key, into, opts...) //nolint:wrapcheck // it is one of two clients
}

// List implements client.Reader.
func (c inEtcd) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	return c.of(into).List(ctx, into, opts...) //nolint:wrapcheck // it is one of two clients
}

// mapper maps every kind that a command reads to its resource and scope.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	add := func(group schema.GroupVersion, scope meta.RESTScope, kinds ...string) {
		for _, kind := range kinds {
			m.Add(group.WithKind(kind), scope)
		}
	}
	add(v1alpha1.GroupVersion, meta.RESTScopeRoot, "RouteReflectorPool", "ClusterPeering")
	add(corev1.SchemeGroupVersion, meta.RESTScopeRoot, "Node", "Namespace")
	add(corev1.SchemeGroupVersion, meta.RESTScopeNamespace, "ConfigMap", "Pod", "Secret", "ServiceAccount")
	add(appsv1.SchemeGroupVersion, meta.RESTScopeNamespace, "DaemonSet", "Deployment")
	add(coordinationv1.SchemeGroupVersion, meta.RESTScopeNamespace, "Lease")
	add(eventsv1.SchemeGroupVersion, meta.RESTScopeNamespace, "Event")
	add(rbacv1.SchemeGroupVersion, meta.RESTScopeRoot, "ClusterRole", "ClusterRoleBinding")
	add(authorizationv1.SchemeGroupVersion, meta.RESTScopeRoot, "SelfSubjectAccessReview", "SubjectAccessReview")
	for _, group := range []schema.GroupVersion{calico.GroupV1, calico.GroupV3} {
		add(group, meta.RESTScopeRoot, "BGPConfiguration", "BGPFilter", "BGPPeer", "BlockAffinity", "CalicoNodeStatus", "ClusterInformation", "FelixConfiguration", "IPPool")
	}
	add(apiextensionsv1.SchemeGroupVersion, meta.RESTScopeRoot, "CustomResourceDefinition")
	return m
}
