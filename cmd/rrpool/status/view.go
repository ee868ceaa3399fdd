package status

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/cost"
	bill "github.com/rrpool/rrpool/cmd/rrpool/cost"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/pool"
)

// schema is the version of `status -o json`. It changes when a field changes its meaning
// or is removed.
const schema = "rrpool.io/status/v1"

// longest is what is shown of a sentence: event notes can have any length.
const longest = 4096

// view is a status: the JSON, and what the table is rendered from.
type view struct {
	SchemaVersion string      `json:"schemaVersion"`
	GeneratedAt   metav1.Time `json:"generatedAt"`
	// Cluster is the context that was read.
	Cluster string `json:"cluster"`
	// State in one word, and in a sentence.
	State   State  `json:"state"`
	Summary string `json:"summary"`
	// Mode is spec.mode, empty while there is no RouteReflectorPool.
	Mode     v1alpha1.Mode `json:"mode,omitempty"`
	Deleting bool          `json:"deleting"`
	// Generation of the object, and the one that the status is about.
	Generation         int64    `json:"generation"`
	ObservedGeneration int64    `json:"observedGeneration"`
	Step               stepView `json:"step"`
	Mesh               Mesh     `json:"mesh"`
	Provider           string   `json:"provider,omitempty"`
	Pool               string   `json:"pool,omitempty"`
	// Nodes that the reflectors are there for.
	Nodes int `json:"nodes"`
	// SessionsObserved is false where spec.rollout.gate is Timer.
	SessionsObserved bool            `json:"sessionsObserved"`
	Counts           Counts          `json:"counts"`
	Zones            []zoneView      `json:"zones"`
	Reflectors       []reflectorView `json:"reflectors"`
	// ShortClients, Workers and PoolProblems, which the provider reports, are known with -v only.
	ShortClients *[]shortClient  `json:"shortClients,omitempty"`
	Workers      *[]workerView   `json:"workers,omitempty"`
	PoolProblems []string        `json:"poolProblems,omitempty"`
	Problems     []Problem       `json:"troubles"`
	Conditions   []conditionView `json:"conditions"`
	Events       []eventView     `json:"events"`
	Cost         *priceView      `json:"cost,omitempty"`
	Manager      Manager         `json:"manager"`
	// Unseen names what could not be read, and why.
	Unseen []string `json:"unseen"`
	Next   string   `json:"next,omitempty"`
}

type stepView struct {
	Name       string      `json:"name,omitempty"`
	Reason     string      `json:"reason,omitempty"`
	Since      metav1.Time `json:"since,omitzero"`
	WaitingFor []string    `json:"waitingFor"`
}

// Counts are the numbers that a migration moves.
type Counts struct {
	// PoolReady of PoolWanted nodes of the pool are Ready.
	PoolReady  int `json:"poolReady"`
	PoolWanted int `json:"poolWanted"`
	Reflectors int `json:"reflectors"`
	// SessionsEstablished of SessionsExpected, all reflectors together.
	SessionsEstablished int `json:"sessionsEstablished"`
	SessionsExpected    int `json:"sessionsExpected"`
}

type zoneView struct {
	Name string `json:"name"`
	Counts
}

type reflectorView struct {
	Node                string `json:"node"`
	Zone                string `json:"zone"`
	SessionsEstablished int    `json:"sessionsEstablished"`
	SessionsExpected    int    `json:"sessionsExpected"`
	// State of the node: Ready, NotReady, Gone, or Unknown when it was not read.
	State string `json:"state"`
}

type workerView struct {
	ID      string            `json:"id"`
	Node    string            `json:"node,omitempty"`
	Zone    string            `json:"zone"`
	Flavor  string            `json:"flavor,omitempty"`
	State   cloud.WorkerState `json:"state"`
	Message string            `json:"message,omitempty"`
}

type conditionView struct {
	Type    string                 `json:"type"`
	Status  metav1.ConditionStatus `json:"status"`
	Reason  string                 `json:"reason"`
	Message string                 `json:"message"`
	Since   metav1.Time            `json:"since"`
}

type eventView struct {
	Time   metav1.Time `json:"time"`
	Type   string      `json:"type"`
	Reason string      `json:"reason"`
	Note   string      `json:"note"`
	Count  int         `json:"count"`
}

