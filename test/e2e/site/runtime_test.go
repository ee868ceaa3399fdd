//go:build linux

package site

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// What the Runtime cannot imitate it refuses: a Deployment that says more than is run is not called tried.
func TestWhatIsNotImitatedIsNotRun(t *testing.T) {
	manager := func() *corev1.PodSpec {
		return &corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Args: []string{"--leader-elect"}}}}
	}
	require.NoError(t, known(manager()))
	for name, edit := range map[string]func(*corev1.PodSpec){
		"a second container": func(s *corev1.PodSpec) { s.Containers = append(s.Containers, corev1.Container{Name: "proxy"}) },
		"an init container":  func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{{Name: "wait"}} },
		"a volume":           func(s *corev1.PodSpec) { s.Volumes = []corev1.Volume{{Name: "certificates"}} },
		"a command":          func(s *corev1.PodSpec) { s.Containers[0].Command = []string{"/manager"} },
		"a variable in args": func(s *corev1.PodSpec) { s.Containers[0].Args = []string{"--namespace=$(POD_NAMESPACE)"} },
		"variables of a map": func(s *corev1.PodSpec) { s.Containers[0].EnvFrom = []corev1.EnvFromSource{{}} },
	} {
		t.Run(name, func(t *testing.T) {
			spec := manager()
			edit(spec)
			require.ErrorContains(t, known(spec), "imitated")
		})
	}
}

func TestTolerations(t *testing.T) {
	spec := &corev1.PodSpec{Tolerations: []corev1.Toleration{
		{Key: "anyhow", Operator: corev1.TolerationOpExists}, {Key: "size", Value: "small", Effect: corev1.TaintEffectNoSchedule},
	}}
	for name, tc := range map[string]struct {
		taint corev1.Taint
		want  bool
	}{
		"by key":           {corev1.Taint{Key: "anyhow", Value: "x", Effect: corev1.TaintEffectNoExecute}, true},
		"by value":         {corev1.Taint{Key: "size", Value: "small", Effect: corev1.TaintEffectNoSchedule}, true},
		"another value":    {corev1.Taint{Key: "size", Value: "large", Effect: corev1.TaintEffectNoSchedule}, false},
		"another effect":   {corev1.Taint{Key: "size", Value: "small", Effect: corev1.TaintEffectNoExecute}, false},
		"another key":      {corev1.Taint{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}, false},
		"merely not liked": {corev1.Taint{Key: "dedicated", Effect: corev1.TaintEffectPreferNoSchedule}, true},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, tolerates(spec, []corev1.Taint{tc.taint}))
		})
	}
}
