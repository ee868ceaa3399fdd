package deploy_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/klog/v2"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// dedicated is the taint of the dedicated pool, as the sample for IKS leaves it.
func dedicated(t *testing.T) []corev1.Taint {
	t.Helper()
	c, _ := deployed(t, iksOverlay)
	sample, err := c.try(t, read(t, samples[iksOverlay])[0])
	require.NoError(t, err)
	taint := convert[v1alpha1.RouteReflectorPool](t, sample).Spec.Provider.IKS.Taint
	require.NotEmpty(t, taint.Key)
	out := []corev1.Taint{}
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule} {
		out = append(out, corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: effect})
	}
	return out
}

// mortal says what is wrong with that which keeps managers running through drains, and
// through the loss of nodes and zones.
func mortal(d *appsv1.Deployment, b *policyv1.PodDisruptionBudget, reflectors []corev1.Taint) []string {
	pod := d.Spec.Template
	out := append(drained(d, b), together(pod)...)
	for _, taint := range reflectors {
		if tolerates(pod.Spec, taint) {
			out = append(out, fmt.Sprintf("it tolerates the reflectors' taint with %s", taint.Effect))
		}
	}
	if !tolerates(pod.Spec, corev1.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}) {
		out = append(out, "it does not run on the control plane")
	}
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if seconds := leaves(pod.Spec, key); seconds < 10 || seconds > 60 {
			out = append(out, fmt.Sprintf("it leaves a node with %s after %d s", key, seconds))
		}
	}
	return out
}

// drained says what a drain does to managers, and they to it.
func drained(d *appsv1.Deployment, b *policyv1.PodDisruptionBudget) []string {
	var out []string
	if *d.Spec.Replicas < 2 {
		out = append(out, "no second manager")
	}
	if !selects(b.Spec.Selector, d.Spec.Template.Labels) || b.Namespace != d.Namespace {
		out = append(out, "the budget is not about the manager")
	}
	switch allowed := b.Spec.MaxUnavailable.IntValue(); {
	case allowed < 1:
		out = append(out, "a node with a manager can never be drained")
	case allowed >= int(*d.Spec.Replicas):
		out = append(out, "a drain may take all managers at once")
	}
	if b.Spec.UnhealthyPodEvictionPolicy == nil || *b.Spec.UnhealthyPodEvictionPolicy != policyv1.AlwaysAllow {
		out = append(out, "a manager that does not work holds up drains")
	}
	return out
}

// together says what may keep managers in one place, or from running at all.
func together(pod corev1.PodTemplateSpec) []string {
	var out []string
	apart := map[string]bool{}
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable != corev1.ScheduleAnyway {
			out = append(out, "without "+c.TopologyKey+" it waits")
		}
		apart[c.TopologyKey] = c.MaxSkew == 1 && selects(c.LabelSelector, pod.Labels)
	}
	for _, key := range []string{corev1.LabelHostname, corev1.LabelTopologyZone} {
		if !apart[key] {
			out = append(out, "managers share a "+key)
		}
	}
	nodes := pod.Spec.Affinity.NodeAffinity
	if nodes.RequiredDuringSchedulingIgnoredDuringExecution != nil || pod.Spec.Affinity.PodAntiAffinity != nil || len(pod.Spec.NodeSelector) > 0 {
		out = append(out, "it wants a node that there may not be")
	}
	avoids := func(p corev1.PreferredSchedulingTerm) bool {
		return slices.ContainsFunc(p.Preference.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == v1alpha1.PoolLabel && r.Operator == corev1.NodeSelectorOpDoesNotExist
		})
	}
	if !slices.ContainsFunc(nodes.PreferredDuringSchedulingIgnoredDuringExecution, avoids) {
		out = append(out, "it does not mind running on a reflector")
	}
	return out
}

func selects(selector *metav1.LabelSelector, of map[string]string) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && !s.Empty() && s.Matches(labels.Set(of))
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
	taints := dedicated(t)
	parts := func(overlay string) (*appsv1.Deployment, *policyv1.PodDisruptionBudget) {
		objects := build(t, overlay)
		return convert[appsv1.Deployment](t, first(t, objects, "Deployment")),
			convert[policyv1.PodDisruptionBudget](t, first(t, objects, "PodDisruptionBudget"))
	}
	for _, overlay := range overlays(t) {
		d, b := parts(overlay)
		require.Empty(t, mortal(d, b, taints), overlay)
	}
	zone := corev1.LabelTopologyZone
	type spoil func(*corev1.PodSpec, *appsv1.Deployment, *policyv1.PodDisruptionBudget)
	controls := map[string]spoil{
		"no second manager": func(_ *corev1.PodSpec, d *appsv1.Deployment, b *policyv1.PodDisruptionBudget) {
			*d.Spec.Replicas = 1
			*b.Spec.MaxUnavailable = intstr.FromInt32(0)
		},
		"the budget is not about the manager": func(_ *corev1.PodSpec, _ *appsv1.Deployment, b *policyv1.PodDisruptionBudget) {
			b.Spec.Selector.MatchLabels["app.kubernetes.io/name"] = "rrpools"
		},
		"a drain may take all managers at once": func(_ *corev1.PodSpec, _ *appsv1.Deployment, b *policyv1.PodDisruptionBudget) {
			*b.Spec.MaxUnavailable = intstr.FromInt32(2)
		},
		"a manager that does not work holds up drains": func(_ *corev1.PodSpec, _ *appsv1.Deployment, b *policyv1.PodDisruptionBudget) {
			b.Spec.UnhealthyPodEvictionPolicy = nil
		},
		"without " + zone + " it waits": func(p *corev1.PodSpec, _ *appsv1.Deployment, _ *policyv1.PodDisruptionBudget) {
			p.TopologySpreadConstraints[0].WhenUnsatisfiable = corev1.DoNotSchedule
		},
		"managers share a " + zone: func(p *corev1.PodSpec, _ *appsv1.Deployment, _ *policyv1.PodDisruptionBudget) {
			p.TopologySpreadConstraints[0].LabelSelector.MatchLabels["a"] = "b"
		},
		"it wants a node that there may not be": func(p *corev1.PodSpec, _ *appsv1.Deployment, _ *policyv1.PodDisruptionBudget) {
			p.NodeSelector = map[string]string{"a": "b"}
		},
		"it does not mind running on a reflector": func(p *corev1.PodSpec, _ *appsv1.Deployment, _ *policyv1.PodDisruptionBudget) {
			p.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = nil
		},
		"it tolerates the reflectors' taint with NoExecute": func(p *corev1.PodSpec, _ *appsv1.Deployment, _ *policyv1.PodDisruptionBudget) {
			p.Tolerations = append(p.Tolerations, corev1.Toleration{Key: taints[0].Key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})
		},
		"it does not run on the control plane": func(p *corev1.PodSpec, _ *appsv1.Deployment, _ *policyv1.PodDisruptionBudget) {
			p.Tolerations[1].Effect = corev1.TaintEffectNoExecute
		},
		"it leaves a node with node.kubernetes.io/unreachable after 300 s": func(p *corev1.PodSpec, _ *appsv1.Deployment, _ *policyv1.PodDisruptionBudget) {
			*p.Tolerations[3].TolerationSeconds = 300
		},
	}
	for _, want := range slices.Sorted(maps.Keys(controls)) {
		d, b := parts(kindOverlay)
		controls[want](&d.Spec.Template.Spec, d, b)
		require.Contains(t, mortal(d, b, taints), want, "negative control")
	}
}
