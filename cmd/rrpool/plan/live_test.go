package plan

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/cli"
	"github.com/rrpool/rrpool/test/controlplane"
)

// On a real apiserver: what a user must be allowed, one right after the other, and the
// plan for a cluster with and without a RouteReflectorPool.
func TestARealApiserver(t *testing.T) {
	plane := controlplane.ForTest(t)
	admin := adminOf(t, plane)
	for i := range 5 {
		require.NoError(t, admin.Create(t.Context(), node(i)))
	}
	config, err := plane.UserConfig("planner")
	require.NoError(t, err)
	args := []string{"plan", "-o", "table", "--kubeconfig", cli.Kubeconfig(t, config)}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "rrpool-planner"}}
	require.NoError(t, admin.Create(t.Context(), role))
	require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "rrpool-planner"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "planner"}},
	}))
	rights := rightsOfTheDocs(t)
	for i, missing := range []string{"may not get routereflectorpools.rrpool.io", "", "crd.projectcalico.org"} {
		role.Rules = rights[:i]
		require.NoError(t, admin.Update(t.Context(), role))
		var got cli.Answer
		require.Eventually(t, func() bool {
			got = cli.Ask(t, New, args...)
			return got.Code == 1 && strings.Contains(got.Err, missing)
		}, 2*time.Minute, 50*time.Millisecond, missing)
		require.Empty(t, got.Out)
		cli.RequireSentence(t, got.Err)
	}
	role.Rules = rights[:3]
	require.NoError(t, admin.Update(t.Context(), role))
	got := eventually(t, 2, args...)
	require.Contains(t, got.Out, "The pods were not counted: the user of context \"rrpool\" may not list pods")
	require.Contains(t, got.Out, "Next: rrpool migrate")
	role.Rules = rights
	require.NoError(t, admin.Update(t.Context(), role))
	require.Eventually(t, func() bool {
		got = cli.Ask(t, New, args...)
		return got.Code == 2 && strings.Contains(got.Out, "runs no pods")
	}, 2*time.Minute, 50*time.Millisecond)
	require.Contains(t, got.Out, "√ No packet between pods is lost.")
	require.Contains(t, got.Out, "has no RouteReflectorPool")

	object := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	object.Spec.Mode = v1alpha1.ModeFullMesh
	require.NoError(t, admin.Create(t.Context(), object))
	got = cli.Ask(t, New, args...)
	require.Zero(t, got.Code, got.Err)
	require.Contains(t, got.Out, "There is nothing to do.")
	got = cli.Ask(t, New, append(args, "--mode", "RouteReflector")...)
	require.Equal(t, 2, got.Code)
	require.NotContains(t, got.Out, "has no RouteReflectorPool")
	got = cli.Ask(t, New, append(args, "-f", cli.File(t, head+"spec: {provider: {type: IKS}}"))...)
	require.Equal(t, 2, got.Code)
	require.Contains(t, got.Out, "‼ First: ClusterIDUnknown")
	require.Contains(t, got.Out, "Next: rrpool check")

	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "bgppeers.crd.projectcalico.org"}}
	require.NoError(t, admin.Delete(t.Context(), crd))
	require.Eventually(t, func() bool { // the CRD goes by and by: its watch may end before its list does
		got = cli.Ask(t, New, args...)
		return got.Code == 1 && strings.Contains(got.Err, "CalicoNotInstalled")
	}, 2*time.Minute, 50*time.Millisecond)
	cli.RequireSentence(t, got.Err, "CalicoNotInstalled")
}

// eventually asks until the code is the one that is expected.
func eventually(t *testing.T, code int, args ...string) cli.Answer {
	t.Helper()
	var got cli.Answer
	require.Eventually(t, func() bool {
		got = cli.Ask(t, New, args...)
		return got.Code == code
	}, 2*time.Minute, 50*time.Millisecond)
	return got
}

func adminOf(t *testing.T, plane *controlplane.ControlPlane) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, rbacv1.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	admin, err := client.New(plane.AdminConfig(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	return admin
}

func node(i int) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("node-%d", i), Labels: map[string]string{corev1.LabelTopologyZone: "a"},
			Annotations: map[string]string{"projectcalico.org/IPv4Address": fmt.Sprintf("10.9.0.%d/24", i+1)},
		},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

func TestClustersThatDoNotAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		kubeconfig string
		says       []string
	}{
		"nobody listens": {cli.Kubeconfig(t, &rest.Config{Host: cli.Unreachable}), []string{"cannot be reached", "connection refused"}},
		"silence": {
			cli.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })),
			[]string{"did not answer within 2s", "give more --request-timeout"},
		},
		"no CRD": {cli.Serve(t, http.NotFoundHandler()), []string{"does not know routereflectorpools.rrpool.io", "install rrpool's CRD"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := cli.Ask(t, New, "plan", "--kubeconfig", tc.kubeconfig, "--request-timeout", "2s")
			require.Equal(t, 1, got.Code)
			require.Empty(t, got.Out)
			cli.RequireSentence(t, got.Err, tc.says...)
		})
	}
}

// A server that lists but never answers a watch does not hold the command up.
func TestAWatchThatHangs(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	path := cli.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Query().Get("watch") != "":
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		case strings.HasSuffix(r.URL.Path, "/routereflectorpools/default"):
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","code":404,"reason":"NotFound","details":{"group":"rrpool.io","kind":"routereflectorpools","name":"default"}}`))
		case strings.HasSuffix(r.URL.Path, "/nodes"):
			_, _ = w.Write([]byte(`{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}`))
		default:
			_, _ = w.Write([]byte(`{"kind":"List","apiVersion":"crd.projectcalico.org/v1","metadata":{"resourceVersion":"7"},"items":[]}`))
		}
	}))
	done := make(chan cli.Answer, 1)
	go func() { done <- cli.Ask(t, New, "plan", "--kubeconfig", path, "--request-timeout", "2s") }()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		require.Fail(t, "the command hangs")
	}
}
