// Package existing is the cloud.Provider whose workers are nodes that are there
// already. It orders no machines: its pool is the set of nodes that carry the
// label rrpool.io/pool with the pool's name, and membership is all it writes.
// Role and cluster ID are given later, by others. Which nodes belong into the
// pool is decided by controllers/plan/selection.
package existing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Nodes are the cluster's nodes as the provider needs them.
type Nodes interface {
	// List gives all nodes; Pooled and Pods are not filled in.
	List(ctx context.Context) ([]plan.Node, error)
	// SetPool writes the pool label of a node, removes it when pool is "", and
	// fails when the node is no longer the one that was listed (UID).
	SetPool(ctx context.Context, node plan.Node, pool string) error
}

// Config of a Provider.
type Config struct {
	// PoolName is the value of the pool label.
	PoolName string
	Nodes    Nodes
	// CountPods counts the pods with an address of their own, by node, of the
	// named nodes; a node that it leaves out has none. It is asked only while no
	// node reflects yet. Optional: without it control-plane nodes count as the
	// cheapest.
	CountPods func(ctx context.Context, nodes []string) (map[string]int, error)
	// Preferred nodes are chosen first, Excluded ones never; nil for no such rule.
	Preferred, Excluded labels.Selector
	// NotReadyGrace is how long a member may be NotReady and still count.
	NotReadyGrace time.Duration
	// Now is the clock, time.Now when nil.
	Now func() time.Time
}

func (c Config) check() error {
	if problems := validation.IsValidLabelValue(c.PoolName); c.PoolName == "" || len(problems) > 0 {
		return fmt.Errorf("pool name %q: it becomes the value of a node label, so it must be one and not empty: %s",
			c.PoolName, strings.Join(problems, "; "))
	}
	if c.Nodes == nil {
		return errors.New("no access to nodes is given")
	}
	if c.NotReadyGrace < 0 {
		return fmt.Errorf("spec.rollout.notReadyGrace is %s, it must not be negative", c.NotReadyGrace)
	}
	return nil
}
