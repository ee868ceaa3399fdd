package cost

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/cli"
	"github.com/rrpool/rrpool/test/controlplane"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	controlplane.Main(m)
}

// A real apiserver answers as the other tests assume for a missing right, object and CRD,
// and the two rights of the docs are enough.
func TestARealApiserver(t *testing.T) {
	plane := controlplane.ForTest(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, rbacv1.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	admin, err := client.New(plane.AdminConfig(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	config, err := plane.UserConfig("reader")
	require.NoError(t, err)
	args := []string{"cost", "--kubeconfig", cli.Kubeconfig(t, config)}

	got := ask(t, args...)
	require.Equal(t, 1, got.Code)
	cli.RequireSentence(t, got.Err, "may not get routereflectorpools.rrpool.io")

	written, _, _ := docs(t)
	role := written.DeepCopy()
	role.Rules = role.Rules[:1]
	require.NoError(t, admin.Create(t.Context(), role))
	require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "rrpool-reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "reader"}},
	}))
	require.Eventually(t, func() bool {
		got = ask(t, args...)
		return got.Code == 1 && got.Err != "" && !strings.Contains(got.Err, "routereflectorpools")
	}, 2*time.Minute, 50*time.Millisecond)
	cli.RequireSentence(t, got.Err, "may not list nodes")

	role.Rules = written.Rules
	require.NoError(t, admin.Update(t.Context(), role))
	require.Eventually(t, func() bool {
		got = ask(t, args...)
		return got.Code == 0
	}, 2*time.Minute, 50*time.Millisecond)
	require.Contains(t, got.Out, "The cluster has no RouteReflectorPool.")

	object := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	require.NoError(t, admin.Create(t.Context(), object))
	for i, node := range migrated().nodes {
		node.Name = fmt.Sprintf("node-%d", i)
		require.NoError(t, admin.Create(t.Context(), &node))
	}
	got = ask(t, args...)
	require.Zero(t, got.Code, got.Err)
	require.Contains(t, got.Out, "the pool of 6 workers")
	require.Contains(t, got.Out, "4.6 %")

	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "routereflectorpools.rrpool.io"}}
	require.NoError(t, admin.Delete(t.Context(), crd))
	require.Eventually(t, func() bool {
		got = ask(t, args...)
		return got.Code == 1
	}, 2*time.Minute, 50*time.Millisecond)
	cli.RequireSentence(t, got.Err, "does not know routereflectorpools.rrpool.io", "install rrpool's CRD")
}
