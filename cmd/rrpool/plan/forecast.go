// Package plan is the command that says what the manager will do: it lets the
// manager's own decisions run forward on a model of the cluster.
package plan

import (
	"time"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/pool"
)

// Input is a cluster as it is, and what is wished for it.
type Input struct {
	// Name of the cluster, "" for an invented one.
	Name string
	// Object with all defaults.
	Object *v1alpha1.RouteReflectorPool
	// Cluster as observed; Provider after Auto was resolved.
	Cluster  plan.Cluster
	Provider v1alpha1.ProviderType
	// Pool as the provider told it, nil when nobody asked.
	Pool *cloud.Pool
	// Pods with an address of their own by node, nil when unknown.
	Pods map[string]int
	// Step is what the manager would do with the cluster itself, sessions as they are;
	// nil for an invented one.
	Step *rollout.Step
	Now  time.Time
}

// Of takes from a survey what a forecast needs.
func Of(s *snapshot.Snapshot, now time.Time) Input {
	return Input{
		Name: s.Name, Object: s.Object, Cluster: s.Cluster, Provider: s.Provider, Pool: s.Pool, Pods: s.Pods, Step: &s.Step, Now: now,
	}
}

// Forecast is what the manager will do.
type Forecast struct {
	// Steps in order; none when there is nothing to do.
	Steps []Step
	// Settled: at the end nothing is left to do. Otherwise Problem says what stops it.
	Settled bool
	Problem *plan.Problem
	// Lasts is how long it takes in the model, machines included.
	Lasts time.Duration
	// Loss names the nodes whose pods will not be reached for a moment; none is the rule.
	Loss []Loss
	// LostAlready are the nodes whose pods cannot be reached as it is.
	LostAlready   []string
	Before, After Shape
	// Final is the last turn: the cluster as it will be.
	Final pool.Turn

	in Input
}

// Step is one step of the manager, from its first turn to the next step's.
type Step struct {
	// Name and Reason as the manager gives them.
	Name   string
	Reason string
	// Begins counts from now, Lasts is how long it takes in the model.
	Begins, Lasts time.Duration
	// Guard is what the step waits for, as first seen: before it writes (GuardFirst), or
	// after that.
	Guard      []string
	GuardFirst bool
	// Writes are all changes, in the words of the manager's events. Asked is how many
	// nodes are asked for reports of their sessions besides (one CalicoNodeStatus each).
	Writes []string
	Asked  int

	// told are the writes that are told together, by what they are.
	told map[string]told
}

// told is a write that is told together with others: how often, and in which place.
type told struct{ count, at int }

// tell adds writes that are told together: thousands of clients get a label each.
func (s *Step) tell(what string, count int) {
	all, known := s.told[what]
	if !known {
		all.at = len(s.Writes)
		s.Writes = append(s.Writes, "")
	}
	all.count += count
	if s.told == nil {
		s.told = map[string]told{}
	}
	s.told[what] = all
	s.Writes[all.at] = what + " " + iostreams.Number(all.count, "node")
}

// Loss is a node whose pods cannot be reached for a moment. How long that is, the
// reason of the step says, from measurements; the model only knows that it is so.
type Loss struct {
	Node string
	// Pods is how many run there, -1 when unknown.
	Pods int
	// Step during which it begins.
	Step string
}

// Shape is a cluster before or after.
type Shape struct {
	MeshOn bool
	// Nodes that speak BGP, Reflectors among them, and the topology that these have.
	Nodes, Reflectors int
	Topology          string
	// Zones of the pool with its nodes, sorted by name.
	Zones []Zone
	// Sessions are all BGP sessions between nodes; PerClient and PerReflector those of
	// one such node.
	Sessions, PerClient, PerReflector int
}

// Zone of the pool.
type Zone struct {
	Name  string
	Nodes int
}
