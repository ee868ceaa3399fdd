package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// errInterrupted is what is left to say after Ctrl-C.
var errInterrupted = errors.New("interrupted")

// access says which cluster is meant, as kubectl's flags of the same names do.
type access struct {
	kubeconfig, context string
	timeout             time.Duration
}

func (a *access) register(flags *pflag.FlagSet) {
	flags.StringVar(&a.kubeconfig, "kubeconfig", "", "kubeconfig file; default: $KUBECONFIG, ~/.kube/config")
	flags.StringVar(&a.context, "context", "", "context of the kubeconfig; default: its current one")
	flags.DurationVar(&a.timeout, "request-timeout", 15*time.Second, "how long the cluster may take to answer")
}

// cluster is what a command reads from a cluster.
type cluster struct {
	// name of the context.
	name string
	// pool is nil while nobody has asked for route reflectors.
	pool  *v1alpha1.RouteReflectorPool
	nodes []corev1.Node
}

// connection is a cluster that can be asked.
type connection struct {
	client.Client
	name, server string
	timeout      time.Duration
}

// connect finds the cluster without asking it anything. Both kinds are known ahead,
// so no discovery is needed, nor the right to it.
func (a *access) connect() (*connection, error) {
	if a.timeout <= 0 {
		return nil, fmt.Errorf("--request-timeout: %s is no time to wait: use for example 15s", a.timeout)
	}
	config, name, err := a.load()
	if err != nil {
		return nil, err
	}
	config.Timeout = a.timeout
	config.UserAgent = "rrpool"
	config.WarningHandler = rest.NoWarnings{}
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	mapper.Add(v1alpha1.GroupVersion.WithKind("RouteReflectorPool"), meta.RESTScopeRoot)
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: context %q does not describe a cluster: %w", name, err)
	}
	return &connection{Client: c, name: name, server: config.Host, timeout: a.timeout}, nil
}

func (a *access) load() (*rest.Config, string, error) {
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

// read gives the pool and all nodes.
func (c *connection) read(ctx context.Context) (*cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	out := &cluster{name: c.name}
	var object v1alpha1.RouteReflectorPool
	err := c.Get(ctx, client.ObjectKey{Name: v1alpha1.SingletonName}, &object)
	switch {
	case err == nil:
		out.pool = &object
	case !isMissingObject(err):
		return nil, c.explain(err, "get", "routereflectorpools.rrpool.io")
	}
	var list corev1.NodeList
	for {
		if err := c.List(ctx, &list, client.Limit(500), client.Continue(list.Continue)); err != nil {
			return nil, c.explain(err, "list", "nodes")
		}
		out.nodes = append(out.nodes, list.Items...)
		if list.Continue == "" {
			return out, nil
		}
	}
}

// isMissingObject tells an object that is not there from a kind that is not there:
// of the latter the apiserver says nothing but "page not found", which the client
// marks as unexpected.
func isMissingObject(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// explain says in one sentence what went wrong and what to do about it.
func (c *connection) explain(err error, verb, resource string) error {
	var unreachable *url.Error
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the user of context %q may not %s %s: ask for a ClusterRole that allows it (kubectl auth can-i %s %s says when)",
			c.name, verb, resource, verb, resource)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the cluster does not accept the credentials of context %q: log in again", c.name)
	case apierrors.IsNotFound(err) && schema.ParseGroupResource(resource).Group != "":
		return fmt.Errorf("the cluster of context %q does not know %s: install rrpool's CRD (kubectl apply --server-side -k config/crd), or choose another --context", c.name, resource)
	case errors.Is(err, context.Canceled):
		return errInterrupted
	case errors.Is(err, context.DeadlineExceeded), os.IsTimeout(err):
		return fmt.Errorf("%s of context %q did not answer within %s: check the network, or give more --request-timeout", c.server, c.name, c.timeout)
	case errors.As(err, &unreachable):
		return fmt.Errorf("%s of context %q cannot be reached (%w): check the address and the network, or choose another --context", c.server, c.name, root(unreachable.Err))
	default:
		return fmt.Errorf("asking %s of context %q to %s %s: %s", c.server, c.name, verb, resource, strings.TrimSuffix(err.Error(), "."))
	}
}

// root is the first cause: the outer ones repeat the address.
func root(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
