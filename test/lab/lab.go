//go:build linux

// Package lab runs the BGP of a Calico cluster in one process tree: a network namespace per node, Calico's own confd and node status reporter,
// BIRD, a real apiserver, and probes between all pods. Only the hosts are simulated.
//
// A lab runs in private network and mount namespaces: Main (for TestMain) and Isolate (for programs) re-execute the binary inside them. Nothing
// outside is touched, no privileges are needed where unprivileged user namespaces are allowed, and the kernel cleans up when the process dies.
//
// IPPools must not be encapsulated, because stock BIRD does not support that. No kubelet, controller or scheduler runs: SetReady sets whether
// nodes are Ready, and the lab itself ends pods that are evicted or deleted, which are not replaced. Each node with pods has one address for the
// probes, in each address family.
//
// Two clusters in one network are two labs, the second with Options.Beside: probes run between all pods of both.
package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/projectcalico/calico/libcalico-go/lib/apiconfig"
	"github.com/projectcalico/calico/libcalico-go/lib/backend"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/api"
	"github.com/projectcalico/calico/libcalico-go/lib/clientv3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/lab/probe"
	"github.com/rrpool/rrpool/test/programs"
)

// Options configure a cluster. The zero value is a cluster with Calico's defaults.
type Options struct {
	// MeshPassword, if set, is the BGP password of the mesh, as on IKS: the default BGPConfiguration refers to a Secret with it.
	MeshPassword string
	// Etcd: Calico keeps its objects in an etcd of its own (DATASTORE_TYPE=etcdv3), and a node is two objects.
	Etcd bool
	// Bare: rrpool's CustomResourceDefinitions are not installed.
	Bare bool
	// ProbeInterval defaults to probe.DefaultInterval.
	ProbeInterval time.Duration
	// ProbeNeighbours is the number of endpoints, the last ones before it, that each new one is probed with. 0: all.
	ProbeNeighbours int
	// ASNumber of all nodes, in a default BGPConfiguration. 0 is Calico's own, 64512.
	ASNumber uint32
	// ListenPort of all BIRDs, in a default BGPConfiguration. 0: the field is not set.
	ListenPort uint16
	// Beside is another cluster in whose network this one is, with addresses of its own. They share the probes: Checkpoint and Report of each are
	// for both. Stop the other one last.
	Beside *Lab
	// Name is a prefix of the names of nodes in the probes, as in "b/worker-0", because both clusters may have a worker-0.
	Name string
	// Service: every node has a service address, as with kube-proxy in IPVS mode, and all pods probe it as "service". It is advertised only if
	// the BGPConfiguration says so: see ServiceNetwork.
	Service bool
	// DualStack: everything with an IPv4 address has the IPv6 address V6 of it too, there is an IPPool of IPv6, and BIRD 6 has Calico's
	// configuration. Endpoints of IPv6 probes have the suffix " IPv6". Faults of BIRD, such as KillBIRD, do not concern BIRD 6. It cannot be
	// combined with Etcd.
	DualStack bool
}

// Lab is a running cluster. It is safe for concurrent use.
type Lab struct {
	options  Options
	dir      string // for every configuration and log, until Stop
	agent    string // the node agent's binary
	realTime bool

	fabric *fabric
	index  int // in the fabric
	plane  *controlplane.ControlPlane
	kube   kubernetes.Interface
	calico clientv3.Interface
	// backend is the client for objects of Calico's IPAM.
	backend api.Client

	kubelets     sync.WaitGroup
	stopKubelets context.CancelFunc

	mu      sync.Mutex
	nodes   map[string]*node
	created int
}

// Start starts a cluster without nodes: add them with AddNodes. The process must be inside its namespaces: see Main and Isolate. There can be one
// lab at a time, except with Options.Beside.
func Start(ctx context.Context, options Options) (*Lab, error) {
	if os.Getenv(insideVariable) == "" {
		return nil, errors.New("starting the lab: not inside private namespaces; call Main or Isolate first")
	}
	l := &Lab{options: options, agent: programs.Path("calico-node"), realTime: mayUseRealTime(), nodes: map[string]*node{}}
	if !l.realTime {
		fmt.Fprintln(os.Stderr, "lab: BIRD may not have real-time priority here; on a busy machine probes may be lost that no real node would lose")
	}
	if err := l.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the lab: %w", err), l.Stop())
	}
	return l, nil
}

