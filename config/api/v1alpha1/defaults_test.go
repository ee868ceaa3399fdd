package v1alpha1_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// defaults is what the documentation promises for whatever is left out.
func defaults() v1alpha1.RouteReflectorPoolSpec {
	after := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	return v1alpha1.RouteReflectorPoolSpec{
		Mode: v1alpha1.ModeRouteReflector,
		Provider: v1alpha1.ProviderSpec{
			Type: v1alpha1.ProviderAuto,
			IKS: v1alpha1.IKSSpec{
				PoolName:             "route-reflectors",
				CredentialsSecretRef: v1alpha1.SecretKeyRef{Name: "rrpool-ibmcloud", Key: "apikey"},
				Endpoint:             v1alpha1.EndpointPublic,
				Taint:                v1alpha1.Taint{Key: "rrpool.io/dedicated", Value: "route-reflector", Effect: corev1.TaintEffectNoExecute},
				UpdateWorkers:        v1alpha1.UpdateManual,
				DeletionPolicy:       v1alpha1.DeletionRetain,
			},
			ExistingNodes: v1alpha1.ExistingNodesSpec{Promotion: v1alpha1.PromotionStaged},
		},
		Sizing: v1alpha1.SizingSpec{
			Method: v1alpha1.SizingPerHundred, Ratio: "0.005", Min: 3, Max: 25, MinPerZone: 1,
		},
		Topology: v1alpha1.TopologySpec{
			Type: v1alpha1.TopologySingle, ClusterID: "244.0.0.1", Redundancy: 3, MaxPathsPerPrefix: 64,
			ZoneLabel: "topology.kubernetes.io/zone",
		},
		BGP: v1alpha1.BGPSpec{NodeLabel: "rrpool.io/route-reflector"},
		Rollout: v1alpha1.RolloutSpec{
			Gate: v1alpha1.GateSessions, SessionTimeout: after(5 * time.Minute), NotReadyGrace: after(time.Minute),
			SafetyNet:    v1alpha1.SafetyNetSpec{MinServing: 2, After: after(30 * time.Second)},
			RemovalDelay: after(time.Minute),
		},
	}
}

func TestWhatIsLeftOutIsDefaultedByTheServer(t *testing.T) {
	withoutSpec := object(t, `{}`)
	delete(withoutSpec.Object, "spec")
	fromGo := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}}
	sparse := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}}
	sparse.Spec.Provider.IKS.Taint.Key = "example.com/rr"
	sparse.Spec.Rollout.SafetyNet.MinServing = 1
	sparse.Spec.Rollout.RemovalDelay.Duration = time.Second

	cases := map[string]struct {
		object client.Object
		differ func(*v1alpha1.RouteReflectorPoolSpec)
	}{
		"an object without a spec":         {object: withoutSpec},
		"an empty spec":                    {object: object(t, `{}`)},
		"empty sections":                   {object: object(t, `{provider: {iks: {}, existingNodes: {}}, sizing: {}, topology: {}, bgp: {}, rollout: {safetyNet: {}}}`)},
		"an object written by a Go client": {object: fromGo},
		"a few fields set by a Go client alone": {object: sparse, differ: func(s *v1alpha1.RouteReflectorPoolSpec) {
			s.Provider.IKS.Taint.Key = "example.com/rr"
			s.Rollout.SafetyNet.MinServing = 1
			s.Rollout.RemovalDelay.Duration = time.Second
		}},
		"the neighbours of a field that is set": {object: object(t, `{provider: {iks: {taint: {key: example.com/rr}}}, sizing: {max: 9}, rollout: {safetyNet: {minServing: 1}}}`), differ: func(s *v1alpha1.RouteReflectorPoolSpec) {
			s.Provider.IKS.Taint.Key = "example.com/rr"
			s.Sizing.Max = 9
			s.Rollout.SafetyNet.MinServing = 1
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want := defaults()
			if tc.differ != nil {
				tc.differ(&want)
			}
			require.Equal(t, want, created(t, admin(t), tc.object).Spec)
		})
	}
}
