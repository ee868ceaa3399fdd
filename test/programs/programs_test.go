package programs

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the servers and the product both need is compiled once, and a first build takes half the time.
func TestTheServersShareTheProductsVersions(t *testing.T) {
	product, servers := required(t, "go.mod"), required(t, filepath.Join(servers, "go.mod"))
	require.NotEmpty(t, servers["k8s.io/kubernetes"])
	shared := 0
	for module, version := range product {
		if other, ok := servers[module]; ok {
			require.Equal(t, version, other, "%s: set both go.mod files to the same version", module)
			shared++
		}
	}
	require.Greater(t, shared, 80, "most of the product's modules")
}

// required are the versions in a go.mod; a replacement with another version counts.
func required(t *testing.T, file string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(Root(), file))
	require.NoError(t, err)
	out := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(?:require)?\s+(\S+) (v\S+)(?: // indirect)?$`).FindAllStringSubmatch(string(data), -1) {
		out[m[1]] = m[2]
	}
	for _, m := range regexp.MustCompile(`(?m)^(?:replace)?\s+(\S+) => \S+ (v\S+)$`).FindAllStringSubmatch(string(data), -1) {
		out[m[1]] = m[2]
	}
	return out
}

func TestBuildHonoursKubebuilderAssets(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	t.Setenv(variable, "")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "etcd"), nil, 0o600))
	require.ErrorContains(t, Build(t.Context(), io.Discard, "etcd", "kube-apiserver"), "but kube-apiserver is not in it")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kube-apiserver"), nil, 0o600))
	require.NoError(t, Build(t.Context(), io.Discard, "etcd", "kube-apiserver"))
	require.Equal(t, filepath.Join(dir, "kube-apiserver"), Path("kube-apiserver"))
	require.Equal(t, "etcd="+dir+"/etcd,kube-apiserver="+dir+"/kube-apiserver", Built(), "what children inherit")
	require.Contains(t, Path("manager"), "not built")
	require.ErrorContains(t, Build(t.Context(), io.Discard, "felix"), `building "felix": no such program`)
}

// What the lab runs is what the table of versions says, and a release that it does not know is refused before anything is built.
func TestTheReleasesOfCalico(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(Root(), "docs", "faq.md"))
	require.NoError(t, err)
	var rows []string
	for _, m := range regexp.MustCompile(`(?m)^\| (v\S+) \|.*(?:make soak CALICO=v|make test)`).FindAllStringSubmatch(string(page), -1) {
		rows = append(rows, m[1])
	}
	require.Equal(t, Releases(), rows)
	t.Setenv(calicoVariable, "v3.29.0")
	require.ErrorContains(t, Build(t.Context(), io.Discard, agent), `RRPOOL_CALICO is "v3.29.0", but the lab runs `+strings.Join(rows, ", ")+" only")
}
