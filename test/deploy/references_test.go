package deploy_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// reference is something that an object names.
type reference struct {
	from            string
	gvk             schema.GroupVersionKind
	namespace, name string
}

func (r reference) String() string {
	return fmt.Sprintf("%s names %s %s in namespace %q, which does not exist", r.from, r.gvk.Kind, r.name, r.namespace)
}

func TestWhatAnOverlayNamesExists(t *testing.T) {
	for _, overlay := range overlays(t) {
		t.Run(overlay, func(t *testing.T) {
			c, objects := deployed(t, overlay)
			require.Empty(t, c.dangling(t, objects))
			deployment := convert[appsv1.Deployment](t, first(t, objects, "Deployment"))
			account := rbacv1.Subject{
				Kind: rbacv1.ServiceAccountKind, Namespace: deployment.Namespace, Name: deployment.Spec.Template.Spec.ServiceAccountName,
			}
			for _, kind := range []string{"ClusterRoleBinding", "RoleBinding"} {
				require.NotEmpty(t, bound(t, objects, kind, account), "no %s gives rights to %s", kind, account.Name)
			}
			for _, o := range objects {
				require.NotEqual(t, "Secret", o.GetKind(), "applying an overlay again must not replace a key")
			}
			// The key of IKS is read by name when it is needed; no pod waits for it.
			for _, container := range deployment.Spec.Template.Spec.Containers {
				require.Empty(t, container.EnvFrom)
				for _, variable := range container.Env {
					require.True(t, variable.ValueFrom == nil || variable.ValueFrom.SecretKeyRef == nil, variable.Name)
				}
			}
		})
	}
}

// Negative controls for the test above.
func TestWhatIsMissingIsNamed(t *testing.T) {
	c, objects := deployed(t, kindOverlay)
	cases := map[string]struct {
		kind  string
		spoil func(o *object)
		want  string
	}{
		"a service account that is not there": {
			kind: "Deployment",
			spoil: func(o *object) {
				require.NoError(t, unstructured.SetNestedField(o.Object, "rrpool", "spec", "template", "spec", "serviceAccountName"))
			},
			want: `Deployment rrpool-manager names ServiceAccount rrpool in namespace "rrpool-system", which does not exist`,
		},
		"a role in another namespace": {
			kind:  "RoleBinding",
			spoil: func(o *object) { o.SetNamespace("kube-public") },
			want:  `RoleBinding rrpool-manager names Role rrpool-manager in namespace "kube-public", which does not exist`,
		},
		"a cluster role that is not there": {
			kind: "ClusterRoleBinding",
			spoil: func(o *object) {
				require.NoError(t, unstructured.SetNestedField(o.Object, "rrpool", "roleRef", "name"))
			},
			want: `ClusterRoleBinding rrpool-manager names ClusterRole rrpool in namespace "", which does not exist`,
		},
		"a priority class that is not there": {
			kind: "Deployment",
			spoil: func(o *object) {
				require.NoError(t, unstructured.SetNestedField(o.Object, "urgent", "spec", "template", "spec", "priorityClassName"))
			},
			want: `Deployment rrpool-manager names PriorityClass urgent in namespace "", which does not exist`,
		},
	}
	for name, missing := range cases {
		t.Run(name, func(t *testing.T) {
			o := first(t, objects, missing.kind).DeepCopy()
			missing.spoil(o)
			require.Equal(t, []string{missing.want}, c.dangling(t, []*object{o}))
		})
	}
}

// dangling are the references of objects to what the cluster does not have.
func (c *cluster) dangling(t *testing.T, objects []*object) []string {
	t.Helper()
	var out []string
	for _, o := range objects {
		for _, r := range references(t, o) {
			target := &object{}
			target.SetGroupVersionKind(r.gvk)
			target.SetNamespace(r.namespace)
			target.SetName(r.name)
			if _, err := c.get(t, target); err != nil {
				out = append(out, r.String())
			}
		}
	}
	return out
}

// references are what an object of an overlay names, as far as no other test looks.
func references(t *testing.T, o *object) []reference {
	t.Helper()
	from := o.GetKind() + " " + o.GetName()
	core, rbac := corev1.SchemeGroupVersion, rbacv1.SchemeGroupVersion
	var out []reference
	add := func(gvk schema.GroupVersionKind, namespace, name string) {
		out = append(out, reference{from: from, gvk: gvk, namespace: namespace, name: name})
	}
	switch o.GetKind() {
	case "Deployment":
		pod := convert[appsv1.Deployment](t, o).Spec.Template.Spec
		add(core.WithKind("Namespace"), "", o.GetNamespace())
		add(core.WithKind("ServiceAccount"), o.GetNamespace(), pod.ServiceAccountName)
		add(schema.GroupVersionKind{Group: "scheduling.k8s.io", Version: "v1", Kind: "PriorityClass"}, "", pod.PriorityClassName)
	case "RoleBinding", "ClusterRoleBinding":
		// A RoleBinding holds all that a ClusterRoleBinding does.
		binding := convert[rbacv1.RoleBinding](t, o)
		namespace := o.GetNamespace()
		if binding.RoleRef.Kind == "ClusterRole" {
			namespace = ""
		}
		add(rbac.WithKind(binding.RoleRef.Kind), namespace, binding.RoleRef.Name)
		for _, subject := range binding.Subjects {
			add(core.WithKind(subject.Kind), subject.Namespace, subject.Name)
		}
	}
	return out
}

// bound are the names of the bindings that give an account rights.
func bound(t *testing.T, objects []*object, kind string, account rbacv1.Subject) []string {
	t.Helper()
	var out []string
	for _, o := range objects {
		if o.GetKind() == kind && slices.Contains(convert[rbacv1.RoleBinding](t, o).Subjects, account) {
			out = append(out, o.GetName())
		}
	}
	return out
}

func convert[T any](t *testing.T, o *object) *T {
	t.Helper()
	out := new(T)
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out))
	return out
}

func unstructuredOf(t *testing.T, o any) *object {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	require.NoError(t, err)
	return &object{Object: content}
}
