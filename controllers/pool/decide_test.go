package pool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/iks"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

func TestAKeyDoesNotPrintItself(t *testing.T) {
	cfg := ProviderConfig{APIKey: "hush"}
	asJSON, err := json.Marshal(cfg)
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprintf("%v %+v %#v %s %s", cfg, cfg, cfg, cfg.APIKey, asJSON), "hush")
}

func nodes(ready, down int) []plan.Node {
	var out []plan.Node
	for i := range ready + down {
		out = append(out, plan.Node{
			Name: fmt.Sprint(i), Zone: "z", Ready: i < ready, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(i / 256), byte(i)})},
		})
	}
	return out
}

// A node without a providerID does not make a cluster of IBM Cloud another.
func TestAutoIsIKSWhereAnyNodeIsOfIBM(t *testing.T) {
	mixed := []plan.Node{{ProviderID: ""}, {ProviderID: "ibm://a///c/w"}}
	for want, given := range map[v1alpha1.ProviderType][]plan.Node{v1alpha1.ProviderIKS: mixed, v1alpha1.ProviderExistingNodes: mixed[:1]} {
		found, platform := resolve([]cloud.Platform{iks.Platform{}}, v1alpha1.ProviderAuto, given)
		require.Equal(t, want, found)
		require.Equal(t, want == v1alpha1.ProviderIKS, platform != nil)
	}
	found, _ := resolve([]cloud.Platform{iks.Platform{}}, v1alpha1.ProviderIKS, nil)
	require.Equal(t, v1alpha1.ProviderIKS, found)
}

