package importenv

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/test/cli"
	"github.com/rrpool/rrpool/test/controlplane"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	controlplane.Main(m)
}

func docs(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("../../../docs/takeover.md")
	require.NoError(t, err)
	return string(content)
}

var blocks = regexp.MustCompile("(?s)\n```(yaml|console)\n(.*?)```\n")

// The example of the docs begins as the real output does, its flags are real, and each
// variable is named.
func TestWhatTheDocsSay(t *testing.T) {
	text := docs(t)
	for _, match := range blocks.FindAllStringSubmatch(text, -1) {
		if match[1] != "console" {
			continue
		}
		t.Chdir(t.TempDir())
		require.NoError(t, os.WriteFile("operator.env", []byte(datastore+"=incluster\n"), 0o600))
		command, want, _ := strings.Cut(match[2], "\n")
		got := ask(t, strings.Fields(command)[3:]...)
		require.True(t, strings.HasPrefix(got.Out, want), got.Out)
	}
	for _, name := range known {
		require.Contains(t, text, "`"+name+"`")
	}
	help := ask(t, "--help").Out
	for _, flag := range slices.Compact(slices.Sorted(slices.Values(regexp.MustCompile("--[a-z][a-z-]+").FindAllString(text, -1)))) {
		require.Contains(t, help, flag+" ")
	}
}

// What the other tests believe about apiservers, seen on a real one: the rights of the
// docs are enough, and without them a sentence says what is missing.
func TestARealApiserver(t *testing.T) {
	plane := controlplane.ForTest(t)
	admin, err := kubernetes.NewForConfig(plane.AdminConfig())
	require.NoError(t, err)
	config, err := plane.UserConfig("taker")
	require.NoError(t, err)
	args := []string{"--takeover", "--kubeconfig", cli.Kubeconfig(t, config)}
	got := ask(t, args...)
	require.Equal(t, 1, got.Code)
	require.Contains(t, got.Err, "may not list nodes")

	var role rbacv1.ClusterRole
	for _, match := range blocks.FindAllStringSubmatch(docs(t), -1) {
		if match[1] == "yaml" {
			require.NoError(t, yaml.UnmarshalStrict([]byte(match[2]), &role))
		}
	}
	_, err = admin.RbacV1().ClusterRoles().Create(t.Context(), &role, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "taker"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	for _, name := range []string{"a", "b"} {
		_, err = admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{oldNodeLabel: ""}, Annotations: map[string]string{addrAnnotation: "10.0.0.1/24", idAnnotation: "224.0.0.0"},
		}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		got = ask(t, args...)
		return got.Code == 0
	}, 2*time.Minute, 50*time.Millisecond)
	require.Contains(t, got.Out, "reflector   a, cluster ID 224.0.0.0, 0 pods")
	require.Contains(t, got.Out, "Watch the sessions")
	require.NotContains(t, got.Out, "not readable")
	got = ask(t, "--from-cluster", "--kubeconfig", cli.Kubeconfig(t, config))
	require.Equal(t, 1, got.Code)
	cli.RequireSentence(t, got.Err, "has no Deployment of the operator")
}
