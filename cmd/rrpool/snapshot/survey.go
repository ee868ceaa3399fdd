// Package snapshot looks at a cluster with the manager's own eyes: the same adapter, the
// same provider, the same decision. It changes nothing.
package snapshot

import (
	"context"
	"fmt"
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

// DefaultNamespace is where config/manager puts the manager.
const DefaultNamespace = "rrpool-system"

// Flags say which cluster is meant, and where its manager is.
type Flags struct {
	cluster.Access
	Namespace string
}

// Register makes flags of it.
func (f *Flags) Register(flags *pflag.FlagSet) {
	f.Access.Register(flags)
	flags.StringVarP(&f.Namespace, "namespace", "n", DefaultNamespace, "namespace of the manager, with its credentials")
}

// Survey is a cluster as the manager sees it.
type Survey struct {
	// Name of the context.
	Name string
	// Object is the RouteReflectorPool that was looked at, complete with all defaults.
	// Asked: it is in the cluster; otherwise it is what somebody thinks of.
	Object *v1alpha1.RouteReflectorPool
	Asked  bool
	// Turn is what the manager sees, and what it would do next.
	pool.Turn
	// Pods with an address of their own by node, nil when they could not be counted;
	// Uncounted then says why.
	Pods      map[string]int
	Uncounted string
}

// Take looks at the cluster. object is what to look for; nil is the cluster's own
// RouteReflectorPool, or the defaults where there is none. countPods asks for all pods,
// which takes a moment in a large cluster. Every error is a sentence for the user.
func Take(ctx context.Context, c *cluster.Connection, namespace string, object *v1alpha1.RouteReflectorPool, countPods bool) (*Survey, error) {
	stored, err := c.Pool(ctx) // first, as it explains best why a cluster is out of reach
	if err != nil {
		return nil, err
	}
	out := &Survey{Name: c.Name, Object: object}
	switch {
	case object != nil:
	case stored != nil:
		out.Object, out.Asked = stored, true
	default:
		if out.Object, err = crd.Default(); err != nil {
			return nil, err
		}
	}
	if stored != nil {
		out.Object.Status = stored.Status
	}
	eyes, err := open(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	defer eyes.close()
	if err := eyes.wait(ctx, c); err != nil {
		return nil, err
	}
	if out.Turn, err = eyes.reconciler.Look(ctx, out.Object); err != nil {
		return nil, fmt.Errorf("looking at the cluster of context %q: %w", c.Name, err)
	}
	if countPods {
		out.count(ctx, c, eyes.pods)
	}
	return out, nil
}

func (s *Survey) count(ctx context.Context, c *cluster.Connection, pods *workload.Pods) {
	names := make([]string, 0, len(s.Cluster.Nodes))
	for _, node := range s.Cluster.Nodes {
		names = append(names, node.Name)
	}
	counts, err := pods.Count(ctx, names)
	if err != nil {
		s.Uncounted = c.Explain(err, "list", "pods").Error()
		return
	}
	s.Pods = counts
}

// eyes are the manager's.
type eyes struct {
	adapter    *calico.Adapter
	pods       *workload.Pods
	reconciler *pool.Reconciler
	stop       context.CancelFunc
	stopped    chan struct{}
}

func open(ctx context.Context, c *cluster.Connection, namespace string) (*eyes, error) {
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
	e := &eyes{adapter: adapter, pods: pods, stopped: make(chan struct{})}
	e.reconciler = &pool.Reconciler{
		Client: c.Client, Live: c.Client, Datastore: adapter, IsConflict: calico.IsConflict, Namespace: namespace, Workload: pods,
		Providers: wiring.Providers{Adapter: adapter, Pods: pods, UserAgent: version.UserAgent(iostreams.Program)}.Connect,
	}
	watching, stop := context.WithCancel(ctx)
	e.stop = stop
	go func() {
		defer close(e.stopped)
		_ = adapter.Start(watching) // it fails when it is started twice
	}()
	return e, nil
}

// impatience is how often a look at what fails is taken while waiting.
const impatience = 50 * time.Millisecond

// wait until everything has been seen once, or cannot be.
func (e *eyes) wait(ctx context.Context, c *cluster.Connection) error {
	bounded, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	ticker := time.NewTicker(impatience)
	defer ticker.Stop()
	synced := make(chan error, 1)
	go func() { synced <- e.adapter.WaitSynced(bounded) }()
	for {
		select {
		case err := <-synced:
			if err == nil {
				return nil
			}
			return e.explain(ctx, c, err)
		case <-ticker.C:
			if err := e.adapter.Failing(); err != nil && !passing(err) {
				return e.explain(ctx, c, err)
			}
		}
	}
}

// passing tells a failure that may be over at the next try from a missing right.
func passing(err error) bool {
	words := strings.ToLower(err.Error())
	return !strings.Contains(words, "forbidden") && !strings.Contains(words, "unauthorized")
}

func (*eyes) explain(ctx context.Context, c *cluster.Connection, err error) error {
	if ctx.Err() != nil {
		return iostreams.ErrInterrupted
	}
	if passing(err) {
		return fmt.Errorf("the cluster of context %q did not show its Calico objects (group crd.projectcalico.org) within %s: %w: "+
			"call it again, or give more --request-timeout", c.Name, c.Timeout, err)
	}
	return fmt.Errorf("the cluster of context %q does not show its Calico objects (%w): your user needs to list and watch those of group "+
		"crd.projectcalico.org (kubectl auth can-i list bgppeers.crd.projectcalico.org)", c.Name, err)
}

// lingering is how long the end of a watch is waited for. One that the server neither
// answers nor ends may stay behind: the command is over all the same.
const lingering = time.Second

func (e *eyes) close() {
	e.stop()
	select {
	case <-e.stopped:
	case <-time.After(lingering):
	}
}
