package peering

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/calico"
	"github.com/rrpool/rrpool/controllers/plan/peering"
	"github.com/rrpool/rrpool/test/cli"
)

func TestMain(m *testing.M) { cli.Main(m) }

const namespace = "rrpool-system"

// remote is a cluster without what the command makes. The control plane has no controllers.
func remote(t *testing.T) *cli.Apiserver {
	t.Helper()
	a := cli.RealApiserver(t, "admin-of-b")
	a.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	a.Calico("kind: BGPConfiguration\nmetadata: {name: default}\nspec: {asNumber: 64513}")
	a.Calico("kind: IPPool\nmetadata: {name: pods}\nspec: {cidr: 10.245.0.0/16}")
	a.Create(&v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	t.Cleanup(func() {
		in := metav1.ObjectMeta{Name: remoteName, Namespace: namespace}
		for _, o := range []client.Object{&corev1.Secret{ObjectMeta: in}, &corev1.ServiceAccount{ObjectMeta: in}, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: remoteName + "-" + namespace}}} {
			require.NoError(t, client.IgnoreNotFound(a.Admin.Delete(context.Background(), o)))
		}
	})
	return a
}

// issue does what kube-controller-manager does: it fills in the Secret with the token of its ServiceAccount.
func issue(a *cli.Apiserver) {
	a.Helper()
	secret := &corev1.Secret{}
	require.NoError(a, a.Admin.Get(a.Context(), client.ObjectKey{Namespace: namespace, Name: remoteName}, secret))
	require.Equal(a, corev1.SecretTypeServiceAccountToken, secret.Type)
	require.Equal(a, remoteName, secret.Annotations[corev1.ServiceAccountNameKey])
	account, token := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: remoteName, Namespace: namespace}}, &authenticationv1.TokenRequest{}
	require.NoError(a, a.Admin.SubResource("token").Create(a.Context(), account, token))
	secret.Data = map[string][]byte{"token": []byte(token.Status.Token), "ca.crt": a.AdminConfig().CAData}
	require.NoError(a, a.Admin.Update(a.Context(), secret))
}

// What is printed is enough to read what a ClusterPeering needs, and for nothing else.
func TestTheKubeconfig(t *testing.T) {
	a := remote(t)
	args := []string{"peering", "kubeconfig", "--kubeconfig", cli.Kubeconfig(t, a.AdminConfig())}
	got := cli.Ask(t, New, args...)
	require.Equal(t, 1, got.Code)
	require.Empty(t, got.Out)
	cli.RequireSentence(t, got.Err, "has no ClusterRole rrpool-remote", "install rrpool there first")

	role := &rbacv1.ClusterRole{}
	require.NoError(t, yaml.UnmarshalStrict(source(t, "config/rbac/remote.yaml"), role))
	a.Create(role)
	got = cli.Ask(t, New, append(args, "--request-timeout", "1s")...)
	require.Equal(t, 1, got.Code)
	cli.RequireSentence(t, got.Err, "secret rrpool-system/rrpool-remote has got no token within 1s")

	issue(a)
	got = cli.Ask(t, New, args...)
	require.Zero(t, got.Code, got.Err)
	require.Equal(t, "‼ "+a.AdminConfig().Host+" can be reached from this machine only: call it again with --server and an address for the other cluster\n"+
		"Next: put this into a Secret in the other cluster; --secret <name> prints one for kubectl --namespace rrpool-system apply -f -\n", got.Err)
	require.Equal(t, got, cli.Ask(t, New, args...), "a second call finds it all")

	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(got.Out))
	require.NoError(t, err)
	require.Equal(t, &rest.Config{
		Host: a.AdminConfig().Host, BearerToken: config.BearerToken, TLSClientConfig: rest.TLSClientConfig{CAData: a.AdminConfig().CAData},
	}, config, "it holds all that it needs, and nothing of its admin")
	var side peering.Side
	a.Eventually(func() cli.Answer {
		side, err = calico.ReadSide(t.Context(), config)
		return cli.Answer{}
	}, func(cli.Answer) bool { return err == nil })
	require.EqualValues(t, 64513, side.ASN)
	require.Len(t, side.Pods, 1)
	user, err := client.New(config, client.Options{})
	require.NoError(t, err)
	require.True(t, apierrors.IsForbidden(user.List(t.Context(), &corev1.SecretList{})))

	got = cli.Ask(t, New, append(args, "--server", "https://b.example.com:6443", "--secret", "cluster-b")...)
	secret := &corev1.Secret{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(got.Out), secret))
	require.Equal(t, "cluster-b", secret.Name)
	require.Contains(t, secret.StringData["kubeconfig"], "server: https://b.example.com:6443\n")
	require.Empty(t, got.Err)
}

// The page about peerings names every field of the spec, every reason, and what the command leaves in a cluster.
func TestWhatTheDocsName(t *testing.T) {
	page := cli.Page(t, "peering")
	var definition apiextensionsv1.CustomResourceDefinition
	require.NoError(t, yaml.Unmarshal(source(t, "config/crd/rrpool.io_clusterpeerings.yaml"), &definition))
	schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	for name, field := range schema.Properties {
		if !strings.Contains(page, "| `spec."+name+"` |") {
			for part := range field.Properties {
				require.Contains(t, page, "`spec."+name+"."+part+"`")
			}
		}
	}
	for part := range schema.Properties["remote"].Properties["static"].Properties {
		require.Contains(t, page, "`"+part+"`")
	}
	reasons := regexp.MustCompile(`"([A-Z][A-Za-z]+)"(?:,|$)`)
	found := 0
	for _, file := range []string{"controllers/plan/peering/problem.go", "controllers/peering/status.go"} {
		for _, match := range reasons.FindAllStringSubmatch(strings.ReplaceAll(string(source(t, file)), "\n", ",\n"), -1) {
			if match[1] != "BGPPeer" {
				require.Contains(t, page, "`"+match[1]+"`", file)
				found++
			}
		}
	}
	require.Greater(t, found, 15)
	for _, left := range []string{"secret/" + remoteName, "serviceaccount/" + remoteName, "clusterrolebinding " + remoteName + "-" + namespace} {
		require.Equal(t, 2, strings.Count(page, left), left)
	}
}

func source(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile("../../../" + name)
	require.NoError(t, err)
	return content
}

func TestBadInput(t *testing.T) {
	with := func(server string) []string {
		return []string{"kubeconfig", "--kubeconfig", cli.Kubeconfig(t, &rest.Config{Host: "https://203.0.113.7:6443"}), "--server", server}
	}
	cli.RequireBad(t, New, "peering", map[string]cli.Bad{
		"an address without a scheme":    {with("10.0.0.1"), []string{"--server", `"10.0.0.1"`, "use for example https://"}},
		"an address that is not private": {with("http://10.0.0.1"), []string{"--server", "no address of an apiserver"}},
		"a command that is none":         {[]string{"kubeconfigs"}, []string{`unknown command "kubeconfigs"`}},
	})
}
