//go:build linux

package site

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/test/controlplane"
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

// Pods of an older template go one after the other, and those first that are of no use.
func TestPodsAreReplacedOneByOne(t *testing.T) {
	started := func(name, template string) *pod {
		process, err := controlplane.StartProcess(exec.Command("sleep", "60"), filepath.Join(t.TempDir(), "log"), nil)
		require.NoError(t, err)
		p := &pod{name: name, template: template, process: process, delete: func() {}}
		t.Cleanup(p.kill)
		return p
	}
	unready := func(p *pod) *pod {
		p.probe = "http://127.0.0.1:1/"
		return p
	}
	d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2)}}
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: ptr.To(intstr.FromInt32(1))}
	for name, tc := range map[string]struct {
		pods []*pod
		left []string
	}{
		"both are old":                      {[]*pod{started("a", "old"), started("b", "old")}, []string{"b"}},
		"one is away":                       {[]*pod{started("b", "old")}, []string{"b"}},
		"the new one is not ready":          {[]*pod{started("b", "old"), unready(started("c", "new"))}, []string{"b", "c"}},
		"the new one is ready":              {[]*pod{started("b", "old"), started("c", "new")}, []string{"c"}},
		"an old one that is not ready goes": {[]*pod{started("a", "old"), unready(started("b", "old"))}, []string{"a"}},
		"both are new":                      {[]*pod{started("c", "new"), started("d", "new")}, []string{"c", "d"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Runtime{template: "new", pods: tc.pods}
			r.replace(t.Context(), d)
			var left []string
			for _, p := range r.pods {
				left = append(left, p.name)
			}
			require.Equal(t, tc.left, left)
		})
	}
}
