package forecast

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
)

func TestX(t *testing.T) {
	for _, kind := range []v1alpha1.ProviderType{v1alpha1.ProviderIKS, v1alpha1.ProviderExistingNodes} {
		object, err := crd.Default()
		require.NoError(t, err)
		f, err := Run(t.Context(), Input{Object: object, Provider: kind, Cluster: Invent(6, 3, kind), Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
		require.NoError(t, err)
		for _, s := range f.Steps {
			fmt.Println(s.Begins, s.Lasts, s.Name, s.Reason, "GUARD", s.Guard, "ASKED", s.Asked)
			for _, w := range s.Writes {
				fmt.Println("     ", w)
			}
		}
		fmt.Println(f.Settled, f.Problem, f.Lasts, f.Loss, f.Before, f.After)
	}
}

func TestY(t *testing.T) {
	for _, n := range []int{100, 500, 1000, 5000} {
		for _, kind := range []v1alpha1.ProviderType{v1alpha1.ProviderIKS, v1alpha1.ProviderExistingNodes} {
			object, err := crd.Default()
			require.NoError(t, err)
			began := time.Now()
			f, err := Run(t.Context(), Input{Object: object, Provider: kind, Cluster: Invent(n, 3, kind), Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
			require.NoError(t, err)
			fmt.Println(n, kind, time.Since(began), len(f.Steps), f.Settled, f.Problem, f.Lasts, f.Loss, f.Before, f.After)
			if n > 1000 {
				continue
			}
			began = time.Now()
			object.Spec.Mode = v1alpha1.ModeFullMesh
			b, err := Run(t.Context(), Input{Object: object, Provider: kind, Cluster: f.Final.Cluster, Pool: f.Final.Pool, Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
			require.NoError(t, err)
			fmt.Println("back", n, kind, time.Since(began), len(b.Steps), b.Settled, b.Problem, b.Lasts, b.Loss, b.Before, b.After)
		}
	}
}
