package deploy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

// excess is what roles allow that nothing of ours is ever to be allowed, and pods that have more than they need.
func excess(t *testing.T, objects []*object) []string {
	t.Helper()
	var out []string
	for _, o := range objects {
		switch o.GetKind() {
		case "Role", "ClusterRole":
			for _, rule := range convert[rbacv1.Role](t, o).Rules {
				out = append(out, tooMuch(o.GetKind(), rule)...)
			}
		case "ClusterRoleBinding":
			if name := convert[rbacv1.ClusterRoleBinding](t, o).RoleRef.Name; name != "rrpool-manager" {
				out = append(out, "binds "+name)
			}
		case "Deployment":
			out = append(out, tooFree(convert[appsv1.Deployment](t, o).Spec.Template.Spec)...)
		}
	}
	return out
}

// never are resources that no verb is given for, and verbs of which only some are.
var (
	never = []string{
		"pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "pods/ephemeralcontainers", "nodes/status", "nodes/proxy",
		"serviceaccounts", "serviceaccounts/token", "roles", "clusterroles", "rolebindings", "clusterrolebindings",
		"validatingadmissionpolicies", "validatingadmissionpolicybindings", "customresourcedefinitions", "certificatesigningrequests",
	}
	only = map[string][]string{
		"nodes": {"list", "watch", "patch"}, "pods": {"list", "watch"}, "pods/eviction": {"create"}, "secrets": {"list", "watch"},
		"configmaps": {"get"}, "blockaffinities": {"list", "watch"},
	}
)

func tooMuch(kind string, rule rbacv1.PolicyRule) []string {
	var out []string
	for _, word := range slices.Concat(rule.Verbs, rule.Resources, rule.APIGroups, rule.NonResourceURLs) {
		if strings.Contains(word, "*") || slices.Contains([]string{"escalate", "bind", "impersonate", "deletecollection"}, word) {
			out = append(out, word)
		}
	}
	for _, resource := range rule.Resources {
		if slices.Contains(never, resource) || resource == "secrets" && kind == "ClusterRole" {
			out = append(out, resource+" in a "+kind)
		}
		for _, verb := range rule.Verbs {
			if some, ok := only[resource]; ok && !slices.Contains(some, verb) {
				out = append(out, verb+" "+resource)
			}
		}
	}
	return out
}

func tooFree(pod corev1.PodSpec) []string {
	var out []string
	for _, v := range pod.Volumes {
		out = append(out, "volume "+v.Name)
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		if s := c.SecurityContext; s == nil || !ptr.Deref(s.ReadOnlyRootFilesystem, false) {
			out = append(out, c.Name+" may write to its root")
		}
		if c.SecurityContext == nil || c.SecurityContext.Capabilities == nil || len(c.SecurityContext.Capabilities.Add) > 0 {
			out = append(out, c.Name+" has capabilities")
		}
	}
	return out
}

func TestAnOverlayAllowsNothingThatIsNeverNeeded(t *testing.T) {
	for _, overlay := range overlays(t) {
		objects := build(t, overlay)
		require.Empty(t, excess(t, objects), overlay)
		account := first(t, objects, "ServiceAccount")
		automount, found, err := unstructured.NestedBool(account.Object, "automountServiceAccountToken")
		require.NoError(t, err)
		require.True(t, found && !automount, "a pod that does not ask for the token does not get it")
	}
}

// Negative controls for the test above.
func TestWhatIsNeverNeededIsNamed(t *testing.T) {
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	for want, added := range map[string]rbacv1.PolicyRule{
		"secrets in a ClusterRole":               rule("", "secrets", "get"),
		"pods/exec in a ClusterRole":             rule("", "pods/exec", "create"),
		"nodes/status in a ClusterRole":          rule("", "nodes/status", "patch"),
		"serviceaccounts/token in a ClusterRole": rule("", "serviceaccounts/token", "create"),
		"clusterroles in a ClusterRole":          rule("rbac.authorization.k8s.io", "clusterroles", "get"),
		"delete nodes":                           rule("", "nodes", "delete"),
		"update nodes":                           rule("", "nodes", "update"),
		"delete pods":                            rule("", "pods", "delete"),
		"escalate":                               rule("rbac.authorization.k8s.io", "x", "escalate"),
		"impersonate":                            rule("", "users", "impersonate"),
		"*":                                      rule("rrpool.io", "routereflectorpools", "*"),
		"*/status":                               rule("rrpool.io", "*/status", "get"),
	} {
		role := first(t, build(t, kindOverlay), "ClusterRole").DeepCopy()
		doctored := convert[rbacv1.ClusterRole](t, role)
		doctored.Rules = append(doctored.Rules, added)
		require.Contains(t, excess(t, []*object{unstructuredOf(t, doctored)}), want)
	}
	deployment := convert[appsv1.Deployment](t, first(t, build(t, kindOverlay), "Deployment"))
	deployment.Spec.Template.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem = nil
	require.Contains(t, excess(t, []*object{unstructuredOf(t, deployment)}), "manager may write to its root")
	binding := convert[rbacv1.ClusterRoleBinding](t, first(t, build(t, kindOverlay), "ClusterRoleBinding"))
	binding.RoleRef.Name = "cluster-admin"
	require.Contains(t, excess(t, []*object{unstructuredOf(t, binding)}), "binds cluster-admin")
}