func (l *Lab) start(ctx context.Context) (err error) {
	if l.dir, err = os.MkdirTemp("", "rrlab-"); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	if l.options.Beside != nil {
		l.fabric = l.options.Beside.fabric
	} else if l.fabric, err = newFabric(l.options); err != nil {
		return err
	}
	l.index = l.fabric.join()
	if err := l.startControlPlane(ctx); err != nil {
		return err
	}
	if err := writeConfdTemplates(ctx, l.path("confd"), l.rendered()); err != nil {
		return err
	}
	if err := l.createCluster(ctx); err != nil {
		return err
	}
	if l.options.Service {
		if err := l.probe("service", l.ServiceAddress(), nil); err != nil {
			return err
		}
	}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.stopKubelets = cancel
	l.kubelets.Go(func() {
		// The apiserver may be down on purpose: retry, as kubelets do.
		wait.UntilWithContext(background, func(ctx context.Context) { _ = l.endDeleted(ctx) }, kubeletPeriod)
	})
	return nil
}

func (l *Lab) startControlPlane(ctx context.Context) error {
	calico, err := controlplane.CalicoCRDs(ctx)
	if err != nil {
		return err
	}
	crds := []string{calico}
	if l.options.Etcd {
		crds = nil // the apiserver knows nothing of Calico
	}
	if !l.options.Bare {
		crds = append(crds, controlplane.OwnCRDs())
	}
	dir := l.path("control-plane")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	var services []string
	for _, p := range l.Families(l.ServiceNetwork()) {
		services = append(services, p.String())
	}
	l.plane, err = controlplane.Start(ctx, controlplane.Options{
		Dir: dir, Host: controlPlaneAddress().String(), CRDs: crds, APIServerFlags: []string{"--service-cluster-ip-range=" + strings.Join(services, ",")},
	})
	if err != nil {
		return err
	}
	return errors.Join(
		controlplane.WriteKubeconfig(l.Kubeconfig(), l.plane.AdminConfig()),
		controlplane.WriteKubeconfig(l.path("agent.kubeconfig"), l.plane.UserConfig(agentUser, "system:masters")), l.makeClients(),
	)
}

func (l *Lab) makeClients() (err error) {
	config := l.plane.UserConfig(labUser, "system:masters")
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	if l.kube, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("making the client: %w", err)
	}
	calico := apiconfig.NewCalicoAPIConfig()
	calico.Spec.DatastoreType = apiconfig.Kubernetes
	calico.Spec.Kubeconfig = l.Kubeconfig()
	if l.options.Etcd {
		calico.Spec.DatastoreType, calico.Spec.EtcdEndpoints = apiconfig.EtcdV3, l.plane.EtcdURL()
	}
	if l.backend, err = backend.NewClient(*calico); err == nil {
		l.calico, err = clientv3.New(*calico)
	}
	return err
}

// Stop ends everything and removes the folder.
func (l *Lab) Stop() error {
	var errs []error
	if l.stopKubelets != nil {
		l.stopKubelets()
		l.kubelets.Wait()
	}
	for _, n := range l.nodes {
		errs = append(errs, l.unprobe(n.spec.Name))
		l.fabric.unplug(n.port())
		n.destroy()
	}
	if l.plane != nil {
		errs = append(errs, l.plane.Stop())
	}
	switch {
	case l.fabric == nil:
	case l.options.Beside == nil:
		errs = append(errs, l.fabric.close())
	case l.options.Service:
		errs = append(errs, l.unprobe("service"))
	}
	return errors.Join(append(errs, os.RemoveAll(l.dir))...)
}

// ControlPlane returns the lab's apiserver. Nodes and this process can reach it.
func (l *Lab) ControlPlane() *controlplane.ControlPlane { return l.plane }

// AdminConfig returns the configuration of a client with all rights.
func (l *Lab) AdminConfig() *rest.Config { return l.plane.AdminConfig() }

// Kubeconfig returns the path of an administrator's kubeconfig, also for Calico's clients with DATASTORE_TYPE=kubernetes.
func (l *Lab) Kubeconfig() string { return l.path("kubeconfig") }

