package v1alpha1_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

func TestThePoolsIdentityIsFixedOnlyWhileAPoolExists(t *testing.T) {
	cases := map[string]struct {
		pool   string
		change func(*v1alpha1.RouteReflectorPool)
		want   string
	}{
		"the provider's type changes freely without a pool": {
			change: func(p *v1alpha1.RouteReflectorPool) { p.Spec.Provider.Type = v1alpha1.ProviderExistingNodes },
		},
		"the pool's name changes freely without a pool": {
			change: func(p *v1alpha1.RouteReflectorPool) { p.Spec.Provider.IKS.PoolName = "other" },
		},
		"the provider's type is fixed with a pool": {
			pool:   "route-reflectors",
			change: func(p *v1alpha1.RouteReflectorPool) { p.Spec.Provider.Type = v1alpha1.ProviderExistingNodes },
			want:   "spec.provider.type cannot be changed while a pool exists",
		},
		"the pool's name is fixed with a pool": {
			pool:   "route-reflectors",
			change: func(p *v1alpha1.RouteReflectorPool) { p.Spec.Provider.IKS.PoolName = "other" },
			want:   "spec.provider.iks.poolName cannot be changed while a worker pool exists",
		},
		"a status that comes with the change does not open the way": {
			pool: "route-reflectors",
			change: func(p *v1alpha1.RouteReflectorPool) {
				p.Status.Pool = ""
				p.Spec.Provider.IKS.PoolName = "other"
			},
			want: "spec.provider.iks.poolName cannot be changed while a worker pool exists",
		},
		"everything else changes with a pool": {
			pool: "route-reflectors",
			change: func(p *v1alpha1.RouteReflectorPool) {
				p.Spec.Mode = v1alpha1.ModeFullMesh
				p.Spec.Provider.IKS.DeletionPolicy = v1alpha1.DeletionDelete
				p.Finalizers = []string{}
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := admin(t)
			pool := created(t, c, object(t, `{}`))
			pool.Status.Pool = tc.pool
			require.NoError(t, c.Status().Update(t.Context(), pool))
			tc.change(pool)
			err := c.Update(t.Context(), pool)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestAPoolThatIsGoneFreesItsIdentity(t *testing.T) {
	c := admin(t)
	pool := created(t, c, object(t, `{}`))
	for _, exists := range []string{"route-reflectors", ""} {
		pool.Status.Pool = exists
		require.NoError(t, c.Status().Update(t.Context(), pool))
	}
	pool.Spec.Provider.IKS.PoolName = "other"
	require.NoError(t, c.Update(t.Context(), pool))
}

// A status with zero times and empty structs must be acceptable to the schema,
// because that is what the controller's first report looks like.
func TestAnEmptyStatusCanBeWritten(t *testing.T) {
	c := admin(t)
	pool := created(t, c, object(t, `{}`))
	before := pool.DeepCopy()
	pool.Status = v1alpha1.RouteReflectorPoolStatus{Provider: "iks"}
	require.NoError(t, c.Status().Patch(t.Context(), pool, client.MergeFrom(before)))
	require.NoError(t, c.Status().Update(t.Context(), pool))
	require.Equal(t, "iks", pool.Status.Provider)
}