// The namespace admits restricted pods only: whatever makes the manager's pod less so, the apiserver refuses.
func TestALessRestrictedPodIsNotAdmitted(t *testing.T) {
	c, objects := deployed(t, kindOverlay)
	container := []string{"spec", "containers"}
	for name, spoil := range map[string]func(pod, container map[string]any){
		"as root":       func(pod, _ map[string]any) { set(t, pod, int64(0), "spec", "securityContext", "runAsUser") },
		"maybe as root": func(pod, _ map[string]any) { set(t, pod, false, "spec", "securityContext", "runAsNonRoot") },
		"without seccomp": func(pod, _ map[string]any) {
			set(t, pod, "Unconfined", "spec", "securityContext", "seccompProfile", "type")
		},
		"with the host's pids":  func(pod, _ map[string]any) { set(t, pod, true, "spec", "hostPID") },
		"that can gain more":    func(_, c map[string]any) { set(t, c, true, "securityContext", "allowPrivilegeEscalation") },
		"with a capability":     func(_, c map[string]any) { set(t, c, []any{"NET_ADMIN"}, "securityContext", "capabilities", "add") },
		"with all capabilities": func(_, c map[string]any) { set(t, c, []any{}, "securityContext", "capabilities", "drop") },
		"with a port of a host": func(_, c map[string]any) {
			set(t, c, []any{map[string]any{"containerPort": int64(1), "hostPort": int64(1)}}, "ports")
		},
		"with a disk of a host": func(pod, _ map[string]any) {
			set(t, pod, []any{map[string]any{"name": "h", "hostPath": map[string]any{"path": "/"}}}, "spec", "volumes")
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf(t, first(t, objects, "Deployment").DeepCopy())
			containers, _, err := unstructured.NestedSlice(pod.Object, container...)
			require.NoError(t, err)
			spoil(pod.Object, containers[0].(map[string]any)) //nolint:forcetypeassert // as the apiserver took it
			require.NoError(t, unstructured.SetNestedSlice(pod.Object, containers, container...))
			_, err = c.try(t, pod)
			require.True(t, apierrors.IsForbidden(err), "%v", err)
			require.ErrorContains(t, err, `violates PodSecurity "restricted:latest"`)
		})
	}
}

func set(t *testing.T, o map[string]any, value any, fields ...string) {
	t.Helper()
	require.NoError(t, unstructured.SetNestedField(o, value, fields...))
}

// The network policy is about the manager's pods, lets in no more than the metrics, and
// never stands between the manager and the apiserver, the resolver or the cloud.
func TestTheNetworkPolicyLetsInMetricsAndOutAll(t *testing.T) {
	for _, overlay := range overlays(t) {
		objects := build(t, overlay)
		require.Empty(t, badPolicy(t, objects), overlay)
	}
	for want, spoil := range map[string]func(*networkingv1.NetworkPolicy){
		"it is not about the manager": func(p *networkingv1.NetworkPolicy) { p.Spec.PodSelector.MatchLabels = map[string]string{"a": "b"} },
		"it holds back what goes out": func(p *networkingv1.NetworkPolicy) {
			p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		},
		"port pprof is none of the manager's": func(p *networkingv1.NetworkPolicy) { p.Spec.Ingress[0].Ports[0].Port.StrVal = "pprof" },
		"every pod comes in":                  func(p *networkingv1.NetworkPolicy) { p.Spec.Ingress[0].From = nil },
		"every port is open":                  func(p *networkingv1.NetworkPolicy) { p.Spec.Ingress[0].Ports = nil },
	} {
		objects := build(t, kindOverlay)
		for i, o := range objects {
			if o.GetKind() == "NetworkPolicy" {
				policy := convert[networkingv1.NetworkPolicy](t, o)
				spoil(policy)
				objects[i] = unstructuredOf(t, policy)
			}
		}
		require.Equal(t, []string{want}, badPolicy(t, objects), "negative control")
	}
}

func badPolicy(t *testing.T, objects []*object) []string {
	t.Helper()
	policy := convert[networkingv1.NetworkPolicy](t, first(t, objects, "NetworkPolicy")).Spec
	pod := convert[appsv1.Deployment](t, first(t, objects, "Deployment")).Spec.Template
	var out []string
	for key, value := range policy.PodSelector.MatchLabels {
		if pod.Labels[key] != value {
			out = append(out, "it is not about the manager")
		}
	}
	if !slices.Equal(policy.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) {
		out = append(out, "it holds back what goes out")
	}
	for _, rule := range policy.Ingress {
		if len(rule.From) == 0 {
			out = append(out, "every pod comes in")
		}
		if len(rule.Ports) == 0 {
			out = append(out, "every port is open")
		}
		for _, port := range rule.Ports {
			open := slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == port.Port.StrVal })
			if !open || port.Port.StrVal != "metrics" {
				out = append(out, fmt.Sprintf("port %s is none of the manager's", port.Port.String()))
			}
		}
	}
	return out
}
