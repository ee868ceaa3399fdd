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

// decide chooses the provider, asks it if that is due, and computes the step. A cloud is asked only after
// a first computation: a step that brings the mesh back, or is due in seconds because too few reflectors
// serve, must not wait for an answer. Existing nodes are observed first, as that needs no cloud.
func (r *Reconciler) decide(ctx context.Context, s *Scope) error {
	r.identify(ctx, s)
	progress, err := r.poolClient.answered(s.now)
	_, _ = r.poolDid(ctx, s, progress, err) // poolClient keeps and reports the error
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
	// The cluster is observed again: reflectors may have died while rrpool waited for the answer.
	if err := r.lookAtCluster(ctx, s); err != nil {
		return err
	}
	r.compute(s)
	return nil
}

// compute computes the step from the observed cluster and the pool as last observed. It sends no requests.
func (r *Reconciler) compute(s *Scope) {
	taint := taintOf(s.object.Spec.Provider.IKS.Taint)
	if s.inPlace() {
		taint = cloud.Taint{}
		markExisting(s.Cluster.Nodes)
	} else {
		fillIn(s.platform, s.Cluster.Nodes, s.object.Spec.Provider.IKS.PoolName, r.poolClient.members())
	}
	if s.object.Spec.Rollout.Gate == v1alpha1.GateTimer { // the Timer gate needs no session reports
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
		if known != nil && known.Owned { // the existing pool says how many reflectors there should be
			desired.Pool = plan.PoolTarget{SizePerZone: known.SizePerZone, Zones: known.Zones}
		}
	case known != nil:
		r.sized = s.Desired.Pool.SizePerZone
	}
	s.Step = r.Next(observed, desired, s.now)
}

// lasting returns the pool as last observed, but at most with the size per zone that was wanted last. Any larger
// size includes temporary substitutes: sizing keeps an existing size to spare orders, and must not keep substitutes.
// After a restart, the wanted size is taken from the record of orders, else from the number of reflectors.
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

// onlyRefreshes returns the actions that ask for stale reports again.
func onlyRefreshes(actions []plan.Action) []plan.Action {
	return slices.DeleteFunc(slices.Clone(actions), func(a plan.Action) bool { return !is[plan.RefreshStatus](a) })
}

// interval is the time between two observations of the provider, and of the cluster if no watch reports a change.
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

// desire returns where the cluster is to go. known is the pool as last observed, maybe long ago, or
// nil. If the mesh is wanted, desire returns no problem: nothing in the spec can block the way back.
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

// sizePerZone returns the pool size that the Ready clients need. Clients that are not Ready may come back. Therefore an existing
// pool keeps its size, up to what all clients need: an outage of half the cluster must not take reflectors away from the other half.
func sizePerZone(spec v1alpha1.SizingSpec, clients []plan.Node, zones int, known *cloud.Pool) (int, error) {
	zones = max(zones, 1)
	ready, all := countReady(clients), len(clients)
	low, err := sizing.Reflectors(spec, ready, zones)
	if err != nil || known == nil || !known.Owned || known.SizePerZone <= low {
		return low, err
	}
	if ready == all {
		all += max(ready/10, 1) // a margin of a tenth: nodes that come and go must not buy and return machines
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

// poolZones returns the zones of the pool, sorted. Existing nodes have the zones of all nodes that speak BGP, ""
// for a node without a zone. A dedicated pool has the zones of the spec, else those that the cloud knows, else
// those that have nodes. The provider never chooses them: rrpool waits for reflectors also in zones that have no
// node yet. If the cloud's list gets shorter, the pool keeps its zones: only the spec can remove a zone.
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

// poolSpec returns the wanted pool for the provider; known is the existing pool. Existing nodes have no machine options.
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

// stuckWorkers returns the workers that have been deleting for LeavingLimit or longer: nothing waits for them any more.
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

// addTaint adds the taint of the pool's nodes, the workers whose nodes lack it, and whether any node has it.
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

// kindNow returns the topology of the present reflectors. While one topology replaces another, it is the larger one.
func kindNow(nodes []plan.Node) (largest v1alpha1.TopologyType) {
	for _, kind := range []v1alpha1.TopologyType{v1alpha1.TopologySingle, v1alpha1.TopologyMultiCluster, v1alpha1.TopologyQuorum, v1alpha1.TopologyHierarchy} {
		if slices.ContainsFunc(nodes, func(n plan.Node) bool { return n.Marked && n.HasRoleLabel && topology.KindOf(n.Slot) == kind }) {
			largest = kind
		}
	}
	return largest
}

// shape returns the topology and the number of reflectors per zone that it takes. A serious problem stops the rollout. If
// the topology is in use already, a reflector with too many clients, or a pool beyond spec.sizing.max, is not serious.
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
			perZone = limit / len(zones) // at the limit, existing reflectors serve on, and are replaced when they fail
		}
		return spec, perZone, BeyondMax(spec.Kind, limit, total, len(clients), len(zones)), now != spec.Kind
	}
	return spec, size, nil, false
}

