//go:build linux

package image

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/test/controlplane"
)

const (
	namespace = "rrpool-system"
	scraper   = "prometheus"
)

// cluster is one that the manager is installed in, as config says.
type cluster struct {
	plane      *controlplane.ControlPlane
	client     *kubernetes.Clientset
	deployment appsv1.Deployment
	secrets    string // the folder that the kubelet mounts
}

// repository is a path in it.
func repository(elements ...string) string {
	return filepath.Join(append([]string{"..", ".."}, elements...)...)
}

// install applies config/rbac, and reads config/manager.
func install(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{plane: controlplane.ForTest(t)}
	var err error
	c.client, err = kubernetes.NewForConfig(c.plane.AdminConfig())
	require.NoError(t, err)
	admin, err := client.New(c.plane.AdminConfig(), client.Options{})
	require.NoError(t, err)
	for _, path := range []string{"manager/namespace.yaml", "rbac/service_account.yaml", "rbac/role.yaml", "rbac/bindings.yaml", "rbac/metrics_reader.yaml"} {
		create(t, admin, repository("config", path))
	}
	content, err := os.ReadFile(repository("config", "manager", "deployment.yaml"))
	require.NoError(t, err)
	require.NoError(t, sigsyaml.UnmarshalStrict(content, &c.deployment))
	for _, o := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: scraper}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: scraper},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "rrpool-metrics-reader"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: scraper}},
		},
	} {
		require.NoError(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), o)))
	}
	c.secrets = t.TempDir()
	for name, content := range map[string]string{
		"ca.crt": string(c.plane.AdminConfig().CAData), "namespace": namespace,
		"token": c.token(t, c.deployment.Spec.Template.Spec.ServiceAccountName),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(c.secrets, name), []byte(content), 0o644))
	}
	require.NoError(t, os.Chmod(c.secrets, 0o755))
	return c
}

// create creates every object of a manifest.
func create(t *testing.T, admin client.Client, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	objects, err := controlplane.Objects(content)
	require.NoError(t, err, path)
	for _, o := range objects {
		require.NoError(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), o)), path)
	}
}

// token is one that the apiserver issues to a service account, as it does for a pod.
func (c *cluster) token(t *testing.T, account string) string {
	t.Helper()
	granted, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return granted.Status.Token
}

// container is the manager's; what the kubelet would have to do for it and this test does not is a failure.
func (c *cluster) container(t *testing.T) corev1.Container {
	t.Helper()
	pod := c.deployment.Spec.Template.Spec
	require.Len(t, pod.Containers, 1)
	require.Empty(t, pod.InitContainers)
	require.Empty(t, pod.Volumes)
	manager := pod.Containers[0]
	require.Empty(t, manager.Command, "the image says what runs")
	require.True(t, *manager.SecurityContext.ReadOnlyRootFilesystem)
	require.Equal(t, []corev1.Capability{"ALL"}, manager.SecurityContext.Capabilities.Drop)
	return manager
}

// command is the image's program with the pod's arguments.
func (c contents) command(manager corev1.Container) []string {
	return slices.Concat(c.config.Config.Entrypoint, manager.Args)
}

// environment is the image's, the pod's, and what every container finds of the cluster.
func (c *cluster) environment(t *testing.T, image contents, manager corev1.Container) []string {
	t.Helper()
	server, err := url.Parse(c.plane.AdminConfig().Host)
	require.NoError(t, err)
	env := append([]string{"HOSTNAME=" + hostname}, image.config.Config.Env...)
	env = append(env, "KUBERNETES_SERVICE_HOST="+server.Hostname(), "KUBERNETES_SERVICE_PORT="+server.Port())
	for _, v := range manager.Env {
		value := v.Value
		if v.ValueFrom != nil {
			require.Equal(t, "metadata.namespace", v.ValueFrom.FieldRef.FieldPath, v.Name)
			value = c.deployment.Namespace
		}
		env = append(env, v.Name+"="+value)
	}
	return env
}

// leader is the manager that holds the lease.
func (c *cluster) leader(ctx context.Context) (string, error) {
	lease, err := c.client.CoordinationV1().Leases(namespace).Get(ctx, "rrpool-manager", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return "", err
	}
	return *lease.Spec.HolderIdentity, nil
}
