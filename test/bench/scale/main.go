// Command scale measures the resources that the manager uses in clusters of 100, 1,000 and 5,000 nodes: on a real kube-apiserver with nodes of
// real size and kubelets' heartbeats, with the cloud of test/iksserver, and with status reports from the model of package simulate.
//
//	scale [--sizes 100,1000,5000] [--rest 10m] [--operator program] [-- its arguments]
//
// Another operator is measured at rest only, with KUBECONFIG set. The command fails if a goal is missed that does not depend on the machine.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/procfs"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/fakenetwork"
	"github.com/rrpool/rrpool/test/iksserver"
	"github.com/rrpool/rrpool/test/programs"
)

const (
	// grace is the default of spec.rollout.notReadyGrace.
	grace = time.Minute
	// perRoute is the time that BIRD takes to send a route (docs/capacity.md), in which reflectors do not report.
	perRoute = 2500 * time.Nanosecond
	patience = time.Hour
)

func main() {
	sizes := pflag.IntSlice("sizes", []int{100, 1000, 5000}, "how many nodes, separated by commas")
	restTime := pflag.Duration("rest", 10*time.Minute, "how long the cluster is watched at rest")
	operator := pflag.String("operator", "", "another operator's program; what follows -- are its arguments")
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *sizes, *restTime, append([]string{*operator}, pflag.Args()...))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

// run measures each size, on a new control plane, and prints the table of docs/performance.md.
func run(ctx context.Context, sizes []int, restTime time.Duration, operator []string) error {
	ctrllog.SetLogger(logr.Discard())
	if err := programs.Build(ctx, os.Stderr, "manager"); err != nil {
		return err
	}
	var all []figures
	var errs []error
	for _, size := range sizes {
		if size < zones {
			return fmt.Errorf("--sizes: %d is less than %d", size, zones)
		}
		b := &bench{size: (size + zones - 1) / zones, restTime: restTime, operator: operator, warmUp: time.Minute}
		err := b.run(ctx)
		if err != nil {
			return errors.Join(fmt.Errorf("measuring %d nodes: %w", size, err), b.tail())
		}
		all = append(all, b.figures)
		errs = append(errs, b.missed(), os.RemoveAll(b.dir))
	}
	printTable(all)
	return errors.Join(errs...)
}

// bench is one cluster.
type bench struct {
	figures
	size     int // nodes per zone
	restTime time.Duration
	operator []string
	warmUp   time.Duration // of another operator

	dir     string
	plane   *controlplane.ControlPlane
	admin   client.Client
	cloud   *iksserver.Server
	server  *httptest.Server
	manager *controlplane.Process
}

func (b *bench) tail() error {
	return errors.New(controlplane.Tail(filepath.Join(b.dir, "manager.log")))
}

func (b *bench) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if b.dir, err = os.MkdirTemp("", "rrscale-"); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	if err := b.start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.plane.Stop()) }()
	defer b.server.Close()
	defer b.cloud.Close()
	if err := b.startManager(ctx); err != nil {
		return err
	}
	defer b.manager.Kill()
	if b.operator[0] != "" {
		if err := sleep(ctx, b.warmUp); err != nil {
			return err
		}
		return b.rest(ctx)
	}
	if err := b.migrate(ctx); err != nil {
		return err
	}
	if err := b.rest(ctx); err != nil {
		return err
	}
	return b.lose(ctx)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// start creates the cluster, with all nodes in the mesh.
