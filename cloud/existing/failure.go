package existing

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/rrpool/rrpool/cloud"
)

// deniedPause is how long to leave an apiserver alone that has refused us.
const deniedPause = time.Minute

// failure makes the typed error of a request that went wrong.
func failure(op string, err error) error {
	e := &cloud.Error{Kind: cloud.Unavailable, Op: op, Err: err}
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		e.Kind, e.RetryAfter = cloud.Unauthorized, deniedPause
		e.Message = err.Error() + " (the manager's ClusterRole must allow to list and patch nodes and to list pods: apply config/rbac)"
	case apierrors.IsTooManyRequests(err):
		e.Kind = cloud.RateLimited
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			e.RetryAfter = time.Duration(seconds) * time.Second
		}
	}
	return e
}
