package pool

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/sizing"
	"github.com/rrpool/rrpool/controllers/plan/topology"
	"github.com/rrpool/rrpool/controllers/workload"
)

// decide chooses the provider, asks it when that is due, and computes the step. The step is computed before the
// cloud is asked as well, because what has to happen at once must not wait for an answer that may not come; neither
// must what is due in seconds, as while too few reflectors serve. Existing nodes are no cloud: looking at them is
// no request.
func (r *Reconciler) decide(ctx context.Context, s *Scope) error {
	r.identify(ctx, s)
	progress, err := r.poolClient.answered(s.now)
	_, _ = r.poolDid(ctx, s, progress, err) // the error is remembered, and reported from there
	if s.inPlace() {
		r.poolClient.observe(ctx, s.now, 0, cloud.PoolSpec{})
	}
	r.compute(s)
	if s.inPlace() {
		r.lookAtPods(ctx, s)
		return nil
	}
	given := plan.PoolTarget{Zones: s.object.Spec.Provider.IKS.Zones} // what the spec alone says of the pool
	if s.disconnected != nil || skipsCloud(s) || s.Step.Short || !r.poolClient.observe(ctx, s.now, r.interval(s), poolSpec(s, given, nil)) {
		return nil
	}
	// The answer may have taken half a minute: reflectors that died meanwhile must be seen.
	if err := r.lookAtCluster(ctx, s); err != nil {
		return err
	}
	r.compute(s)
	return nil
}

// compute is pure but for the pool, which it takes from memory.
func (r *Reconciler) compute(s *Scope) {
	taint := taintOf(s.object.Spec.Provider.IKS.Taint)
	if s.inPlace() {
		taint = cloud.Taint{}
		markExisting(s.Cluster.Nodes)
	} else {
		fillIn(s.platform, s.Cluster.Nodes, s.object.Spec.Provider.IKS.PoolName, r.poolClient.members())
	}
	if s.object.Spec.Rollout.Gate == v1alpha1.GateTimer { // fixed waits need no reports
		s.Cluster.Problems = slices.DeleteFunc(slices.Clone(s.Cluster.Problems), func(p plan.Problem) bool {
			return p.Reason == reason.NodeStatusCRDMissing
		})
	}
	if err := r.poolClient.observing.err; cloud.Is(err, cloud.Unsupported) && s.reflecting() && rollout.Starting(s.Cluster) {
		s.Cluster.Problems = append(slices.Clone(s.Cluster.Problems), *cloudProblem(err))
	}
	if s.object.Spec.Mode != v1alpha1.ModeRouteReflector {
		r.memory.ForgetReversals()
	}
	observed := rollout.Observed{
		Cluster: s.Cluster, Memory: r.memory, Evictable: s.evictable,
		Pool: poolOf(r.poolClient.usable(), s.Cluster.Nodes, taint, s.object.Spec.Provider.IKS.UpdateWorkers == v1alpha1.UpdateRolling),
	}
	var problem *plan.Problem
	s.Desired, problem = desire(s, r.lasting(s))
	desired := s.Desired
	switch known := r.poolClient.last; {
	case problem != nil:
		desired.Invalid = problem
		if known != nil && known.Owned { // how many reflectors there should be is taken from the pool as it is
			desired.Pool = plan.PoolTarget{SizePerZone: known.SizePerZone, Zones: known.Zones}
		}
	case known != nil:
		r.sized = s.Desired.Pool.SizePerZone
	}
	s.Step = r.Next(observed, desired, s.now)
}

// lasting is the pool as last seen, as large as it was wanted before. Substitutes are there for a while: sizing, which
// keeps what is there to spare orders, must not keep them. After a restart, the record of what was ordered says how
// large that was, else what reflects.
func (r *Reconciler) lasting(s *Scope) *cloud.Pool {
	known, size := r.poolClient.last, r.sized
	if known == nil || s.inPlace() {
		return known
	}
	if size == 0 {
		size = r.poolClient.record.lasting(s.now)
	}
	if size == 0 {
		byZone := map[string]int{}
		for _, n := range s.Cluster.Nodes {
			if n.Pooled && n.Marked {
				byZone[n.Zone]++
				size = max(size, byZone[n.Zone])
			}
		}
	}
	if size == 0 || size >= known.SizePerZone {
		return known
	}
	out := *known
	out.SizePerZone = size
	return &out
}