// Kube returns a client with all rights.
func (l *Lab) Kube() kubernetes.Interface { return l.kube }

// Calico returns a libcalico-go client with all rights.
func (l *Lab) Calico() clientv3.Interface { return l.calico }

// Datastore returns the environment variables that configure clients of Calico's datastore.
func (l *Lab) Datastore() []string {
	if l.options.Etcd {
		return []string{"DATASTORE_TYPE=etcdv3", "ETCD_ENDPOINTS=" + l.plane.EtcdURL()}
	}
	return []string{"DATASTORE_TYPE=kubernetes"}
}

// Checkpoint begins a phase of the probes.
func (l *Lab) Checkpoint(name string) { l.fabric.prober.Checkpoint(name) }

// Report returns the results of the probes until now. The endpoints have the names of nodes, with Options.Name as a prefix.
func (l *Lab) Report() probe.Report { return l.fabric.prober.Report() }

// endpoint returns the name of a node's endpoint of probes.
func (l *Lab) endpoint(name string) string { return path.Join(l.options.Name, name) }

// ipv6Suffix is the suffix of the names of IPv6 endpoints.
const ipv6Suffix = " IPv6"

func (l *Lab) probe(name string, address netip.Addr, enter func(func() error) error) error {
	err := l.fabric.prober.Add(l.endpoint(name), address, enter)
	if err == nil && l.options.DualStack {
		err = l.fabric.prober.Add(l.endpoint(name)+ipv6Suffix, v6(address), enter)
	}
	return err
}

// serve receives probes to the service address in a node.
func (l *Lab) serve(n *node) error {
	for _, p := range l.Families(netip.PrefixFrom(l.ServiceAddress(), 32)) {
		done, err := l.fabric.prober.Serve(p.Addr(), n.space.enter)
		if err != nil {
			return err
		}
		n.served = append(n.served, done)
	}
	return nil
}

func (l *Lab) unprobe(name string) error {
	return errors.Join(l.fabric.prober.Remove(l.endpoint(name)), l.fabric.prober.Remove(l.endpoint(name)+ipv6Suffix))
}

// Families returns a range or address and, with DualStack, its counterpart in IPv6.
func (l *Lab) Families(p netip.Prefix) []netip.Prefix {
	if l.options.DualStack {
		return []netip.Prefix{p, V6(p)}
	}
	return []netip.Prefix{p}
}

// Nodes returns the names of the nodes, in the order of their creation.
func (l *Lab) Nodes() []string {
	var names []string
	for _, n := range l.upNodes() {
		names = append(names, n.spec.Name)
	}
	return names
}

// upNodes returns the nodes that AddNodes has finished, in the order of their creation.
func (l *Lab) upNodes() []*node {
	l.mu.Lock()
	defer l.mu.Unlock()
	nodes := slices.DeleteFunc(slices.Collect(maps.Values(l.nodes)), func(n *node) bool { return !n.up })
	slices.SortFunc(nodes, func(a, b *node) int { return a.number - b.number })
	return nodes
}

// Address returns a node's address, which BGP uses; the zero Addr if there is no such node.
func (l *Lab) Address(name string) netip.Addr {
	n, err := l.node(name)
	if err != nil {
		return netip.Addr{}
	}
	return n.spec.Address
}

func (l *Lab) node(name string) (*node, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n, ok := l.nodes[name]; ok && n.up {
		return n, nil
	}
	return nil, fmt.Errorf("there is no node %q", name)
}

func (l *Lab) path(name string) string { return filepath.Join(l.dir, name) }

// controlPlaneAddress returns the address of all apiservers. Each has a port of its own.
func controlPlaneAddress() netip.Addr { return nodeNetwork.Addr().Next() }

// PodNetwork returns the range of the cluster's IPPool; each node with pods has a block of 64 addresses of it.
func (l *Lab) PodNetwork() netip.Prefix { return netip.PrefixFrom(Nth(podNetworks, l.index<<16), 16) }

// ServiceNetwork returns the range of the cluster's service addresses.
func (l *Lab) ServiceNetwork() netip.Prefix {
	return netip.PrefixFrom(Nth(serviceNetworks, -l.index<<16), 24)
}

