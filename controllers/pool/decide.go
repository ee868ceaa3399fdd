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
func (r *Reconciler) decide(ctx context.Context, t *turn) {
	r.identify(ctx, t)
	r.supply.meshOff = !t.cluster.BGP.MeshOn()
	if t.busy() {
		r.supply.observe(ctx, t.now, 0)
	}
	r.compute(t)
	if t.busy() {
		r.look(ctx, t)
		return
	}
	if !t.usesProvider() || urgent(t) || t.step.Short {
		return
	}
	if r.supply.observe(ctx, t.now, r.interval(t)) {
		r.compute(t)
	}
}

// compute is pure but for the pool, which it takes from memory.
func (r *Reconciler) compute(t *turn) {
	t.pool = r.supply.usable()
	taint := taintOf(t.object.Spec.Provider.IKS.Taint)
	if t.busy() {
		taint = cloud.Taint{}
		enlisted(t.cluster.Nodes)
	} else {
		fillIn(t.cluster.Nodes, t.object.Spec.Provider.IKS.PoolName, r.supply.members())
	}
	t.cluster.Problems = relevant(t.cluster.Problems, t.object.Spec.Rollout.Gate)
	desired, problem := desire(t, r.supply.last)
	t.desired = desired
	r.meshSince = sinceWhen(r.meshSince, t.cluster.BGP.MeshOn(), t.now)
	observed := rollout.Observed{
		Cluster:    t.cluster,
		Pool:       poolOf(t.pool, t.cluster.Nodes, taint),
		Proven:     r.proven,
		MeshSince:  r.meshSince,
		ShortSince: r.shortSince,
		StraySince: r.straySince,
		Evictable:  t.evictable,
	}
	if problem != nil {
		t.step = r.refuse(t, observed, *problem)
		return
	}
	t.step = r.next(observed, desired, t.now)
}

// refuse does nothing because of the spec, with one exception: a cluster that
// has lost its reflectors gets its mesh, which only adds sessions. To know that, stale
// reports are asked for again. How many
// reflectors there should be is then taken from the pool as it is.
func (r *Reconciler) refuse(t *turn, observed rollout.Observed, problem plan.Problem) rollout.Step {
	desired := t.desired
	if known := r.supply.last; known != nil && known.Owned {
		desired.Pool = plan.PoolSpec{SizePerZone: known.SizePerZone, Zones: known.Zones}
	}
	step := r.next(observed, desired, t.now)
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

// interval is how often this turn's step wants to look at the provider, and at
// the cluster without being pushed.
func (r *Reconciler) interval(t *turn) time.Duration {
	switch {
	case t.paused() || t.step.Name == rollout.Steady && t.step.Problem == nil:
		return intervalRest
	case t.step.Problem != nil || t.origin.problem != nil || r.supply.hindered():
		return intervalBlocked
	default:
		return intervalActive
	}
}

// remember keeps what a step has proven until the cluster is at rest, and since
// when too few reflectors serve or BGPPeers are stray; losing it costs another
// look, or wait.
func (r *Reconciler) remember(t *turn) {
	if t.step.Name == rollout.Steady {
		r.proven = nil
	}
	if r.proven == nil && len(t.step.Proven) > 0 {
		r.proven = make(map[string]time.Time, len(t.step.Proven))
	}
	for _, node := range t.step.Proven {
		r.proven[node] = t.now
	}
	r.shortSince = sinceWhen(r.shortSince, t.step.Short, t.now)
	r.straySince = sinceWhen(r.straySince, t.step.Stray, t.now)
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

// usesProvider: there is a provider that this turn may ask.
func (t *turn) usesProvider() bool { return t.origin.problem == nil }

// urgent: the mesh has to come back, and never waits for the cloud.
func urgent(t *turn) bool {
	if !t.reflecting() {
		return t.step.Name != rollout.Steady
	}
	return restores(t.step)
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
func desire(t *turn, known *cloud.Pool) (rollout.Desired, *plan.Problem) {
	spec := t.object.Spec
	d := rollout.Desired{
		Mode:           rollout.Mesh,
		Dedicated:      t.origin.kind == v1alpha1.ProviderIKS,
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
	if !t.reflecting() {
		return d, nil
	}
	d.Mode = rollout.Reflect
	if t.busy() && problem != nil {
		return d, problem
	}
	clients, zones := clientsOf(t), poolZones(t, known)
	perZone, err := sizePerZone(spec.Sizing, clients, len(zones), known)
	if err != nil {
		return d, sizingProblem(err)
	}
	topo, perZone, problem, serious := shape(t, known, clients, zones, perZone)
	if serious {
		return d, problem
	}
	t.worry = problem
	d.Topology, d.Pool = topo, plan.PoolSpec{SizePerZone: perZone, Zones: zones}
	return d, nil
}

// sizePerZone sizes the pool by the nodes that are Ready. While some are not,
// nobody knows whether they come back: the size then stays where it is, as long
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
// BGP and are not dedicated to reflecting. A busy reflector is a client too.
func clientsOf(t *turn) []plan.Node {
	return slices.DeleteFunc(slices.Clone(t.cluster.Nodes), func(n plan.Node) bool {
		return !n.SpeaksBGP() || n.Pooled && !t.busy()
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
func poolZones(t *turn, known *cloud.Pool) []string {
	if t.busy() {
		return zonesOf(t.cluster.Nodes)
	}
	if zones := t.object.Spec.Provider.IKS.Zones; len(zones) > 0 {
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
	return slices.DeleteFunc(zonesOf(t.cluster.Nodes), func(zone string) bool { return zone == "" })
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
func poolSpec(t *turn, want plan.PoolSpec) cloud.PoolSpec {
	if t.busy() {
		return cloud.PoolSpec{Zones: want.Zones, SizePerZone: want.SizePerZone, Retire: want.Retire, Replace: want.Replace}
	}
	spec := t.object.Spec.Provider.IKS
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
		for _, node := range untainted(t.cluster.Nodes, taint) {
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
func shape(t *turn, known *cloud.Pool, clients []plan.Node, zones []string, perZone int) (spec topology.Spec, size int, problem *plan.Problem, serious bool) {
	spec = topology.Read(t.object.Spec.Topology, t.object.Spec.BGP.NodeLabel, !t.busy())
	if kind := spec.Kind; t.busy() && kind != "" && kind != v1alpha1.TopologySingle && kind != v1alpha1.TopologyAuto {
		return spec, perZone, dedicatedOnly(kind), true
	}
	if t.busy() {
		spec.Kind = v1alpha1.TopologySingle
	}
	now := kindNow(t.cluster.Nodes)
	spec, total, problem := topology.Size(spec.Standing(t.cluster.Nodes, t.cluster.Peers), clients, zones, perZone*len(zones), now)
	if problem != nil {
		return spec, perZone, problem, problem.Reason != topology.ReasonTooManyClients || now != spec.Kind
	}
	total = steady(spec, known, clients, zones, total, perZone*len(zones), now)
	size = (total + len(zones) - 1) / max(len(zones), 1)
	if limit := int(t.object.Spec.Sizing.Max); limit > 0 && total > max(limit, perZone*len(zones)) {
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
