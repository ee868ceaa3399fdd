package cost

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/cli"
)

func TestOutputFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "cost.html")
	args := []string{"cost", "--hourly-price", "0.11", "--output-file", path}
	require.Equal(t, cli.Answer{}, ask(t, args...))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, ask(t, args[:3]...).Out, string(content))

	t.Run("what is there is replaced, and keeps its mode", func(t *testing.T) {
		require.NoError(t, os.Chmod(path, 0o600))
		require.Equal(t, cli.Answer{}, ask(t, append(args, "-o", "csv")...))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		replaced, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Contains(t, string(replaced), "kind,zone")
	})
	t.Run("a link stays a link", func(t *testing.T) {
		link := filepath.Join(dir, "link")
		require.NoError(t, os.Symlink(path, link))
		require.Zero(t, ask(t, "cost", "--hourly-price", "0.22", "--output-file", link).Code)
		info, err := os.Lstat(link)
		require.NoError(t, err)
		require.NotZero(t, info.Mode()&os.ModeSymlink)
		replaced, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Contains(t, string(replaced), "0.22 USD/hour")
	})
	t.Run("a question without an answer leaves the old file", func(t *testing.T) {
		before, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, 1, ask(t, "cost", "--nodes", "7", "--zones", "3", "--output-file", path).Code)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(before), string(after))
	})
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2, "nothing temporary stays")
}
