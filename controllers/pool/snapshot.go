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

// metricsSnapshot is what the metrics export of the last reconciliation. The zero value is
// that of a manager that has not observed yet, or does not lead.
type metricsSnapshot struct {
	// read: the object was read; exists: it is there.
	read, exists bool
	mode         v1alpha1.Mode
	conditions   []metav1.Condition
	// observed is when the cluster was last observed whole, zero for never by this manager.
	observed time.Time
	// cluster is what was observed then, nil while the cluster cannot be observed.
	cluster *clusterMetrics
	// now is the reconciler's clock.
	now func() time.Time
}

// clusterMetrics is how the cluster is.
type clusterMetrics struct {
	meshOn bool
	step   string
	since  time.Time
	nodes  int32
	// unserved is nil while it is unknown.
	unserved *int
	// netDue: the mesh is off and too few reflectors serve; netActed: the mesh is on
	// again by our doing, though reflectors are wanted.
	netDue, netActed bool
	// reflectors is nil while nothing is known of them, as with a spec that is refused.
	reflectors *reflectorMetrics
	// wanted and minimum are nil while the spec does not say.
	wanted, minimum *int
	// workers is nil while the provider has not answered.
	workers *workerMetrics
	// cost is that of the status, nil while there is no dedicated pool.
	cost *v1alpha1.CostStatus
}

// reflectorMetrics sums up the route reflectors.
type reflectorMetrics struct {
	count, serving int
	// observed: one that serves reports its sessions, for which a Timer gate does not ask. Of
	// the others nothing is counted, nor what they keep those that serve from having.
	observed              bool
	established, expected int
}

// workerMetrics is the pool as the provider reports it.
type workerMetrics struct{ wanted, deployed int }

// objectAbsent notes that there is no object, so nothing to export.
func (m *Metrics) objectAbsent() {
	if m != nil {
		m.set(metricsSnapshot{read: true})
	}
}

// unobserved notes that the cluster could not be observed.
func (m *Metrics) unobserved(s *scope, status v1alpha1.RouteReflectorPoolStatus, now func() time.Time) {
	if m == nil {
		return
	}
	m.set(metricsSnapshot{
		read: true, exists: true, mode: modeOf(s), conditions: status.Conditions, observed: m.last().observed, now: now,
	})
}

// observed notes what a reconciliation observed and what the status says of it.
func (m *Metrics) observed(s *scope, c *poolClient, status v1alpha1.RouteReflectorPoolStatus, now func() time.Time) {
	if m == nil {
		return
	}
	bgp := s.cluster.BGP
	k := &clusterMetrics{
		meshOn: bgp.MeshOn(), step: status.Step.Name, since: status.Step.Since.Time, nodes: status.Nodes,
		netDue:     netDue(s),
		netActed:   s.reflecting() && bgp.MeshOn() && !bgp.Restored.IsZero(),
		reflectors: reflectorMetricsOf(s), workers: workerMetricsOf(s, c), cost: status.Cost,
	}
	if wanted := s.desired.Pool.SizePerZone * len(s.desired.Pool.Zones); wanted > 0 || !s.reflecting() {
		k.wanted = &wanted
		if kind := s.desired.Topology.Kind; kind == "" || kind == v1alpha1.TopologySingle {
			least := min(wanted, s.desired.MinServing)
			k.minimum = &least
		}
	}
	if count, known := unserved(s); known {
		k.unserved = &count
	}
	m.set(metricsSnapshot{read: true, exists: true, mode: modeOf(s), conditions: status.Conditions, observed: s.now, cluster: k, now: now})
}

func reflectorMetricsOf(s *scope) *reflectorMetrics {
	if len(s.step.Reflectors) == 0 && s.step.Problem != nil {
		return nil
	}
	out := &reflectorMetrics{count: len(s.step.Reflectors)}
	for _, r := range s.step.Reflectors {
		if !r.Serving {
			continue
		}
		out.serving++
		if _, reports := s.cluster.Statuses[r.Node]; reports && !s.desired.Timer {
			out.observed = true
			out.established += r.Established
			out.expected += r.Established + r.Lacking
		}
	}
	return out
}

func workerMetricsOf(s *scope, c *poolClient) *workerMetrics {
	if c.last == nil || c.foreign() {
		return nil
	}
	wanted, deployed := workerCounts(s, c)
	return &workerMetrics{wanted, deployed}
}