// BeyondMax returns the problem that a topology takes more reflectors than spec.sizing.max.
func BeyondMax(kind v1alpha1.TopologyType, limit, total, clients, zones int) *plan.Problem {
	return plan.Problemf(reason.SizingInvalid,
		"spec.sizing.max: %d is too small: topology %s takes %d route reflectors for %d nodes in %d zones: raise max to %d",
		limit, kind, total, clients, zones, total)
}

// keepSize returns total, or a larger number if the pool is that large already and a tenth
// more clients would need it: clients that come and go must not buy and return machines.
func keepSize(spec topology.Spec, known *cloud.Pool, clients []plan.Node, zones []string, total, sized int, now v1alpha1.TopologyType) int {
	if known == nil || !known.Owned || known.SizePerZone*len(zones) <= total {
		return total
	}
	spec.MaxClients = spec.MaxClients * 9 / 10
	_, margin, _ := topology.Size(spec, clients, zones, sized, now)
	return max(total, min(known.SizePerZone*len(zones), margin))
}

// Workload gives access to the pods of nodes.
type Workload interface {
	// Count returns the number of pods with an address of their own, by node. The numbers may be some seconds old.
	Count(ctx context.Context, nodes []string) (map[string]int, error)
	// Evictable returns the names of the pods that have to leave a node, and of those that
	// Evict leaves there because no controller would create them again. Both are sorted.
	Evictable(ctx context.Context, node string) (moving, staying []string, err error)
	// Evict evicts the pods of a node once, and does not wait until they are gone.
	Evict(ctx context.Context, node string) (workload.Eviction, error)
}

// The limits of one request about pods. rrpool takes no step meanwhile, so the
// pods of all nodes are counted only while the mesh is on and carries every route.
const (
	countTimeout = 60 * time.Second
	drainTimeout = 20 * time.Second
	// offTimeout replaces drainTimeout while the mesh is off: reflectors may die during the request.
	offTimeout = 5 * time.Second
)

// evictPause is the pause between two attempts to empty a node. A failed count of pods is repeated after
// countRest times the time that it took, but not before evictPause, so that reconciliations go on.
const (
	evictPause = 5 * time.Second
	countRest  = 5
)

// drainAttempt is the last attempt to empty a node.
type drainAttempt struct {
	node    string
	at      time.Time
	blocked []string
	// stayed names the pods in the last event about pods that stay.
	stayed string
}

// attempt returns the last attempt to empty this node, an empty one if the last was for another node.
func (r *Reconciler) attempt(node string) *drainAttempt {
	if r.drained.node != node {
		r.drained = drainAttempt{node: node}
	}
	return &r.drained
}

// lookAtPods gets the pods that the step depends on, and computes the step again.
func (r *Reconciler) lookAtPods(ctx context.Context, s *Scope) {
	if names := nodesToCount(s); len(names) > 0 && r.countPods(ctx, s, names) {
		r.compute(s)
	}
	if s.Step.Drains != "" && r.listEvictable(ctx, s, s.Step.Drains) {
		r.compute(s)
	}
}

// nodesToCount returns the nodes whose pods are to be counted. A change of role cuts off a node's pods while no other reflector
// carries its routes, so the node with the fewest pods is the cheapest. It returns none if the number of pods does not matter.
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

// upNames returns the names of the Ready nodes that speak BGP and for which so returns true.
func upNames(nodes []plan.Node, so func(plan.Node) bool) []string {
	var out []string
	for _, n := range nodes {
		if n.SpeaksBGP() && n.Ready && so(n) {
			out = append(out, n.Name)
		}
	}
	return out
}

// countPods sets the number of pods of the nodes. If the count fails, the number stays unknown; that makes no step unsafe, so it is only logged.
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

// podTimeout limits a listing or eviction of pods in this reconciliation.
func podTimeout(s *Scope) time.Duration {
	switch {
	case s.Cluster.BGP.MeshOn():
		return drainTimeout
	case s.Step.Short && s.Step.Again > 0:
		return min(offTimeout, s.Step.Again)
	}
	return offTimeout
}

// listEvictable lists the pods that still have to leave a node. An error fails the reconciliation: without the list, the step cannot go on.
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
