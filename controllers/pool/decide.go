package pool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/sizing"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// decide chooses the provider, asks it when that is due, and computes the step.
// The step is computed before the cloud is asked as well, because what has to
// happen at once must not wait for an answer that may not come; neither must what is
// due in seconds, as while too few reflectors serve. Existing nodes are
// no cloud: looking at them is no request.
func (r *Reconciler) decide(ctx context.Context, s *scope) {
	r.identify(ctx, s)
	r.poolClient.meshOff = !s.cluster.BGP.MeshOn()
	if s.inPlace() {
		r.poolClient.observe(ctx, s.now, 0)
	}
	r.compute(s)
	if s.inPlace() {
		r.lookAtPods(ctx, s)
		return
	}
	if !s.hasProvider() || urgent(s) || s.step.Short {
		return
	}
	if r.poolClient.observe(ctx, s.now, r.interval(s)) {
		r.compute(s)
	}
}

// compute is pure but for the pool, which it takes from memory.
func (r *Reconciler) compute(s *scope) {
	s.pool = r.poolClient.usable()
	taint := taintOf(s.object.Spec.Provider.IKS.Taint)
	if s.inPlace() {
		taint = cloud.Taint{}
		markExisting(s.cluster.Nodes)
	} else {
		fillIn(s.cluster.Nodes, s.object.Spec.Provider.IKS.PoolName, r.poolClient.members())
	}
	s.cluster.Problems = relevant(s.cluster.Problems, s.object.Spec.Rollout.Gate)
	desired, problem := desire(s, r.poolClient.last)
	s.desired = desired
	r.meshSince = sinceWhen(r.meshSince, s.cluster.BGP.MeshOn(), s.now)
	observed := rollout.Observed{
		Cluster:    s.cluster,
		Pool:       poolOf(s.pool, s.cluster.Nodes, taint),
		Proven:     r.proven,
		MeshSince:  r.meshSince,
		ShortSince: r.shortSince,
		StraySince: r.straySince,
		Evictable:  s.evictable,
	}
	if problem != nil {
		s.step = r.refuse(s, observed, *problem)
		return
	}
	s.step = r.next(observed, desired, s.now)
}

// refuse does nothing because of the spec, with one exception: a cluster that
// has lost its reflectors gets its mesh, which only adds sessions. To know that, stale
// reports are asked for again. How many
// reflectors there should be is then taken from the pool as it is.
func (r *Reconciler) refuse(s *scope, observed rollout.Observed, problem plan.Problem) rollout.Step {
	desired := s.desired
	if known := r.poolClient.last; known != nil && known.Owned {
		desired.Pool = plan.PoolSpec{SizePerZone: known.SizePerZone, Zones: known.Zones}
	}
	step := r.next(observed, desired, s.now)
	if step.Urgent {
		step.Problem = &problem
		return step
	}
	refused := rollout.Step{Name: "InvalidSpec", Reason: problem.Message, Problem: &problem, Short: step.Short, Again: step.Again}
	refused.Actions = slices.DeleteFunc(step.Actions, func(a plan.Action) bool { return !isRefresh(a) })
	return refused
}

func isRefresh(action plan.Action) bool {
	_, is := action.(plan.RefreshStatus)
	return is
}

// relevant leaves out what the chosen gate does not suffer from: fixed waits need
// no reports.
func relevant(problems []plan.Problem, gate v1alpha1.Gate) []plan.Problem {
	if gate != v1alpha1.GateTimer {
		return problems
	}
	return slices.DeleteFunc(slices.Clone(problems), func(p plan.Problem) bool {
		return p.Reason == ReasonNodeStatusCRDMissing
	})
}

// interval is how often this step needs to look at the provider, and at
// the cluster without being pushed.
func (r *Reconciler) interval(s *scope) time.Duration {
	switch {
	case s.paused() || s.step.Name == rollout.Steady && s.step.Problem == nil:
		return intervalRest
	case s.step.Problem != nil || s.provider.problem != nil || r.poolClient.blocked():
		return intervalBlocked
	default:
		return intervalActive
	}
}

// remember keeps what a step has proven until the cluster is at rest, and since
// when too few reflectors serve or BGPPeers are stray; losing it costs another
// look, or wait.
func (r *Reconciler) remember(s *scope) {
	if s.step.Name == rollout.Steady {
		r.proven = nil
	}
	if r.proven == nil && len(s.step.Proven) > 0 {
		r.proven = make(map[string]time.Time, len(s.step.Proven))
	}
	for _, node := range s.step.Proven {
		r.proven[node] = s.now
	}
	r.shortSince = sinceWhen(r.shortSince, s.step.Short, s.now)
	r.straySince = sinceWhen(r.straySince, s.step.Stray, s.now)
}

