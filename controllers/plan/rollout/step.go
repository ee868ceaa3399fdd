// Package rollout decides the next safe step from what is observed, and nothing
// else. It is pure: the same observation gives the same step.
package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/evidence"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// Observed is what is true now.
type Observed struct {
	plan.Cluster
	// Pool is the provider's pool; nil when the provider could not be asked,
	// in which case nothing is decided that depends on it.
	Pool *ObservedPool
	// Memory is what is known from earlier looks.
	Memory
	// Evictable names, by node, the pods that DrainNode has yet to move away; a node
	// that is missing here has not been looked at.
	Evictable map[string][]string
}

// ObservedPool is the provider's pool as far as steps depend on it.
type ObservedPool struct {
	Exists bool
	// SizePerZone is the size the cloud has been asked for.
	SizePerZone int
	Zones       []string
	// Workers that exist, sorted by ID.
	Workers []ObservedWorker
	// Drifted says what else differs from the wanted pool ("taint missing"), "" when nothing does.
	Drifted string
	// Emptied is the name of a pool that has given way to this one and is still there, "" for none.
	Emptied string
}

// ObservedWorker is one machine of the pool.
type ObservedWorker struct {
	ID, Node, Zone string
	// Failed: the worker will not become or stay a node without being replaced.
	Failed bool
	// Deleting: the worker is on its way out.
	Deleting bool
	// DeleteFailed: the cloud has given up deleting the worker.
	DeleteFailed bool
	// LeavingSince is since when the worker has been seen Deleting, zero if only just now.
	LeavingSince time.Time
	// Pending: the cloud is setting the worker up, for the first time or anew. A reload takes up to an hour.
	Pending bool
	// Outdated: the cloud has a newer version for the worker and the spec allows replacing it for that,
	// or it is Former. Former: the spec now wants other workers, and new workers are created accordingly.
	Outdated, Former bool
	Message          string
}

// Desired is where the cluster is to go and how carefully.
type Desired struct {
	// Mode is where the cluster is to go, never Paused.
	Mode v1alpha1.Mode
	// Dedicated: the nodes of the provider's pool run nothing but BGP. Otherwise they run pods, which must not lose a packet either.
	Dedicated bool
	// Pool is the pool that is wanted.
	Pool plan.PoolTarget
	// Preferred and Excluded choose among in-place nodes, nil for no such rule.
	Preferred, Excluded labels.Selector
	// Promotion is how an in-place node gets the role and gives it back.
	Promotion v1alpha1.Promotion
	// ClusterID of the reflectors.
	ClusterID string
	// Topology says how dedicated reflectors and their clients are arranged; without a kind it is Single.
	Topology topology.Spec
	// RoleLabel is the key of the label that marks reflectors.
	RoleLabel string
	// Taint is what keeps workloads off dedicated nodes, written key=value:effect; "" for none.
	Taint string
	// Password of the reflector sessions; nil means the one that the mesh has, or had.
	Password *plan.SecretRef
	// Timer: there are no session reports, and fixed times are waited instead.
	Timer bool
	// SessionTimeout is how long a wait may last before it is called stuck.
	SessionTimeout time.Duration
	// NotReadyGrace is how long a reflector may be NotReady before it is replaced.
	NotReadyGrace time.Duration
	// RemovalDelay is how long the sessions of the other reflectors must have been Established before a reflector is removed.
	RemovalDelay time.Duration
	// MinServing and NetAfter configure the safety net: if fewer than MinServing
	// reflectors serve for longer than NetAfter, the mesh is switched on.
	MinServing int
	NetAfter   time.Duration
	// Invalid is why the spec cannot be carried out, nil if it can.
	Invalid *plan.Problem
}

// dedicated reports whether the node runs nothing but BGP.
func (d Desired) dedicated(n plan.Node) bool { return d.Dedicated && n.Pooled }

