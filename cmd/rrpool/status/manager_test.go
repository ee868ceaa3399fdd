package status

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/cli"
)

// How the manager is told from one that is gone, by lease or Deployment, whatever may
// be read.
func TestFindManager(t *testing.T) {
	released := held(0)
	none := ""
	released.Spec.HolderIdentity = &none
	for name, tc := range map[string]struct {
		api  *api
		want ManagerStatus
		says string
	}{
		"a lease that is renewed":              {&api{lease: held(5 * time.Second)}, Running, "rrpool-manager-7d9f_1 holds the lease"},
		"a clock that is a little off":         {&api{lease: held(70 * time.Second)}, Running, "holds the lease"},
		"a clock that is behind":               {&api{lease: held(-10 * time.Minute)}, Running, "holds the lease"},
		"a lease that ran out":                 {&api{lease: held(2 * time.Minute)}, Stopped, "has not renewed the lease rrpool-manager in namespace rrpool-system since 2026-11-21 08:58:00Z"},
		"a lease that was given back":          {&api{lease: released}, Stopped, "has no holder"},
		"a lease without a holder":             {&api{lease: &coordinationv1.Lease{ObjectMeta: held(0).ObjectMeta}}, Stopped, "has no holder"},
		"the lease counts, not the Deployment": {&api{lease: held(time.Hour), deployment: replicas(2, 2)}, Stopped, "renewed"},
		"a Deployment alone":                   {&api{deployment: replicas(2, 1)}, Running, "1 of 2 replicas"},
		"a Deployment without replicas":        {&api{deployment: replicas(2, 0)}, Stopped, "none of the 2 replicas"},
		"a Deployment of no replicas":          {&api{deployment: replicas(0, 0)}, Stopped, "is scaled to 0"},
		"nothing there":                        {&api{}, ManagerUnknown, "there is neither a lease nor a Deployment rrpool-manager in namespace rrpool-system"},
		"no rights":                            {(&api{lease: held(0)}).refusing("/", 403, metav1.StatusReasonForbidden, "no"), ManagerUnknown, "can be read"},
		"no right to the lease":                {(&api{deployment: replicas(1, 1)}).refusing("leases", 403, metav1.StatusReasonForbidden, "no"), Running, "1 of 1"},
	} {
		t.Run(name, func(t *testing.T) {
			got := FindManager(t.Context(), connect(t, tc.api), "rrpool-system", cli.Now)
			require.Equal(t, tc.want, got.Status, got.Message)
			require.Contains(t, got.Message, tc.says)
		})
	}
}

func TestFindMesh(t *testing.T) {
	for name, tc := range map[string]struct {
		api  *api
		want string
		says string
	}{
		"switched off":    {&api{mesh: `{"spec":{"nodeToNodeMeshEnabled":false}}`}, meshOff, ""},
		"switched on":     {&api{mesh: `{"spec":{"nodeToNodeMeshEnabled":true}}`}, meshOn, ""},
		"left open":       {&api{mesh: `{"spec":{}}`}, meshOn, ""},
		"no object":       {&api{mesh: "absent"}, meshOn, ""},
		"no Calico":       {&api{}, meshUnknown, "is Calico installed?"},
		"no right to ask": {(&api{}).refusing("/", http.StatusForbidden, metav1.StatusReasonForbidden, "no"), meshUnknown, "may not get bgpconfigurations.crd.projectcalico.org"},
	} {
		t.Run(name, func(t *testing.T) {
			got := findMesh(t.Context(), connect(t, tc.api))
			require.Equal(t, tc.want, got.State, got.Why)
			require.Contains(t, got.Why, tc.says)
		})
	}
}

// One mesh has one number, and where the manager counts fewer it is said who is left out.
func TestWhomTheMeshJoins(t *testing.T) {
	rename := func(key, value string) func([]corev1.Node) {
		return func(nodes []corev1.Node) { nodes[0].Annotations = map[string]string{key: value} }
	}
	for name, tc := range map[string]struct {
		edit   func([]corev1.Node)
		object *v1alpha1.RouteReflectorPool
		state  string
		want   string
	}{
		"all of them":                     {nil, object(nil), meshOn, "on, 66 nodes, 6 of them in the pool"},
		"without a RouteReflectorPool":    {nil, nil, meshOn, "on, 66 nodes"},
		"existing nodes are carried":      {nil, object(func(o *v1alpha1.RouteReflectorPool) { o.Status.Provider = "existing" }), meshOn, "on, 66 nodes"},
		"another pool":                    {nil, object(func(o *v1alpha1.RouteReflectorPool) { o.Spec.Provider.IKS.PoolName = "other" }), meshOn, "on, 66 nodes"},
		"one is not Ready":                {func(nodes []corev1.Node) { nodes[0].Status.Conditions = nil }, object(nil), meshOn, "on, 66 nodes, 6 of them in the pool, 1 not Ready"},
		"one of the pool is not Ready":    {func(nodes []corev1.Node) { nodes[20].Status.Conditions = nil }, object(nil), meshOn, "on, 66 nodes, 6 of them in the pool"},
		"one is a route reflector":        {func(nodes []corev1.Node) { nodes[20].Annotations[clusterIDAnnotation] = "1.0.0.1" }, object(nil), meshOn, "on, 65 nodes, 5 of them in the pool"},
		"one has no address":              {rename("other", ""), object(nil), meshOn, "on, 65 nodes, 6 of them in the pool"},
		"one has an address without bits": {rename(ipv4Annotation, "10.0.0.1"), object(nil), meshOn, "on, 66 nodes, 6 of them in the pool"},
		"one has IPv6 only":               {rename(ipv6Annotation, "fd00::1/64"), object(nil), meshOn, "on, 66 nodes, 6 of them in the pool"},
		"one has what Calico cannot read": {rename(ipv4Annotation, "here"), object(nil), meshOn, "on, 65 nodes, 6 of them in the pool"},
		"one has it in the wrong place":   {rename(ipv4Annotation, "fd00::1/64"), object(nil), meshOn, "on, 65 nodes, 6 of them in the pool"},
		"a mesh that is off has no nodes": {nil, object(nil), meshOff, "off"},
		"an unknown mesh":                 {nil, object(nil), meshUnknown, "unknown"},
		"nodes that were not read":        {func(nodes []corev1.Node) { clear(nodes) }, object(nil), meshOn, "on"},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := rolledBack().nodes
			if tc.edit != nil {
				tc.edit(nodes)
			}
			m := Mesh{State: tc.state}
			m.count(nodes, tc.object)
			require.Equal(t, tc.want, m.text())
		})
	}
}