func TestAnOutageDoesNotShrinkThePool(t *testing.T) {
	spec := v1alpha1.SizingSpec{Method: v1alpha1.SizingPerHundred, Min: 3, Max: 25, MinPerZone: 1}
	owned := func(size int) *cloud.Pool { return &cloud.Pool{Exists: true, Owned: true, SizePerZone: size} }
	for name, tc := range map[string]struct {
		ready, down int
		known       *cloud.Pool
		want        int
	}{
		"all are Ready": {500, 0, owned(3), 8},
		"all are Ready and the pool is too large":        {100, 0, owned(8), 4},
		"half are down: it stays":                        {250, 250, owned(8), 8},
		"half are down and it is smaller than for those": {250, 250, owned(3), 5},
		"half are down and it is larger than for all":    {250, 250, owned(20), 8},
		"half are down and nothing is known":             {250, 250, nil, 5},
		"a pool of others says nothing":                  {250, 250, &cloud.Pool{Exists: true, SizePerZone: 8}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := sizePerZone(spec, nodes(tc.ready, tc.down), 1, tc.known)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestZonesOfThePool(t *testing.T) {
	of := func(nodes []plan.Node) *Scope {
		return &Scope{object: &v1alpha1.RouteReflectorPool{}, Cluster: plan.Cluster{Nodes: nodes}}
	}
	known := &cloud.Pool{ClusterZones: []string{"b", "c"}}
	require.Equal(t, []string{"b", "c"}, poolZones(of(nodes(3, 0)), known))
	require.Equal(t, []string{"z"}, poolZones(of(nodes(3, 0)), nil))
	known.Zones = []string{"a", "b"}
	require.Equal(t, []string{"b", "c"}, poolZones(of(nil), known), "of a pool of others nothing is taken over")
	known.Owned = true
	require.Equal(t, []string{"a", "b", "c"}, poolZones(of(nil), known))
	given := of(nil)
	given.object.Spec.Provider.IKS.Zones = []string{"y", "x", "y"}
	require.Equal(t, []string{"x", "y"}, poolZones(given, known))

	mixed := append(nodes(1, 1), plan.Node{Name: "nowhere", Addresses: nodes(1, 0)[0].Addresses}, plan.Node{Name: "windows", Zone: "w"})
	require.Equal(t, []string{"z"}, poolZones(of(mixed), nil), "a cloud has no zone without a name")
	existing := of(mixed)
	existing.Provider = v1alpha1.ProviderExistingNodes
	existing.object.Spec.Provider.IKS.Zones = []string{"x"}
	require.Equal(t, []string{"", "z"}, poolZones(existing, known), "where the nodes are, whatever a cloud says")
}

func TestOnlyDedicatedNodesNeedTheTaint(t *testing.T) {
	spec := v1alpha1.RouteReflectorPoolSpec{Mode: v1alpha1.ModeFullMesh}
	spec.Provider.IKS.Taint = v1alpha1.Taint{Key: "k", Value: "v", Effect: "NoExecute"}
	for provider, want := range map[v1alpha1.ProviderType]string{v1alpha1.ProviderIKS: "k=v:NoExecute", v1alpha1.ProviderExistingNodes: ""} {
		d, problem := desire(&Scope{object: &v1alpha1.RouteReflectorPool{Spec: spec}, Provider: provider}, nil)
		require.Nil(t, problem)
		require.Equal(t, want, d.Taint, provider)
	}
}

func TestTheWayBackNeedsNothingOfTheSpec(t *testing.T) {
	bad := v1alpha1.RouteReflectorPoolSpec{
		Mode:     v1alpha1.ModeFullMesh,
		Sizing:   v1alpha1.SizingSpec{Method: "Nonsense"},
		Topology: v1alpha1.TopologySpec{Type: v1alpha1.TopologyQuorum},
	}
	s := &Scope{object: &v1alpha1.RouteReflectorPool{Spec: bad}, Provider: v1alpha1.ProviderExistingNodes}
	d, problem := desire(s, nil)
	require.Nil(t, problem)
	require.Equal(t, v1alpha1.ModeFullMesh, d.Mode)

	s.object.Spec.Mode = v1alpha1.ModeRouteReflector
	_, problem = desire(s, nil)
	require.Equal(t, reason.SizingInvalid, problem.Reason)
	s.object.Spec.Sizing = v1alpha1.SizingSpec{Min: 3, Max: 25, MinPerZone: 1}
	_, problem = desire(s, nil)
	require.Equal(t, reason.TopologyNotSupported, problem.Reason, "busy nodes know Single only")
	s.object.Spec.Topology.Type = v1alpha1.TopologyAuto
	d, problem = desire(s, nil)
	require.Nil(t, problem)
	require.Equal(t, v1alpha1.TopologySingle, d.Topology.Kind)
}

func TestBackOff(t *testing.T) {
	failed := func(kind cloud.Kind, after time.Duration) error { return &cloud.Error{Kind: kind, RetryAfter: after} }
	for name, tc := range map[string]struct {
		err      error
		failures int
		want     time.Duration
	}{
		"first time":                {failed(cloud.Unavailable, 0), 1, 15 * time.Second},
		"third time":                {failed(cloud.Unavailable, 0), 3, time.Minute},
		"very often":                {failed(cloud.Unavailable, 0), 99, 5 * time.Minute},
		"an error of no kind":       {errors.New("?"), 1, 15 * time.Second},
		"asked to wait longer":      {failed(cloud.Unavailable, time.Hour), 1, time.Hour},
		"too many, for how long?":   {failed(cloud.RateLimited, 0), 1, time.Minute},
		"too many, again and again": {failed(cloud.RateLimited, time.Second), 9, 5 * time.Minute},
		"a person has to solve it":  {failed(cloud.Unauthorized, 0), 1, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, backOff(tc.err, tc.failures)) })
	}
}

func TestHeartbeatsAreNotChanges(t *testing.T) {
	before := func() *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "1"}, Annotations: map[string]string{
				"projectcalico.org/IPv4Address": "10.0.0.1/24", "other": "1",
			}},
			Spec: corev1.NodeSpec{ProviderID: "ibm://x"},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeMemoryPressure}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue},
			}},
		}
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"nothing":                {func(*corev1.Node) {}, false},
		"a heartbeat":            {func(n *corev1.Node) { n.Status.Conditions[1].LastHeartbeatTime = metav1.Now() }, false},
		"another condition":      {func(n *corev1.Node) { n.Status.Conditions[0].Status = "True" }, false},
		"images":                 {func(n *corev1.Node) { n.Status.Images = []corev1.ContainerImage{{}} }, false},
		"a foreign annotation":   {func(n *corev1.Node) { n.Annotations["other"] = "2" }, false},
		"a resource version":     {func(n *corev1.Node) { n.ResourceVersion = "7" }, false},
		"Ready":                  {func(n *corev1.Node) { n.Status.Conditions[1].Status = "False" }, true},
		"a label":                {func(n *corev1.Node) { n.Labels["a"] = "2" }, true},
		"the address":            {func(n *corev1.Node) { n.Annotations["projectcalico.org/IPv4Address"] = "10.0.0.2/24" }, true},
		"an annotation of ours":  {func(n *corev1.Node) { n.Annotations["rrpool.io/role-since"] = "x" }, true},
		"a taint":                {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "t"}} }, true},
		"cordoned":               {func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		"the machine":            {func(n *corev1.Node) { n.Spec.ProviderID = "ibm://y" }, true},
		"on its way out":         {func(n *corev1.Node) { now := metav1.Now(); n.DeletionTimestamp = &now }, true},
		"another of that name":   {func(n *corev1.Node) { n.UID = "2" }, true},
		"Ready is not said":      {func(n *corev1.Node) { n.Status.Conditions = nil }, true},
		"a wide managedFields":   {func(n *corev1.Node) { n.ManagedFields = make([]metav1.ManagedFieldsEntry, 3) }, false},
		"a Calico annotation is": {func(n *corev1.Node) { delete(n.Annotations, "projectcalico.org/IPv4Address") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			after := before()
			tc.change(after)
			require.Equal(t, tc.want, nodeChanged().Update(event.UpdateEvent{ObjectOld: before(), ObjectNew: after}))
			slimBefore, err := SlimNode(before())
			require.NoError(t, err)
			slimAfter, err := SlimNode(after)
			require.NoError(t, err)
			slim := event.UpdateEvent{ObjectOld: slimBefore.(*corev1.Node), ObjectNew: slimAfter.(*corev1.Node)}
			require.Equal(t, tc.want, nodeChanged().Update(slim), "the cached form holds as much")
		})
	}
}