// workerCounts is how many workers the pool should have, and has.
func workerCounts(s *scope, c *poolClient) (wanted, deployed int) {
	for _, worker := range c.last.Workers {
		if worker.State == cloud.WorkerDeployed {
			deployed++
		}
	}
	wanted = s.desired.Pool.SizePerZone * len(s.desired.Pool.Zones)
	if wanted == 0 {
		wanted = c.last.SizePerZone * len(c.last.Zones)
	}
	return wanted, deployed
}

// modeOf is where the object is to go; one that is deleted goes back to the mesh.
func modeOf(s *scope) v1alpha1.Mode {
	if s.deleting() {
		return v1alpha1.ModeFullMesh
	}
	return s.object.Spec.Mode
}

// waiting is how long the step has been going on, 0 at rest.
func (k *clusterMetrics) waiting(now time.Time) float64 {
	if k.step == rollout.Steady {
		return 0
	}
	return max(0, now.Sub(k.since).Seconds())
}

const (
	// youth is how long a node may take to get its first session.
	sessionDue = 75 * time.Second
	// silence is how long a reporter that was asked may stay silent before its report counts no more.
	reporterTimeout = time.Minute
)

// unserved counts the Ready clients that have no Established session with any reflector,
// and reports whether that is known.
func unserved(s *scope) (count int, known bool) {
	served, known := servedAddresses(s)
	for _, n := range clientsOf(s) {
		if pastSessionDue(n, s.now) && !n.HoldsRole() && !slices.ContainsFunc(n.Addresses, func(a netip.Addr) bool { return served[a] }) {
			count++
		}
	}
	return count, known && !s.desired.Timer
}

// servedAddresses are the addresses that reflectors have sessions with; of each Ready reflector
// there has to be a report.
func servedAddresses(s *scope) (served map[netip.Addr]bool, known bool) {
	served = map[netip.Addr]bool{}
	for _, n := range s.cluster.Nodes {
		if !n.HoldsRole() || !n.Ready {
			continue
		}
		report, ok := s.cluster.Statuses[n.Name]
		if !ok {
			return nil, false
		}
		known = true
		if report.Cleared.IsZero() || s.now.Sub(report.Cleared) <= reporterTimeout {
			addPeers(served, report)
		}
	}
	return served, known
}

func addPeers(served map[netip.Addr]bool, report plan.Status) {
	for _, s := range report.Sessions {
		if s.Established && s.Kind != plan.SessionMesh {
			served[s.Peer] = true
		}
	}
}

// pastSessionDue: the node is Ready and has been for long enough to have sessions.
func pastSessionDue(n plan.Node, now time.Time) bool {
	return n.Ready && !n.Deleting && now.Sub(n.Created) >= sessionDue && now.Sub(n.ReadyChanged) >= sessionDue
}

// netDue: the mesh is off, and fewer reflectors serve than should. On the way back to the
// mesh the plan does not count them: restoring it is the first step of all.
func netDue(s *scope) bool {
	if s.step.Short || s.reflecting() || s.cluster.BGP.MeshOn() {
		return s.step.Short
	}
	count, serving := 0, 0
	for _, n := range s.cluster.Nodes {
		if n.HoldsRole() {
			count++
		}
	}
	if count == 0 && s.cluster.BGP.Saved == nil && !restores(s.step) {
		return false // another writer keeps it off; rrpool has no part in it
	}
	for _, r := range s.step.Reflectors {
		if r.Serving {
			serving++
		}
	}
	return serving < max(1, min(count, s.desired.MinServing))
}

// costOf is what the dedicated pool costs, in whatever mode: it does until it is deleted.
// It goes by the labels of nodes, as `rrpool cost` does, so no cloud is needed for it;
// workers that are not nodes yet are not counted. Nil without a worker, and on existing
// nodes, which cost nothing extra.
func costOf(s *scope) *v1alpha1.CostStatus {
	if s.inPlace() {
		return nil
	}
	return cost.Status(paidFor(s.cluster.Nodes, s.object.Spec.Provider.IKS.PoolName))
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

// costHourly is an exact amount; any other is unknown.
func costHourly(s *metricsSnapshot) []reading {
	if s.cluster == nil || s.cluster.cost == nil {
		return nil
	}
	amount, err := cost.ParseDecimal(s.cluster.cost.Hourly)
	if err != nil {
		return nil
	}
	return []reading{{amount.Approximate(), []string{s.cluster.cost.Currency}}}
}
