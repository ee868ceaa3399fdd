package plan

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/fake"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/cmd/wiring"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/plan/topology"
	"github.com/rrpool/rrpool/controllers/pool"
	"github.com/rrpool/rrpool/controllers/workload"
)

// How long the model takes to deploy a worker and to delete one. In IBM Cloud 20 minutes are usual for a deployment.
const (
	// DeployTime is the time from the order to the node.
	DeployTime = 20 * time.Minute
	deleteTime = 3 * time.Minute
)

// environment is the model that the manager works on, and the plan that results. It is the manager's
// Datastore, its existing nodes, its Workload (in which evictions take no time) and its recorder of events.
type environment struct {
	model   *simulate.Model
	cloud   *fake.Cloud
	manager *pool.Reconciler
	object  *v1alpha1.RouteReflectorPool
	// poolName is the value of the pool label. inPlace is set if the pool consists of existing nodes.
	poolName string
	inPlace  bool
	// pods is the number of pods by node, nil if they were not counted.
	pods map[string]int

	// writes are the changes of the current reconciliation. asked counts the nodes that this reconciliation asked for a report.
	writes []string
	asked  int

	// cut are the nodes that have been unreachable at any moment.
	plan *Plan
	cut  sets.Set[string]
	// ordered counts the new workers by zone. joined counts the workers that became nodes.
	ordered map[string]int
	joined  int

	// waits is the step and what it waits for. since is when waits last changed or a step last wrote.
	waits      string
	since      time.Time
	stepName   string
	reconciles int
}

func newEnvironment(in Input) *environment {
	object, id := in.Object.DeepCopy(), ""
	for _, n := range in.Cluster.Nodes {
		id = cmp.Or(id, iks.Platform{}.IdentityOf(n).ClusterID)
	}
	object.Spec.Provider.Type, object.Spec.Provider.IKS.ClusterID = in.Provider, cmp.Or(id, "model")
	scope := plan.DatastoreOptions{RoleLabel: object.Spec.BGP.NodeLabel, ZoneLabel: object.Spec.Topology.ZoneLabel}
	cluster := in.Cluster // without Routes.Unknown (see Plan.Assumes) and BGPPeers of ClusterPeerings, which another controller writes
	cluster.Routes.Unknown = ""
	cluster.Peers = slices.DeleteFunc(slices.Clone(cluster.Peers), func(p plan.Peer) bool { return p.Peering != "" })
	e := &environment{
		model: simulate.New(cluster, scope, in.Now), since: in.Now, object: object, poolName: object.Spec.Provider.IKS.PoolName,
		pods: maps.Clone(in.Pods), cut: sets.New[string](), ordered: map[string]int{},
		plan: &Plan{in: in, Steps: []PlannedStep{}, Loss: []Loss{}, Problem: strayZones(in)},
	}
	if e.inPlace = in.Provider == v1alpha1.ProviderExistingNodes; e.inPlace {
		e.poolName = pool.ExistingPool
	} else {
		e.cloud = newCloud(in, e.nodeName, e.model.Now)
	}
	key := credentials{key: object.Spec.Provider.IKS.CredentialsSecretRef.Key}
	e.manager = &pool.Reconciler{
		Client: key, Live: key, Namespace: "model", TokenFile: "model", Datastore: e, Workload: e, Providers: e.connect, Platforms: wiring.Platforms,
		Recorder: e, Now: e.model.Now, Pause: e.pass, Next: e.next,
	}
	return e
}

// newCloud makes a cloud with the observed pool. If the cloud was not asked, the pool is that of poolOf.
func newCloud(in Input, nodeName func(zone, id string) string, now func() time.Time) *fake.Cloud {
	spec, known := in.Object.Spec.Provider.IKS, in.Pool
	if known == nil {
		known = poolOf(in)
	}
	zones := sets.New(slices.Concat(known.ClusterZones, known.Zones, spec.Zones)...)
	for _, n := range in.Cluster.Nodes {
		zones.Insert(n.Zone)
	}
	return fake.New(fake.Options{
		PoolName: spec.PoolName, Flavor: "default", Zones: sets.List(zones.Delete("")), Now: now,
		DeployTime: DeployTime, DeleteTime: deleteTime, NodeName: nodeName, Pool: known,
	})
}