func TestStatusIsNoWish(t *testing.T) {
	update := func(change func(*v1alpha1.RouteReflectorPool)) bool {
		after := &v1alpha1.RouteReflectorPool{}
		change(after)
		return specChanged().Update(event.UpdateEvent{ObjectOld: &v1alpha1.RouteReflectorPool{}, ObjectNew: after})
	}
	require.False(t, update(func(o *v1alpha1.RouteReflectorPool) { o.Status.Nodes = 3 }))
	require.True(t, update(func(o *v1alpha1.RouteReflectorPool) { o.Generation = 3 }))
	require.True(t, update(func(o *v1alpha1.RouteReflectorPool) { o.Finalizers = []string{"x"} }))
	require.True(t, update(func(o *v1alpha1.RouteReflectorPool) { now := metav1.Now(); o.DeletionTimestamp = &now }))
}

func TestEventsDifferInMoreThanTheNote(t *testing.T) {
	step := rollout.Step{Name: "PromoteReflectors", Reason: "r"}
	a, b := actionEvent(plan.SetReflector{Node: "a"}, step), actionEvent(plan.SetReflector{Node: "b"}, step)
	require.NotEqual(t, a.related, b.related)
	require.Equal(t, "created pool route-reflectors", poolChanged("created pool route-reflectors").action)
	require.LessOrEqual(t, len(poolChanged(strings.Repeat("größe ", 99)).action), maxAction)
	require.Zero(t, actionEvent(plan.RefreshStatus{Node: "a"}, step), "asking is not changing")
	first, second := plan.SetRack{Node: "a", Rack: "1"}, plan.SetRack{Node: "b", Rack: "2"}
	step.Actions = []plan.Action{first, second}
	require.Contains(t, actionEvent(first, step).note, "on 2 clients, of which the first is a: r")
	require.Zero(t, actionEvent(second, step), "one event is for all racks of a step")
}