func (b *bench) start(ctx context.Context) error {
	crds, err := controlplane.CalicoCRDs(ctx)
	if err != nil {
		return err
	}
	b.plane, err = controlplane.Start(ctx, controlplane.Options{Dir: b.dir, AuditReads: true, CRDs: []string{crds, controlplane.OwnCRDs()}})
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	config := fast(b.plane.AdminConfig())
	nodes, err := cache.New(config, cache.Options{Scheme: scheme, DefaultTransform: func(o any) (any, error) {
		if n, ok := o.(*corev1.Node); ok {
			n.Status.Images = nil
		}
		return o, nil
	}})
	if err != nil {
		return err
	}
	go nodes.Start(ctx) //nolint:errcheck // what it lacks is seen
	if b.admin, err = client.New(config, client.Options{Scheme: scheme, Cache: &client.CacheOptions{Reader: nodes, Unstructured: true}}); err != nil {
		return err
	}
	if err := install(ctx, b.admin); err != nil {
		return err
	}
	b.startCloud(ctx)
	workers := b.cloud.Workers(clusterID, "default")
	if err := each(len(workers), func(i int) error { return join(ctx, b.admin, workers[i]) }); err != nil {
		return err
	}
	b.Nodes = len(workers)
	kubelet, err := client.New(fast(b.plane.UserConfig("system:node:bench", "system:nodes", "system:masters")), client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	kubelets(ctx, kubelet, workers)
	network := &fakenetwork.Network{Client: b.admin, Now: time.Now, Polls: true, Busy: func(sessions int) time.Duration {
		if sessions < b.Nodes/2 {
			return 0
		}
		return time.Duration(sessions*b.Nodes) * perRoute
	}}
	go network.Run(ctx, time.Second)
	return nil
}

func fast(c *rest.Config) *rest.Config {
	c.QPS, c.Burst = -1, -1
	return c
}

// startCloud starts the cloud, with the nodes in the default pool. An ordered worker joins after 6 s.
func (b *bench) startCloud(ctx context.Context) {
	given := 0
	b.cloud = iksserver.New(iksserver.Config{
		APIKeys: []string{apiKey}, Delays: iksserver.Delays{Pending: 2 * time.Second, Provisioning: 2 * time.Second, Deploying: 2 * time.Second},
		AllocateIP: func(string, string) string {
			given++
			return fmt.Sprintf("172.20.%d.%d", given/250, given%250+1)
		},
		OnDeployed: func(w iksserver.Worker) {
			if err := join(ctx, b.admin, w); err != nil {
				fmt.Fprintln(os.Stderr, "scale:", err)
			}
			b.joined = time.Now()
		},
	})
	seed := iksserver.Cluster{ID: clusterID, Name: "scale", Provider: iksserver.VPC, VPCID: "r006-scale", ResourceGroup: "5f1e0c2a"}
	pool := iksserver.Pool{Name: "default", Flavor: "bx2.4x16", SizePerZone: b.size}
	for i := range zones {
		seed.Zones = append(seed.Zones, iksserver.Zone{ID: zone(i), Subnets: []iksserver.Subnet{{ID: fmt.Sprintf("0717-%d", i), CIDR: "172.20.0.0/16", Available: 9000}}})
		pool.Zones = append(pool.Zones, zone(i))
	}
	seed.Pools = []iksserver.Pool{pool}
	b.cloud.AddCluster(seed)
	b.server = httptest.NewServer(b.cloud)
	go b.cloud.Run(ctx, 200*time.Millisecond)
}

func (b *bench) startManager(ctx context.Context) (err error) {
	config, args := b.plane.ServiceAccountConfig(namespace, "rrpool-manager"), b.operator
	b.user = controlplane.ServiceAccountUser(namespace, "rrpool-manager")
	if args[0] == "" {
		args = []string{programs.Path("manager"), "--namespace", namespace, "--metrics-bind-address=0", "--health-probe-bind-address=0"}
	} else {
		b.user = "another-operator"
		config = b.plane.UserConfig(b.user, "system:masters")
	}
	kubeconfig := filepath.Join(b.dir, "manager.kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, config); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // G204: the caller's own
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "IBMCLOUD_CS_API_ENDPOINT="+b.server.URL+"/global", "IBMCLOUD_IAM_API_ENDPOINT="+b.server.URL)
	b.manager, err = controlplane.StartProcess(cmd, filepath.Join(b.dir, "manager.log"), nil)
	return err
}

// pool returns the RouteReflectorPool.
func (b *bench) pool(ctx context.Context) (*v1alpha1.RouteReflectorPool, error) {
	o := &v1alpha1.RouteReflectorPool{}
	err := b.admin.Get(ctx, client.ObjectKey{Name: v1alpha1.SingletonName}, o)
	return o, err
}

func (b *bench) until(ctx context.Context, what string, so func(*v1alpha1.RouteReflectorPool) bool) error {
	var last *v1alpha1.RouteReflectorPool
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		o, err := b.pool(ctx)
		if last = o; err == nil && so(o) {
			return true, nil
		}
		if !b.manager.Running() {
			return false, errors.New("the manager has ended")
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w: %+v", what, err, last.Status.Step)
	}
	return nil
}

func rested(o *v1alpha1.RouteReflectorPool) bool {
	return o.Status.Step.Name == "Steady" && meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReady)
}