// onlyRefreshes leaves out all but what asks for stale reports again.
func onlyRefreshes(actions []plan.Action) []plan.Action {
	return slices.DeleteFunc(slices.Clone(actions), func(a plan.Action) bool { return !is[plan.RefreshStatus](a) })
}

// interval is how often this step needs to look at the provider, and at the cluster without being pushed.
func (r *Reconciler) interval(s *Scope) time.Duration {
	switch {
	case s.paused() || s.steady():
		return intervalRest
	case s.Step.Problem != nil || s.disconnected != nil || r.poolClient.blocked():
		return intervalBlocked
	default:
		return intervalActive
	}
}

// skipsCloud reports whether the step brings the mesh back, which never waits for the cloud.
func skipsCloud(s *Scope) bool {
	if !s.reflecting() {
		return s.Step.Name != rollout.Steady
	}
	return has[plan.RestoreMesh](s.Step)
}

// desire says where the cluster is to go. known is the pool as it was last seen, which may be long ago, or nil. The
// way back to the mesh needs neither a provider nor a size, so nothing in the spec can block it.
func desire(s *Scope, known *cloud.Pool) (rollout.Desired, *plan.Problem) {
	spec := s.object.Spec
	d := rollout.Desired{
		Mode:           v1alpha1.ModeFullMesh,
		Dedicated:      !s.inPlace(),
		ClusterID:      spec.Topology.ClusterID,
		RoleLabel:      spec.BGP.NodeLabel,
		Timer:          spec.Rollout.Gate == v1alpha1.GateTimer,
		SessionTimeout: spec.Rollout.SessionTimeout.Duration,
		NotReadyGrace:  spec.Rollout.NotReadyGrace.Duration,
		RemovalDelay:   spec.Rollout.RemovalDelay.Duration,
		MinServing:     int(spec.Rollout.SafetyNet.MinServing),
		NetAfter:       spec.Rollout.SafetyNet.After.Duration,
		Promotion:      spec.Provider.ExistingNodes.Promotion,
	}
	var problem *plan.Problem
	d.Preferred, d.Excluded, problem = selectors(spec.Provider.ExistingNodes)
	if taint := taintOf(spec.Provider.IKS.Taint); taint.Key != "" && d.Dedicated {
		d.Taint = written(taint)
	}
	if ref := spec.BGP.PasswordSecretRef; ref.Name != "" {
		d.Password = &plan.SecretRef{Name: ref.Name, Key: ref.Key}
	}
	if !s.reflecting() {
		return d, nil
	}
	d.Mode = v1alpha1.ModeRouteReflector
	if s.inPlace() && problem != nil {
		return d, problem
	}
	clients, zones := clientsOf(s), poolZones(s, known)
	perZone, err := sizePerZone(spec.Sizing, clients, len(zones), known)
	if err != nil {
		return d, plan.Problemf(reason.SizingInvalid, "%v", err)
	}
	topo, perZone, problem, serious := shape(s, known, clients, zones, perZone)
	if serious {
		return d, problem
	}
	s.warning = problem
	d.Topology, d.Pool = topo, plan.PoolTarget{SizePerZone: perZone, Zones: zones}
	return d, nil
}

// sizePerZone sizes the pool by the nodes that are Ready. While some are not, it is unknown whether they come back:
// the size then stays where it is, as long as that is right for some number of them. Otherwise an outage of half
// the cluster would take reflectors away from the other half.
func sizePerZone(spec v1alpha1.SizingSpec, clients []plan.Node, zones int, known *cloud.Pool) (int, error) {
	zones = max(zones, 1)
	ready, all := countReady(clients), len(clients)
	low, err := sizing.Reflectors(spec, ready, zones)
	if err != nil || known == nil || !known.Owned || known.SizePerZone <= low {
		return low, err
	}
	if ready == all {
		all += max(ready/10, 1) // nodes that come and go around a threshold must not buy and return machines
	}
	high, err := sizing.Reflectors(spec, all, zones)
	return max(low, min(known.SizePerZone, high)), err
}

// clientsOf returns the nodes that the pool is sized for: those that speak BGP and are not dedicated to reflecting, Ready or not.
// A reflector with workloads is a client too.
func clientsOf(s *Scope) []plan.Node {
	return slices.DeleteFunc(slices.Clone(s.Cluster.Nodes), func(n plan.Node) bool {
		return !n.SpeaksBGP() || n.Pooled && !s.inPlace()
	})
}

