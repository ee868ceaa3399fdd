package status

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/test/cli"
)

// Whether the manager runs is read from its lease or Deployment, whatever may be read.
func TestFindManager(t *testing.T) {
	released := cli.Lease(0)
	none := ""
	released.Spec.HolderIdentity = &none
	for name, tc := range map[string]struct {
		api  *api
		want ManagerStatus
		says string
	}{
		"a lease that is renewed":              {&api{lease: cli.Lease(5 * time.Second)}, Running, "m1 holds the lease"},
		"a clock that is a little off":         {&api{lease: cli.Lease(70 * time.Second)}, Running, "holds the lease"},
		"a lease that ran out":                 {&api{lease: cli.Lease(2 * time.Minute)}, Stopped, "has not renewed the lease rrpool-manager in namespace rrpool-system since 2026-11-21 08:58:00Z"},
		"a lease that was given back":          {&api{lease: released}, Stopped, "has no holder"},
		"the lease counts, not the Deployment": {&api{lease: cli.Lease(time.Hour), deployment: replicas(2, 2)}, Stopped, "renewed"},
		"a Deployment alone":                   {&api{deployment: replicas(2, 1)}, Running, "1 of 2 replicas"},
		"a Deployment without replicas":        {&api{deployment: replicas(2, 0)}, Stopped, "0 of 2 replicas"},
		"nothing there":                        {&api{}, ManagerUnknown, "there is neither a lease nor a Deployment rrpool-manager in namespace rrpool-system"},
		"no rights":                            {(&api{lease: cli.Lease(0)}).refusing("/", 403, metav1.StatusReasonForbidden, "no"), ManagerUnknown, "can be read"},
		"no right to the lease":                {(&api{deployment: replicas(1, 1)}).refusing("leases", 403, metav1.StatusReasonForbidden, "no"), Running, "1 of 1"},
	} {
		t.Run(name, func(t *testing.T) {
			got := FindManager(t.Context(), cli.Connect(t, tc.api), "rrpool-system", cli.Now)
			require.Equal(t, tc.want, got.Status, got.Message)
			require.Contains(t, got.Message, tc.says)
		})
	}
}

func TestTheMeshWithoutAnObject(t *testing.T) {
	for name, tc := range map[string]struct {
		api  *api
		want string
		says string
	}{
		"switched on":     {&api{mesh: `{"spec":{"nodeToNodeMeshEnabled":true}}`}, meshOn, ""},
		"switched off":    {&api{mesh: `{"spec":{"nodeToNodeMeshEnabled":false}}`}, meshOff, ""},
		"left open":       {&api{mesh: `{"spec":{}}`}, meshOn, ""},
		"no right to ask": {(&api{}).refusing("bgp", http.StatusForbidden, metav1.StatusReasonForbidden, "no"), meshUnknown, "may not get bgpconfigurations.crd.projectcalico.org"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Take(t.Context(), cli.Connect(t, tc.api), Phrase{}, cli.Now)
			require.NoError(t, err)
			require.Equal(t, tc.want, got.Mesh)
			require.Contains(t, strings.Join(got.Warnings, ""), tc.says)
			require.Equal(t, tc.says == "", len(got.Warnings) == 0)
		})
	}
}