// A cluster that is autoscaled around a threshold must not buy and return
// machines, and a size that was really lowered must still get through.
func TestAThresholdIsCrossedDownwardsWithAMargin(t *testing.T) {
	spec := v1alpha1.SizingSpec{Method: v1alpha1.SizingPerHundred, Min: 3, Max: 25, MinPerZone: 1}
	known := &cloud.Pool{Exists: true, Owned: true, SizePerZone: 1}
	size := func(ready int) int {
		n, err := sizePerZone(spec, nodes(ready, 0), 3, known)
		require.NoError(t, err)
		known.SizePerZone = n
		return n
	}
	require.Equal(t, 1, size(99))
	require.Equal(t, 2, size(100))
	for range 3 {
		require.Equal(t, 2, size(99))
		require.Equal(t, 2, size(100))
	}
	require.Equal(t, 1, size(90), "ten per cent below, it is meant")

	known.SizePerZone = 5
	require.Equal(t, 1, size(50), "a person ordered too many once")
}

func TestTheTopologySaysHowManyReflectorsItTakes(t *testing.T) {
	zones := []string{"z0", "z1", "z2"}
	for name, tc := range map[string]struct {
		kind    v1alpha1.TopologyType
		nodes   int
		edit    func(*Scope)
		known   int // per zone
		want    v1alpha1.TopologyType
		perZone int
		reason  string
		serious bool
	}{
		"a small cluster is Single by itself":     {kind: v1alpha1.TopologyAuto, nodes: 400, want: v1alpha1.TopologySingle, perZone: 1},
		"a large one is not":                      {kind: v1alpha1.TopologyAuto, nodes: 1400, want: v1alpha1.TopologyHierarchy, perZone: 4},
		"racks that take more than the limit":     {kind: v1alpha1.TopologyHierarchy, nodes: 4000, want: v1alpha1.TopologyHierarchy, perZone: 1, reason: reason.SizingInvalid, serious: true},
		"racks that come to take more":            {kind: v1alpha1.TopologyHierarchy, nodes: 4000, edit: withReflector("rack-z0-1"), want: v1alpha1.TopologyHierarchy, perZone: 8, reason: reason.SizingInvalid},
		"too many clients before the migration":   {kind: v1alpha1.TopologySingle, nodes: 600, want: v1alpha1.TopologySingle, perZone: 1, reason: "TooManyClients", serious: true},
		"too many clients of one that is serving": {kind: v1alpha1.TopologySingle, nodes: 600, edit: withReflector("true"), want: v1alpha1.TopologySingle, perZone: 1, reason: "TooManyClients"},
		"and a change to one that cannot be":      {kind: v1alpha1.TopologySingle, nodes: 600, edit: withReflector("rack-z0-1"), want: v1alpha1.TopologySingle, perZone: 1, reason: "TooManyClients", serious: true},
		"a pool does not shrink at the edge":      {kind: v1alpha1.TopologyQuorum, nodes: 580, known: 3, want: v1alpha1.TopologyQuorum, perZone: 3},
		"but beyond it":                           {kind: v1alpha1.TopologyQuorum, nodes: 300, known: 3, want: v1alpha1.TopologyQuorum, perZone: 1},
	} {
		t.Run(name, func(t *testing.T) {
			// A cluster of so many clients in three zones.
			s := &Scope{object: &v1alpha1.RouteReflectorPool{}, Provider: v1alpha1.ProviderIKS}
			s.object.Spec.BGP.NodeLabel = "role"
			s.object.Spec.Sizing.Max = 25
			s.object.Spec.Topology = v1alpha1.TopologySpec{
				Type: tc.kind, ClusterID: "244.0.0.1", Redundancy: 3, MaxClientsPerReflector: 500, MaxPathsPerPrefix: 64, ZoneLabel: "zone",
			}
			for i := range tc.nodes {
				zone := fmt.Sprintf("z%d", i%3)
				s.Cluster.Nodes = append(s.Cluster.Nodes, plan.Node{
					Name: fmt.Sprintf("n%04d", i), Zone: zone, Labels: map[string]string{"zone": zone}, Ready: true,
				})
			}
			clients := s.Cluster.Nodes
			if tc.edit != nil {
				tc.edit(s)
			}
			var known *cloud.Pool
			if tc.known > 0 {
				known = &cloud.Pool{Owned: true, SizePerZone: tc.known}
			}
			spec, perZone, problem, serious := shape(s, known, clients, zones, 1)
			require.Equal(t, tc.serious, serious, "%v", problem)
			require.Equal(t, tc.reason == "", problem == nil, "%v", problem)
			if problem != nil {
				require.Equal(t, tc.reason, problem.Reason)
			}
			require.Equal(t, tc.want, spec.Kind)
			require.Equal(t, tc.perZone, perZone)
		})
	}
}

