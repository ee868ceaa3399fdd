package pool

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/controllers/plan"
)

// try asks the datastore whether it would take what is written first, before any of that is, or a machine is ordered:
// a value that it refuses would stop the rollout half way. A refusal is a problem of the cluster, as what the datastore
// reports itself is. Whatever else is in the way leaves the answer unknown.
func (r *Reconciler) try(ctx context.Context, s *Scope) {
	ahead := s.Step.Ahead
	if len(ahead) == 0 || reflect.DeepEqual(ahead, r.tried) {
		return
	}
	for _, action := range ahead {
		err := r.Datastore.Try(ctx, scopeOf(s.object), action)
		if err == nil {
			continue
		}
		if s.Untried = fmt.Errorf("trying whether the datastore lets rrpool %s: %w", plan.Described(action), err); !calico.Refuses(err) {
			return
		}
		s.Cluster.Problems = append(slices.Clone(s.Cluster.Problems), *plan.Problemf(ReasonWriteRefused,
			"the datastore would not let rrpool %s, so nothing is changed or ordered: %v: correct that value, or delete this object", plan.Described(action), err))
		s.Untried = nil
		r.compute(s)
		return
	}
	r.tried = ahead
}