// poolOf derives the pool from the nodes that have its label.
func poolOf(in Input) *cloud.Pool {
	spec := in.Object.Spec.Provider.IKS
	out := &cloud.Pool{Owned: true, ID: spec.PoolName, Name: spec.PoolName}
	out.Taints = []cloud.Taint{{Key: spec.Taint.Key, Value: spec.Taint.Value, Effect: string(spec.Taint.Effect)}}
	count := map[string]int{}
	for _, n := range in.Cluster.Nodes {
		if n.Labels[v1alpha1.PoolLabel] != spec.PoolName {
			continue
		}
		count[n.Zone]++
		out.Exists, out.SizePerZone = true, max(out.SizePerZone, count[n.Zone])
		out.Workers = append(out.Workers, cloud.Worker{ID: n.WorkerID, NodeName: n.Name, Zone: n.Zone, State: cloud.WorkerDeployed})
	}
	out.Zones = slices.Sorted(maps.Keys(count))
	return out
}

// nodeName returns an unused name for the node of a new worker.
func (e *environment) nodeName(zone, _ string) string {
	for {
		e.ordered[zone]++
		name := fmt.Sprintf("new-%s-%d", zone, e.ordered[zone])
		if !slices.ContainsFunc(e.model.Nodes(), func(n plan.Node) bool { return n.Name == name }) {
			return name
		}
	}
}

// next calls rollout.Next, and records its step in the model as the cause of the writes that follow.
func (e *environment) next(o rollout.Observed, d rollout.Desired, now time.Time) rollout.Step {
	step := rollout.Next(o, d, now)
	e.model.SetCause(step.Name)
	return step
}

func (e *environment) connect(cfg pool.ProviderConfig) (cloud.Provider, error) {
	if !e.inPlace {
		return e.cloud.Provider(), nil
	}
	count := e.Count
	if e.pods == nil {
		count = nil
	}
	return wiring.ExistingNodes(cfg, e, count, e.model.Now), nil
}

// pass advances the clock by d, and records for each interval between changes which nodes cannot be reached.
func (e *environment) pass(d time.Duration) {
	for _, at := range append(e.model.ChangeTimes(d), e.model.Now().Add(d)) {
		if passed := at.Sub(e.model.Now()); passed > 0 {
			e.lose()
			e.model.Advance(passed)
		}
		if e.cloud != nil {
			e.deploy()
		}
	}
}

// lose records the nodes whose pods cannot be reached now, each only the first time.
func (e *environment) lose() {
	for _, node := range e.unreached() {
		if e.cut.Has(node) {
			continue
		}
		e.cut.Insert(node)
		count, known := e.pods[node]
		if !known {
			count = -1
		}
		e.plan.Loss = append(e.plan.Loss, Loss{Node: node, Pods: count, Step: e.model.Cause()})
	}
}

// unreached returns the nodes that others cannot reach now, sorted. Of each pair without a route,
// it takes the node that is in more such pairs, or both nodes if they are in equally many.
func (e *environment) unreached() []string {
	pairs, count, out := e.model.Unreached(e.runsPods), map[string]int{}, sets.New[string]()
	for _, p := range pairs {
		count[p.From]++
		count[p.To]++
	}
	for _, p := range pairs {
		if count[p.From] >= count[p.To] {
			out.Insert(p.From)
		}
		if count[p.To] >= count[p.From] {
			out.Insert(p.To)
		}
	}
	for node := range out.Clone() { // pairs has at most two nodes of a class
		out.Insert(e.model.SameClass(node)...)
	}
	return sets.List(out)
}

// runsPods reports whether pods run on the node. If the pods were not counted, some are assumed. Nodes of a dedicated pool run none.
func (e *environment) runsPods(n plan.Node) bool {
	count, known := e.pods[n.Name]
	return (e.inPlace || !e.owns(n)) && (!known || count > 0)
}

// owns reports whether the node is in the pool.
func (e *environment) owns(n plan.Node) bool { return n.Labels[v1alpha1.PoolLabel] == e.poolName }