// withReflector is a cluster in which a reflector has that slot already.
func withReflector(slot string) func(*Scope) {
	return func(s *Scope) {
		s.Cluster.Nodes = append(s.Cluster.Nodes, plan.Node{Name: "rr", Marked: true, HasRoleLabel: true, Slot: slot, ClusterID: "244.0.0.1", Pooled: true})
	}
}

type signalsForTest struct {
	changes chan struct{}
	synced  chan struct{}
}

func (s signalsForTest) Changes() <-chan struct{} { return s.changes }

func (s signalsForTest) WaitSynced(ctx context.Context) error {
	select {
	case <-s.synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestABurstOfChangesIsOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		signals := signalsForTest{changes: make(chan struct{}), synced: make(chan struct{})}
		close(signals.synced)
		require.NoError(t, signaled(signals)(ctx, queue))
		for range 100 {
			signals.changes <- struct{}{}
		}
		time.Sleep(burst)
		synctest.Wait()
		require.Equal(t, 1, queue.Len())
		item, _ := queue.Get()
		require.Equal(t, singleton, item)
		queue.Done(item)
		cancel()
		queue.ShutDown()
		synctest.Wait() // a goroutine that stays would fail the bubble
	})
}

func TestAStartWaitsForTheDatastoreButNotForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		signals := signalsForTest{synced: make(chan struct{})}
		start := signaled(signals)
		began := time.Now()
		require.NoError(t, start(ctx, nil), "its silence is reported by the reconciler")
		require.Equal(t, firstLook, time.Since(began))

		ended, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("stop"))
		require.Error(t, start(ended, nil))

		close(signals.synced)
		require.NoError(t, start(ctx, nil))
		require.Equal(t, firstLook, time.Since(began))
	})
}

