package pool

import (
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
)

// sight is what the last turn saw, as far as metrics tell of it. The zero value is that
// of a manager that has not looked yet, or does not lead.
type sight struct {
	// looked: the object was asked for; exists: it is there.
	looked, exists bool
	mode           v1alpha1.Mode
	conditions     []metav1.Condition
	// seen is when the cluster was last observed whole, zero for never by this manager.
	seen time.Time
	// known is what was seen then, nil while the cluster cannot be observed.
	known *known
	// now tells the time, as the reconciler has it.
	now func() time.Time
}

// known is how the cluster is.
type known struct {
	meshOn bool
	step   string
	since  time.Time
	nodes  int32
	// unserved is nil while nobody can tell.
	unserved *int
	// netDue: the mesh is off and too few reflectors serve; netActed: the mesh is on
	// again by our doing, though reflectors are wanted.
	netDue, netActed bool
	// reflectors is nil while nothing is known of them, as with a spec that is refused.
	reflectors *reflecting
	// wanted and minimum are nil while the spec does not say.
	wanted, minimum *int
	// workers is nil while nobody has told.
	workers *crew
	// cost is that of the status, nil while there is no dedicated pool.
	cost *v1alpha1.CostStatus
}

// reflecting sums up the route reflectors.
type reflecting struct {
	count, serving int
	// observed: one that serves reports its sessions, for which a Timer gate does not ask. Of
	// the others nothing is counted, nor what they keep those that serve from having.
	observed              bool
	established, expected int
}

// crew is the pool as the provider tells of it.
type crew struct{ wanted, deployed int }

// absent notes that there is no object, so nothing to tell of.
func (m *Metrics) absent() {
	if m != nil {
		m.show(sight{looked: true})
	}
}

// blind notes that the cluster could not be observed.
func (m *Metrics) blind(t *turn, status v1alpha1.RouteReflectorPoolStatus, now func() time.Time) {
	if m == nil {
		return
	}
	m.show(sight{
		looked: true, exists: true, mode: modeOf(t), conditions: status.Conditions, seen: m.last().seen, now: now,
	})
}

// looked notes what a turn saw and what the status says of it.
func (m *Metrics) looked(t *turn, s *supply, status v1alpha1.RouteReflectorPoolStatus, now func() time.Time) {
	if m == nil {
		return
	}
	bgp := t.cluster.BGP
	k := &known{
		meshOn: bgp.MeshOn(), step: status.Step.Name, since: status.Step.Since.Time, nodes: status.Nodes,
		netDue:     netDue(t),
		netActed:   t.reflecting() && bgp.MeshOn() && !bgp.Restored.IsZero(),
		reflectors: reflectingOf(t), workers: crewOf(t, s), cost: status.Cost,
	}
	if wanted := t.desired.Pool.SizePerZone * len(t.desired.Pool.Zones); wanted > 0 || !t.reflecting() {
		k.wanted = &wanted
		if kind := t.desired.Topology.Kind; kind == "" || kind == v1alpha1.TopologySingle {
			least := min(wanted, t.desired.MinServing)
			k.minimum = &least
		}
	}
	if count, told := unserved(t); told {
		k.unserved = &count
	}
	m.show(sight{looked: true, exists: true, mode: modeOf(t), conditions: status.Conditions, seen: t.now, known: k, now: now})
}

func reflectingOf(t *turn) *reflecting {
	if len(t.step.Reflectors) == 0 && t.step.Problem != nil {
		return nil
	}
	out := &reflecting{count: len(t.step.Reflectors)}
	for _, r := range t.step.Reflectors {
		if !r.Serving {
			continue
		}
		out.serving++
		if _, reports := t.cluster.Statuses[r.Node]; reports && !t.desired.Timer {
			out.observed = true
			out.established += r.Established
			out.expected += r.Established + r.Lacking
		}
	}
	return out
}

func crewOf(t *turn, s *supply) *crew {
	if s.last == nil || s.foreign() {
		return nil
	}
	wanted, deployed := manning(t, s)
	return &crew{wanted, deployed}
}

// manning is how many workers the pool should have, and has.
func manning(t *turn, s *supply) (wanted, deployed int) {
	for _, worker := range s.last.Workers {
		if worker.State == cloud.WorkerDeployed {
			deployed++
		}
	}
	wanted = t.desired.Pool.SizePerZone * len(t.desired.Pool.Zones)
	if wanted == 0 {
		wanted = s.last.SizePerZone * len(s.last.Zones)
	}
	return wanted, deployed
}

