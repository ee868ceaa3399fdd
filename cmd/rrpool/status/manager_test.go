package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/test/cli"
)

// How the manager is told from one that is gone, by lease or Deployment, whatever may
// be read.
func TestFindManager(t *testing.T) {
	released := held(0)
	nobody := ""
	released.Spec.HolderIdentity = &nobody
	for name, tc := range map[string]struct {
		api  *api
		want Pulse
		says string
	}{
		"a lease that is renewed":              {&api{lease: held(5 * time.Second)}, Running, "rrpool-manager-7d9f_1 holds the lease"},
		"a clock that is a little off":         {&api{lease: held(70 * time.Second)}, Running, "holds the lease"},
		"a clock that is behind":               {&api{lease: held(-10 * time.Minute)}, Running, "holds the lease"},
		"a lease that ran out":                 {&api{lease: held(2 * time.Minute)}, Stopped, "has not renewed the lease rrpool-manager in namespace rrpool-system since 2026-11-21 08:58:00Z"},
		"a lease that was given back":          {&api{lease: released}, Stopped, "nobody holds the lease"},
		"a lease of nobody":                    {&api{lease: &coordinationv1.Lease{ObjectMeta: held(0).ObjectMeta}}, Stopped, "nobody holds the lease"},
		"the lease counts, not the Deployment": {&api{lease: held(time.Hour), deployment: replicas(2, 2)}, Stopped, "renewed"},
		"a Deployment alone":                   {&api{deployment: replicas(2, 1)}, Running, "1 of 2 replicas"},
		"a Deployment without replicas":        {&api{deployment: replicas(2, 0)}, Stopped, "none of the 2 replicas"},
		"a Deployment of no replicas":          {&api{deployment: replicas(0, 0)}, Stopped, "is scaled to 0"},
		"nothing there":                        {&api{}, Unsure, "there is neither a lease nor a Deployment rrpool-manager in namespace rrpool-system"},
		"no rights":                            {(&api{lease: held(0)}).refusing("/", 403, metav1.StatusReasonForbidden, "no"), Unsure, "can be read"},
		"no right to the lease":                {(&api{deployment: replicas(1, 1)}).refusing("leases", 403, metav1.StatusReasonForbidden, "no"), Running, "1 of 1"},
	} {
		t.Run(name, func(t *testing.T) {
			got := FindManager(t.Context(), connect(t, tc.api), "rrpool-system", cli.Now)
			require.Equal(t, tc.want, got.Pulse, got.Message)
			require.Contains(t, got.Message, tc.says)
		})
	}
}

// A cluster that nobody has migrated is told apart from one whose mesh somebody has
// switched off.
func TestNoPool(t *testing.T) {
	got := askIn(t, iostreams.Streams{}, &api{mesh: `{"spec":{"nodeToNodeMeshEnabled":false}}`})
	require.Contains(t, got.Out, "Mesh       off\n")
	require.Contains(t, got.Out, "Next: rrpool plan\n")
}
