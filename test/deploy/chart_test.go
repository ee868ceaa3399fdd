package deploy_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	chart     = "config/chart"
	namespace = "rrpool-system"
	keep      = "helm.sh/resource-policy"
)

var helmTool = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "-C", path("test", "tools", "helm"), "tool", "-n", "helm").Output()
	return strings.TrimSpace(string(out)), err
})

// helm runs the pinned helm with folders of its own, and gives what it says, in which order ever.
func helm(t *testing.T, arguments ...string) (stdout, stderr string, err error) {
	t.Helper()
	tool, err := helmTool()
	require.NoError(t, err)
	home := t.TempDir()
	command := exec.Command(tool, arguments...)
	command.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var out, said bytes.Buffer
	command.Stdout, command.Stderr = &out, &said
	err = command.Run()
	return out.String(), said.String(), err
}

// render is what the chart makes of values, or why it does not.
func render(t *testing.T, arguments ...string) (string, string, error) {
	t.Helper()
	return helm(t, append([]string{"template", "rrpool", path(chart), "--namespace", namespace}, arguments...)...)
}

func rendered(t *testing.T, arguments ...string) []*object {
	t.Helper()
	out, said, err := render(t, arguments...)
	require.NoError(t, err, said)
	return decode(t, []byte(out))
}

// unequal are the differences between what a chart makes and what an overlay is: the
// namespace, which is not the chart's to make, and Helm's own mark apart.
func unequal(made, wanted []*object) []string {
	var out []string
	left := map[string]*object{}
	for _, o := range made {
		o = o.DeepCopy()
		if o.GetKind() == "CustomResourceDefinition" {
			unstructured.RemoveNestedField(o.Object, "metadata", "annotations", keep)
		}
		left[identity(o)] = o
	}
	for _, want := range wanted {
		id := identity(want)
		have, found := left[id]
		delete(left, id)
		switch {
		case want.GetKind() == "Namespace":
		case !found:
			out = append(out, "not made: "+id)
		default:
			out = append(out, differing(id, have.Object, want.Object)...)
		}
	}
	for id := range left {
		out = append(out, "not wanted: "+id)
	}
	return out
}

// differing are the fields in which two objects are not the same.
func differing(at string, have, want any) []string {
	mine, ok := have.(map[string]any)
	theirs, also := want.(map[string]any)
	if !ok || !also {
		if equality.Semantic.DeepEqual(have, want) {
			return nil
		}
		return []string{at}
	}
	var out []string
	for key := range mine {
		out = append(out, differing(at+"."+key, mine[key], theirs[key])...)
	}
	for key := range theirs {
		if _, ok := mine[key]; !ok {
			out = append(out, at+"."+key)
		}
	}
	return out
}

func withExternalSecret(t *testing.T) string {
	t.Helper()
	return with(t, "external-secret")
}

// with is a kustomization as a user writes it, with a component in it.
func with(t *testing.T, component string) string {
	t.Helper()
	dir := t.TempDir()
	relative := func(folder string) string {
		out, err := filepath.Rel(dir, path(folder))
		require.NoError(t, err)
		return out
	}
	content := "resources: [" + relative(iksOverlay) + "]\ncomponents: [" + relative(iksOverlay+"/components/"+component) + "]\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(content), 0o600))
	relativeToRoot, err := filepath.Rel(path(), dir)
	require.NoError(t, err)
	return relativeToRoot
}

// monitored are the values for all of config/monitoring.
var monitored = []string{"--set", "monitoring.serviceMonitor.enabled=true,monitoring.prometheusRule.enabled=true,monitoring.dashboard.enabled=true"}

func TestTheChartMakesWhatTheOverlaysAre(t *testing.T) {
	t.Parallel()
	for _, overlay := range overlays(t) {
		require.Equal(t, build(t, iksOverlay), build(t, overlay), "both overlays are the same, so that the other tests look at one")
	}
	made := rendered(t)
	require.Empty(t, unequal(made, build(t, iksOverlay)))
	require.Equal(t, "keep", first(t, made, "CustomResourceDefinition").GetAnnotations()[keep])
	require.Empty(t, unequal(rendered(t, "--set", "credentials.externalSecret.enabled=true"), build(t, withExternalSecret(t))))
	require.Empty(t, unequal(rendered(t, "--set", "credentials.trustedProfile.name=a b"), build(t, with(t, "trusted-profile"))))
	require.Empty(t, unequal(rendered(t, monitored...), append(build(t, iksOverlay), build(t, "config/monitoring")...)))
}

// Negative controls for the test above: every object of either side, and a field in the middle of one.
func TestADifferenceBetweenChartAndOverlayIsSeen(t *testing.T) {
	t.Parallel()
	made, wanted := rendered(t), build(t, iksOverlay)
	for i, o := range made {
		doctored := slices.Clone(made)
		doctored[i] = o.DeepCopy()
		doctored[i].SetLabels(map[string]string{"other": "label"})
		require.Contains(t, strings.Join(unequal(doctored, wanted), "\n"), identity(o)+".metadata.labels")
		require.Equal(t, []string{"not made: " + identity(o)}, unequal(slices.Concat(made[:i], made[i+1:]), wanted))
	}
	for field, set := range map[string]string{
		"Deployment/rrpool-system/rrpool-manager.spec.replicas": "replicas=3",
		"not made: NetworkPolicy/rrpool-system/rrpool-manager":  "networkPolicy.enabled=false",
	} {
		require.Equal(t, []string{field}, unequal(rendered(t, "--set", set), wanted), set)
	}
}

// In another namespace everything is in that one, and about whoever is the manager there.
func TestTheChartInAnotherNamespace(t *testing.T) {
	out, said, err := helm(t, "template", "any-name", path(chart), "--namespace", "network", "--set", "credentials.externalSecret.enabled=true")
	require.NoError(t, err, said)
	require.NotContains(t, out, namespace)
	require.Empty(t, unequal(decode(t, []byte(strings.ReplaceAll(strings.ReplaceAll(out, "namespace: network", "namespace: "+namespace),
		"system:serviceaccount:network:", "system:serviceaccount:"+namespace+":"))), build(t, withExternalSecret(t))))
	policedUser(t, decode(t, []byte(out)))
	for _, taken := range []string{"default", "kube-system"} {
		_, said, err = helm(t, "template", "rrpool", path(chart), "--namespace", taken)
		require.Error(t, err)
		require.Contains(t, said, "--namespace "+taken+": rrpool has Roles of its own in default and in kube-system: install it into a namespace of its own")
	}
}
