package controlplane

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClientsAreOfTheVersionsInUse(t *testing.T) {
	programs, dir, err := clients("build")
	require.NoError(t, err)
	apiserver, err := requiredVersion(filepath.Join("build", "kube-apiserver", "go.mod"), kubernetesModule)
	require.NoError(t, err)
	require.Contains(t, programs["kubectl"].ldflags, "gitVersion="+apiserver+" ")
	product, err := requiredVersion(filepath.Join("..", "..", "go.mod"), calicoModule)
	require.NoError(t, err)
	require.Contains(t, filepath.Base(dir), "-calicoctl-"+CalicoRelease+"-"+product+"-")
	for name, p := range programs {
		require.Equal(t, name, filepath.Base(p.source))
		_, err := os.Stat(filepath.Join(p.source, "go.sum"))
		require.NoError(t, err)
	}
}