// deploy adds a node for each deployed worker that has none, and removes the pool's nodes whose worker is gone.
func (e *environment) deploy() {
	missing := map[string]cloud.Worker{}
	for _, w := range e.cloud.Workers() {
		if w.State == cloud.WorkerDeployed {
			missing[w.ID] = w
		}
	}
	for _, n := range e.model.Nodes() {
		_, up := missing[n.WorkerID]
		delete(missing, n.WorkerID)
		if !up && e.owns(n) {
			e.model.Leave(n.Name)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(missing)) {
		e.model.Join(e.newNode(missing[id]))
	}
}

// newNode makes the node of a worker. Its addresses are from the ranges for
// benchmarks (RFC 2544 and 5180), in the families that other nodes have.
func (e *environment) newNode(w cloud.Worker) plan.Node {
	e.joined++
	high, low := byte(e.joined>>8), byte(e.joined) //nolint:gosec // G115: the bytes of a number
	addresses := []netip.Addr{netip.AddrFrom4([4]byte{198, 18, high, low}), netip.AddrFrom16([16]byte{0x20, 0x01, 0, 2, 14: high, 15: low})}
	return plan.Node{
		Name: w.NodeName, UID: w.ID, WorkerID: w.ID, ProviderID: "ibm://model///" + e.object.Spec.Provider.IKS.ClusterID + "/" + w.ID,
		Zone: w.Zone, Created: e.model.Now(), Ready: true, ReadyChanged: e.model.Now(),
		Labels: map[string]string{v1alpha1.PoolLabel: e.poolName, e.object.Spec.Topology.ZoneLabel: w.Zone},
		Addresses: slices.DeleteFunc(addresses, func(a netip.Addr) bool {
			return !slices.ContainsFunc(e.model.Nodes(), func(n plan.Node) bool {
				return slices.ContainsFunc(n.Addresses, func(o netip.Addr) bool { return o.Is4() == a.Is4() })
			})
		}),
	}
}

func (e *environment) shape() Shape {
	out := Shape{MeshOn: e.model.Observe().BGP.MeshOn(), Zones: map[string]int{}}
	out.Sessions, out.PerReflector, out.PerClient = e.model.Sessions()
	kinds := sets.New[string]()
	for _, n := range e.model.Nodes() {
		if !n.SpeaksBGP() {
			continue
		}
		out.Nodes++
		if n.HasRoleLabel && n.ClusterID != "" {
			out.Reflectors++
			kinds.Insert(string(topology.KindOf(n.Slot)))
		}
		if e.owns(n) {
			out.Zones[n.Zone]++
		}
	}
	out.Topology = strings.Join(sets.List(kinds), " and ")
	if !out.MeshOn && out.Reflectors == 0 {
		out.Elsewhere, _ = rollout.Carried(e.model.Observe(), e.object.Spec.BGP.NodeLabel)
	}
	return out
}

// Observe implements pool.Datastore.
func (e *environment) Observe(context.Context, plan.DatastoreOptions) (plan.Cluster, error) {
	return e.model.Observe(), nil
}

// Apply implements pool.Datastore.
func (e *environment) Apply(_ context.Context, _ plan.DatastoreOptions, action plan.Action) (bool, error) {
	return e.model.Apply(action)
}

// Try implements pool.Datastore. It refuses nothing: what the cluster refuses is already among the observed problems.
func (e *environment) Try(context.Context, plan.DatastoreOptions, plan.Action) error { return nil }

// Watch implements pool.Datastore.
func (e *environment) Watch(_ context.Context, want []plan.StatusRequest) (bool, error) {
	asked, changed := e.model.Watch(want)
	e.asked += len(asked)
	return changed, nil
}

// List implements existing.Nodes.
func (e *environment) List(context.Context) ([]plan.Node, error) { return e.model.Nodes(), nil }

// SetPool implements existing.Nodes.
func (e *environment) SetPool(_ context.Context, node plan.Node, name string) error {
	e.model.Edit(node.Name, func(n *plan.Node) {
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		if delete(n.Labels, v1alpha1.PoolLabel); name != "" {
			n.Labels[v1alpha1.PoolLabel] = name
		}
	})
	return nil
}

// Count implements pool.Workload.
func (e *environment) Count(_ context.Context, nodes []string) (map[string]int, error) {
	out := maps.Clone(e.pods)
	maps.DeleteFunc(out, func(node string, _ int) bool { return !slices.Contains(nodes, node) })
	return out, nil
}

// Evictable implements pool.Workload.
func (e *environment) Evictable(_ context.Context, node string) (moving, staying []string, err error) {
	if count := e.pods[node]; count > 0 {
		moving = append(moving, fmt.Sprintf("%d pods", count))
	}
	return moving, nil, nil
}

// Evict implements pool.Workload.
func (e *environment) Evict(_ context.Context, node string) (workload.Eviction, error) {
	count := e.pods[node]
	if count > 0 {
		delete(e.pods, node) // unknown, not 0: pods of DaemonSets stay
	}
	return workload.Eviction{Evicted: count}, nil
}

// Eventf implements events.EventRecorder. It keeps the events about writes: Normal, but not Recovered.
func (e *environment) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	if kind == corev1.EventTypeNormal && reason != "Recovered" {
		e.writes = append(e.writes, fmt.Sprintf(note, args...))
	}
}

// credentials is a client that always has the Secret with the API key.
type credentials struct {
	client.Client
	key string
}

// Get implements client.Reader.
func (c credentials) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if secret, ok := object.(*corev1.Secret); ok {
		secret.Data = map[string][]byte{c.key: []byte("model")}
	}
	return nil
}
