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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/fake"
	"github.com/rrpool/rrpool/cmd/wiring"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
	"github.com/rrpool/rrpool/controllers/plan/topology"
	"github.com/rrpool/rrpool/controllers/pool"
	"github.com/rrpool/rrpool/controllers/workload"
)

// What machines take in the model: 20 minutes are usual in IBM Cloud.
const (
	DeployTime = 20 * time.Minute
	deleteTime = 3 * time.Minute
)

// environment is everything around the manager, made of models.
type environment struct {
	model   *simulate.Model
	cloud   *fake.Cloud
	manager *pool.Reconciler
	object  *v1alpha1.RouteReflectorPool
	// inPlace: the pool is existing nodes.
	inPlace bool
	// pods by node, nil when unknown.
	pods map[string]int

	// writes are those of the present reconcile, asked the nodes that were asked for a report.
	writes []string
	asked  int

	lost []Loss
	// cut are the nodes that could not be reached before the first reconcile.
	cut []string
	// drained are the nodes whose pods were asked to go.
	drained map[string]bool
	// ordered counts machines by zone, serial those that joined.
	ordered map[string]int
	serial  int
}

func newEnvironment(in Input) *environment {
	object := in.Object.DeepCopy()
	scope := plan.Scope{RoleLabel: object.Spec.BGP.NodeLabel, ZoneLabel: object.Spec.Topology.ZoneLabel}
	s := &environment{
		model:   simulate.New(in.Cluster, scope, in.Now),
		object:  object,
		inPlace: in.Provider == v1alpha1.ProviderExistingNodes,
		pods:    maps.Clone(in.Pods), ordered: map[string]int{}, drained: map[string]bool{},
	}
	object.Spec.Provider.Type = in.Provider
	object.Spec.Provider.IKS.ClusterID = ""
	if !s.inPlace {
		s.cloud = newCloud(in, s.nodeName, s.model.Now)
	}
	secrets := credentials{id: clusterID(in.Cluster.Nodes), key: object.Spec.Provider.IKS.CredentialsSecretRef}
	s.manager = &pool.Reconciler{
		Client: secrets, Live: secrets, Namespace: "model", Datastore: s, Workload: s, Providers: s.connect,
		Recorder: s, Now: s.model.Now, Pause: s.pass, Next: s.next,
	}
	return s
}

// newCloud is a cloud with the pool as it was reported, or as its nodes look.
func newCloud(in Input, nodeName func(zone, id string) string, now func() time.Time) *fake.Cloud {
	spec := in.Object.Spec.Provider.IKS
	known := in.Pool
	if known == nil {
		known = poolOf(in)
	}
	zones := map[string]bool{}
	for _, zone := range slices.Concat(known.ClusterZones, known.Zones, spec.Zones) {
		zones[zone] = true
	}
	for _, n := range in.Cluster.Nodes {
		if n.Zone != "" {
			zones[n.Zone] = true
		}
	}
	return fake.New(fake.Options{
		PoolName: spec.PoolName, Flavor: "default", Zones: slices.Sorted(maps.Keys(zones)), Now: now,
		DeployTime: DeployTime, DeleteTime: deleteTime, NodeName: nodeName, Pool: known,
	})
}

// poolOf is the pool as the nodes look that are in it, when the cloud was not asked.
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

// clusterID is the one that the nodes' providerIDs name.
func clusterID(nodes []plan.Node) string {
	for _, n := range nodes {
		if id := pool.ProviderClusterID(n.ProviderID); id != "" {
			return id
		}
	}
	return "model"
}

// nodeName names the node of a machine that does not exist yet.
func (s *environment) nodeName(zone, _ string) string {
	for {
		s.ordered[zone]++
		name := fmt.Sprintf("new-%s-%d", zone, s.ordered[zone])
		if !slices.ContainsFunc(s.model.Nodes(), func(n plan.Node) bool { return n.Name == name }) {
			return name
		}
	}
}

// next is rollout.Next. What is written now is written because of its step.
func (s *environment) next(o rollout.Observed, d rollout.Desired, now time.Time) rollout.Step {
	step := rollout.Next(o, d, now)
	s.model.Because(step.Name)
	return step
}

func (s *environment) connect(cfg pool.ProviderConfig) (cloud.Provider, error) {
	if !s.inPlace {
		return s.cloud.Provider(), nil
	}
	count := s.Count
	if s.pods == nil {
		count = nil
	}
	return wiring.ExistingNodes(cfg, s, count, s.model.Now)
}