// priceView is what the pool costs per month.
type priceView struct {
	// Certainty is exact, or unknown, which has no amount.
	Certainty cost.Certainty `json:"certainty"`
	Currency  string         `json:"currency,omitempty"`
	// Monthly is a decimal, for a month of 720 hours.
	Monthly string `json:"monthly,omitempty"`
	// Source says where the price is from, or why there is none.
	Source string `json:"source"`
}

// shortClient is a node without all of its sessions.
type shortClient struct {
	Node string `json:"node"`
	Zone string `json:"zone"`
	// Lacks names the route reflectors that do not have all sessions with it, sorted,
	// and Sessions counts what is missing: one for each reflector and address family.
	Lacks    []string `json:"lacks"`
	Sessions int      `json:"sessions"`
}

// newView makes the view of facts. It is pure.
func newView(f Facts, p Phrase) view {
	v := view{
		SchemaVersion: schema, GeneratedAt: metav1.NewTime(f.Now), Cluster: f.Cluster, Step: stepView{WaitingFor: []string{}}, Mesh: f.Mesh,
		Zones: []zoneView{}, Reflectors: []reflectorView{}, Problems: []Problem{}, Conditions: []conditionView{}, Events: []eventView{},
		Manager: f.Manager, Unseen: append([]string{}, f.Unseen...),
	}
	if f.Object != nil {
		v.fill(f)
	}
	v.Mesh.count(f.Nodes, f.Object)
	v.State, v.Summary = stateOf(f)
	v.Next = p.next(f, v.State)
	return v
}

// fill copies what the object reports.
func (v *view) fill(f Facts) {
	object, status := f.Object, f.Object.Status
	v.Mode, v.Deleting = object.Spec.Mode, object.DeletionTimestamp != nil
	v.Generation, v.ObservedGeneration = object.Generation, status.ObservedGeneration
	v.Provider, v.Pool, v.Nodes = status.Provider, status.Pool, int(status.Nodes)
	v.Step = stepView{status.Step.Name, status.Step.Reason, status.Step.Since, append([]string{}, status.Step.WaitingFor...)}
	v.Mesh = meshOf(object)
	v.SessionsObserved = object.Spec.Rollout.Gate != v1alpha1.GateTimer
	v.Counts, v.Zones, v.Problems = CountsOf(status), zonesOf(status), Problems(object)
	for _, r := range status.Reflectors {
		v.Reflectors = append(v.Reflectors, reflectorView{r.Node, r.Zone, int(r.SessionsEstablished), int(r.SessionsExpected), nodeState(r.Node, f.Nodes)})
	}
	for _, c := range status.Conditions {
		v.Conditions = append(v.Conditions, conditionView{c.Type, c.Status, c.Reason, plan.Plain(c.Message, longest), c.LastTransitionTime})
	}
	for _, e := range f.Events {
		count := 1
		if e.Series != nil {
			count = int(e.Series.Count)
		}
		v.Events = append(v.Events, eventView{metav1.NewTime(eventTime(e)), e.Type, e.Reason, plan.Plain(e.Note, longest), count})
	}
	if f.Nodes != nil || status.Cost != nil {
		price := priceOf(f)
		v.Cost = &price
	}
	if f.Snapshot != nil {
		v.observed(f.Snapshot.Scope)
	}
}

// observed adds what the manager observes.
func (v *view) observed(t pool.Scope) {
	short, workers := shortClients(t), []workerView{}
	if t.Obstacle != nil {
		v.PoolProblems = append(v.PoolProblems, t.Obstacle.Message)
	}
	if t.Pool != nil {
		v.PoolProblems = append(v.PoolProblems, t.Pool.Problems...)
		for _, w := range t.Pool.Workers {
			workers = append(workers, workerView{w.ID, w.NodeName, w.Zone, w.Flavor, w.State, w.Message})
		}
	}
	slices.Sort(v.PoolProblems)
	v.PoolProblems = slices.Compact(v.PoolProblems)
	v.ShortClients, v.Workers = &short, &workers
}

func meshOf(object *v1alpha1.RouteReflectorPool) Mesh {
	switch c := condition(object, v1alpha1.ConditionMeshDisabled); c.Status {
	case metav1.ConditionTrue:
		return Mesh{State: meshOff}
	case metav1.ConditionFalse:
		return Mesh{State: meshOn}
	default:
		return Mesh{State: meshUnknown, Why: cmp.Or(c.Reason, "the manager has not reported it")}
	}
}

