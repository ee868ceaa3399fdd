package deploy_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/controlplane"
)

// The overlays, and the sample that a user applies next.
const (
	kindOverlay = "config/overlays/kind"
	iksOverlay  = "config/overlays/iks"
)

var samples = map[string]string{
	kindOverlay: "config/samples/existing-nodes.yaml",
	iksOverlay:  "config/samples/iks.yaml",
}

func overlays(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(path("config", "overlays", "*", "kustomization.yaml"))
	require.NoError(t, err)
	require.Len(t, found, len(samples), "samples has an entry for each overlay")
	return slices.Sorted(maps.Keys(samples))
}

func TestAnOverlayIsAcceptedAsItIs(t *testing.T) {
	c, objects := deployed(t)
	before := c.versions(t, objects)
	applied(t)
	require.Equal(t, before, c.versions(t, objects), "applying it again changes nothing")
	require.Empty(t, c.warnings.all())
}

func TestEverySampleAndExampleIsAdmitted(t *testing.T) {
	c, _ := deployed(t)
	for _, pattern := range []string{"config/samples/*.yaml", "config/overlays/*/*.example.yaml"} {
		files, err := filepath.Glob(path(pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			if filepath.Base(file) == "kustomization.yaml" {
				continue
			}
			for _, o := range decode(t, []byte(text(t, file))) {
				_, err := c.try(t, o)
				require.NoError(t, err, "%s: %s", file, o.GetName())
			}
		}
	}
	require.Empty(t, c.warnings.all())
	for overlay, want := range map[string]v1alpha1.ProviderType{kindOverlay: v1alpha1.ProviderExistingNodes, iksOverlay: v1alpha1.ProviderIKS} {
		require.Equal(t, want, convert[v1alpha1.RouteReflectorPool](t, read(t, samples[overlay])[0]).Spec.Provider.Type)
	}
}

// Negative controls for the test above.
func TestAChangeAndAWarningAreSeen(t *testing.T) {
	c, objects := deployed(t)
	deployment := first(t, objects, "Deployment").DeepCopy()
	before := c.versions(t, objects)
	set(t, deployment.Object, int64(3), "spec", "replicas")
	_, err := c.apply(t, deployment)
	require.NoError(t, err)
	require.NotEqual(t, before, c.versions(t, objects))
	applied(t)

	loud := *c
	loud.warnings = &warnings{}
	config := c.plane.AdminConfig()
	config.WarningHandler = loud.warnings
	loud.client, err = dynamic.NewForConfig(config)
	require.NoError(t, err)
	set(t, deployment.Object, "x", "spec", "template", "metadata", "annotations", "scheduler.alpha.kubernetes.io/critical-pod")
	_, err = loud.try(t, deployment)
	require.NoError(t, err)
	require.NotEmpty(t, loud.warnings.all())
}

// Negative controls: that everything is accepted proves something only if not everything would be.
func TestATypingErrorIsRefused(t *testing.T) {
	c, objects := deployed(t)
	objects = append(objects, read(t, samples[kindOverlay])...)
	for kind, field := range map[string][]string{
		"Deployment":         {"spec", "template", "spec", "serviceAccount_name"},
		"RoleBinding":        {"roleRef", "names"},
		"RouteReflectorPool": {"spec", "provider", "existingNodes", "excluded", "matchLabel"},
	} {
		o := first(t, objects, kind)
		set(t, o.Object, "x", field...)
		_, err := c.try(t, o)
		require.ErrorContains(t, err, "."+strings.Join(field, ".")+": field not declared in schema")
	}
}

func first(t *testing.T, objects []*object, kind string) *object {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() == kind {
			return o
		}
	}
	require.Fail(t, "there is no "+kind)
	return nil
}

// The namespace admits restricted pods only, of a priority class that there is; no Deployment is refused for that.
func TestAPodOfTheDeploymentIsAdmitted(t *testing.T) {
	c, objects := deployed(t)
	pod := podOf(t, first(t, objects, "Deployment"))
	_, err := c.try(t, pod)
	require.NoError(t, err)

	// Negative control.
	set(t, pod.Object, true, "spec", "hostNetwork")
	_, err = c.try(t, pod)
	require.True(t, apierrors.IsForbidden(err), "%v", err)
}

// podOf is a pod as a Deployment makes them.
func podOf(t *testing.T, deployment *object) *object {
	t.Helper()
	template, ok := at(deployment, "spec", "template").(map[string]any)
	require.True(t, ok)
	pod := &object{Object: template}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	pod.SetName(deployment.GetName())
	pod.SetNamespace(deployment.GetNamespace())
	return pod
}

// externalSecretsModule is a module of its own, which pins the operator's sources: they have its CRDs, and nothing of it is built.
var externalSecretsModule = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "-C", path("test", "deploy", "external-secrets"), "mod", "download", "-json", "github.com/external-secrets/external-secrets").Output()
	if err != nil {
		return "", err
	}
	var module struct{ Dir string }
	return module.Dir, json.Unmarshal(out, &module)
})

// externalSecrets has a cluster know ExternalSecrets, by the operator's own CRD.
func externalSecrets(t *testing.T, c *cluster) {
	t.Helper()
	sources, err := externalSecretsModule()
	require.NoError(t, err)
	content, err := os.ReadFile(filepath.Join(sources, "config", "crds", "bases", "external-secrets.io_externalsecrets.yaml"))
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "crd.yaml"), content, 0o600))
	require.NoError(t, controlplane.InstallCRDs(c.plane.AdminConfig(), dir))
}

func manifest(t *testing.T, o *object) string {
	t.Helper()
	out, err := yaml.Marshal(o.Object)
	require.NoError(t, err)
	return string(out)
}

// The operator's own CRD takes our ExternalSecret, and it makes the Secret that the sample
// names. That the operator then does so is its own affair.
func TestTheExternalSecretIsAccepted(t *testing.T) {
	c, _ := deployed(t)
	externalSecrets(t, c)
	ours := first(t, build(t, with(t, "external-secret")), "ExternalSecret")
	_, err := c.try(t, ours)
	require.NoError(t, err)
	sample := read(t, samples[iksOverlay])[0]
	reference := convert[v1alpha1.RouteReflectorPool](t, sample).Spec.Provider.IKS.CredentialsSecretRef
	require.Equal(t, reference.Name, at(ours, "spec", "target", "name"))
	data := at(ours, "spec", "data").([]any)                               //nolint:forcetypeassert // as the apiserver took it
	require.Equal(t, reference.Key, data[0].(map[string]any)["secretKey"]) //nolint:forcetypeassert // as the apiserver took it

	wrong := ours.DeepCopy()
	set(t, wrong.Object, "ibm", "spec", "secretStore")
	_, err = c.try(t, wrong)
	require.ErrorContains(t, err, ".spec.secretStore: field not declared in schema", "negative control")
}
