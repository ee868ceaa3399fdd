package calico

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/controllers/plan"
)

const (
	// nodesCheckEvery is the shortest time between two looks at whether the cache of Nodes follows the apiserver. After
	// one that took long, nodesRest times as long passes.
	nodesCheckEvery = 15 * time.Second
	nodesRest       = 10
	// nodesCheckAgain is the same after a look that failed, or found it behind: the safety net gets half of the time at least.
	nodesCheckAgain = 5 * time.Second
	// nodesAnswer is how long the apiserver may take to answer, nodesCatchUp how long the cache then may take to have
	// what the apiserver has. The safety net waits meanwhile.
	nodesAnswer  = 10 * time.Second
	nodesCatchUp = 3 * time.Second
	// nodesUnknown is how long it may stay unknown whether it has.
	nodesUnknown = time.Minute
)

// fromCache lets an apiserver answer from its own watch cache, not from etcd.
var fromCache = &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}

// nodeCheck is what is known of whether the cache of Nodes follows the apiserver.
type nodeCheck struct {
	mu sync.Mutex
	// next is when to look again, failing since when looks fail, zero while they do not.
	next, failing time.Time
	problem       *plan.Problem
}

// staleNodes is the problem of a cache of Nodes that stands still, nil for none: a watch may bring nothing any more
// without having ended, and a reflector that is dead then stays Ready. One request for the metadata of the reflectors
// tells. Kubelets write their Nodes every five minutes at the latest, and what ends a reflector is written at once.
func (a *Adapter) staleNodes(ctx context.Context, role string) *plan.Problem {
	before, due := a.nodesDue()
	if !due {
		return before
	}
	began := a.cfg.Now()
	behind, err := a.nodesBehind(ctx, role, before == nil)
	c := &a.nodeCheck
	c.mu.Lock()
	defer c.mu.Unlock()
	took := a.cfg.Now().Sub(began)
	c.next = a.cfg.Now().Add(max(nodesCheckEvery, nodesRest*took))
	if err != nil || behind != "" {
		c.next = a.cfg.Now().Add(max(nodesCheckAgain, took))
	}
	switch {
	case err == nil:
		c.failing = time.Time{}
	case c.failing.IsZero():
		a.cfg.Log.Error(err, "whether the watch of Nodes goes on is not known")
		c.failing = a.cfg.Now()
	}
	switch {
	case err == nil && behind == "":
		c.problem = nil
	case c.problem != nil: // it stays as it was put first: a status is not to change all the time
	case behind != "":
		c.problem = standsStill(fmt.Sprintf("node %s is not as the apiserver has it", behind))
	case a.cfg.Now().Sub(c.failing) >= nodesUnknown:
		c.problem = standsStill(fmt.Sprintf("what the apiserver has cannot be read: %v", err))
	}
	return c.problem
}

func standsStill(why string) *plan.Problem {
	return &plan.Problem{Reason: ReasonNodesStale, Message: "the manager's watch of Nodes seems to stand still, as " + why +
		": nothing is changed meanwhile, but for the mesh that comes back; restart the manager if this lasts for minutes"}
}

// nodesDue gives what the last look has found, and says whether the caller is to look again.
func (a *Adapter) nodesDue() (*plan.Problem, bool) {
	c := &a.nodeCheck
	c.mu.Lock()
	defer c.mu.Unlock()
	now := a.cfg.Now()
	if a.cfg.Live == nil || now.Before(c.next) {
		return c.problem, false
	}
	c.next = now.Add(nodesCheckEvery)
	return c.problem, true
}

// nodesBehind names a reflector that the cache does not have as the apiserver has it, "" for none. A patient one gives
// the cache nodesCatchUp.
func (a *Adapter) nodesBehind(ctx context.Context, role string, patient bool) (behind string, err error) {
	live := &metav1.PartialObjectMetadataList{}
	live.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	asking, cancel := context.WithTimeout(ctx, nodesAnswer)
	defer cancel()
	if err := a.cfg.Live.List(asking, live, client.HasLabels{role}, fromCache); err != nil {
		return "", fmt.Errorf("listing the nodes with label %s: %w", role, err)
	}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, nodesCatchUp, true, func(ctx context.Context) (bool, error) {
		var cached corev1.NodeList
		if err := a.cfg.Nodes.List(ctx, &cached, client.HasLabels{role}); err != nil {
			return false, fmt.Errorf("listing nodes: %w", err)
		}
		behind = behindOf(live, cached.Items)
		return behind == "" || !patient, nil
	})
	if behind != "" {
		return behind, nil
	}
	return "", err //nolint:wrapcheck // wrapped above
}

// behindOf names the first Node of which the cache has an older version than the list, or that only one of them has
// although the list is the newer.
func behindOf(live *metav1.PartialObjectMetadataList, cached []corev1.Node) string {
	behind := map[string]string{}
	for i := range live.Items {
		behind[live.Items[i].Name] = live.Items[i].ResourceVersion
	}
	for i := range cached {
		n := &cached[i]
		listed, ok := behind[n.Name]
		if ok && !older(n.ResourceVersion, listed) || !ok && older(live.ResourceVersion, n.ResourceVersion) {
			delete(behind, n.Name)
		} else {
			behind[n.Name] = listed
		}
	}
	if len(behind) == 0 {
		return ""
	}
	return slices.Min(slices.Collect(maps.Keys(behind)))
}