// ServiceAddress returns the address of Options.Service.
func (l *Lab) ServiceAddress() netip.Addr { return Nth(l.ServiceNetwork().Addr(), firstHost) }

// Block returns the address block that a node with pods announces; the zero Prefix if there is no such node.
func (l *Lab) Block(name string) netip.Prefix {
	n, err := l.node(name)
	if err != nil || n.spec.Pods == 0 {
		return netip.Prefix{}
	}
	return n.block
}

// dumped are the resources that Dump writes.
var dumped = []schema.GroupVersionResource{
	{Version: "v1", Resource: "nodes"},
	{Version: "v1", Resource: "pods"},
	{Version: "v1", Resource: "events"},
	{Group: "crd.projectcalico.org", Version: "v1", Resource: "bgpconfigurations"},
	{Group: "crd.projectcalico.org", Version: "v1", Resource: "bgppeers"},
	{Group: "crd.projectcalico.org", Version: "v1", Resource: "bgpfilters"},
	{Group: "crd.projectcalico.org", Version: "v1", Resource: "ippools"},
	{Group: "crd.projectcalico.org", Version: "v1", Resource: "caliconodestatuses"},
	{Group: "crd.projectcalico.org", Version: "v1", Resource: "blockaffinities"},
	{Group: "rrpool.io", Version: "v1alpha1", Resource: "routereflectorpools"},
	{Group: "rrpool.io", Version: "v1alpha1", Resource: "clusterpeerings"},
}

// Dump writes what explains a failure into a folder: the report, objects, and for each node confd's output, BIRD's status and all logs. It goes
// on after errors and returns them joined.
func (l *Lab) Dump(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second) // a broken lab may hang
	defer cancel()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("dumping the lab: %w", err)
	}
	out, err := exec.CommandContext(ctx, "bash", "-c", `cp -r "$0"/control-plane/*.log "$0"/nodes "$1"`, l.dir, dir).CombinedOutput() //nolint:gosec // G204: our own folders
	if err != nil {
		err = fmt.Errorf("copying the logs: %w: %s", err, out)
	}
	errs := []error{err, l.dumpReport(dir), l.dumpObjects(ctx, dir)}
	for _, name := range l.Nodes() {
		errs = append(errs, l.dumpNode(name, filepath.Join(dir, "nodes", name)))
	}
	return errors.Join(errs...)
}

func (l *Lab) dumpReport(dir string) error {
	report := l.Report()
	var text bytes.Buffer
	fmt.Fprintln(&text, report.Phases, report.ZeroLoss())
	for _, pair := range report.Lossy() {
		fmt.Fprintln(&text, pair)
	}
	return os.WriteFile(filepath.Join(dir, "probes.txt"), text.Bytes(), 0o600)
}

func (l *Lab) dumpObjects(ctx context.Context, dir string) error {
	client, err := dynamic.NewForConfig(l.AdminConfig())
	if err != nil {
		return err
	}
	var errs []error
	for _, resource := range dumped {
		if l.options.Etcd && resource.Group == "crd.projectcalico.org" {
			continue
		}
		list, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			errs = append(errs, fmt.Errorf("dumping %s: %w", resource.Resource, err))
			continue
		}
		for i := range list.Items {
			list.Items[i].SetManagedFields(nil)
		}
		text, err := yaml.Marshal(list.Items)
		errs = append(errs, err, os.WriteFile(filepath.Join(dir, resource.Resource+".yaml"), text, 0o600))
	}
	return errors.Join(errs...)
}

func (l *Lab) dumpNode(name, dir string) error {
	n, err := l.node(name)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for _, command := range []string{"show status", "show protocols all", "show route all"} {
		answer, err := n.birdc(command)
		if err != nil {
			answer = err.Error()
		}
		fmt.Fprintf(&text, "# birdc %s\n%s\n", command, answer)
	}
	routes, err := n.space.link.RouteList(nil, 0)
	fmt.Fprintf(&text, "# kernel routes (%v)\n", err)
	for _, route := range routes {
		fmt.Fprintln(&text, route)
	}
	return os.WriteFile(filepath.Join(dir, "bird.txt"), text.Bytes(), 0o600)
}
