package v1alpha1_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/controlplane"
)

func TestMain(m *testing.M) { controlplane.Main(m) }

func admin(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	c, err := client.New(controlplane.ForTest(t).AdminConfig(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	return c
}

// named gives an object as a user would write it, so that nothing is filled in or left out by Go types on the way.
func named(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("RouteReflectorPool"))
	object.SetName(name)
	content := map[string]any{}
	require.NoError(t, yaml.Unmarshal([]byte(spec), &content))
	object.Object["spec"] = content
	return object
}

func object(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	return named(t, v1alpha1.SingletonName, spec)
}

// created makes the typed object of a test, with all defaults, and removes it afterwards.
func created(t *testing.T, c client.Client, o client.Object) *v1alpha1.RouteReflectorPool {
	t.Helper()
	require.NoError(t, c.Create(t.Context(), o))
	pool := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}}
	t.Cleanup(func() {
		gone := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}}
		require.NoError(t, c.Delete(context.Background(), gone))
	})
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(pool), pool))
	return pool
}

func TestKubectlGetShowsWhereTheClusterIs(t *testing.T) {
	c := admin(t)
	pool := created(t, c, object(t, `{}`))
	pool.Status = v1alpha1.RouteReflectorPoolStatus{
		Step: v1alpha1.StepStatus{Name: "DisableMesh"},
		Conditions: []metav1.Condition{
			condition(v1alpha1.ConditionReady, metav1.ConditionFalse, "DisableMesh"),
			condition(v1alpha1.ConditionReflectorsEstablished, metav1.ConditionTrue, "AllEstablished"),
			condition(v1alpha1.ConditionMeshDisabled, metav1.ConditionFalse, "MeshOn"),
		},
	}
	require.NoError(t, c.Status().Update(t.Context(), pool))

	shown := map[string]any{}
	// As kubectl asks.
	config := controlplane.ForTest(t).AdminConfig()
	config.GroupVersion, config.APIPath = &v1alpha1.GroupVersion, "/apis"
	config.NegotiatedSerializer = serializer.WithoutConversionCodecFactory{CodecFactory: scheme.Codecs}
	kubectl, err := rest.RESTClientFor(config)
	require.NoError(t, err)
	table := &metav1.Table{}
	require.NoError(t, kubectl.Get().Resource("routereflectorpools").SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
		Do(t.Context()).Into(table))
	for i, column := range table.ColumnDefinitions {
		shown[column.Name] = table.Rows[0].Cells[i]
	}
	require.NotEmpty(t, shown["Age"])
	delete(shown, "Age")
	require.Equal(t, map[string]any{
		"Name": "default", "Mode": "RouteReflector", "Step": "DisableMesh",
		"Reflectors": "AllEstablished", "Mesh": "MeshOn", "Ready": "False",
	}, shown)
}

func condition(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.Now()}
}

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

func TestThePoolsIdentityIsFixedOnlyWhileAPoolExists(t *testing.T) {
	anotherType := func(p *v1alpha1.RouteReflectorPool) { p.Spec.Provider.Type = v1alpha1.ProviderExistingNodes }
	anotherName := func(p *v1alpha1.RouteReflectorPool) { p.Spec.Provider.IKS.PoolName = "other" }
	const fixedType, fixedName = "spec.provider.type cannot be changed while a pool exists", "spec.provider.iks.poolName cannot be changed while a worker pool exists"
	cases := map[string]struct {
		pool   string
		change func(*v1alpha1.RouteReflectorPool)
		want   string
	}{
		"the provider's type changes freely without a pool": {"", anotherType, ""},
		"the pool's name changes freely without a pool":     {"", anotherName, ""},
		"the provider's type is fixed with a pool":          {"route-reflectors", anotherType, fixedType},
		"the pool's name is fixed with a pool":              {"route-reflectors", anotherName, fixedName},
		"a status that comes with the change does not open the way": {"route-reflectors", func(p *v1alpha1.RouteReflectorPool) {
			p.Status.Pool = ""
			anotherName(p)
		}, fixedName},
		"everything else changes with a pool": {"route-reflectors", func(p *v1alpha1.RouteReflectorPool) {
			p.Spec.Mode, p.Spec.Provider.IKS.DeletionPolicy, p.Finalizers = v1alpha1.ModeFullMesh, v1alpha1.DeletionDelete, []string{}
		}, ""},
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
