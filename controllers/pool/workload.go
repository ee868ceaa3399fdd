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
// times as long, so that turns go on.
const (
	evictPause = 5 * time.Second
	countRest  = 5
)

// drainage is the last attempt to empty a node.
type drainage struct {
	node    string
	at      time.Time
	blocked []string
	// stayed are the pods that it was said of that they stay.
	stayed string
}

// look asks for the pods that the step turns out to depend on, and computes it
// once more.
func (r *Reconciler) look(ctx context.Context, t *turn) {
	if names := unweighed(t); len(names) > 0 && r.weigh(ctx, t, names) {
		r.compute(t)
	}
	if t.step.Drains != "" && r.inspect(ctx, t, t.step.Drains) {
		r.compute(t)
	}
}

// unweighed names the nodes whose number of pods says which is the cheapest to
// change its role while no other reflector carries its routes, and what that
// costs; none while that does not matter.
func unweighed(t *turn) []string {
	if t.step.Problem != nil || t.step.Name == rollout.Steady || restores(t.step) {
		return nil
	}
	holders := upNames(t.cluster.Nodes, func(n plan.Node) bool { return n.RoleLabel && n.Marked })
	switch {
	case !t.reflecting() && len(holders) == 1:
		return holders
	case !t.reflecting() || len(holders) > 0 || !t.cluster.BGP.MeshOn():
		return nil
	}
	if members := upNames(t.cluster.Nodes, func(n plan.Node) bool { return n.Pooled }); len(members) > 0 {
		return members
	}
	return upNames(t.cluster.Nodes, func(plan.Node) bool { return true })
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

// weigh fills in how many pods the nodes run. Without an answer nobody knows, which
// makes no step unsafe, so it is no failure.
func (r *Reconciler) weigh(ctx context.Context, t *turn, names []string) bool {
	if t.now.Before(r.uncounted) {
		return false
	}
	began := r.now()
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	counts, err := r.Workload.Count(ctx, names)
	if err != nil {
		now := r.now()
		r.uncounted = now.Add(max(evictPause, countRest*now.Sub(began)))
		log.FromContext(ctx).Error(err, "the pods are not counted: any node counts as busy as another")
		return false
	}
	for i := range t.cluster.Nodes {
		if count, ok := counts[t.cluster.Nodes[i].Name]; ok {
			t.cluster.Nodes[i].Pods = &count
		}
	}
	return true
}

// drainPatience is how long this turn waits for an answer about pods.
func drainPatience(t *turn) time.Duration {
	switch {
	case t.cluster.BGP.MeshOn():
		return drainTimeout
	case t.step.Short && t.step.Again > 0:
		return min(offTimeout, t.step.Again)
	}
	return offTimeout
}

// inspect looks which pods are still to move away from a node. A failure is the
// turn's: without an answer the step cannot go on.
func (r *Reconciler) inspect(ctx context.Context, t *turn, node string) bool {
	ctx, cancel := context.WithTimeout(ctx, drainPatience(t))
	defer cancel()
	moving, staying, err := r.Workload.Evictable(ctx, node)
	if err != nil {
		t.unseen = err
		return false
	}
	t.evictable = map[string][]string{node: moving}
	if r.drained.node != node {
		r.drained = drainage{node: node}
	}
	if said := strings.Join(staying, " "); !t.paused() && r.drained.stayed != said {
		r.drained.stayed = said
		if len(staying) > 0 {
			r.emit(ctx, t, podsStay(node, staying, t.step))
		}
	}
	return true
}

// drain asks the pods of a node to go, and remembers which may not.
func (r *Reconciler) drain(ctx context.Context, t *turn, node string) (bool, error) {
	if r.drained.node == node && t.now.Sub(r.drained.at) < evictPause {
		t.blocked = slices.Clone(r.drained.blocked)
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, drainPatience(t))
	defer cancel()
	did, err := r.Workload.Evict(ctx, node)
	if r.drained.node != node {
		r.drained = drainage{node: node}
	}
	r.drained.at, r.drained.blocked, t.blocked = t.now, did.Blocked, did.Blocked
	if did.Evicted > 0 {
		r.emit(ctx, t, podsEvicted(node, did.Evicted, t.step))
	}
	if err != nil {
		return false, fmt.Errorf("trying to empty node %s: %w", node, err)
	}
	return did.Evicted > 0, nil
}