func countReady(nodes []plan.Node) int {
	return count(nodes, func(n plan.Node) bool { return n.Ready })
}

func count[T any](all []T, so func(T) bool) int {
	n := 0
	for _, one := range all {
		if so(one) {
			n++
		}
	}
	return n
}

// poolZones names the zones of the pool, sorted. For existing nodes they are where the nodes are, and "" is that of
// nodes without one. For a pool of its own: those the user gives, else all that the cloud knows, else those in
// which there are nodes. They are always named: the number of reflectors to wait for depends on the zones that are
// still without a node. A zone that the pool has is given up only when the user says so, not because the cloud's
// list is shorter today.
func poolZones(s *Scope, known *cloud.Pool) []string {
	if s.inPlace() {
		return plan.Zones(s.Cluster.Nodes, plan.Node.SpeaksBGP)
	}
	if zones := s.object.Spec.Provider.IKS.Zones; len(zones) > 0 {
		return sets.List(sets.New(zones...))
	}
	if known != nil && len(known.ClusterZones) > 0 {
		zones := sets.New(known.ClusterZones...)
		if known.Owned {
			zones.Insert(known.Zones...)
		}
		return sets.List(zones)
	}
	return slices.DeleteFunc(plan.Zones(s.Cluster.Nodes, plan.Node.SpeaksBGP), func(zone string) bool { return zone == "" })
}

// poolSpec is the provider's view of the wanted pool; known is the one that exists. Existing nodes are as they are.
func poolSpec(s *Scope, want plan.PoolTarget, known *cloud.Pool) cloud.PoolSpec {
	if s.inPlace() {
		return cloud.PoolSpec{Zones: want.Zones, SizePerZone: want.SizePerZone, Retire: want.Retire, Replace: want.Replace, Refill: want.Refill}
	}
	spec := s.object.Spec.Provider.IKS
	out := cloud.PoolSpec{
		Flavor:      spec.Flavor,
		Zones:       want.Zones,
		SizePerZone: want.SizePerZone,
		Lasting:     min(s.Desired.Pool.SizePerZone, want.SizePerZone),
		Retire:      want.Retire,
		Refill:      want.Refill,
		Replace:     want.Replace,
		Known:       knownPools(s.object),
		Once:        s.once,
		Options: cloud.PoolOptions{
			OperatingSystem:        spec.OperatingSystem,
			SecurityGroups:         spec.SecurityGroups,
			WorkerVolumeEncryption: cloud.WorkerVolumeEncryption(spec.WorkerVolumeEncryption),
			DedicatedHostPoolID:    spec.DedicatedHostPoolID,
		},
	}
	out.Stuck = s.stuckWorkers(known)
	for _, n := range s.Cluster.Nodes {
		if n.Pooled && n.Ready && n.WorkerID != "" {
			out.Ready = append(out.Ready, n.WorkerID)
		}
	}
	if len(spec.Networks) > 0 {
		out.Options.Networks = map[string]cloud.Network{}
	}
	for _, n := range spec.Networks {
		out.Options.Networks[n.Zone] = cloud.Network{SubnetID: n.SubnetID, PrivateVLAN: n.PrivateVLAN, PublicVLAN: n.PublicVLAN}
	}
	if taint := taintOf(spec.Taint); taint.Key != "" {
		s.addTaint(&out, taint, known)
	}
	return out
}

// stuckWorkers returns the workers whose deletion nothing waits for any more.
func (s *Scope) stuckWorkers(known *cloud.Pool) (ids []string) {
	if known == nil {
		return nil
	}
	for _, w := range known.Workers {
		if w.State == cloud.WorkerDeleting && !w.LeavingSince.IsZero() && s.now.Sub(w.LeavingSince) >= rollout.LeavingLimit {
			ids = append(ids, w.ID)
		}
	}
	return ids
}

// addTaint adds the taint of the pool's nodes, and which of them have it.
func (s *Scope) addTaint(out *cloud.PoolSpec, taint cloud.Taint, known *cloud.Pool) {
	out.Taints = []cloud.Taint{taint}
	for _, node := range untainted(known, s.Cluster.Nodes, taint) {
		out.Untainted = append(out.Untainted, node.WorkerID)
	}
	slices.Sort(out.Untainted)
	out.TaintsSeen = slices.ContainsFunc(s.Cluster.Nodes, func(n plan.Node) bool {
		return n.Pooled && n.WorkerID != "" && slices.Contains(n.Taints, written(taint)) && !former(known, n)
	})
}