// sinceWhen keeps the time since which something is so, zero while it is not.
func sinceWhen(since time.Time, so bool, now time.Time) time.Time {
	switch {
	case !so:
		return time.Time{}
	case since.IsZero():
		return now
	}
	return since
}

// hasProvider: there is a provider to ask.
func (s *scope) hasProvider() bool { return s.provider.problem == nil }

// urgent: the mesh has to come back, and never waits for the cloud.
func urgent(s *scope) bool {
	if !s.reflecting() {
		return s.step.Name != rollout.Steady
	}
	return restores(s.step)
}

// restores: the step switches the mesh on.
func restores(step rollout.Step) bool {
	return slices.ContainsFunc(step.Actions, func(action plan.Action) bool {
		_, ok := action.(plan.RestoreMesh)
		return ok
	})
}

// desire says where the cluster is to go. known is the pool as it was last
// seen, which may be long ago, or nil. The way back to the mesh needs neither a
// provider nor a size, so nothing in the spec can block it.
func desire(s *scope, known *cloud.Pool) (rollout.Desired, *plan.Problem) {
	spec := s.object.Spec
	d := rollout.Desired{
		Mode:           rollout.Mesh,
		Dedicated:      s.provider.kind == v1alpha1.ProviderIKS,
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
	if ref := spec.BGP.PasswordSecretRef; ref.Name != "" {
		d.Password = &plan.SecretRef{Name: ref.Name, Key: ref.Key}
	}
	if !s.reflecting() {
		return d, nil
	}
	d.Mode = rollout.Reflect
	if s.inPlace() && problem != nil {
		return d, problem
	}
	clients, zones := clientsOf(s), poolZones(s, known)
	perZone, err := sizePerZone(spec.Sizing, clients, len(zones), known)
	if err != nil {
		return d, sizingProblem(err)
	}
	topo, perZone, problem, serious := shape(s, known, clients, zones, perZone)
	if serious {
		return d, problem
	}
	s.warning = problem
	d.Topology, d.Pool = topo, plan.PoolSpec{SizePerZone: perZone, Zones: zones}
	return d, nil
}

// sizePerZone sizes the pool by the nodes that are Ready. While some are not,
// it is unknown whether they come back: the size then stays where it is, as long
// as that is right for some number of them. Otherwise an outage of half the
// cluster would take reflectors away from the other half.
func sizePerZone(spec v1alpha1.SizingSpec, clients []plan.Node, zones int, known *cloud.Pool) (int, error) {
	zones = max(zones, 1)
	ready, all := countReady(clients), len(clients)
	low, err := sizing.Reflectors(spec, ready, zones)
	if err != nil || known == nil || !known.Owned || known.SizePerZone <= low.PerZone {
		return low.PerZone, err
	}
	if ready < all {
		high, err := sizing.Reflectors(spec, all, zones)
		low.PerZone = max(low.PerZone, min(known.SizePerZone, high.PerZone))
		return low.PerZone, err
	}
	// Nodes that come and go around a threshold must not buy and return machines.
	margin, err := sizing.Reflectors(spec, ready+max(ready/10, 1), zones)
	return max(low.PerZone, min(known.SizePerZone, margin.PerZone)), err
}

// clientsOf are the nodes that route reflectors are there for: those that speak
// BGP and are not dedicated to reflecting. A reflector with workloads is a client too.
func clientsOf(s *scope) []plan.Node {
	return slices.DeleteFunc(slices.Clone(s.cluster.Nodes), func(n plan.Node) bool {
		return !n.SpeaksBGP() || n.Pooled && !s.inPlace()
	})
}

func countReady(nodes []plan.Node) int {
	ready := 0
	for _, node := range nodes {
		if node.Ready {
			ready++
		}
	}
	return ready
}

// poolZones names the zones of the pool, sorted. For existing nodes they are where
// the nodes are, and "" is that of nodes without one. For a pool of its own: those
// the user gives, else all that the cloud knows, else those in which there are
// nodes. They are always named: the number of reflectors to wait for depends on
// the zones that are still without a node. A zone that the pool has is given up
// only when the user says so, not because the cloud's list is shorter today.
func poolZones(s *scope, known *cloud.Pool) []string {
	if s.inPlace() {
		return zonesOf(s.cluster.Nodes)
	}
	if zones := s.object.Spec.Provider.IKS.Zones; len(zones) > 0 {
		return slices.Compact(slices.Sorted(slices.Values(zones)))
	}
	zones := map[string]bool{}
	if known != nil && len(known.ClusterZones) > 0 {
		for _, zone := range known.ClusterZones {
			zones[zone] = true
		}
		if known.Owned {
			for _, zone := range known.Zones {
				zones[zone] = true
			}
		}
		return slices.Sorted(maps.Keys(zones))
	}
	return slices.DeleteFunc(zonesOf(s.cluster.Nodes), func(zone string) bool { return zone == "" })
}

// zonesOf are the zones of the nodes that speak BGP, sorted.
func zonesOf(nodes []plan.Node) []string {
	zones := map[string]bool{}
	for _, node := range nodes {
		if node.SpeaksBGP() {
			zones[node.Zone] = true
		}
	}
	return slices.Sorted(maps.Keys(zones))
}

// poolSpec is the provider's view of the wanted pool. Existing nodes are as they are.
func poolSpec(s *scope, want plan.PoolSpec) cloud.PoolSpec {
	if s.inPlace() {
		return cloud.PoolSpec{Zones: want.Zones, SizePerZone: want.SizePerZone, Retire: want.Retire, Replace: want.Replace}
	}
	spec := s.object.Spec.Provider.IKS
	out := cloud.PoolSpec{
		Flavor:      spec.Flavor,
		Zones:       want.Zones,
		SizePerZone: want.SizePerZone,
		Labels: map[string]string{
			v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue,
			PoolLabel:               spec.PoolName,
		},
		Retire:  want.Retire,
		Replace: want.Replace,
	}
	if taint := taintOf(spec.Taint); taint.Key != "" {
		out.Taints = []cloud.Taint{taint}
		for _, node := range untainted(s.cluster.Nodes, taint) {
			out.Untainted = append(out.Untainted, node.WorkerID)
		}
		slices.Sort(out.Untainted)
	}
	return out
}

// kindNow is the topology that the reflectors have: on the way from one to another, the
// larger one.
func kindNow(nodes []plan.Node) v1alpha1.TopologyType {
	order := []v1alpha1.TopologyType{
		"", v1alpha1.TopologySingle, v1alpha1.TopologyMultiCluster, v1alpha1.TopologyQuorum, v1alpha1.TopologyHierarchy,
	}
	size := 0
	for _, n := range nodes {
		if !n.Marked || !n.RoleLabel {
			continue
		}
		for i, kind := range order {
			if topology.KindOf(n.Slot) == kind {
				size = max(size, i)
			}
		}
	}
	return order[size]
}

// shape turns the wanted number of reflectors per zone into what the topology takes. A
// reflector that comes to serve more clients than it should is no reason to stop what
// works: then problem is set and serious is not.
func shape(s *scope, known *cloud.Pool, clients []plan.Node, zones []string, perZone int) (spec topology.Spec, size int, problem *plan.Problem, serious bool) {
	spec = topology.Read(s.object.Spec.Topology, s.object.Spec.BGP.NodeLabel, !s.inPlace())
	if kind := spec.Kind; s.inPlace() && kind != "" && kind != v1alpha1.TopologySingle && kind != v1alpha1.TopologyAuto {
		return spec, perZone, dedicatedOnly(kind), true
	}
	if s.inPlace() {
		spec.Kind = v1alpha1.TopologySingle
	}
	now := kindNow(s.cluster.Nodes)
	spec, total, problem := topology.Size(spec.Standing(s.cluster.Nodes, s.cluster.Peers), clients, zones, perZone*len(zones), now)
	if problem != nil {
		return spec, perZone, problem, problem.Reason != topology.ReasonTooManyClients || now != spec.Kind
	}
	total = steady(spec, known, clients, zones, total, perZone*len(zones), now)
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
	return sizingProblem(fmt.Errorf(
		"spec.sizing.max: %d is too small: topology %s takes %d route reflectors for %d nodes in %d zones: raise max to %d",
		limit, kind, total, clients, zones, total,
	))
}

// steady keeps a pool that is larger than it has to be as it is, while a tenth more
// clients would need it: those that come and go must not buy and return machines.
func steady(spec topology.Spec, known *cloud.Pool, clients []plan.Node, zones []string, total, sized int, now v1alpha1.TopologyType) int {
	if known == nil || !known.Owned || known.SizePerZone*len(zones) <= total {
		return total
	}
	spec.MaxClients = spec.MaxClients * 9 / 10
	_, margin, _ := topology.Size(spec, clients, zones, sized, now)
	return max(total, min(known.SizePerZone*len(zones), margin))
}

func dedicatedOnly(kind v1alpha1.TopologyType) *plan.Problem {
	return &plan.Problem{
		Reason: ReasonTopologyNotSupported,
		Message: fmt.Sprintf("spec.topology.type: %s needs nodes that do nothing but reflect (spec.provider.type: IKS), "+
			"and here existing nodes reflect, which run workloads as well: use Single", kind),
	}
}
