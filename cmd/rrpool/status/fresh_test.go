package status

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/cli"
)

// A change that the manager cannot have taken note of yet is no alarm; one that it
// should have is.
func TestAChangeOfJustNow(t *testing.T) {
	const second = time.Second
	for name, tc := range map[string]struct {
		changed, renewed time.Duration // before now
		edit             func(*api)
		want             State
	}{
		"seconds ago":                              {3 * second, second, nil, Progressing},
		"a while ago":                              {20 * second, second, nil, Stale},
		"at the bound":                             {15 * second, second, nil, Stale},
		"by a manager's clock that is ahead":       {3 * second, -20 * second, nil, Stale},
		"by a clock here that is behind":           {-30 * second, -31 * second, nil, Progressing},
		"long ago, by a clock here that is behind": {-30 * second, -60 * second, nil, Stale},
		"and nobody renews the lease":              {3 * second, time.Hour, nil, Stale},
		"and there is no lease":                    {3 * second, 0, func(a *api) { a.lease = nil }, Stale},
		"and only a Deployment is seen":            {3 * second, 0, func(a *api) { a.lease, a.deployment = nil, replicas(1, 1) }, Stale},
		"a deletion": {time.Hour, second, func(a *api) {
			gone := ago(2 * second)
			a.pool.DeletionTimestamp = &gone
		}, Deleting},
		"a creation":             {time.Hour, second, func(a *api) { a.pool.ManagedFields, a.pool.CreationTimestamp = nil, ago(2*second) }, Progressing},
		"nobody knows when":      {0, second, func(a *api) { a.pool.ManagedFields = nil }, Stale},
		"only the status":        {3 * second, second, func(a *api) { a.pool.ManagedFields[0].Subresource = "status" }, Stale},
		"only a label":           {3 * second, second, func(a *api) { a.pool.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1(`{"f:metadata":{}}`) }, Stale},
		"one that was noted":     {3 * second, second, func(a *api) { a.pool.Generation = 3 }, Ready},
		"a second one that fits": {time.Hour, second, func(a *api) { changeSpec(a.pool, 2*second) }, Progressing},
	} {
		t.Run(name, func(t *testing.T) {
			a := atRest(func(o *v1alpha1.RouteReflectorPool) { o.Generation, o.CreationTimestamp = 4, ago(24*time.Hour) })
			changeSpec(a.pool, tc.changed)
			a.lease = held(tc.renewed)
			if tc.edit != nil {
				tc.edit(a)
			}
			f, err := Take(t.Context(), connect(t, a), "rrpool-system", cli.Now)
			require.NoError(t, err)
			require.Equal(t, tc.want, stateOf(*f), summary(*f, stateOf(*f)))
			noted := strings.Contains(summary(*f, stateOf(*f)), "has not yet taken note")
			require.Equal(t, tc.want == Progressing || tc.want == Deleting, noted)
		})
	}
}

// A watch does not show it again and again while it waits for that.
func TestAWatchOfAChangeOfJustNow(t *testing.T) {
	a := atRest(func(o *v1alpha1.RouteReflectorPool) { o.Generation = 4 })
	changeSpec(a.pool, time.Second)
	renew := func(a *api) {
		now := metav1.NewMicroTime(a.lease.Spec.RenewTime.Add(2 * time.Second))
		a.lease.Spec.RenewTime = &now
	}
	s := &story{api: a, happens: []func(*api){renew, renew, renew, func(a *api) { a.pool.Status.ObservedGeneration = 4 }}}
	got := s.watch(t, iostreams.Streams{}, "--watch")
	require.Zero(t, got.Code, got.Err)
	require.Equal(t, 1, strings.Count(got.Out, "… Progressing: the manager has not yet taken note"), got.Out)
	require.NotContains(t, got.Out, "Stale")
}