// What a kubelet, or whoever has taken one over, may write into its own Node, and what rrpool makes of it in a
// cluster that is settled. It never acts on another node for it, and never writes another BGPPeer. What is refused
// stops further changes until a person has looked; the safety net and the routes that there are stay.
func TestWhatANodeMayWriteIntoItself(t *testing.T) {
	const role, id = "rrpool.io/route-reflector", "244.0.0.1"
	now := time.Unix(1e9, 0)
	long := now.Add(-24 * time.Hour)
	for name, tc := range map[string]struct {
		write   func(*plan.Node)
		step    string
		problem string
	}{
		"nothing": {func(*plan.Node) {}, rollout.Steady, ""},
		"the label of the dedicated pool, to be chosen for a reflector": {
			func(n *plan.Node) { n.Labels[v1alpha1.PoolLabel] = "route-reflectors" }, rollout.Steady, "",
		},
		"the label of the role":   {func(n *plan.Node) { n.HasRoleLabel, n.Slot = true, "true" }, "RemoveStrayLabel", ""},
		"a slot that another has": {func(n *plan.Node) { n.HasRoleLabel, n.Slot = true, "quorum-z1-1" }, "RemoveStrayLabel", ""},
		"all that makes a reflector, as if it had been the first": {
			func(n *plan.Node) {
				n.HasRoleLabel, n.Slot, n.ClusterID, n.Marked, n.RoleSince = true, "true", id, true, time.Unix(1, 0)
			}, "RemoveReflector", "",
		},
		"a cluster ID":            {func(n *plan.Node) { n.ClusterID = id }, rollout.UnsupportedCluster, "ForeignReflector"},
		"an AS number of its own": {func(n *plan.Node) { n.ASN = 65001 }, rollout.UnsupportedCluster, "MixedASNumbers"},
		"a rack":                  {func(n *plan.Node) { n.Rack = "7" }, "ClearRacks", ""},
		"another zone":            {func(n *plan.Node) { n.Zone = "z9" }, rollout.Steady, ""},
		"our mark of a cordon":    {func(n *plan.Node) { n.CordonMark = true }, "UncordonNode", ""},
		"an address that another has": {
			func(n *plan.Node) { n.Addresses = []netip.Addr{netip.MustParseAddr("10.0.0.1")} }, rollout.Steady, "",
		},
		"another's providerID": {func(n *plan.Node) { n.ProviderID = "ibm://acc///c1/w1" }, rollout.Steady, ""},
	} {
		t.Run(name, func(t *testing.T) {
			pool := &rollout.ObservedPool{Exists: true, SizePerZone: 1, Zones: []string{"z1", "z2", "z3"}}
			members := map[string]string{}
			var all []plan.Node
			for i := range 12 {
				z := pool.Zones[i%3]
				worker := "w" + string(rune('a'+i))
				n := plan.Node{
					Name: "node-" + string(rune('a'+i)), ProviderID: "ibm://acc///c1/" + worker, Zone: z, Ready: true, ReadyChanged: long, Created: long,
					Labels: map[string]string{"ibm-cloud.kubernetes.io/worker-id": worker}, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})},
				}
				if i < 3 {
					n.HasRoleLabel, n.Slot, n.ClusterID, n.Marked, n.RoleSince = true, "true", id, true, long
					n.Labels[v1alpha1.PoolLabel], members[worker] = "route-reflectors", z
					pool.Workers = append(pool.Workers, rollout.ObservedWorker{ID: worker, Node: n.Name, Zone: z})
				}
				all = append(all, n)
			}
			evil := &all[11]
			tc.write(evil)
			fillIn(iks.Platform{}, all, "route-reflectors", members)
			require.False(t, evil.Pooled)
			off := false
			peers := topology.Single(role, topology.Session{})
			for i := range peers {
				peers[i].Written = long
			}
			step := rollout.Next(rollout.Observed{
				Cluster: plan.Cluster{
					Nodes: all, Peers: peers,
					BGP: plan.BGPConfig{Exists: true, Mesh: plan.Mesh{Enabled: &off}, Saved: &plan.Mesh{}, ASN: 64512},
				},
				Pool: pool,
			}, rollout.Desired{
				Mode: v1alpha1.ModeRouteReflector, Dedicated: true, Pool: plan.PoolTarget{SizePerZone: 1, Zones: pool.Zones}, ClusterID: id, RoleLabel: role, Timer: true,
				Topology:       topology.Spec{Kind: v1alpha1.TopologySingle, ClusterID: id, RoleLabel: role},
				SessionTimeout: time.Minute, NotReadyGrace: time.Minute, RemovalDelay: time.Minute, MinServing: 2, NetAfter: time.Minute,
			}, now)
			require.Equal(t, tc.step, step.Name, "%s", step.Reason)
			if tc.problem != "" {
				require.Equal(t, tc.problem, step.Problem.Reason)
				require.Contains(t, step.Problem.Message, evil.Name, "the message names the node")
				require.Empty(t, step.Actions)
			}
			own := []plan.Action{
				plan.ClearReflector{Node: evil.Name}, plan.SetRack{Node: evil.Name}, plan.UncordonNode{Node: evil.Name}, plan.RefreshStatus{Node: evil.Name},
			}
			for _, action := range step.Actions {
				require.True(t, slices.Contains(own, action), "%s", action)
			}
		})
	}
}