// modeOf is where the object is to go; one that is deleted goes back to the mesh.
func modeOf(t *turn) v1alpha1.Mode {
	if t.deleting() {
		return v1alpha1.ModeFullMesh
	}
	return t.object.Spec.Mode
}

// waiting is how long the step has been going on, 0 at rest.
func (k *known) waiting(now time.Time) float64 {
	if k.step == rollout.Steady {
		return 0
	}
	return max(0, now.Sub(k.since).Seconds())
}

const (
	// youth is how long a node may take to get its first session.
	youth = 75 * time.Second
	// silence is how long a reporter that was asked may say nothing before its report counts no more.
	silence = time.Minute
)

// unserved counts the Ready clients that have no Established session with any reflector,
// and says whether that can be told.
func unserved(t *turn) (count int, told bool) {
	served, told := reached(t)
	for _, n := range clientsOf(t) {
		if settledIn(n, t.now) && !n.HoldsRole() && !slices.ContainsFunc(n.Addresses, func(a netip.Addr) bool { return served[a] }) {
			count++
		}
	}
	return count, told && !t.desired.Timer
}

// reached are the addresses that reflectors have sessions with; of each Ready reflector
// there has to be a report.
func reached(t *turn) (served map[netip.Addr]bool, told bool) {
	served = map[netip.Addr]bool{}
	for _, n := range t.cluster.Nodes {
		if !n.HoldsRole() || !n.Ready {
			continue
		}
		report, ok := t.cluster.Statuses[n.Name]
		if !ok {
			return nil, false
		}
		told = true
		if report.Cleared.IsZero() || t.now.Sub(report.Cleared) <= silence {
			addPeers(served, report)
		}
	}
	return served, told
}

func addPeers(served map[netip.Addr]bool, report plan.Status) {
	for _, s := range report.Sessions {
		if s.Established && s.Kind != plan.SessionMesh {
			served[s.Peer] = true
		}
	}
}

// settledIn: the node is Ready and has been for long enough to have sessions.
func settledIn(n plan.Node, now time.Time) bool {
	return n.Ready && !n.Deleting && now.Sub(n.Created) >= youth && now.Sub(n.ReadyChanged) >= youth
}

// netDue: the mesh is off, and fewer reflectors serve than should. On the way back to the
// mesh the plan does not count them: restoring it is the first step of all.
func netDue(t *turn) bool {
	if t.step.Short || t.reflecting() || t.cluster.BGP.MeshOn() {
		return t.step.Short
	}
	count, serving := 0, 0
	for _, n := range t.cluster.Nodes {
		if n.HoldsRole() {
			count++
		}
	}
	if count == 0 && t.cluster.BGP.Saved == nil && !restores(t.step) {
		return false // somebody else keeps it off, and rrpool has no part in it
	}
	for _, r := range t.step.Reflectors {
		if r.Serving {
			serving++
		}
	}
	return serving < max(1, min(count, t.desired.MinServing))
}

// costOf is what the dedicated pool costs, in whatever mode: it does until it is deleted.
// It goes by the labels of nodes, as `rrpool cost` does, so no cloud is needed for it;
// workers that are not nodes yet are not counted. Nil without a worker, and on existing
// nodes, which cost nothing extra.
func costOf(t *turn) *v1alpha1.CostStatus {
	if t.busy() {
		return nil
	}
	return cost.Status(paidFor(t.cluster.Nodes, t.object.Spec.Provider.IKS.PoolName))
}

// paidFor are the workers of the pool. Prices do not depend on the zone within a region.
func paidFor(nodes []plan.Node, poolName string) []cost.Worker {
	var out []cost.Worker
	for _, node := range nodes {
		if cost.InPool(node.Labels, poolName) {
			out = append(out, cost.WorkerOf(node.Labels, ""))
		}
	}
	return out
}

// costHourly tells an amount that is exact; any other is unknown.
func costHourly(s *sight) []reading {
	if s.known == nil || s.known.cost == nil {
		return nil
	}
	amount, err := cost.ParseDecimal(s.known.cost.Hourly)
	if err != nil {
		return nil
	}
	return []reading{{amount.Approximate(), []string{s.known.cost.Currency}}}
}
