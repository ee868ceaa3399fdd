package deploy_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// dedicated is the taint of the dedicated pool, as the sample for IKS leaves it.
func dedicated(t *testing.T) v1alpha1.Taint {
	t.Helper()
	c, _ := deployed(t)
	sample, err := c.try(t, read(t, samples[iksOverlay])[0])
	require.NoError(t, err)
	taint := convert[v1alpha1.RouteReflectorPool](t, sample).Spec.Provider.IKS.Taint
	require.NotEmpty(t, taint.Key)
	return taint
}

func selects(selector *metav1.LabelSelector, of map[string]string) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && !s.Empty() && s.Matches(labels.Set(of)) && !s.Matches(labels.Set{"app.kubernetes.io/name": "another"})
}

func tolerates(pod corev1.PodSpec, taint corev1.Taint) bool {
	return slices.ContainsFunc(pod.Tolerations, func(t corev1.Toleration) bool {
		return t.ToleratesTaint(klog.Background(), &taint, false)
	})
}

// leaves is after how many seconds a pod is evicted from a node with such a taint.
func leaves(pod corev1.PodSpec, key string) int64 {
	for _, t := range pod.Tolerations {
		if t.Key == key && t.TolerationSeconds != nil {
			return *t.TolerationSeconds
		}
	}
	return 0
}

func TestManagersSurviveDrainsNodesAndZones(t *testing.T) {
	reflectors := dedicated(t)
	objects := build(t, iksOverlay)
	d := convert[appsv1.Deployment](t, first(t, objects, "Deployment"))
	b := convert[policyv1.PodDisruptionBudget](t, first(t, objects, "PodDisruptionBudget"))
	pod := d.Spec.Template

	require.GreaterOrEqual(t, *d.Spec.Replicas, int32(2))
	require.True(t, selects(b.Spec.Selector, pod.Labels))
	require.Equal(t, d.Namespace, b.Namespace)
	require.Positive(t, b.Spec.MaxUnavailable.IntValue(), "a node with a manager can be drained")
	require.Less(t, b.Spec.MaxUnavailable.IntValue(), int(*d.Spec.Replicas), "a drain does not take all managers at once")
	require.Equal(t, policyv1.AlwaysAllow, *b.Spec.UnhealthyPodEvictionPolicy, "a manager that does not work does not hold up drains")

	var apart []string
	for _, c := range pod.Spec.TopologySpreadConstraints {
		require.Equal(t, corev1.ScheduleAnyway, c.WhenUnsatisfiable, "without %s it does not wait", c.TopologyKey)
		require.EqualValues(t, 1, c.MaxSkew)
		require.True(t, selects(c.LabelSelector, pod.Labels))
		apart = append(apart, c.TopologyKey)
	}
	require.ElementsMatch(t, []string{corev1.LabelHostname, corev1.LabelTopologyZone}, apart)
	require.Empty(t, pod.Spec.NodeSelector, "it wants no node that there may not be")
	require.Nil(t, pod.Spec.Affinity.PodAntiAffinity)
	nodes := pod.Spec.Affinity.NodeAffinity
	require.Nil(t, nodes.RequiredDuringSchedulingIgnoredDuringExecution)
	require.Equal(t, []corev1.NodeSelectorRequirement{{Key: v1alpha1.PoolLabel, Operator: corev1.NodeSelectorOpDoesNotExist}},
		nodes.PreferredDuringSchedulingIgnoredDuringExecution[0].Preference.MatchExpressions, "it would rather not run on a reflector")

	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule} {
		require.False(t, tolerates(pod.Spec, corev1.Taint{Key: reflectors.Key, Value: reflectors.Value, Effect: effect}))
	}
	require.True(t, tolerates(pod.Spec, corev1.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}))
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		require.GreaterOrEqual(t, leaves(pod.Spec, key), int64(10), key)
		require.LessOrEqual(t, leaves(pod.Spec, key), int64(60), key)
	}
}
