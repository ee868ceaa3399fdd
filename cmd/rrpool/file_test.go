package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOutputFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "cost.html")
	args := []string{"cost", "--hourly-price", "0.11", "--output-file", path}
	require.Equal(t, answer{}, ask(t, args...))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, ask(t, args[:3]...).out, string(content))

	t.Run("what is there is replaced, and keeps its mode", func(t *testing.T) {
		require.NoError(t, os.Chmod(path, 0o600))
		require.Equal(t, answer{}, ask(t, append(args, "-o", "csv")...))
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
		require.Zero(t, ask(t, "cost", "--hourly-price", "0.22", "--output-file", link).code)
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
		require.Equal(t, 1, ask(t, "cost", "--nodes", "7", "--zones", "3", "--output-file", path).code)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(before), string(after))
	})
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2, "nothing temporary stays")
}

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
