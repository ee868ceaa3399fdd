// Package snapshot observes a cluster as the manager does, with the same adapter, provider and decision, and changes nothing.
package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/version"
	"github.com/rrpool/rrpool/cmd/wiring"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
	"github.com/rrpool/rrpool/controllers/pool"
	"github.com/rrpool/rrpool/controllers/workload"
)

// DefaultNamespace is the namespace of the manager in config/manager.
const DefaultNamespace = "rrpool-system"

// Flags choose the cluster and the manager's namespace.
type Flags struct {
	cluster.Access
	Namespace string
}

// Register adds these flags to the flags of a command.
func (f *Flags) Register(flags *pflag.FlagSet) {
	f.Access.Register(flags)
	flags.StringVarP(&f.Namespace, "namespace", "n", DefaultNamespace, "namespace of the manager, with its credentials")
}

// Object reads the RouteReflectorPool in a file, - for standard input, and sets all defaults. Without a file it returns nil.
func Object(file string, in io.Reader) (*v1alpha1.RouteReflectorPool, error) {
	if file == "" {
		return nil, nil
	}
	var content []byte
	var err error
	if file == "-" {
		content, err = io.ReadAll(in)
	} else {
		content, err = os.ReadFile(file) //nolint:gosec // G304: the file that the user names
	}
	if err != nil {
		return nil, fmt.Errorf("--filename: %q cannot be read: %w: give the name of a file with a RouteReflectorPool (config/samples has some)", file, iostreams.Reason(err))
	}
	object, err := crd.Read(content)
	if err != nil {
		return nil, fmt.Errorf("--filename: %s: %w", file, err)
	}
	return object, nil
}

// Snapshot is a cluster as the manager observes it.
type Snapshot struct {
	// Name is the name of the context.
	Name string
	// Object is the RouteReflectorPool with all defaults. Stored is set if the cluster has one.
	Object *v1alpha1.RouteReflectorPool
	Stored bool
	// Scope is what the manager observes, and what it would do next.
	pool.Scope
	// Pods is the number of pods with an IP address of their own, by node. If counting failed, Pods is nil and Uncounted says why.
	Pods      map[string]int
	Uncounted string
}

// Stops returns the problem of the provider at which the manager stops, nil for none. The manager does
// not stop at a problem that only this user has, that passes, or that concerns a part of the pool only.
func (s *Snapshot) Stops() *plan.Problem {
	p, spec := s.ProviderProblem, s.Object.Spec
	switch {
	case p == nil, spec.Mode == v1alpha1.ModeFullMesh:
		return nil
	case p.Reason == reason.CredentialsUnreadable, p.Reason == reason.CloudRateLimited, p.Reason == reason.PoolProblem:
		return nil
	case p.Reason == reason.CloudUnauthorized && s.Provider != v1alpha1.ProviderIKS:
		return nil
	case p.Reason == reason.CloudUnavailable && spec.Provider.IKS.Endpoint == v1alpha1.EndpointPrivate:
		return nil
	}
	return p
}

// Take observes the cluster for an object. If object is nil, it takes the cluster's RouteReflectorPool, or else one with
// all defaults. countPods lists all pods, which takes time in a large cluster. Every error is a sentence for the user.
func Take(ctx context.Context, c *cluster.Connection, namespace string, object *v1alpha1.RouteReflectorPool, countPods bool) (*Snapshot, error) {
	stored, err := c.Pool(ctx) // comes first, as its error explains best why a cluster cannot be reached
	if err != nil {
		return nil, err
	}
	object = cmp.Or(object, stored, crd.Default())
	if stored != nil {
		object.Status, object.Annotations = stored.Status, stored.Annotations // the manager writes both
	}
	out, err := Observe(ctx, c, namespace, object, countPods)
	if err == nil {
		out.Stored = stored != nil
	}
	return out, err
}

// Observe is like Take for an object that has its status. It does not read the cluster's
// RouteReflectorPool, so the user needs no right to read it and the CRD need not be installed.
func Observe(ctx context.Context, c *cluster.Connection, namespace string, object *v1alpha1.RouteReflectorPool, countPods bool) (*Snapshot, error) {
	config := rest.CopyConfig(c.Config)
	config.Timeout = 0 // a time limit would end the watches
	adapter, err := calico.New(calico.Config{RestConfig: config, Nodes: c.Client, Writer: c.Client, Log: logr.Discard()})
	if err != nil {
		return nil, fmt.Errorf("connecting to Calico: %w", err)
	}
	web, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster's pods: %w", err)
	}
	pods, err := workload.New(c.Config, web)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster's pods: %w", err)
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go func() { _ = adapter.Start(watching) }() // Start fails only when it is started twice
	if err := waitSynced(ctx, c, adapter); err != nil {
		return nil, err
	}
	reconciler := &pool.Reconciler{
		Client: c.Client, Live: c.Client, Datastore: adapter, Namespace: namespace, Workload: pods,
		Providers: wiring.Providers(adapter, pods, version.UserAgent(iostreams.Program), nil), Platforms: wiring.Platforms,
	}
	out := &Snapshot{Name: c.Name, Object: object}
	if out.Scope, err = reconciler.Look(ctx, object); err != nil {
		return nil, fmt.Errorf("looking at the cluster of context %q: %w", c.Name, err)
	}
	if countPods {
		names := make([]string, 0, len(out.Cluster.Nodes))
		for _, node := range out.Cluster.Nodes {
			names = append(names, node.Name)
		}
		if out.Pods, err = pods.Count(ctx, names); err != nil {
			out.Pods, out.Uncounted = nil, c.Explain(err, "list", "pods").Error()
		}
	}
	return out, nil
}

// waitSynced waits until the adapter has listed all objects once. It ends early if a right to list or watch them is missing.
func waitSynced(ctx context.Context, c *cluster.Connection, adapter *calico.Adapter) error {
	bounded, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	go wait.UntilWithContext(bounded, func(context.Context) {
		if missingRight(adapter.Failing()) {
			cancel()
		}
	}, 50*time.Millisecond)
	err := adapter.WaitSynced(bounded)
	switch failing := adapter.Failing(); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return iostreams.ErrInterrupted
	case missingRight(failing):
		return fmt.Errorf("the cluster of context %q does not show its Calico objects (%w): your user needs to list and watch those of group "+
			"crd.projectcalico.org, or projectcalico.org (kubectl auth can-i list bgppeers.crd.projectcalico.org)", c.Name, failing)
	}
	return fmt.Errorf("the cluster of context %q did not show its Calico objects within %s: %w: "+
		"call it again, or give more --request-timeout", c.Name, c.Timeout, err)
}

// missingRight reports whether an error means that a right is missing, so that trying again does not help.
func missingRight(err error) bool {
	text := strings.ToLower(fmt.Sprint(err))
	return strings.Contains(text, "forbidden") || strings.Contains(text, "unauthorized")
}
