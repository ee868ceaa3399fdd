package report

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/test/cli"
	"github.com/rrpool/rrpool/test/controlplane"
)

func docs(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("../../../docs/report.md")
	require.NoError(t, err)
	return string(content)
}

// roles are those of the docs.
func roles(t *testing.T) (everywhere rbacv1.ClusterRole, inNamespaces []rbacv1.Role) {
	t.Helper()
	for _, match := range regexp.MustCompile("(?s)\n```yaml\n(.*?)```\n").FindAllStringSubmatch(docs(t), -1) {
		for document := range strings.SplitSeq(match[1], "---\n") {
			if strings.Contains(document, "kind: ClusterRole\n") {
				require.NoError(t, yaml.UnmarshalStrict([]byte(document), &everywhere))
			} else {
				var role rbacv1.Role
				require.NoError(t, yaml.UnmarshalStrict([]byte(document), &role))
				inNamespaces = append(inNamespaces, role)
			}
		}
	}
	return everywhere, inNamespaces
}

// What the other tests believe about apiservers, seen on a real one: a user without any
// right gets a sentence, one with some a report of what may be read, and with the rights
// of the docs everything is in it.
func TestARealApiserver(t *testing.T) {
	plane := controlplane.ForTest(t)
	admin, err := kubernetes.NewForConfig(plane.AdminConfig())
	require.NoError(t, err)
	objects, err := dynamic.NewForConfig(plane.AdminConfig())
	require.NoError(t, err)
	fill(t, admin, objects)
	config, err := plane.UserConfig("reporter")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "report.tar.gz")
	args := []string{"--output-file", path, "--kubeconfig", cli.Kubeconfig(t, config)}

	got := ask(t, args...)
	require.Equal(t, 1, got.Code)
	lines := strings.Split(strings.TrimSpace(got.Err), "\n")
	cli.RequireSentence(t, lines[len(lines)-1]+"\n", "may not list", "ask for a ClusterRole")
	require.NoFileExists(t, path)

	everywhere, inNamespaces := roles(t)
	some := everywhere
	some.Rules = everywhere.Rules[:1]
	grant(t, admin, &some, nil)
	require.Eventually(t, func() bool {
		got = ask(t, args...)
		return got.Code == 0
	}, 2*time.Minute, 50*time.Millisecond)
	files, _ := unpack(t, path)
	require.Contains(t, files["objects/nodes.yaml"], "name: node-r")
	require.Contains(t, files["index.txt"], `may not list bgppeers.crd.projectcalico.org`)

	_, err = admin.RbacV1().ClusterRoles().Update(t.Context(), &everywhere, metav1.UpdateOptions{})
	require.NoError(t, err)
	for i := range inNamespaces {
		grant(t, admin, nil, &inNamespaces[i])
	}
	require.Eventually(t, func() bool {
		got = ask(t, args...)
		files, _ = unpack(t, path)
		return got.Code == 0 && !strings.Contains(files["index.txt"], "may not")
	}, 2*time.Minute, 200*time.Millisecond, "%s", files["index.txt"])
	for _, name := range []string{"objects/secrets.yaml", "objects/bgppeers.yaml", "objects/manager-deployments.yaml", "objects/calico-node-daemonsets.yaml", "snapshot.yaml"} {
		require.Contains(t, files, name)
	}
	require.Contains(t, files["snapshot.yaml"], "step:\n")
	require.NotContains(t, files["objects/nodes.yaml"], "managedFields")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, secret := range []string{ibmAPIKey, bgpPassword, envPassword} {
		require.NotContains(t, raw(t, content), secret)
	}
	require.Contains(t, files["objects/manager-deployments.yaml"], "IBMCLOUD_API_KEY")
}

// fill makes a cluster with a manager.
func fill(t *testing.T, admin kubernetes.Interface, objects dynamic.Interface) {
	t.Helper()
	ctx := t.Context()
	for _, name := range []string{"rrpool-system", "calico-system"} {
		_, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	_, err := admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-r", Annotations: map[string]string{"projectcalico.org/IPv4Address": "10.0.0.9/24"}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admin.CoreV1().Secrets("rrpool-system").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "rrpool-ibmcloud"}, StringData: map[string]string{"apikey": ibmAPIKey}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admin.CoreV1().Secrets("calico-system").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bgp"}, StringData: map[string]string{"password": bgpPassword}}, metav1.CreateOptions{})
	require.NoError(t, err)
	labels := map[string]string{"k8s-app": "calico-node"}
	pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "manager", Image: "image", Env: []corev1.EnvVar{{Name: "IBMCLOUD_API_KEY", Value: envPassword}, {Name: "NOTE", Value: "it was " + ibmAPIKey + " and " + bgpPassword}},
	}}}}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	_, err = admin.AppsV1().Deployments("rrpool-system").Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "rrpool-manager"}, Spec: appsv1.DeploymentSpec{Selector: selector, Template: pod}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admin.AppsV1().DaemonSets("calico-system").Create(ctx, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "calico-node", Labels: labels}, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: pod}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = objects.Resource(calico.WithResource("bgppeers")).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "crd.projectcalico.org/v1", "kind": "BGPPeer", "metadata": map[string]any{"name": "p"},
		"spec": map[string]any{"peerIP": "192.0.2.1", "asNumber": int64(65000), "password": map[string]any{"secretKeyRef": map[string]any{"name": "bgp", "key": "password"}}},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
}

func grant(t *testing.T, admin kubernetes.Interface, everywhere *rbacv1.ClusterRole, role *rbacv1.Role) {
	t.Helper()
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "reporter"}}
	if everywhere != nil {
		_, err := admin.RbacV1().ClusterRoles().Create(t.Context(), everywhere, metav1.CreateOptions{})
		require.NoError(t, err)
		_, err = admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: everywhere.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: everywhere.Name}, Subjects: subjects,
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	if role != nil {
		_, err := admin.RbacV1().Roles(role.Namespace).Create(t.Context(), role, metav1.CreateOptions{})
		require.NoError(t, err)
		_, err = admin.RbacV1().RoleBindings(role.Namespace).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}, Subjects: subjects,
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
}

// The docs name each flag that there is no other of, and each file of the golden report.
func TestWhatTheDocsSay(t *testing.T) {
	text, help := docs(t), ask(t, "--help").Out
	for _, flag := range slices.Compact(slices.Sorted(slices.Values(regexp.MustCompile(` --[a-z][a-z-]+`).FindAllString(text, -1)))) {
		require.Contains(t, help, flag+" ")
	}
	index, err := os.ReadFile(filepath.Join("testdata", "index.txt"))
	require.NoError(t, err)
	for _, match := range regexp.MustCompile(`(?m)^ {2}(objects/\S+|snapshot.yaml), `).FindAllStringSubmatch(string(index), -1) {
		require.Contains(t, text, "`"+strings.TrimPrefix(match[1], "objects/")+"`")
	}
}
