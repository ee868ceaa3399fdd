//go:build linux

package image

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rootsFile is where Go looks first.
const rootsFile = "etc/ssl/certs/ca-certificates.crt"

// secretsWith is a folder that a box finds as its secrets, with certificates to try.
func secretsWith(t *testing.T, certificates []byte) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, candidates), certificates, 0o644))
	return dir
}

// The box is as closed as a pod of ours: nobody, alone, and not a place to write to. Go
// finds the roots of certificates in it.
func TestAPodOfTheImageCanWriteNowhereAndTrustsTheUsualRoots(t *testing.T) {
	_, root := unpacked(t)
	bundle, err := os.ReadFile(filepath.Join(root, rootsFile))
	require.NoError(t, err)
	b := newBox(t, root, secretsWith(t, bundle))
	seen := look(t, b)
	require.Equal(t, b.UID, seen.UID)
	require.Equal(t, b.GID, seen.GID)
	require.Equal(t, 1, seen.PID)
	require.Equal(t, []string{"/", "/proc", "/dev/null", secretsPath}, seen.Mounts)
	for _, place := range []string{"/", "/etc", "/dev", "/var", secretsPath} {
		require.Equal(t, syscall.EROFS.Error(), seen.Writes[place], place)
	}
	for place, ended := range seen.Writes {
		require.NotEqual(t, written, ended, place)
	}
	require.Contains(t, seen.Roots, "DigiCert Global Root G2")
	require.Contains(t, seen.Roots, "ISRG Root X1")
	require.Greater(t, len(seen.Roots), 100)

	// What is no root of the image is not believed, nor anything where there are none.
	require.NoError(t, os.Remove(filepath.Join(root, rootsFile)))
	require.Empty(t, look(t, newBox(t, root, b.Secrets)).Roots)
}

// tree is every file and folder with what changes when a process writes.
func tree(t *testing.T, root string) map[string]time.Time {
	t.Helper()
	out := map[string]time.Time{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		out[path] = info.ModTime()
		return err
	}))
	return out
}

// open lets every user write everywhere.
func open(t *testing.T, root string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(path, 0o777)
	}))
}

// Where it could write anywhere, it writes nowhere: there is nothing that it misses on a root that is read-only.
func TestTheManagerWritesNothingWhereItCould(t *testing.T) {
	image, root := unpacked(t)
	c := install(t)
	b := newBox(t, root, c.secrets)
	require.NoError(t, os.MkdirAll(filepath.Join(root, "tmp"), 0o755))
	open(t, root)
	before := tree(t, root)
	manager := c.container(t)
	b.Writable, b.Args, b.Env = true, image.command(manager), c.environment(t, image, manager)
	run := launch(t, b)
	run.awaitReady(t, "http://127.0.0.1:8081"+manager.ReadinessProbe.HTTPGet.Path)
	requireLeads(t, c)
	run.requireEnds(t, patience)
	require.Equal(t, before, tree(t, root))

	// A program that does write, and cleans up after itself, is seen.
	b.Args = nil
	require.Equal(t, written, look(t, b).Writes["/etc"])
	require.NotEqual(t, before, tree(t, root))
}
