//go:build linux

package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
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
	out, err := exec.CommandContext(t.Context(), "tar", "-xf", path, "-C", dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return archive(dir)
}

// blob gives what a descriptor names.
func (a archive) blob(t *testing.T, d descriptor) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(string(a), "blobs", strings.Replace(d.Digest, ":", "/", 1)))
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
	root, err := os.OpenRoot(dir) // no name leads out of it
	require.NoError(t, err)
	defer root.Close() //nolint:errcheck // only a folder
	for _, d := range a.images(t) {
		if d.Platform.OS != "linux" || d.Platform.Architecture != architecture {
			continue
		}
		require.NoError(t, json.Unmarshal(a.blob(t, d), &found.manifest))
		require.NoError(t, json.Unmarshal(a.blob(t, found.manifest.Config), &found.config))
		for _, layer := range found.manifest.Layers {
			unzipped, err := gzip.NewReader(bytes.NewReader(a.blob(t, layer)))
			require.NoError(t, err)
			require.NoError(t, unpack(root, tar.NewReader(unzipped)))
		}
		return found, dir
	}
	require.FailNow(t, "no image for linux/"+architecture)
	return found, dir
}

func unpack(root *os.Root, layer *tar.Reader) error {
	for {
		header, err := layer.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = unpackEntry(root, header, layer)
		}
		if err != nil {
			return fmt.Errorf("unpacking: %w", err)
		}
	}
}

// unpackEntry knows what our images have: folders and files.
func unpackEntry(root *os.Root, header *tar.Header, content io.Reader) error {
	name := filepath.Clean(header.Name)
	mode := os.FileMode(header.Mode).Perm()
	switch {
	case header.Mode&0o6000 != 0:
		return fmt.Errorf("%q is setuid or setgid", name)
	case header.Uid != 0:
		return fmt.Errorf("%q belongs to user %d, who could change it", name, header.Uid)
	case header.Typeflag == tar.TypeDir:
		return errors.Join(root.MkdirAll(name, 0o755), root.Chmod(name, mode))
	case header.Typeflag != tar.TypeReg:
		return fmt.Errorf("%q is of type %q", name, header.Typeflag)
	}
	file, err := root.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Chmod(mode), file.Close())
}

// A layer that brings what an image of ours has no use for is refused.
func TestLayersBringFilesOnly(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	defer root.Close() //nolint:errcheck // only a folder
	for says, header := range map[string]tar.Header{
		"setuid":                {Typeflag: tar.TypeReg, Name: "su", Mode: 0o4755},
		"belongs to user 65532": {Typeflag: tar.TypeReg, Name: "manager", Mode: 0o555, Uid: 65532},
		"is of type":            {Typeflag: tar.TypeBlock, Name: "sda", Mode: 0o666},
		"escapes":               {Typeflag: tar.TypeReg, Name: "../outside"},
	} {
		require.ErrorContains(t, unpackEntry(root, &header, bytes.NewReader(nil)), says)
	}
	require.NoError(t, unpackEntry(root, &tar.Header{Typeflag: tar.TypeReg, Name: "passwd", Mode: 0o444}, bytes.NewReader(nil)))
}