// kindNow is the topology that the reflectors have: on the way from one to another, the larger one.
func kindNow(nodes []plan.Node) (largest v1alpha1.TopologyType) {
	for _, kind := range []v1alpha1.TopologyType{v1alpha1.TopologySingle, v1alpha1.TopologyMultiCluster, v1alpha1.TopologyQuorum, v1alpha1.TopologyHierarchy} {
		if slices.ContainsFunc(nodes, func(n plan.Node) bool { return n.Marked && n.HasRoleLabel && topology.KindOf(n.Slot) == kind }) {
			largest = kind
		}
	}
	return largest
}

// shape turns the wanted number of reflectors per zone into what the topology takes. A reflector that comes to
// serve more clients than it should is no reason to stop what works: then problem is set and serious is not.
func shape(s *Scope, known *cloud.Pool, clients []plan.Node, zones []string, perZone int) (spec topology.Spec, size int, problem *plan.Problem, serious bool) {
	spec = topology.ReadSpec(s.object.Spec.Topology, s.object.Spec.BGP.NodeLabel, !s.inPlace())
	if kind := spec.Kind; s.inPlace() && kind != "" && kind != v1alpha1.TopologySingle && kind != v1alpha1.TopologyAuto {
		return spec, perZone, plan.Problemf(reason.TopologyNotSupported, "spec.topology.type: %s needs nodes that do nothing but reflect "+
			"(spec.provider.type: IKS), and here existing nodes reflect, which run workloads as well: use Single", kind), true
	}
	if s.inPlace() {
		spec.Kind = v1alpha1.TopologySingle
	}
	now := kindNow(s.Cluster.Nodes)
	spec, total, problem := topology.Size(spec.WithCurrent(s.Cluster.Nodes, s.Cluster.Peers), clients, zones, perZone*len(zones), now)
	if problem != nil {
		return spec, perZone, problem, problem.Reason != reason.TooManyClients || now != spec.Kind
	}
	total = keepSize(spec, known, clients, zones, total, perZone*len(zones), now)
	size = (total + len(zones) - 1) / max(len(zones), 1)
	if limit := int(s.object.Spec.Sizing.Max); limit > 0 && total > max(limit, perZone*len(zones)) {
		if now == spec.Kind {
			perZone = limit / len(zones) // what serves goes on, also healing
		}
		return spec, perZone, BeyondMax(spec.Kind, limit, total, len(clients), len(zones)), now != spec.Kind
	}
	return spec, size, nil, false
}

// BeyondMax refuses a topology that takes more reflectors than spec.sizing.max.
func BeyondMax(kind v1alpha1.TopologyType, limit, total, clients, zones int) *plan.Problem {
	return plan.Problemf(reason.SizingInvalid,
		"spec.sizing.max: %d is too small: topology %s takes %d route reflectors for %d nodes in %d zones: raise max to %d",
		limit, kind, total, clients, zones, total)
}

// keepSize keeps a pool that is larger than it has to be as it is, while a tenth more
// clients would need it: those that come and go must not buy and return machines.
func keepSize(spec topology.Spec, known *cloud.Pool, clients []plan.Node, zones []string, total, sized int, now v1alpha1.TopologyType) int {
	if known == nil || !known.Owned || known.SizePerZone*len(zones) <= total {
		return total
	}
	spec.MaxClients = spec.MaxClients * 9 / 10
	_, margin, _ := topology.Size(spec, clients, zones, sized, now)
	return max(total, min(known.SizePerZone*len(zones), margin))
}

// Workload is the pods that run on nodes.
type Workload interface {
	// Count gives the pods with an address of their own, by node. It may be some seconds old.
	Count(ctx context.Context, nodes []string) (map[string]int, error)
	// Evictable names the pods that Evict has yet to move from a node, and those
	// that it leaves there because they would be lost, both sorted.
	Evictable(ctx context.Context, node string) (moving, staying []string, err error)
	// Evict asks the pods of a node to go, once, and does not wait for them.
	Evict(ctx context.Context, node string) (workload.Eviction, error)
}