// migrate migrates the cluster to route reflectors.
func (b *bench) migrate(ctx context.Context) error {
	o := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}}
	o.Spec.Topology.Type = v1alpha1.TopologyAuto
	began := time.Now()
	if err := b.admin.Create(ctx, o); err != nil {
		return fmt.Errorf("creating the RouteReflectorPool: %w", err)
	}
	if err := b.until(ctx, "Steady", rested); err != nil {
		return err
	}
	b.Steady = time.Since(began)
	b.Cloud = b.joined.Sub(began)
	last, err := b.pool(ctx)
	if err != nil {
		return err
	}
	for _, r := range last.Status.Reflectors {
		b.Reflectors, b.Sessions = b.Reflectors+1, max(b.Sessions, int(r.SessionsExpected))
	}
	b.BIRD = time.Duration(b.Sessions*b.Nodes) * perRoute
	b.Topology = "Single"
	if _, after, found := strings.Cut(last.Status.Step.Reason, " in topology "); found {
		b.Topology, _, _ = strings.Cut(after, " ")
	}
	return b.count(ctx, began)
}

// count counts the manager's writes since then.
func (b *bench) count(ctx context.Context, began time.Time) error {
	writes, err1 := b.plane.Writes(b.user, began)
	peers, err2 := fakenetwork.Written(ctx, b.admin, "BGPPeer")
	for _, w := range writes {
		switch {
		case w.Code >= 300 || w.Lease():
		case slices.Contains([]string{"nodes", "bgppeers", "bgpconfigurations"}, w.Resource):
			b.Routing++
		case strings.HasPrefix(w.Resource, "caliconodestatuses"):
			b.Asked++
		default:
			b.Other++
		}
	}
	b.Floor = b.Reflectors + len(peers) + 1
	return errors.Join(err1, err2)
}

// usage is the resources that a process has used so far.
type usage struct {
	cpu       time.Duration
	peak      uint64
	readBytes uint64
}

func (b *bench) usage() (usage, error) {
	p, err := procfs.NewProc(b.manager.Pid())
	if err != nil {
		return usage{}, fmt.Errorf("looking at the manager: %w", err)
	}
	stat, err1 := p.Stat()
	status, err2 := p.NewStatus()
	io, err3 := p.IO()
	return usage{time.Duration(stat.CPUTime() * float64(time.Second)), status.VmHWM, io.RChar}, errors.Join(err1, err2, err3)
}

// rest measures a cluster in which nothing changes but heartbeats.
func (b *bench) rest(ctx context.Context) error {
	before, err := b.usage()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := sleep(ctx, b.restTime); err != nil {
		return err
	}
	after, err := b.usage()
	if err != nil {
		return err
	}
	requests, err := b.plane.Requests(b.user, began)
	if err != nil {
		return err
	}
	writes, err := b.plane.Writes(b.user, began)
	if err != nil {
		return err
	}
	for _, w := range writes {
		if !w.Lease() {
			b.RestWrites++
			fmt.Fprintln(os.Stderr, "scale: a write at rest:", w)
		}
	}
	b.RestRequests = len(requests)
	b.RestCPU, b.RestRead, b.Peak = after.cpu-before.cpu, after.readBytes-before.readBytes, after.peak
	return nil
}

// lose makes the machine of a reflector fail, and measures the time until another one is ordered.
func (b *bench) lose(ctx context.Context) error {
	o, err := b.pool(ctx)
	if err != nil {
		return err
	}
	lost, node := o.Status.Reflectors[0].Node, &corev1.Node{}
	if err := b.admin.Get(ctx, client.ObjectKey{Name: lost}, node); err != nil {
		return err
	}
	_, before, _ := b.cloud.Counts()
	for _, w := range b.cloud.Workers(clusterID, poolName) {
		if w.IP == lost {
			b.cloud.Break(clusterID, w.ID, "deploy_failed", "critical", "the machine does not answer")
		}
	}
	began := time.Now()
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(began), Reason: "NodeStatusUnknown",
	}}
	if err := b.admin.Status().Update(ctx, node); err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		if _, now, _ := b.cloud.Counts(); now == before {
			return false, nil
		}
		// Times in the API are whole seconds, so the grace time may begin up to a second earlier.
		b.Reaction = time.Since(began.Truncate(time.Second)) - grace
		return true, nil
	})
}
