package iostreams

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A failure after the first byte leaves the old content and nothing else: here the
// name is taken by a folder between the look and the rename.
func TestAFileIsNeverHalfWritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "cost.html")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	require.NoError(t, replace(path, 0o600, []byte("new")))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "new", string(content))
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o700))
	require.ErrorContains(t, replace(path, 0o600, []byte("half")), "--output-file: writing")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
}
