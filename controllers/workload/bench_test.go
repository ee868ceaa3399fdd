package workload

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/test/controlplane"
)

func TestMain(m *testing.M) { controlplane.Main(m) }

// bench is Pods on a real apiserver, with a namespace for each test and no controller that would make or end pods.
type bench struct {
	*Pods
	t     *testing.T
	plane *controlplane.ControlPlane
	kube  *kubernetes.Clientset
	// user is who Pods is, for the audit log; space is the test's namespace.
	user, space string
	clock       time.Time
}

func newBench(t *testing.T) *bench {
	t.Helper()
	plane := controlplane.ForTest(t)
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	b := &bench{t: t, plane: plane, user: name, space: strings.Trim(fmt.Sprintf("%.60s", name), "-"), clock: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	var err error
	b.kube, err = kubernetes.NewForConfig(plane.AdminConfig())
	require.NoError(t, err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.space}}
	if _, err := b.kube.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	cfg := plane.UserConfig(b.user, "system:masters")
	b.Pods, err = New(cfg, httpClient(t, cfg))
	require.NoError(t, err)
	b.now = func() time.Time { return b.clock }
	return b
}

func httpClient(t *testing.T, cfg *rest.Config) *http.Client {
	t.Helper()
	out, err := rest.HTTPClientFor(cfg)
	require.NoError(t, err)
	return out
}

// replicated is a pod that its controller would make again elsewhere.
func replicated(p *corev1.Pod) { owned(p, "ReplicaSet") }

func daemon(p *corev1.Pod) { owned(p, "DaemonSet") }

func mirror(p *corev1.Pod) {
	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: p.Spec.NodeName, UID: "1", Controller: ptr.To(true)}}
}

func inHostNetwork(p *corev1.Pod) {
	replicated(p)
	p.Spec.HostNetwork = true
}

func withEmptyDir(p *corev1.Pod) {
	replicated(p)
	p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
}

func bare(*corev1.Pod) {}

func owned(p *corev1.Pod, kind string) {
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "owner", UID: "1", Controller: ptr.To(true)}}
}

// pod makes a pod that runs on a node.
func (b *bench) pod(node, name string, change func(*corev1.Pod)) *corev1.Pod {
	b.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}},
			TerminationGracePeriodSeconds: ptr.To(int64(77)),
		},
	}
	change(pod)
	out, err := b.kube.CoreV1().Pods(b.space).Create(b.t.Context(), pod, metav1.CreateOptions{})
	require.NoError(b.t, err)
	return b.phase(out, corev1.PodRunning)
}

func (b *bench) phase(pod *corev1.Pod, phase corev1.PodPhase) *corev1.Pod {
	b.t.Helper()
	pod.Status.Phase = phase
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	out, err := b.kube.CoreV1().Pods(b.space).UpdateStatus(b.t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(b.t, err)
	return out
}

// live is a pod as it is now, nil when it is gone.
func (b *bench) live(name string) *corev1.Pod {
	b.t.Helper()
	pod, err := b.kube.CoreV1().Pods(b.space).Get(b.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(b.t, err)
	return pod
}

func (b *bench) kill(name string) {
	b.t.Helper()
	require.NoError(b.t, b.kube.CoreV1().Pods(b.space).Delete(b.t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}))
}

// budget protects all pods of the namespace; counted says that its controller has seen them, and lets so many go.
func (b *bench) budget(name string, counted bool, allowed int32) {
	b.t.Helper()
	budgets := b.kube.PolicyV1().PodDisruptionBudgets(b.space)
	out, err := budgets.Create(b.t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(2)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	}, metav1.CreateOptions{})
	require.NoError(b.t, err)
	if !counted {
		return
	}
	out.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: out.Generation, DisruptionsAllowed: allowed, CurrentHealthy: 2 + allowed, DesiredHealthy: 2, ExpectedPods: 2,
	}
	_, err = budgets.UpdateStatus(b.t.Context(), out, metav1.UpdateOptions{})
	require.NoError(b.t, err)
}