// CountsOf adds up what a status reports.
func CountsOf(status v1alpha1.RouteReflectorPoolStatus) Counts {
	var out Counts
	for _, zone := range zonesOf(status) {
		out.PoolReady += zone.PoolReady
		out.PoolWanted += zone.PoolWanted
		out.Reflectors += zone.Reflectors
		out.SessionsEstablished += zone.SessionsEstablished
		out.SessionsExpected += zone.SessionsExpected
	}
	return out
}

// zonesOf are the pool and its reflectors by zone, sorted.
func zonesOf(status v1alpha1.RouteReflectorPoolStatus) []zoneView {
	byName := map[string]Counts{}
	for _, z := range status.Zones {
		byName[z.Name] = Counts{PoolReady: int(z.Ready), PoolWanted: int(z.Desired)}
	}
	for _, r := range status.Reflectors {
		in := byName[r.Zone]
		in.Reflectors++
		in.SessionsEstablished += int(r.SessionsEstablished)
		in.SessionsExpected += int(r.SessionsExpected)
		byName[r.Zone] = in
	}
	out := []zoneView{}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, zoneView{name, byName[name]})
	}
	return out
}

// The states of a reflector's node.
const (
	nodeReady    = "Ready"
	nodeNotReady = "NotReady"
	nodeGone     = "Gone"
	nodeUnknown  = "Unknown"
)

func nodeState(name string, nodes []corev1.Node) string {
	if nodes == nil {
		return nodeUnknown
	}
	i := slices.IndexFunc(nodes, func(n corev1.Node) bool { return n.Name == name })
	if i < 0 {
		return nodeGone
	}
	for _, c := range nodes[i].Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nodeReady
		}
	}
	return nodeNotReady
}

// priceOf is what the manager reports, else what it would report of the pool's nodes.
func priceOf(f Facts) priceView {
	reported := f.Object.Status.Cost
	workers, existing := bill.PoolOf(f.Object, f.Nodes)
	if reported == nil && !existing {
		reported = cost.Status(workers)
	}
	switch {
	case reported == nil && existing:
		return priceView{Certainty: cost.Exact, Monthly: "0.00", Source: "the reflectors are nodes that the cluster has anyway"}
	case reported == nil:
		return priceView{Certainty: cost.Exact, Monthly: "0.00", Source: "no worker of the pool is a node"}
	case reported.Monthly == "":
		return priceView{Certainty: cost.Unknown, Source: cmp.Or(reported.Source, "the manager does not know it")}
	}
	return priceView{cost.Exact, reported.Currency, reported.Monthly, cmp.Or(reported.Source, "the manager")}
}

// shortClients names the nodes that are short of sessions, as the reflectors report
// them, sorted by name. The manager counts the same sessions for its status.
func shortClients(t pool.Scope) []shortClient {
	out := []shortClient{}
	if t.Desired.Timer {
		return out // sessions are not observed
	}
	reflects := map[string]bool{}
	for _, r := range t.Step.Reflectors {
		reflects[r.Node] = true
	}
	for _, node := range t.Cluster.Nodes {
		idle := t.Provider == v1alpha1.ProviderIKS && node.Pooled && !reflects[node.Name]
		if !node.Ready || node.Deleting || idle {
			continue
		}
		if short := shortOf(t, node, reflects); short.Sessions > 0 {
			out = append(out, short)
		}
	}
	slices.SortFunc(out, func(a, b shortClient) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

// shortOf adds up what the reflectors lack with one node.
func shortOf(t pool.Scope, node plan.Node, reflects map[string]bool) shortClient {
	out := shortClient{Node: node.Name, Zone: node.Zone}
	for _, reflector := range t.Cluster.Nodes {
		if !reflects[reflector.Name] || reflector.Name == node.Name {
			continue
		}
		if missing := missingSessions(t.Cluster.Statuses[reflector.Name], reflector, node); missing > 0 {
			out.Lacks = append(out.Lacks, reflector.Name)
			out.Sessions += missing
		}
	}
	return out
}

// missingSessions counts the sessions that a reflector does not report as Established,
// of one for each address family that both nodes have.
func missingSessions(report plan.Status, reflector, node plan.Node) int {
	missing := 0
	for _, address := range node.Addresses {
		family := func(a netip.Addr) bool { return a.Is4() == address.Is4() }
		up := func(s plan.Session) bool { return s.Peer == address && s.Established && s.Kind != plan.SessionMesh }
		if slices.ContainsFunc(reflector.Addresses, family) && !slices.ContainsFunc(report.Sessions, up) {
			missing++
		}
	}
	return missing
}
