package pool

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
)

// try asks the datastore whether it would take the first writes, before any of them, or of an order: a value that it
// refuses would stop the rollout half way. A refusal is a problem of the cluster, and so is an object of others under a name of
// ours. Any other error leaves the answer unknown.
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
		problem := refused(action, err)
		if problem == nil {
			before := s.Untried
			s.Untried = fmt.Errorf("trying whether the datastore lets rrpool %s: %w", plan.Details(action), err)
			if calico.Untriable(err) {
				if before != nil {
					s.Untried = fmt.Errorf("%w; %w", before, s.Untried) // each is named
				}
				continue
			}
			return
		}
		s.Cluster.Problems = append(slices.Clone(s.Cluster.Problems), *problem)
		s.Untried = nil
		r.compute(s)
		return
	}
	r.tried = ahead
}

// refused is the problem that a trial shows, nil for none.
func refused(action plan.Action, err error) *plan.Problem {
	var taken *calico.NameTakenError
	switch {
	case errors.As(err, &taken):
		return plan.Problemf(reason.NameTaken, "%s", taken)
	case calico.Refuses(err):
		return plan.Problemf(reason.WriteRefused,
			"the datastore would not let rrpool %s, so nothing is changed or ordered: %v: correct that value, or delete this object", plan.Details(action), err)
	}
	return nil
}
