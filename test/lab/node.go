//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/rrpool/rrpool/test/controlplane"
)

// NodeSpec describes a host that joins the cluster.
type NodeSpec struct {
	// Name must be unused.
	Name string
	// Zone becomes the label topology.kubernetes.io/zone, when set.
	Zone string
	// Labels besides the zone, the hostname and the operating system.
	Labels map[string]string
	Taints []corev1.Taint
	// ProviderID is spec.providerID, such as ibm://….
	ProviderID string
	// Pods is the number of pods at the start. A node with pods has an address block, and an endpoint of the probes while it has any; a node that
	// begins without pods announces nothing.
	Pods int
	// Controlled: a ReplicaSet is the controller of the pods.
	Controlled bool
	// Address of the node. Default: the next free one.
	Address netip.Addr
}

// node is a host: its namespaces and the processes in them.
type node struct {
	spec   NodeSpec
	number int
	index  int // of the lab in the fabric
	block  netip.Prefix
	files  []string // rendered by confd
	dir    string
	space  *space
	agent  *daemon
	bird   *daemon
	bird6  *daemon
	pods   podSet
	served []func() error // each stops receiving probes of the service
	// up is guarded by the lab's lock; once it is set nothing above changes.
	up bool
}

// AddNodes starts hosts, several at a time: it registers each node, starts its processes, waits until BIRD runs, and marks it Ready. It does not
// wait for sessions: see WaitMesh. Probes of a pair count from the first that arrives. Addresses and ages are in the order of the nodes.
func (l *Lab) AddNodes(ctx context.Context, specs ...NodeSpec) error {
	const parallel = 8
	slots := make(chan struct{}, parallel)
	errs := make([]error, len(specs))
	var all sync.WaitGroup
	for i, spec := range specs {
		n, err := l.reserve(spec)
		if err != nil {
			errs[i] = fmt.Errorf("adding node %q: %w", spec.Name, err)
			continue
		}
		slots <- struct{}{}
		registered := l.register(ctx, n)
		all.Go(func() {
			errs[i] = l.add(ctx, n, registered)
			<-slots
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (l *Lab) add(ctx context.Context, n *node, err error) error {
	if err == nil {
		err = l.bringUp(ctx, n)
	}
	if err != nil {
		err = errors.Join(err, l.unprobe(n.spec.Name))
		l.forget(n)
		n.destroy()
		return fmt.Errorf("adding node %q: %w", n.spec.Name, err)
	}
	return nil
}

// RemoveNode removes a host as an orderly deletion of a machine does: BIRD shuts its sessions down, the host's namespaces end, and its objects
// are deleted. After Crash, peers keep its routes for the graceful restart time.
func (l *Lab) RemoveNode(ctx context.Context, name string) error {
	return l.on(name, func(n *node) error {
		if err := l.unprobe(name); err != nil {
			return err
		}
		if n.bird.running() {
			_ = l.StopBIRD(name)
		}
		l.forget(n)
		n.destroy()
		// The apiserver may be down on purpose.
		return poll(ctx, func() error { return l.deleteNode(ctx, n) })
	})
}

// reserve reserves the name and a number for a node.
func (l *Lab) reserve(spec NodeSpec) (*node, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, exists := l.nodes[spec.Name]; exists {
		return nil, errors.New("it exists")
	}
	n := &node{spec: spec, number: l.created, index: l.index, dir: l.path("nodes/" + spec.Name), files: l.rendered()}
	n.block = netip.PrefixFrom(Nth(l.PodNetwork().Addr(), n.number*blockSize), blockBits)
	if !spec.Address.IsValid() {
		n.spec.Address = Nth(nodeNetwork.Addr(), l.index<<13+firstHost+n.number)
	}
	l.created++
	l.nodes[spec.Name] = n
	return n, nil
}

func (l *Lab) forget(n *node) {
	l.fabric.unplug(n.port())
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.nodes, n.spec.Name)
}

func (l *Lab) register(ctx context.Context, n *node) error {
	if err := l.wire(n); err != nil {
		return err
	}
	return l.createNode(ctx, n)
}

func (l *Lab) bringUp(ctx context.Context, n *node) error {
	if err := l.startDaemons(ctx, n); err != nil {
		return err
	}
	if err := l.createCalicoNode(ctx, n); err != nil {
		return err
	}
	l.mu.Lock()
	n.up = true
	l.mu.Unlock()
	if err := l.SetReady(ctx, n.spec.Name, corev1.ConditionTrue); err != nil {
		return err
	}
	return l.createPods(ctx, n)
}

// wire creates the host's namespaces, its link to the fabric, and the folder of BIRD's sockets.
func (l *Lab) wire(n *node) (err error) {
	if err := os.MkdirAll(n.config(""), 0o750); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	if n.space, err = newSpace(); err != nil {
		return err
	}
	err = n.space.enter(func() error { return syscall.Mount(n.path("run"), calicoRunDir, "", syscall.MS_BIND, "") })
	if err != nil {
		return fmt.Errorf("mounting %s: %w", calicoRunDir, err)
	}
	for path, value := range map[string]string{
		"ipv4/ip_forward": "1", "ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0",
	} {
		if err := n.space.sysctl(path, value); err != nil {
			return fmt.Errorf("setting %s: %w", path, err)
		}
	}
	if err := errors.Join(l.fabric.plug(n.space.link, "eth0", n.port(), n.spec.Address), l.wire6(n)); err != nil {
		return err
	}
	if l.options.Service {
		if err := errors.Join(l.addLocal(n.space, serviceDevice, l.ServiceAddress()), l.serve(n)); err != nil {
			return err
		}
	}
	if n.spec.Pods == 0 {
		return nil
	}
	return l.addLocal(n.space, podDevice, n.podAddress())
}

// wire6 configures the host's IPv6.
func (l *Lab) wire6(n *node) error {
	if !l.options.DualStack {
		return nil
	}
	return errors.Join(
		n.space.sysctl("ipv6/conf/all/forwarding", "1"),
		n.space.sysctl("ipv6/conf/default/accept_dad", "0"), n.space.sysctl("ipv6/conf/eth0/accept_dad", "0"), // without it link-local addresses are tentative for a second
		addAddress(n.space.link, "eth0", V6(inNodeNetwork(n.spec.Address))),
	)
}

// startDaemons starts the processes of calico-node: confd and the reporter, then BIRD with the configuration that confd has rendered.
func (l *Lab) startDaemons(ctx context.Context, n *node) error {
	empty := fmt.Sprintf("router id %s;\nprotocol device {}\n", n.spec.Address)
	if err := os.WriteFile(n.config(emptyConfig), []byte(empty), 0o600); err != nil {
		return fmt.Errorf("writing bird6's configuration: %w", err)
	}
	n.agent = &daemon{
		space: n.space, logPath: n.path("calico-node.log"), restart: true,
		command: []string{"nice", "-n", "15", l.agent, "-confdir=" + l.path("confd"), "-interval=600"},
		env: []string{
			"NODENAME=" + l.calicoName(n), "CALICO_K8S_NODE_REF=" + n.spec.Name, "NAMESPACE=" + SecretNamespace,
			"KUBECONFIG=" + l.path("agent.kubeconfig"), "GOMAXPROCS=2",
		},
	}
	n.agent.env = append(n.agent.env, l.Datastore()...)
	n.bird = n.newBIRD("bird", "bird.cfg", l.realTime, "-R")
	config := emptyConfig
	if l.options.DualStack {
		config = "bird6.cfg"
	}
	n.bird6 = n.newBIRD("bird6", config, l.realTime && l.options.DualStack, "-R")
	return n.boot(ctx)
}

// newBIRD returns the host's BIRD as a daemon that is not started.
func (n *node) newBIRD(program, config string, realTime bool, flags ...string) *daemon {
	var command []string
	if realTime {
		command = []string{"chrt", "-r", "10"}
	}
	command = append(append(command, program, "-s", calicoRunDir+"/"+program+".ctl", "-d", "-c", configDir+"/"+config), flags...)
	return &daemon{space: n.space, logPath: n.path(program + ".log"), command: command}
}

func (n *node) boot(ctx context.Context) error {
	if err := n.agent.start(); err != nil {
		return err
	}
	if err := n.waitForConfig(ctx); err != nil {
		return err
	}
	if err := n.bird6.start(); err != nil {
		return err
	}
	return n.startBIRD(ctx)
}

func (n *node) startBIRD(ctx context.Context) error {
	if err := n.bird.start(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return poll(ctx, func() error {
		if !n.bird.running() {
			cancel()
			return fmt.Errorf("BIRD has ended: %s", controlplane.Tail(n.bird.logPath))
		}
		_, err := n.birdc("show status")
		return err
	})
}

const emptyConfig = "bird6-empty.cfg"

// rendered returns the names of the files that confd renders.
func (l *Lab) rendered() []string {
	files := []string{"bird.cfg", "bird_aggr.cfg", "bird_ipam.cfg"}
	if l.options.DualStack {
		files = append(files, "bird6.cfg", "bird6_aggr.cfg", "bird6_ipam.cfg")
	}
	return files
}

func (n *node) waitForConfig(ctx context.Context) error {
	return poll(ctx, func() error {
		for _, name := range n.files {
			if _, err := os.Stat(n.config(name)); err != nil {
				return fmt.Errorf("confd has not rendered %s", name)
			}
		}
		return nil
	})
}

func (n *node) destroy() {
	n.kill()
	for _, done := range n.served {
		_ = done()
	}
	if n.space != nil {
		n.space.close()
	}
}

// kill kills the processes, BIRD first.
func (n *node) kill() {
	for _, d := range []*daemon{n.bird, n.bird6, n.agent} {
		if d != nil {
			d.stop(syscall.SIGKILL)
		}
	}
}

// podAddress returns the address of the node's endpoint of probes.
func (n *node) podAddress() netip.Addr { return n.block.Addr().Next() }

func (n *node) port() string { return fmt.Sprintf("port%d-%d", n.index, n.number) }

func (n *node) path(name string) string { return filepath.Join(n.dir, name) }

// config returns the path of a file that is in configDir on the node.
func (n *node) config(name string) string { return n.path("run/config/" + name) }

// sessionName returns the name that confd gives a session with the node.
func (n *node) sessionName(prefix string) string {
	return prefix + strings.ReplaceAll(n.spec.Address.String(), ".", "_")
}

// Enter calls do on a thread in a node's network and mount namespaces.
func (l *Lab) Enter(name string, do func() error) error {
	return l.on(name, func(n *node) error { return n.space.enter(do) })
}

// on calls do with a node.
func (l *Lab) on(name string, do func(*node) error) error {
	n, err := l.node(name)
	if err != nil {
		return err
	}
	if err := do(n); err != nil {
		return fmt.Errorf("node %q: %w", name, err)
	}
	return nil
}

// zones is the number of availability zones of Workers and Dedicated: zone-1 to zone-3.
const zones = 3

// Workers returns n nodes with a pod each in three zones: worker-0, worker-1 and so on.
func Workers(n int) []NodeSpec {
	specs := make([]NodeSpec, n)
	for i := range specs {
		specs[i] = NodeSpec{Name: fmt.Sprintf("worker-%d", i), Zone: fmt.Sprintf("zone-%d", i%zones+1), Pods: 1}
	}
	return specs
}

// Dedicated returns n tainted nodes without pods in three zones: reflector-0, reflector-1 and so on.
func Dedicated(n int) []NodeSpec {
	specs := make([]NodeSpec, n)
	for i := range specs {
		specs[i] = NodeSpec{
			Name: fmt.Sprintf("reflector-%d", i), Zone: fmt.Sprintf("zone-%d", i%zones+1),
			Taints: []corev1.Taint{{Key: "rrpool.io/dedicated", Value: "route-reflector", Effect: corev1.TaintEffectNoExecute}},
		}
	}
	return specs
}

// Router is a host outside the cluster that runs BIRD and nothing else, as a top-of-rack switch does.
type Router struct{ node *node }

// AddRouter adds a router. Its address must be below those of nodes.
func (l *Lab) AddRouter(ctx context.Context, name string, address netip.Addr, config string) (*Router, error) {
	n, err := l.reserve(NodeSpec{Name: name, Address: address})
	if err != nil {
		return nil, err
	}
	if err := l.wire(n); err != nil {
		return nil, err
	}
	if err := os.WriteFile(n.config("bird.cfg"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	n.bird = n.newBIRD("bird", "bird.cfg", l.realTime)
	return &Router{n}, n.startBIRD(ctx)
}

// Ask sends a command to the router's BIRD: see the function Ask.
func (r *Router) Ask(command string) (string, error) { return r.node.birdc(command) }
