// Package snapshot observes a cluster as the manager does: with the same adapter, the
// same provider and the same decision. It changes nothing.
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
	"k8s.io/client-go/rest"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/version"
	"github.com/rrpool/rrpool/cmd/wiring"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/controllers/pool"
	"github.com/rrpool/rrpool/controllers/workload"
)

// DefaultNamespace is the manager's in config/manager.
const DefaultNamespace = "rrpool-system"

// Flags choose the cluster and the manager's namespace.
type Flags struct {
	cluster.Access
	Namespace string
}

// Register adds them to the flags of a command.
func (f *Flags) Register(flags *pflag.FlagSet) {
	f.Access.Register(flags)
	flags.StringVarP(&f.Namespace, "namespace", "n", DefaultNamespace, "namespace of the manager, with its credentials")
}

// Object reads the RouteReflectorPool that --filename names and sets all defaults; "-" is
// standard input. Without a name it is nil.
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
		return nil, fmt.Errorf("--filename: %s: %s", file, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return object, nil
}

// Snapshot is a cluster as the manager observes it.
type Snapshot struct {
	// Name of the context.
	Name string
	// Object is the RouteReflectorPool with all defaults. Stored: the cluster has one.
	Object *v1alpha1.RouteReflectorPool
	Stored bool
	// Scope is what the manager observes, and what it would do next.
	pool.Scope
	// Pods with an IP address of their own by node, nil when they could not be counted;
	// Uncounted then says why.
	Pods      map[string]int
	Uncounted string
}

// Take observes the cluster for an object; nil is the cluster's own RouteReflectorPool, or
// the defaults where there is none. countPods lists all pods, which takes time in a large
// cluster. Every error is a sentence for the user.
func Take(ctx context.Context, c *cluster.Connection, namespace string, object *v1alpha1.RouteReflectorPool, countPods bool) (*Snapshot, error) {
	stored, err := c.Pool(ctx) // first: its error explains best why a cluster cannot be reached
	if err != nil {
		return nil, err
	}
	if object = cmp.Or(object, stored); object == nil {
		if object, err = crd.Default(); err != nil {
			return nil, err
		}
	}
	if stored != nil {
		object.Status = stored.Status
	}
	out, err := Observe(ctx, c, namespace, object, countPods)
	if err == nil {
		out.Stored = stored != nil
	}
	return out, err
}

// Observe is Take for an object with its status, and does not read the RouteReflectorPool of
// the cluster: the user may not be allowed to, and its CRD may not be installed.
func Observe(ctx context.Context, c *cluster.Connection, namespace string, object *v1alpha1.RouteReflectorPool, countPods bool) (*Snapshot, error) {
	out := &Snapshot{Name: c.Name, Object: object}
	o, err := newObserver(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	defer o.close()
	if err := o.waitSynced(ctx); err != nil {
		return nil, err
	}
	if out.Scope, err = o.reconciler.Look(ctx, out.Object); err != nil {
		return nil, fmt.Errorf("looking at the cluster of context %q: %w", c.Name, err)
	}
	if countPods {
		names := make([]string, 0, len(out.Cluster.Nodes))
		for _, node := range out.Cluster.Nodes {
			names = append(names, node.Name)
		}
		if out.Pods, err = o.pods.Count(ctx, names); err != nil {
			out.Pods, out.Uncounted = nil, c.Explain(err, "list", "pods").Error()
		}
	}
	return out, nil
}

// observer has the manager's clients.
type observer struct {
	*cluster.Connection
	adapter    *calico.Adapter
	pods       *workload.Pods
	reconciler *pool.Reconciler
	stop       context.CancelFunc
	stopped    chan struct{}
}

func newObserver(ctx context.Context, c *cluster.Connection, namespace string) (*observer, error) {
	config := rest.CopyConfig(c.Config)
	config.Timeout = 0 // a watch has no end
	adapter, err := calico.New(calico.Config{RestConfig: config, Nodes: c.Client, Writer: c.Client, Log: logr.Discard()})
	if err != nil {
		return nil, fmt.Errorf("connecting to Calico: %w", err)
	}
	web, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster's pods: %w", err)
	}
	pods, err := workload.New(workload.Config{RestConfig: c.Config, HTTPClient: web})
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster's pods: %w", err)
	}
	watching, stop := context.WithCancel(ctx)
	o := &observer{Connection: c, adapter: adapter, pods: pods, stop: stop, stopped: make(chan struct{})}
	o.reconciler = &pool.Reconciler{
		Client: c.Client, Live: c.Client, Datastore: adapter, IsConflict: calico.IsConflict, Namespace: namespace, Workload: pods,
		Providers: wiring.Providers{Adapter: adapter, Pods: pods, UserAgent: version.UserAgent(iostreams.Program)}.Connect,
	}
	go func() {
		defer close(o.stopped)
		_ = adapter.Start(watching) // it fails only when it is started twice
	}()
	return o, nil
}

// failingInterval is how often waitSynced asks the adapter for a failure.
const failingInterval = 50 * time.Millisecond

// waitSynced waits until the adapter has listed everything once, or cannot.
func (o *observer) waitSynced(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	ticker := time.NewTicker(failingInterval)
	defer ticker.Stop()
	synced := make(chan error, 1)
	go func() { synced <- o.adapter.WaitSynced(bounded) }()
	for {
		select {
		case err := <-synced:
			if err == nil {
				return nil
			}
			return o.explain(ctx, err)
		case <-ticker.C:
			if err := o.adapter.Failing(); err != nil && missingRight(err) {
				return o.explain(ctx, err)
			}
		}
	}
}

// missingRight: trying again does not help.
func missingRight(err error) bool {
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "forbidden") || strings.Contains(text, "unauthorized")
}

func (o *observer) explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return iostreams.ErrInterrupted
	case missingRight(err):
		return fmt.Errorf("the cluster of context %q does not show its Calico objects (%w): your user needs to list and watch those of group "+
			"crd.projectcalico.org (kubectl auth can-i list bgppeers.crd.projectcalico.org)", o.Name, err)
	}
	return fmt.Errorf("the cluster of context %q did not show its Calico objects (group crd.projectcalico.org) within %s: %w: "+
		"call it again, or give more --request-timeout", o.Name, o.Timeout, err)
}

// closeTimeout bounds the wait for the end of a watch. The program ends soon after, so a
// watch that the server neither answers nor ends may be left.
const closeTimeout = time.Second

func (o *observer) close() {
	o.stop()
	select {
	case <-o.stopped:
	case <-time.After(closeTimeout):
	}
}
