package pool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/workload"
)

// Workload is the pods that run on nodes.
type Workload interface {
	// Count gives the pods with an address of their own, by node. It may be some
	// seconds old.
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

// evictPause is the pause between two attempts to empty a node, and the shortest
// after a count that has failed. One that took long is tried again after countRest
// times as long, so that reconciliations go on.
const (
	evictPause = 5 * time.Second
	countRest  = 5
)

// drainAttempt is the last attempt to empty a node.
type drainAttempt struct {
	node    string
	at      time.Time
	blocked []string
	// stayed are the pods that it was said of that they stay.
	stayed string
}

// lookAtPods asks for the pods that the step turns out to depend on, and computes it
// once more.
func (r *Reconciler) lookAtPods(ctx context.Context, s *scope) {
	if names := nodesToCount(s); len(names) > 0 && r.countPods(ctx, s, names) {
		r.compute(s)
	}
	if s.step.Drains != "" && r.listEvictable(ctx, s, s.step.Drains) {
		r.compute(s)
	}
}

// nodesToCount names the nodes whose number of pods says which is the cheapest to
// change its role while no other reflector carries its routes, and what that
// costs; none while that does not matter.
func nodesToCount(s *scope) []string {
	if s.step.Problem != nil || s.step.Name == rollout.Steady || restores(s.step) {
		return nil
	}
	holders := upNames(s.cluster.Nodes, func(n plan.Node) bool { return n.RoleLabel && n.Marked })
	switch {
	case !s.reflecting() && len(holders) == 1:
		return holders
	case !s.reflecting() || len(holders) > 0 || !s.cluster.BGP.MeshOn():
		return nil
	}
	if members := upNames(s.cluster.Nodes, func(n plan.Node) bool { return n.Pooled }); len(members) > 0 {
		return members
	}
	return upNames(s.cluster.Nodes, func(plan.Node) bool { return true })
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
func (r *Reconciler) countPods(ctx context.Context, s *scope, names []string) bool {
	if s.now.Before(r.countAgain) {
		return false
	}
	began := r.now()
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	counts, err := r.Workload.Count(ctx, names)
	if err != nil {
		now := r.now()
		r.countAgain = now.Add(max(evictPause, countRest*now.Sub(began)))
		log.FromContext(ctx).Error(err, "the pods are not counted: any node counts as busy as another")
		return false
	}
	for i := range s.cluster.Nodes {
		if count, ok := counts[s.cluster.Nodes[i].Name]; ok {
			s.cluster.Nodes[i].Pods = &count
		}
	}
	return true
}

// podTimeout is how long this reconciliation waits for an answer about pods.
func podTimeout(s *scope) time.Duration {
	switch {
	case s.cluster.BGP.MeshOn():
		return drainTimeout
	case s.step.Short && s.step.Again > 0:
		return min(offTimeout, s.step.Again)
	}
	return offTimeout
}

// listEvictable looks which pods are still to move away from a node. A failure fails the
// reconciliation: without an answer the step cannot go on.
func (r *Reconciler) listEvictable(ctx context.Context, s *scope, node string) bool {
	ctx, cancel := context.WithTimeout(ctx, podTimeout(s))
	defer cancel()
	moving, staying, err := r.Workload.Evictable(ctx, node)
	if err != nil {
		s.podsErr = err
		return false
	}
	s.evictable = map[string][]string{node: moving}
	if r.drained.node != node {
		r.drained = drainAttempt{node: node}
	}
	if said := strings.Join(staying, " "); !s.paused() && r.drained.stayed != said {
		r.drained.stayed = said
		if len(staying) > 0 {
			r.emit(ctx, s, podsStay(node, staying, s.step))
		}
	}
	return true
}

// drain asks the pods of a node to go, and remembers which may not.
func (r *Reconciler) drain(ctx context.Context, s *scope, node string) (bool, error) {
	if r.drained.node == node && s.now.Sub(r.drained.at) < evictPause {
		s.blockedPods = slices.Clone(r.drained.blocked)
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, podTimeout(s))
	defer cancel()
	did, err := r.Workload.Evict(ctx, node)
	if r.drained.node != node {
		r.drained = drainAttempt{node: node}
	}
	r.drained.at, r.drained.blocked, s.blockedPods = s.now, did.Blocked, did.Blocked
	if did.Evicted > 0 {
		r.emit(ctx, s, podsEvicted(node, did.Evicted, s.step))
	}
	if err != nil {
		return false, fmt.Errorf("trying to empty node %s: %w", node, err)
	}
	return did.Evicted > 0, nil
}
