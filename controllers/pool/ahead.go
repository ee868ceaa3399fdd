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

// try makes a dry run of the step's first writes, before anything is written or ordered: a value that the datastore
// refuses would stop the rollout half way. A refusal becomes a problem of the cluster, and so does an object that others
// made under a name of rrpool. After any other error it is unknown whether the writes are allowed: see Scope.Untried.
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
					s.Untried = fmt.Errorf("%w; %w", before, s.Untried) // keep the earlier error too
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

// refused returns the problem that the error of a dry run shows, nil for none.
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
