package status

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/cost"
	bill "github.com/rrpool/rrpool/cmd/rrpool/cost"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/pool"
)

// schema names the form of `status -o json`. It changes when a field changes its
// meaning or goes away.
const schema = "rrpool.io/status/v1"

// longest is what is shown of a sentence: event notes can have any length.
const longest = 4096

// view is a status as it is shown.
type view struct {
	SchemaVersion string `json:"schemaVersion"`
	GeneratedAt   string `json:"generatedAt"`
	// Cluster is the context that was read.
	Cluster string `json:"cluster"`
	// State in one word, and in a sentence.
	State   State  `json:"state"`
	Summary string `json:"summary"`
	// Mode is spec.mode, empty while there is no RouteReflectorPool. Deleting: it is
	// to go, and the cluster goes back to the mesh.
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
	// ShortClients and Workers are known with -v only.
	ShortClients *[]shortClient `json:"shortClients,omitempty"`
	Workers      *[]workerView  `json:"workers,omitempty"`
	// PoolProblems are what the provider says of the pool; with -v only.
	PoolProblems []string        `json:"poolProblems,omitempty"`
	Problems     []Problem       `json:"troubles"`
	Conditions   []conditionView `json:"conditions"`
	Events       []eventView     `json:"events"`
	Cost         *priceView      `json:"cost,omitempty"`
	Manager      Manager         `json:"manager"`
	// Unseen says what could not be looked at, and why.
	Unseen []string `json:"unseen"`
	Next   string   `json:"next,omitempty"`

	now time.Time
}

type stepView struct {
	Name   string `json:"name,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Since is in RFC 3339.
	Since      string   `json:"since,omitempty"`
	WaitingFor []string `json:"waitingFor"`

	since time.Time
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

// CountsOf adds up what a status reports.
func CountsOf(status v1alpha1.RouteReflectorPoolStatus) Counts {
	out := Counts{Reflectors: len(status.Reflectors)}
	for _, zone := range status.Zones {
		out.PoolReady += int(zone.Ready)
		out.PoolWanted += int(zone.Desired)
	}
	for _, r := range status.Reflectors {
		out.SessionsEstablished += int(r.SessionsEstablished)
		out.SessionsExpected += int(r.SessionsExpected)
	}
	return out
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
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Since   string `json:"since"`

	since time.Time
}

type eventView struct {
	Time   string `json:"time"`
	Type   string `json:"type"`
	Reason string `json:"reason"`
	Note   string `json:"note"`
	Count  int    `json:"count"`

	at time.Time
}

// newView puts facts into words. It is pure.
func newView(f Facts, p Phrase) view {
	v := view{
		SchemaVersion: schema, GeneratedAt: stamp(f.Now), Cluster: f.Cluster, now: f.Now,
		Step: stepView{WaitingFor: []string{}}, Mesh: f.Mesh, Zones: []zoneView{}, Reflectors: []reflectorView{},
		Problems: []Problem{}, Conditions: []conditionView{}, Events: []eventView{}, Manager: f.Manager, Unseen: append([]string{}, f.Unseen...),
	}
	if f.Object != nil {
		v.fill(f)
	}
	v.Mesh.count(f.Nodes, f.Object)
	v.State = stateOf(f)
	v.Summary = summary(f, v.State)
	v.Next = p.next(f, v.State)
	return v
}

// fill copies what the object reports.
func (v *view) fill(f Facts) {
	object, status := f.Object, f.Object.Status
	v.Mode, v.Deleting = object.Spec.Mode, object.DeletionTimestamp != nil
	v.Generation, v.ObservedGeneration = object.Generation, status.ObservedGeneration
	v.Provider, v.Pool, v.Nodes = status.Provider, status.Pool, int(status.Nodes)
	v.Mesh = meshOf(status)
	v.Step = stepView{
		Name: status.Step.Name, Reason: status.Step.Reason, Since: stamp(status.Step.Since.Time), since: status.Step.Since.Time,
		WaitingFor: append([]string{}, status.Step.WaitingFor...),
	}
	v.SessionsObserved = object.Spec.Rollout.Gate != v1alpha1.GateTimer
	v.Counts, v.Zones, v.Reflectors = CountsOf(status), zonesOf(status), reflectorsOf(f)
	v.Problems = Problems(object)
	for _, c := range status.Conditions {
		v.Conditions = append(v.Conditions, conditionView{
			c.Type, string(c.Status), c.Reason, plan.Plain(c.Message, longest), stamp(c.LastTransitionTime.Time), c.LastTransitionTime.Time,
		})
	}
	for _, e := range f.Events {
		v.Events = append(v.Events, eventView{stamp(eventTime(e)), e.Type, e.Reason, plan.Plain(e.Note, longest), eventCount(e), eventTime(e)})
	}
	if f.Nodes != nil || status.Cost != nil {
		price := priceOf(f)
		v.Cost = &price
	}
	if f.Snapshot != nil {
		short, workers := shortClients(f.Snapshot.Turn), workersSeen(f.Snapshot.Pool)
		v.ShortClients, v.Workers = &short, &workers
		v.PoolProblems = problemsSeen(f.Snapshot.Turn)
	}
}

// stamp is a time in JSON, empty for none.
func stamp(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

func meshOf(status v1alpha1.RouteReflectorPoolStatus) Mesh {
	for _, c := range status.Conditions {
		switch {
		case c.Type != v1alpha1.ConditionMeshDisabled:
		case c.Status == "True":
			return Mesh{State: meshOff}
		case c.Status == "False":
			return Mesh{State: meshOn}
		default:
			return Mesh{State: meshUnknown, Why: c.Reason}
		}
	}
	return Mesh{State: meshUnknown, Why: "the manager has not reported it"}
}

// zonesOf are the pool and its reflectors by zone, sorted.
func zonesOf(status v1alpha1.RouteReflectorPoolStatus) []zoneView {
	byName := map[string]*zoneView{}
	zone := func(name string) *zoneView {
		if byName[name] == nil {
			byName[name] = &zoneView{Name: name}
		}
		return byName[name]
	}
	for _, z := range status.Zones {
		zone(z.Name).PoolReady, zone(z.Name).PoolWanted = int(z.Ready), int(z.Desired)
	}
	for _, r := range status.Reflectors {
		in := zone(r.Zone)
		in.Reflectors++
		in.SessionsEstablished += int(r.SessionsEstablished)
		in.SessionsExpected += int(r.SessionsExpected)
	}
	out := []zoneView{}
	for _, z := range byName {
		out = append(out, *z)
	}
	slices.SortFunc(out, func(a, b zoneView) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func reflectorsOf(f Facts) []reflectorView {
	out := []reflectorView{}
	for _, r := range f.Object.Status.Reflectors {
		out = append(out, reflectorView{
			r.Node, r.Zone, int(r.SessionsEstablished), int(r.SessionsExpected), nodeState(r.Node, f.Nodes),
		})
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

// problemsSeen are what is in the way to the provider, and what it says itself.
func problemsSeen(t pool.Turn) []string {
	var out []string
	if t.Obstacle != nil {
		out = append(out, t.Obstacle.Message)
	}
	if t.Pool != nil {
		out = append(out, t.Pool.Problems...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func workersSeen(p *cloud.Pool) []workerView {
	out := []workerView{}
	if p == nil {
		return out
	}
	for _, w := range p.Workers {
		out = append(out, workerView{w.ID, w.NodeName, w.Zone, w.Flavor, w.State, w.Message})
	}
	return out
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
