package plan

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/workload"
)

// datastore is the model as the manager's Datastore, and as existing nodes.
type datastore struct{ *stage }

// Observe implements pool.Datastore.
func (d datastore) Observe(context.Context, plan.Scope) (plan.Cluster, error) {
	return d.model.Observe(), nil
}

// Apply implements pool.Datastore.
func (d datastore) Apply(_ context.Context, _ plan.Scope, action plan.Action) (bool, error) {
	changed, err := d.model.Apply(action)
	if act, ok := action.(plan.SetRack); ok && changed {
		what := "put the label " + plan.RackLabel + " on"
		if act.Rack == "" {
			what = "take the label " + plan.RackLabel + " from"
		}
		d.racked[what]++
	}
	return changed, err
}

// Watch implements pool.Datastore.
func (d datastore) Watch(_ context.Context, want []plan.Watch) (bool, error) {
	asked, changed := d.model.Watch(want)
	d.asked += len(asked)
	return changed, nil
}

// List implements existing.Nodes.
func (d datastore) List(context.Context) ([]plan.Node, error) { return d.model.Nodes(), nil }

// SetPool implements existing.Nodes.
func (d datastore) SetPool(_ context.Context, node plan.Node, name string) error {
	d.model.Edit(node.Name, func(n *plan.Node) {
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		if delete(n.Labels, v1alpha1.PoolLabel); name != "" {
			n.Labels[v1alpha1.PoolLabel] = name
		}
	})
	return nil
}

// pods are the model's pods. All that may go do so at once.
type pods struct{ *stage }

// Count implements pool.Workload.
func (p pods) Count(_ context.Context, nodes []string) (map[string]int, error) {
	out := map[string]int{}
	for _, name := range nodes {
		if count, known := p.pods[name]; known {
			out[name] = count
		}
	}
	return out, nil
}

// Evictable implements pool.Workload.
func (p pods) Evictable(_ context.Context, node string) (moving, staying []string, err error) {
	if count := p.pods[node]; count > 0 && !p.drained[node] {
		moving = append(moving, fmt.Sprintf("%d pods", count))
	}
	return moving, nil, nil
}

// Evict implements pool.Workload.
func (p pods) Evict(_ context.Context, node string) (workload.Eviction, error) {
	count := p.pods[node]
	if p.drained[node] = true; count > 0 {
		delete(p.pods, node) // those of DaemonSets stay, and nobody has said how many they are
	}
	return workload.Eviction{Evicted: count}, nil
}

// recorder takes down what the manager tells of its changes.
type recorder struct{ *stage }

// Eventf implements events.EventRecorder.
func (r recorder) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	// Of clients that are labelled there is an event each hundred; see datastore.Apply.
	if kind == corev1.EventTypeNormal && reason != "Recovered" && reason != "RacksLabelled" {
		r.writes = append(r.writes, fmt.Sprintf(note, args...))
	}
}

// bookkeeper answers for the objects that lead to the cloud: in the model they are
// always there.
type bookkeeper struct {
	client.Client
	id  string
	key v1alpha1.SecretKeyRef
}

// Get implements client.Reader.
func (b bookkeeper) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	switch o := object.(type) {
	case *corev1.Secret:
		o.Data = map[string][]byte{b.key.Key: []byte("model")}
	case *corev1.ConfigMap:
		o.Data = map[string]string{"cluster-config.json": fmt.Sprintf("{%q: %q}", "cluster_id", b.id)}
	default:
		return apierrors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", object)}, key.Name) //nolint:wrapcheck // as an apiserver does
	}
	return nil
}
