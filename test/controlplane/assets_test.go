package controlplane

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAssetsHonoursKubebuilderAssets(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "etcd"), nil, 0o600))
	_, err := Assets(t.Context(), io.Discard)
	require.ErrorContains(t, err, "but kube-apiserver is not in it")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "kube-apiserver"), nil, 0o600))
	got, err := Assets(t.Context(), io.Discard)
	require.NoError(t, err)
	require.Equal(t, dir, got)
}

func TestTheCacheIsKeyedByTheVersionsInTheNestedModules(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "/cache")
	dir, err := assetsDir("build")
	require.NoError(t, err)
	require.Regexp(t, `^/cache/rrpool/kubernetes-v1\.\d+\.\d+-etcd-v3\.\d+\.\d+-\w+-\w+$`, dir)

	_, err = requiredVersion("build/etcd/go.mod", "example.com/absent")
	require.ErrorContains(t, err, "not required")
}