// pass lets time go by, and looks at each moment at which something changes whether
// all pods can reach each other.
func (s *environment) pass(d time.Duration) {
	until := s.model.Now().Add(d)
	for _, at := range s.model.Moments(d) {
		s.to(at)
	}
	s.to(until)
}

func (s *environment) to(at time.Time) {
	if passed := at.Sub(s.model.Now()); passed > 0 {
		for _, node := range s.unreached() {
			s.lose(node)
		}
		s.model.Advance(passed)
	}
	if s.cloud != nil {
		s.deploy()
	}
}

// unreached are the nodes that others cannot reach at this moment.
func (s *environment) unreached() []string {
	var out []string
	for _, node := range culprits(s.model.Unreached(s.mattersTo)) {
		out = append(out, s.model.Alike(node)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// culprits are the nodes that the others cannot reach: those whose absence explains
// all pairs. Of a pair that nothing else explains both are named.
func culprits(pairs []simulate.Pair) []string {
	var out []string
	for len(pairs) > 0 {
		others := map[string]map[string]bool{}
		for _, p := range pairs {
			for _, side := range []simulate.Pair{p, {From: p.To, To: p.From}} {
				if others[side.From] == nil {
					others[side.From] = map[string]bool{}
				}
				others[side.From][side.To] = true
			}
		}
		names := slices.Sorted(maps.Keys(others))
		worst := slices.MaxFunc(names, func(a, b string) int { return cmp.Or(len(others[a])-len(others[b]), strings.Compare(b, a)) })
		if len(others[worst]) == 1 {
			return append(out, names...)
		}
		out = append(out, worst)
		pairs = slices.DeleteFunc(pairs, func(p simulate.Pair) bool { return p.From == worst || p.To == worst })
	}
	return out
}

// mattersTo: the node runs pods.
func (s *environment) mattersTo(n plan.Node) bool {
	if !s.inPlace && s.owns(n) {
		return false
	}
	count, known := s.pods[n.Name]
	return !known || count > 0
}

// lose notes a node whose pods cannot be reached, once.
func (s *environment) lose(node string) {
	if slices.Contains(s.cut, node) || slices.ContainsFunc(s.lost, func(l Loss) bool { return l.Node == node }) {
		return
	}
	count, known := s.pods[node]
	if !known {
		count = -1
	}
	s.lost = append(s.lost, Loss{Node: node, Pods: count, Step: s.model.Cause()})
}

// deploy lets machines become nodes, and nodes go with their machines.
func (s *environment) deploy() {
	missing := map[string]cloud.Worker{}
	for _, w := range s.cloud.Workers() {
		if w.State == cloud.WorkerDeployed {
			missing[w.ID] = w
		}
	}
	for _, n := range s.model.Nodes() {
		_, up := missing[n.WorkerID]
		delete(missing, n.WorkerID)
		if !up && s.owns(n) {
			s.model.Leave(n.Name)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(missing)) {
		s.model.Join(s.newNode(missing[id]))
	}
}

// owns: the node is a machine of the pool.
func (s *environment) owns(n plan.Node) bool {
	return n.Labels[v1alpha1.PoolLabel] == s.object.Spec.Provider.IKS.PoolName
}

func (s *environment) newNode(w cloud.Worker) plan.Node {
	s.serial++
	high, low := byte(s.serial>>8), byte(s.serial) //nolint:gosec // G115: the bytes of a number
	return plan.Node{
		Name: w.NodeName, UID: w.ID, WorkerID: w.ID, Zone: w.Zone, Created: s.model.Now(), Ready: true, ReadyChanged: s.model.Now(),
		Labels:     map[string]string{v1alpha1.PoolLabel: s.object.Spec.Provider.IKS.PoolName, s.object.Spec.Topology.ZoneLabel: w.Zone},
		ProviderID: "ibm://model///" + clusterID(s.model.Nodes()) + "/" + w.ID,
		// Addresses for benchmarks (RFC 2544 and 5180), in the families that nodes here have.
		Addresses: s.families(netip.AddrFrom4([4]byte{198, 18, high, low}), netip.AddrFrom16([16]byte{0x20, 0x01, 0, 2, 14: high, 15: low})),
	}
}

// families are those of the addresses that some node has a like of.
func (s *environment) families(addresses ...netip.Addr) []netip.Addr {
	return slices.DeleteFunc(addresses, func(a netip.Addr) bool {
		return !slices.ContainsFunc(s.model.Nodes(), func(n plan.Node) bool {
			return slices.ContainsFunc(n.Addresses, func(o netip.Addr) bool { return o.Is4() == a.Is4() })
		})
	})
}

func (s *environment) shape() Shape {
	out := Shape{MeshOn: s.model.Observe().BGP.MeshOn(), Zones: []Zone{}}
	out.Sessions, out.PerReflector, out.PerClient = s.model.Sessions()
	zones, kinds := map[string]int{}, map[string]bool{}
	for _, n := range s.model.Nodes() {
		if !n.SpeaksBGP() {
			continue
		}
		out.Nodes++
		if n.RoleLabel && n.ClusterID != "" {
			out.Reflectors++
			kinds[string(topology.KindOf(n.Slot))] = true
		}
		if s.owns(n) && !s.inPlace || s.inPlace && n.Labels[v1alpha1.PoolLabel] == pool.ExistingPool {
			zones[n.Zone]++
		}
	}
	out.Topology = strings.Join(slices.Sorted(maps.Keys(kinds)), " and ")
	for name, count := range zones {
		out.Zones = append(out.Zones, Zone{name, count})
	}
	slices.SortFunc(out.Zones, func(a, b Zone) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// The environment is what the manager works with: the model as its Datastore and as
// existing nodes, the pods, of which all that may go do so at once, and the recorder of events.

// Observe implements pool.Datastore.
func (s *environment) Observe(context.Context, plan.Scope) (plan.Cluster, error) {
	return s.model.Observe(), nil
}

// onANode ends what is written on each of many nodes without an event of its own.
const onANode = " a node"

// Apply implements pool.Datastore.
func (s *environment) Apply(_ context.Context, _ plan.Scope, action plan.Action) (bool, error) {
	changed, err := s.model.Apply(action)
	if act, ok := action.(plan.SetRack); ok && changed {
		what := "put the label " + plan.RackLabel + " on"
		if act.Rack == "" {
			what = "take the label " + plan.RackLabel + " from"
		}
		s.writes = append(s.writes, what+onANode)
	}
	return changed, err
}

// Watch implements pool.Datastore.
func (s *environment) Watch(_ context.Context, want []plan.StatusRequest) (bool, error) {
	asked, changed := s.model.Watch(want)
	s.asked += len(asked)
	return changed, nil
}

// List implements existing.Nodes.
func (s *environment) List(context.Context) ([]plan.Node, error) { return s.model.Nodes(), nil }

// SetPool implements existing.Nodes.
func (s *environment) SetPool(_ context.Context, node plan.Node, name string) error {
	s.model.Edit(node.Name, func(n *plan.Node) {
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
func (s *environment) Count(_ context.Context, nodes []string) (map[string]int, error) {
	out := map[string]int{}
	for _, name := range nodes {
		if count, known := s.pods[name]; known {
			out[name] = count
		}
	}
	return out, nil
}

// Evictable implements pool.Workload.
func (s *environment) Evictable(_ context.Context, node string) (moving, staying []string, err error) {
	if count := s.pods[node]; count > 0 && !s.drained[node] {
		moving = append(moving, fmt.Sprintf("%d pods", count))
	}
	return moving, nil, nil
}

// Evict implements pool.Workload.
func (s *environment) Evict(_ context.Context, node string) (workload.Eviction, error) {
	count := s.pods[node]
	if s.drained[node] = true; count > 0 {
		delete(s.pods, node) // those of DaemonSets stay, and their number is unknown
	}
	return workload.Eviction{Evicted: count}, nil
}

// Eventf implements events.EventRecorder and keeps the events about changes.
func (s *environment) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	// Of clients that are labelled there is an event each hundred; see datastore.Apply.
	if kind == corev1.EventTypeNormal && reason != "Recovered" && reason != "RacksLabelled" {
		s.writes = append(s.writes, fmt.Sprintf(note, args...))
	}
}

// credentials has the objects that lead to the cloud: in the model they always exist.
type credentials struct {
	client.Client
	id  string
	key v1alpha1.SecretKeyRef
}

// Get implements client.Reader.
func (c credentials) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	switch o := object.(type) {
	case *corev1.Secret:
		o.Data = map[string][]byte{c.key.Key: []byte("model")}
	case *corev1.ConfigMap:
		o.Data = map[string]string{"cluster-config.json": fmt.Sprintf("{%q: %q}", "cluster_id", c.id)}
	default:
		return apierrors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", object)}, key.Name) //nolint:wrapcheck // as an apiserver does
	}
	return nil
}
