package deploy_test

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/cmd/wiring"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// excess is what objects give a pod that ours never needs. What a restricted pod may not have the apiserver refuses.
func excess(t *testing.T, objects []*object) []string {
	t.Helper()
	var out []string
	note := func(too bool, what string) {
		if too {
			out = append(out, what)
		}
	}
	for _, o := range objects {
		note(o.GetKind() == "Secret", "a Secret: applying an overlay again must not replace a key")
	}
	account := convert[corev1.ServiceAccount](t, first(t, objects, "ServiceAccount"))
	note(ptr.Deref(account.AutomountServiceAccountToken, true), "a token for pods that do not ask for it")
	pod := convert[appsv1.Deployment](t, first(t, objects, "Deployment")).Spec.Template.Spec
	note(len(pod.Volumes) > 0, "a volume")
	note(len(pod.InitContainers) > 0 || len(pod.Containers) > 1, "another container")
	manager := pod.Containers[0]
	note(!ptr.Deref(manager.SecurityContext.ReadOnlyRootFilesystem, false), "a root to write to")
	note(len(manager.EnvFrom) > 0, "an environment from elsewhere") // the key of IKS is read by name when it is needed
	for _, variable := range manager.Env {
		note(variable.ValueFrom != nil && variable.ValueFrom.SecretKeyRef != nil, "a Secret in "+variable.Name)
	}
	return out
}

func TestAnOverlayAllowsNothingThatIsNeverNeeded(t *testing.T) {
	require.Empty(t, excess(t, build(t, iksOverlay)))
	for want, spoil := range map[string]func(deployment, account map[string]any){
		"a token for pods that do not ask for it": func(_, account map[string]any) { delete(account, "automountServiceAccountToken") },
		"a volume": func(d, _ map[string]any) {
			set(t, d, []any{map[string]any{"name": "tmp"}}, "spec", "template", "spec", "volumes")
		},
	} {
		objects := build(t, iksOverlay)
		spoil(first(t, objects, "Deployment").Object, first(t, objects, "ServiceAccount").Object)
		require.Equal(t, []string{want}, excess(t, objects), "negative control")
	}
}

// With a trusted profile the manager has a token for IAM, where it looks for it, renewed and for an hour, and nothing else more.
func TestTheTokenForATrustedProfile(t *testing.T) {
	objects := build(t, with(t, "trusted-profile"))
	require.Equal(t, []string{"a volume"}, excess(t, objects))
	deployment := first(t, objects, "Deployment")
	pod := convert[appsv1.Deployment](t, deployment).Spec.Template.Spec
	require.Len(t, pod.Volumes, 1)
	require.Equal(t, []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
		Audience: "iam", ExpirationSeconds: ptr.To(int64(3600)), Path: "sa-token",
	}}}, pod.Volumes[0].Projected.Sources)
	require.Equal(t, []corev1.VolumeMount{{Name: pod.Volumes[0].Name, MountPath: filepath.Dir(wiring.TokenFile), ReadOnly: true}}, pod.Containers[0].VolumeMounts)
	require.Equal(t, "sa-token", filepath.Base(wiring.TokenFile))
	c, _ := deployed(t)
	_, err := c.try(t, deployment)
	require.NoError(t, err)
	_, err = c.try(t, podOf(t, deployment))
	require.NoError(t, err)
}

// granted and denied are what the manager may do by each of its roles, and what it may not do.
var (
	granted = map[string]authorizationv1.ResourceAttributes{
		"patch a node":                      ask("patch", "", "nodes", "", "n1"),
		"read the credentials":              ask("list", "", "secrets", "rrpool-system", ""),
		"read the cluster's id":             ask("get", "", "configmaps", "kube-system", "cluster-info"),
		"see whether calico-node runs BIRD": ask("get", "", "configmaps", "kube-system", "calico-config"),
	}
	denied = map[string]authorizationv1.ResourceAttributes{
		"do everything":                   ask("*", "*", "*", "", ""),
		"delete a node":                   ask("delete", "", "nodes", "", "n1"),
		"update a node":                   ask("update", "", "nodes", "", "n1"),
		"change a node's status":          ask("patch", "", "nodes", "", "n1", "status"),
		"delete a pod":                    ask("delete", "", "pods", "kube-system", "p"),
		"create its object":               ask("create", "rrpool.io", "routereflectorpools", "", "default"),
		"delete its object":               ask("delete", "rrpool.io", "routereflectorpools", "", "default"),
		"update another BGPConfiguration": ask("update", "crd.projectcalico.org", "bgpconfigurations", "", "node.n1"),
		"change a block affinity":         ask("update", "crd.projectcalico.org", "blockaffinities", "", "b"),
		"read the session password":       ask("get", "", "secrets", "kube-system", "bgp-reflectors"),
		"list all secrets":                ask("list", "", "secrets", "", ""),
		"change its credentials":          ask("update", "", "secrets", "rrpool-system", "rrpool-ibmcloud"),
		"read other configuration":        ask("get", "", "configmaps", "kube-system", "kubeadm-config"),
		"take another lease":              ask("update", "coordination.k8s.io", "leases", "rrpool-system", "other"),
		"run a command in a pod":          ask("create", "", "pods", "kube-system", "calico-node-x", "exec"),
		"make a token":                    ask("create", "", "serviceaccounts", "kube-system", "calico-node", "token"),
		"be another":                      ask("impersonate", "", "users", "", "admin"),
		"give itself more":                ask("update", "rbac.authorization.k8s.io", "clusterroles", "", "rrpool-manager"),
		"give more than it has":           ask("escalate", "rbac.authorization.k8s.io", "clusterroles", "", "rrpool-manager"),
		"bind itself to another role":     ask("bind", "rbac.authorization.k8s.io", "clusterroles", "", "cluster-admin"),
		"change the policies":             ask("delete", "admissionregistration.k8s.io", "validatingadmissionpolicies", "", "rrpool-nodes"),
	}
)