// How long one look at the pods may take. The data plane waits meanwhile, so all
// pods are counted only while the mesh is on and carries every route.
const (
	countTimeout = 60 * time.Second
	drainTimeout = 20 * time.Second
	// offTimeout holds while the mesh is off: reflectors may die meanwhile.
	offTimeout = 5 * time.Second
)

// evictPause is the pause between two attempts to empty a node, and the shortest after a count that has failed. One
// that took long is tried again after countRest times as long, so that reconciliations go on.
const (
	evictPause = 5 * time.Second
	countRest  = 5
)

// drainAttempt is the last attempt to empty a node.
type drainAttempt struct {
	node    string
	at      time.Time
	blocked []string
	// stayed are the pods of the last event about pods that stay.
	stayed string
}

// attempt is the last one for this node.
func (r *Reconciler) attempt(node string) *drainAttempt {
	if r.drained.node != node {
		r.drained = drainAttempt{node: node}
	}
	return &r.drained
}

// lookAtPods asks for the pods that the step turns out to depend on, and computes it once more.
func (r *Reconciler) lookAtPods(ctx context.Context, s *Scope) {
	if names := nodesToCount(s); len(names) > 0 && r.countPods(ctx, s, names) {
		r.compute(s)
	}
	if s.Step.Drains != "" && r.listEvictable(ctx, s, s.Step.Drains) {
		r.compute(s)
	}
}

// nodesToCount names the nodes whose number of pods says which is the cheapest to change its role while no other
// reflector carries its routes, and what that costs; none while that does not matter.
func nodesToCount(s *Scope) []string {
	if s.Step.Problem != nil || s.Step.Name == rollout.Steady || has[plan.RestoreMesh](s.Step) {
		return nil
	}
	current := upNames(s.Cluster.Nodes, func(n plan.Node) bool { return n.HasRoleLabel && n.Marked })
	switch {
	case !s.reflecting():
		return current
	case len(current) > 0 || !s.Cluster.BGP.MeshOn():
		return nil
	}
	if members := upNames(s.Cluster.Nodes, func(n plan.Node) bool { return n.Pooled }); len(members) > 0 {
		return members
	}
	return upNames(s.Cluster.Nodes, func(plan.Node) bool { return true })
}

// upNames are the names of the Ready nodes that speak BGP and are so.
func upNames(nodes []plan.Node, so func(plan.Node) bool) []string {
	var out []string
	for _, n := range nodes {
		if n.SpeaksBGP() && n.Ready && so(n) {
			out = append(out, n.Name)
		}
	}
	return out
}

// countPods fills in how many pods the nodes run. Without an answer they are unknown, which
// makes no step unsafe, so it is no failure.
func (r *Reconciler) countPods(ctx context.Context, s *Scope, names []string) bool {
	if s.now.Before(r.countAgain) {
		return false
	}
	began := r.Now()
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	counts, err := r.Workload.Count(ctx, names)
	if err != nil {
		now := r.Now()
		r.countAgain = now.Add(max(evictPause, countRest*now.Sub(began)))
		log.FromContext(ctx).Error(err, "the pods are not counted: any node counts as busy as another")
		return false
	}
	for i := range s.Cluster.Nodes {
		if count, ok := counts[s.Cluster.Nodes[i].Name]; ok {
			s.Cluster.Nodes[i].Pods = &count
		}
	}
	return true
}

// podTimeout is how long this reconciliation waits for an answer about pods.
func podTimeout(s *Scope) time.Duration {
	switch {
	case s.Cluster.BGP.MeshOn():
		return drainTimeout
	case s.Step.Short && s.Step.Again > 0:
		return min(offTimeout, s.Step.Again)
	}
	return offTimeout
}

// listEvictable looks which pods are still to move away from a node. A failure fails the
// reconciliation: without an answer the step cannot go on.
func (r *Reconciler) listEvictable(ctx context.Context, s *Scope, node string) bool {
	ctx, cancel := context.WithTimeout(ctx, podTimeout(s))
	defer cancel()
	moving, staying, err := r.Workload.Evictable(ctx, node)
	if err != nil {
		s.podsErr = err
		return false
	}
	s.evictable = map[string][]string{node: moving}
	attempt := r.attempt(node)
	if names := strings.Join(staying, " "); !s.paused() && attempt.stayed != names {
		attempt.stayed = names
		if len(staying) > 0 {
			r.emit(ctx, s, podsStay(node, staying, s.Step))
		}
	}
	return true
}
