//go:build linux

package image

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// descriptor names a blob of the archive.
type descriptor struct {
	Digest   string `json:"digest"`
	Size     int    `json:"size"`
	Platform struct {
		OS           string `json:"os"`
		Architecture string `json:"architecture"`
	} `json:"platform"`
}

// contents is what the image says of itself.
type contents struct {
	manifest struct {
		Config descriptor   `json:"config"`
		Layers []descriptor `json:"layers"`
	}
	config struct {
		Architecture string `json:"architecture"`
		Config       struct {
			User       string
			Entrypoint []string
			Env        []string
		} `json:"config"`
	}
}

// archive is the folder of an OCI layout. It is read here from the specification, and not with what has written it.
type archive string

func readArchive(t *testing.T, path string) archive {
	t.Helper()
	dir := t.TempDir()
	tar(t, "-xf", path, "-C", dir)
	return archive(dir)
}

func (a archive) path(d descriptor) string {
	return filepath.Join(string(a), "blobs", strings.Replace(d.Digest, ":", "/", 1))
}

// blob gives what a descriptor names.
func (a archive) blob(t *testing.T, d descriptor) []byte {
	t.Helper()
	content, err := os.ReadFile(a.path(d))
	require.NoError(t, err)
	require.Len(t, content, d.Size)
	sum := sha256.Sum256(content)
	require.Equal(t, d.Digest, "sha256:"+hex.EncodeToString(sum[:]))
	return content
}

// images are what there is, one for each platform.
func (a archive) images(t *testing.T) []descriptor {
	t.Helper()
	var top, index struct {
		Manifests []descriptor `json:"manifests"`
	}
	content, err := os.ReadFile(filepath.Join(string(a), "index.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &top))
	require.Len(t, top.Manifests, 1, "readers expect one")
	require.NoError(t, json.Unmarshal(a.blob(t, top.Manifests[0]), &index))
	require.NotEmpty(t, index.Manifests)
	return index.Manifests
}

// image finds the one for Linux on an architecture, and unpacks its layers into a folder, one over the other.
func (a archive) image(t *testing.T, architecture string) (found contents, dir string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	for _, d := range a.images(t) {
		if d.Platform.OS != "linux" || d.Platform.Architecture != architecture {
			continue
		}
		require.NoError(t, json.Unmarshal(a.blob(t, d), &found.manifest))
		require.NoError(t, json.Unmarshal(a.blob(t, found.manifest.Config), &found.config))
		for _, layer := range found.manifest.Layers {
			a.blob(t, layer) // it has its sum
			require.Empty(t, oddities(tar(t, "--numeric-owner", "-tvzf", a.path(layer))))
			tar(t, "-xpzf", a.path(layer), "-C", dir)
		}
		return found, dir
	}
	require.FailNow(t, "no image for linux/"+architecture)
	return found, dir
}

func tar(t *testing.T, arguments ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "tar", arguments...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// file is the line of a folder or file of root's that is neither setuid nor setgid, as tar lists them.
var file = regexp.MustCompile(`^[d-]([r-][w-][x-]){3} 0/`)

// oddities are what an image of ours has no use for, in a list of tar.
func oddities(list string) []string {
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(list), "\n"), file.MatchString)
}

func TestLayersBringFilesOnly(t *testing.T) {
	for _, odd := range []string{"-rwsr-xr-x 0/0 8 2026-01-01 00:00 su", "-r-xr-xr-x 65532/65532 8 2026-01-01 00:00 manager", "brw-rw-rw- 0/0 8,0 2026-01-01 00:00 sda"} {
		require.Equal(t, []string{odd}, oddities("drwxr-xr-x 0/0 0 2026-01-01 00:00 etc/\n"+odd+"\n-r--r--r-- 0/0 8 2026-01-01 00:00 etc/passwd\n"))
	}
}