func TestTheStatesOfWorkersAreThoseOfTheCloud(t *testing.T) {
	for state, want := range map[cloud.WorkerState]rollout.ObservedWorker{
		cloud.WorkerDeployed: {}, cloud.WorkerUnhealthy: {}, cloud.WorkerFailed: {Failed: true},
		cloud.WorkerDeleting: {Deleting: true}, cloud.WorkerProvisioning: {Pending: true},
	} {
		out := poolOf(&cloud.Pool{Workers: []cloud.Worker{{State: state}}}, nil, cloud.Taint{}, false)
		require.Equal(t, []rollout.ObservedWorker{want}, out.Workers, state)
	}
}

// The taint is missed on the nodes of the dedicated pool, as far as their workers stay, and on no others.
func TestWhichNodesLackTheTaint(t *testing.T) {
	want := cloud.Taint{Key: "k", Value: "v", Effect: "NoExecute"}
	pool := &cloud.Pool{Exists: true, Taints: []cloud.Taint{want}, Workers: []cloud.Worker{{ID: "w1"}, {ID: "w2", Former: true}}}
	for name, tc := range map[string]struct {
		node  plan.Node
		lacks bool
	}{
		"a worker without it":                   {node: plan.Node{Pooled: true, WorkerID: "w1", Taints: []string{"k=other:NoExecute"}}, lacks: true},
		"a worker with it":                      {node: plan.Node{Pooled: true, WorkerID: "w1", Taints: []string{"k=v:NoExecute"}}},
		"a worker whose taints were not read":   {node: plan.Node{Pooled: true, WorkerID: "w1"}},
		"a worker that gives way to another":    {node: plan.Node{Pooled: true, WorkerID: "w2", Taints: []string{}}},
		"a node of the pool that is no worker":  {node: plan.Node{Pooled: true, Taints: []string{}}},
		"a worker of another pool, without any": {node: plan.Node{WorkerID: "w1", Taints: []string{}}},
	} {
		tc.node.Name = "n"
		require.Equal(t, tc.lacks, drift(pool, []plan.Node{tc.node}, want) != "", name)
	}
}

// A condition keeps its time while its status is the same, whatever else it says.
func TestAConditionKeepsTheTimeOfItsStatus(t *testing.T) {
	began, status := time.Unix(1000, 0), v1alpha1.RouteReflectorPoolStatus{}
	for i, is := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionFalse, metav1.ConditionTrue} {
		s := &Scope{object: &v1alpha1.RouteReflectorPool{}, now: began.Add(time.Duration(i) * time.Hour)}
		setConditions(&status, s, condition(is, "R", s.now.String()), condition(metav1.ConditionTrue, "R", s.now.String()))
		for n, since := range []time.Time{began.Add(time.Duration(i/2*2) * time.Hour), began} {
			require.Equal(t, since, status.Conditions[n].LastTransitionTime.Time)
			require.Equal(t, s.now.String(), status.Conditions[n].Message)
		}
	}
}

// What could not be written down was not: the provider does not order by it.
func TestARecordThatIsNotSavedIsAnError(t *testing.T) {
	r := &record{text: "before", save: func(context.Context, string) error { return context.DeadlineExceeded }}
	require.ErrorIs(t, r.Write(t.Context(), "after"), context.DeadlineExceeded)
	require.Equal(t, "before", r.Text())
}

// A machine of its own may take days, and its successor as long.
func TestAPhysicalMachineIsNotGivenUp(t *testing.T) {
	for _, physical := range []bool{false, true} {
		c, now := &poolClient{}, time.Now()
		pool := &cloud.Pool{Workers: []cloud.Worker{{ID: "w", State: cloud.WorkerProvisioning, Physical: physical}}}
		c.noteLeaving(pool, now)
		c.noteLeaving(pool, now.Add(setupLimit))
		require.Equal(t, physical, pool.Workers[0].State == cloud.WorkerProvisioning)
		require.Len(t, pool.Problems, 1, "it is said in any case")
	}
}
