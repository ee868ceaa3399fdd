package report

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/test/cli"
)

// What the other tests believe about apiservers, seen on a real one: a user without any right gets a sentence, one
// with some a report of what may be read, and with the rights of the docs everything is in it.
func TestARealApiserver(t *testing.T) {
	a := cli.RealApiserver(t, "reporter")
	fill(a)
	path := filepath.Join(t.TempDir(), "report.tar.gz")
	asked := func() cli.Answer {
		_ = os.Remove(path)
		return ask(t, "--output-file", path, "--kubeconfig", a.Kubeconfig())
	}

	got := asked()
	require.Equal(t, 1, got.Code)
	lines := strings.Split(strings.TrimSpace(got.Err), "\n")
	cli.RequireSentence(t, lines[len(lines)-1]+"\n", "may not list", "ask for a ClusterRole")
	require.NoFileExists(t, path)

	written := cli.Roles(t, "report")
	require.Empty(t, written[0].Namespace)
	a.Grant(written[0].ObjectMeta, written[0].Rules[0])
	a.Eventually(asked, func(got cli.Answer) bool { return got.Code == 0 })
	files, _, raw := unpack(t, read(t, path))
	require.Contains(t, files["objects/nodes.yaml"], "name: node-r")
	require.Contains(t, files["index.txt"], `may not list bgppeers.crd.projectcalico.org`)

	for _, role := range written {
		a.Grant(role.ObjectMeta, role.Rules...)
	}
	a.Eventually(asked, func(got cli.Answer) bool {
		files, _, raw = unpack(t, read(t, path))
		return got.Code == 0 && !strings.Contains(files["index.txt"], "may not")
	})
	for _, name := range []string{"objects/secrets.yaml", "objects/bgppeers.yaml", "objects/manager-deployments.yaml", "objects/calico-node-daemonsets.yaml", "snapshot.yaml"} {
		require.Contains(t, files, name)
	}
	require.Contains(t, files["snapshot.yaml"], "step:\n")
	require.NotContains(t, files["objects/nodes.yaml"], "managedFields")
	for _, secret := range []string{ibmAPIKey, bgpPassword, envPassword} {
		require.NotContains(t, raw, secret)
	}
	require.Contains(t, files["objects/manager-deployments.yaml"], "IBMCLOUD_API_KEY")
}

// fill makes a cluster with a manager.
func fill(a *cli.Apiserver) {
	inSystem := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "rrpool-system"} }
	labels := map[string]string{"k8s-app": "calico-node"}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "manager", Image: "image", Env: []corev1.EnvVar{{Name: "IBMCLOUD_API_KEY", Value: envPassword}, {Name: "NOTE", Value: "it was " + ibmAPIKey + " and " + bgpPassword}},
	}}}}
	a.Create(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "rrpool-system"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "calico-system"}},
		&corev1.Secret{ObjectMeta: inSystem("rrpool-ibmcloud"), StringData: map[string]string{"apikey": ibmAPIKey}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bgp", Namespace: "calico-system"}, StringData: map[string]string{"password": bgpPassword}},
		&appsv1.Deployment{ObjectMeta: inSystem("rrpool-manager"), Spec: appsv1.DeploymentSpec{Selector: selector, Template: pod}},
		&appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Name: "calico-node", Namespace: "calico-system", Labels: labels},
			Spec:       appsv1.DaemonSetSpec{Selector: selector, Template: pod},
		},
	)
	a.Node("node-r", "z1", "10.0.0.9")
	a.Calico("kind: BGPPeer\nmetadata: {name: p}\nspec: {peerIP: 192.0.2.1, asNumber: 65000, password: {secretKeyRef: {name: bgp, key: password}}}")
}

// The docs name each file of the golden report.
func TestWhatTheDocsSay(t *testing.T) {
	index := read(t, filepath.Join("testdata", "index.txt"))
	for _, match := range regexp.MustCompile(`(?m)^ {2}(objects/\S+|snapshot.yaml), `).FindAllStringSubmatch(string(index), -1) {
		require.Contains(t, cli.Page(t, "report"), "`"+strings.TrimPrefix(match[1], "objects/")+"`")
	}
}