// Step is the next thing to do. All its actions are safe together and in order.
type Step struct {
	// Name is a CamelCase word, stable, for status and metrics ("DisableMesh").
	Name string
	// Rule is the name of the rule that proposed the step.
	Rule string
	// Reason says why this step, and why now.
	Reason  string
	Actions []plan.Action
	// Ahead are the first writes of a migration, as far as they are known, while none of them is made.
	// Before the actions are taken, the datastore is to be asked by dry runs whether it would accept them.
	Ahead []plan.Action
	// Disrupts says whose pods the actions cut off for some seconds.
	Disrupts []Disruption
	// WaitingFor names exactly what is missing before the next step, sorted.
	WaitingFor []string
	// Awaits is what kind of thing WaitingFor names. A wait longer than Timeout is a problem; 0 means no limit.
	Awaits  Awaited
	Timeout time.Duration
	// Settle is how long sessions may take to exchange their routes, if the step waits for sessions, else 0.
	Settle time.Duration
	// Watch is the set of node statuses that this step needs.
	Watch []plan.StatusRequest
	// Problem is set when rrpool refuses or is stuck; nothing is removed then.
	Problem *plan.Problem
	// Proven are the nodes whose mesh sessions this step saw Established.
	Proven []string
	// Short: fewer reflectors serve than should, or it is in doubt whether they serve; see Memory.ShortSince.
	Short bool
	// Stray names BGPPeers between two nodes, one of which has given its role back; see Memory.StraySince.
	Stray []string
	// Leaving: a dedicated node is about to go; see Memory.LeavingSince.
	Leaving bool
	// Unserved names the Ready clients that have had no session with any reflector
	// for longer than sessions take to start; nil while that is unknown.
	Unserved []string
	// Labelled names the nodes whose stray label is left for a while, as others put it on again and again.
	Labelled []string
	// Urgent: without this step routes stay lost, so no refusal may hold it up.
	Urgent bool
	// Drains is the node whose evictable pods this step needs to know, "" for none; see Observed.Evictable.
	Drains string
	// Again is when to look again even if nothing changes; 0: no need.
	Again time.Duration
	// Reflectors are the current reflectors with their sessions, sorted by node.
	Reflectors []evidence.Reflector
}

// Awaited is what a step waits for.
type Awaited string

// What steps wait for. The zero value is anything else.
const (
	// AwaitsSessions: BGP sessions, routes, and reports of them.
	AwaitsSessions Awaited = "sessions"
	// AwaitsPods: pods that are to leave a node.
	AwaitsPods Awaited = "pods"
	// AwaitsWorkers: machines that are to come or go.
	AwaitsWorkers Awaited = "workers"
	// AwaitsBGP: a sign that calico-node runs BIRD.
	AwaitsBGP Awaited = "BGP"
	// AwaitsOwner: whoever else writes a field has to leave it to rrpool.
	AwaitsOwner Awaited = "owner"
	// AwaitsPeering: BGPPeers of a ClusterPeering that are to go.
	AwaitsPeering Awaited = "peering"
)

// WorkersTimeout is how long machines may take to come or go: 20 minutes and more are usual.
const WorkersTimeout = time.Hour

// LeavingLimit is how long other steps wait for a worker that is on its way out. After that its deletion may need a person.
const LeavingLimit = 30 * time.Minute

// Disruption says that the pods of Node are cut off from those of node From, or of all other nodes if From is "".
type Disruption struct{ Node, From string }

// Steady is the name of the step that has nothing to do.
const Steady = "Steady"

// do returns a step that waits for nothing.
func do(name, reason string, actions ...plan.Action) *Step {
	return &Step{Name: name, Reason: reason, Actions: actions}
}

// ensure returns a step that makes the cloud change the pool.
func ensure(name, reason string, want plan.PoolTarget) *Step {
	return &Step{Name: name, Reason: reason, Actions: []plan.Action{plan.EnsurePool{Want: want}}, Again: poolPoll, Awaits: AwaitsWorkers}
}

// ifAny returns the step, or nil if it has no actions.
func (s *Step) ifAny() *Step {
	if len(s.Actions) == 0 {
		return nil
	}
	return s
}

// await returns the step that waits until a proof is complete.
func await(p *evidence.Proof, name, reason string) *Step {
	s := &Step{
		Name: name, Reason: reason, WaitingFor: p.Sorted(), Again: plan.Sooner(evidence.Poll, p.Due), Watch: p.Watch,
		Proven: p.Proven, Awaits: AwaitsSessions, Timeout: p.Least,
	}
	for _, n := range p.Refresh {
		s.Actions = append(s.Actions, plan.RefreshStatus{Node: n})
	}
	return s
}

// awaitTakeOver returns the step that waits until nodes have rendered our last change.
func awaitTakeOver(all, left time.Duration, name, reason string) *Step {
	p := &evidence.Proof{}
	p.LackTime(all, left)
	return await(p, name, reason)
}