func ask(verb, group, resource, namespace, name string, subresource ...string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{
		Verb: verb, Group: group, Resource: resource, Namespace: namespace, Name: name,
		Subresource: strings.Join(subresource, ""),
	}
}

// The service account that the Deployment names exists, and has these rights by the bindings of the overlay.
func TestTheManagerMayDoItsWorkAndNoMore(t *testing.T) {
	c, objects := deployed(t)
	client, err := kubernetes.NewForConfig(c.plane.AdminConfig())
	require.NoError(t, err)
	user := policedUser(t, objects)
	require.True(t, strings.HasSuffix(user, ":"+first(t, objects, "ServiceAccount").GetName()), user)
	may := func(attributes authorizationv1.ResourceAttributes) bool {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &attributes}}
		review, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		require.NoError(t, err)
		return review.Status.Allowed
	}
	// Once all that is granted has been seen to be, nothing more is on its way.
	for name, attributes := range granted {
		require.Eventually(t, func() bool { return may(attributes) }, 2*time.Minute, 100*time.Millisecond, name)
	}
	for name, attributes := range denied {
		require.False(t, may(attributes), name)
	}
}

// The network policy is about the manager's pods, lets in no more than the metrics, and
// never stands between the manager and the apiserver, the resolver or the cloud.
func TestTheNetworkPolicyLetsInMetricsAndOutAll(t *testing.T) {
	objects := build(t, iksOverlay)
	policy := convert[networkingv1.NetworkPolicy](t, first(t, objects, "NetworkPolicy")).Spec
	pod := convert[appsv1.Deployment](t, first(t, objects, "Deployment")).Spec.Template
	require.True(t, selects(&policy.PodSelector, pod.Labels))
	require.Equal(t, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, policy.PolicyTypes)
	require.Len(t, policy.Ingress, 1)
	require.NotEmpty(t, policy.Ingress[0].From, "not every pod comes in")
	require.Len(t, policy.Ingress[0].Ports, 1)
	require.Equal(t, "metrics", policy.Ingress[0].Ports[0].Port.StrVal)
	require.Equal(t, "metrics", pod.Spec.Containers[0].Ports[0].Name)
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
	c, _ := deployed(t)
	sample, err := c.try(t, read(t, samples[iksOverlay])[0])
	require.NoError(t, err)
	reflectors := convert[v1alpha1.RouteReflectorPool](t, sample).Spec.Provider.IKS.Taint
	require.NotEmpty(t, reflectors.Key)
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

// unverified gives a field a value, or hands it on, that makes a client talk to any server: fields of crypto/tls, of client-go, and
// of the SDK of IBM Cloud.
var unverified = regexp.MustCompile(`\b(?:InsecureSkipVerify|Insecure|InsecureSkipTLSVerify|SSLDisable|VerifyPeerCertificate|VerifyConnection)` +
	`\b(?::| *=[^=]|\))`)

// No code of the product can be made to talk to a server that cannot prove who it is.
func TestNoCodeTalksToAnybody(t *testing.T) {
	var found []string
	count := 0
	for _, folder := range []string{"cloud", "cmd", "config", "controllers"} {
		require.NoError(t, filepath.WalkDir(path(folder), func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			count++
			at, err := filepath.Rel(path(), name)
			for _, field := range unverified.FindAllString(text(t, name), -1) {
				found = append(found, at+": "+field)
			}
			return err
		}))
	}
	require.Empty(t, found)
	require.Greater(t, count, 100, "the code was looked at")
	for _, source := range []string{
		"tls.Config{InsecureSkipVerify: true}", "c.InsecureSkipVerify = no()", "flag(&c.InsecureSkipVerify)",
		"rest.TLSClientConfig{Insecure: true}", "bluemix.Config{SSLDisable: true}",
	} {
		require.Regexp(t, unverified, source, "negative control")
	}
}
