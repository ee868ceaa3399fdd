package deploy_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/controlplane"
)

// externalSecretsModule is a module of its own, which pins the operator's sources: they have
// its CRDs, and nothing of it is built.
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
	ours := first(t, build(t, withExternalSecret(t)), "ExternalSecret")
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

// The Secret from a file is the one that the sample names, and making it again is refused: it never replaces a key.
func TestTheSecretFromAFileIsTheOneThatIsRead(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(path(iksOverlay, "secret"))))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "apikey"), []byte("the key\n"), 0o600))
	relative, err := filepath.Rel(path(), dir)
	require.NoError(t, err)
	made := build(t, relative)
	require.Len(t, made, 1)
	require.Equal(t, "Secret/rrpool-system/rrpool-ibmcloud", identity(made[0]))
	require.Equal(t, map[string]any{"apikey": "dGhlIGtleQo="}, at(made[0], "data"))
	c, _ := deployed(t)
	_, err = c.try(t, made[0])
	require.NoError(t, err)
	require.Equal(t, "/apikey\n", text(t, path(iksOverlay, "secret", ".gitignore")), "git would take the key")
}
