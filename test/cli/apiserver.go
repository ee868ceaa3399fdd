package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/test/controlplane"
)

// Apiserver is a real apiserver, and a user who has the rights of Grant.
type Apiserver struct {
	*testing.T
	*controlplane.ControlPlane
	// Admin has all rights.
	Admin client.Client
	user  string
}

// RealApiserver returns the apiserver that all tests of a binary share: see controlplane.ForTest.
func RealApiserver(t *testing.T, user string) *Apiserver {
	t.Helper()
	plane, scheme := controlplane.ForTest(t), runtime.NewScheme()
	require.NoError(t, errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	admin, err := client.New(plane.AdminConfig(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	return &Apiserver{t, plane, admin, user}
}

// Main is the TestMain of a package that calls RealApiserver.
func Main(m *testing.M) {
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	calico.RedirectLogs(logr.Discard())
	controlplane.Main(m)
}

// Kubeconfig returns the path of the user's kubeconfig.
func (a *Apiserver) Kubeconfig() string {
	a.Helper()
	return Kubeconfig(a.T, a.UserConfig(a.user))
}

// Create creates objects, which are deleted at the end of the test, except namespaces.
func (a *Apiserver) Create(objects ...client.Object) {
	a.Helper()
	for _, o := range objects {
		err := a.Admin.Create(a.Context(), o)
		if _, stays := o.(*corev1.Namespace); stays && (err == nil || apierrors.IsAlreadyExists(err)) {
			continue
		}
		require.NoError(a, err, o.GetName())
		a.Cleanup(func() { require.NoError(a, client.IgnoreNotFound(a.Admin.Delete(context.Background(), o))) })
	}
}

// Node creates a Ready node that speaks BGP. edits may change it before.
func (a *Apiserver) Node(name, zone, address string, edits ...func(*corev1.Node)) {
	a.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}, Annotations: map[string]string{"projectcalico.org/IPv4Address": address + "/24"},
	}}
	for _, edit := range edits {
		edit(node)
	}
	a.Create(node)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	require.NoError(a, a.Admin.Status().Update(a.Context(), node))
}

// Calico creates one of Calico's objects from YAML.
func (a *Apiserver) Calico(content string, args ...any) {
	a.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(a, yaml.Unmarshal(fmt.Appendf(nil, content, args...), &object.Object))
	object.SetAPIVersion("crd.projectcalico.org/v1")
	a.Create(object)
}

// Grant creates or updates a role of the user: a Role or, without a namespace, a ClusterRole, with exactly these rules.
func (a *Apiserver) Grant(meta metav1.ObjectMeta, rules ...rbacv1.PolicyRule) {
	a.Helper()
	meta = metav1.ObjectMeta{Name: meta.Name, Namespace: meta.Namespace}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: a.user}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name}
	var role, binding client.Object = &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	if meta.Namespace != "" {
		ref.Kind = "Role"
		role, binding = &rbacv1.Role{ObjectMeta: meta, Rules: rules}, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	}
	existing := role.DeepCopyObject().(client.Object) //nolint:forcetypeassert // it is one
	if err := a.Admin.Get(a.Context(), client.ObjectKeyFromObject(role), existing); apierrors.IsNotFound(err) {
		a.Create(role, binding)
		return
	}
	require.NoError(a, a.Admin.Update(a.Context(), role))
}

// Eventually repeats a command until its answer is as wanted, because new rights take a moment.
func (a *Apiserver) Eventually(ask func() Answer, wanted func(Answer) bool) Answer {
	a.Helper()
	var got Answer
	require.Eventually(a, func() bool {
		got = ask()
		return wanted(got)
	}, 2*time.Minute, 50*time.Millisecond, "%v", &got)
	return got
}
