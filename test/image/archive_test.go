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
	"path/filepath"
	"strings"
)

// descriptor names a blob of the archive.
type descriptor struct {
	Digest   string `json:"digest"`
	Size     int64  `json:"size"`
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
	size   int64 // of the manifest
	config struct {
		Architecture string `json:"architecture"`
		Config       struct {
			User       string
			Entrypoint []string
			Cmd        []string
			Env        []string
		} `json:"config"`
	}
}

// archive has the files of an OCI layout by name. It is read here from the specification,
// and not with what has written it.
type archive map[string][]byte

// readArchive reads all of it, and holds every blob against its digest.
func readArchive(path string) (archive, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read
	a := archive{}
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return a, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading %q: %w", path, err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return nil, fmt.Errorf("reading %q of %q: %w", header.Name, path, err)
		}
		if hash, isBlob := strings.CutPrefix(header.Name, "blobs/sha256/"); isBlob && hash != "" {
			if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != hash {
				return nil, fmt.Errorf("blob %s has the digest %x", hash, sum)
			}
		}
		a[header.Name] = content
	}
}

// blob gives what a descriptor names.
func (a archive) blob(d descriptor) ([]byte, error) {
	content, ok := a["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
	if !ok || int64(len(content)) != d.Size {
		return nil, fmt.Errorf("blob %s with %d bytes is not in the archive", d.Digest, d.Size)
	}
	return content, nil
}

// read decodes what a descriptor names.
func (a archive) read(d descriptor, into any) error {
	content, err := a.blob(d)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, into)
}

// images are what there is, one for each platform.
func (a archive) images() ([]descriptor, error) {
	var top, index struct {
		Manifests []descriptor `json:"manifests"`
	}
	if err := json.Unmarshal(a["index.json"], &top); err != nil {
		return nil, fmt.Errorf("reading index.json: %w", err)
	}
	if len(top.Manifests) != 1 {
		return nil, fmt.Errorf("index.json has %d entries, and readers expect one", len(top.Manifests))
	}
	if err := a.read(top.Manifests[0], &index); err != nil {
		return nil, fmt.Errorf("reading the index: %w", err)
	}
	return index.Manifests, nil
}

// image finds the one for Linux on an architecture.
func (a archive) image(architecture string) (contents, error) {
	var found contents
	images, err := a.images()
	if err != nil {
		return found, err
	}
	for _, d := range images {
		if d.Platform.OS != "linux" || d.Platform.Architecture != architecture {
			continue
		}
		found.size = d.Size
		if err := a.read(d, &found.manifest); err != nil {
			return found, fmt.Errorf("reading the manifest: %w", err)
		}
		return found, a.read(found.manifest.Config, &found.config)
	}
	return found, fmt.Errorf("no image for linux/%s in it", architecture)
}

// unpack writes the layers to a folder, one over the other.
func (a archive) unpack(c contents, dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir) // no name leads out of it
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // only a folder
	for _, d := range c.manifest.Layers {
		content, err := a.blob(d)
		if err != nil {
			return err
		}
		unzipped, err := gzip.NewReader(bytes.NewReader(content))
		if err != nil {
			return fmt.Errorf("layer %s: %w", d.Digest, err)
		}
		if err := unpackLayer(root, tar.NewReader(unzipped)); err != nil {
			return fmt.Errorf("layer %s: %w", d.Digest, err)
		}
	}
	return nil
}

func unpackLayer(root *os.Root, layer *tar.Reader) error {
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

// unpackEntry knows what our images have: folders, files, and links of a base. A file that
// deletes one of a lower layer, or a device, is not among it.
func unpackEntry(root *os.Root, header *tar.Header, content io.Reader) error {
	name := filepath.Clean(header.Name)
	mode := os.FileMode(header.Mode).Perm()
	switch {
	case strings.HasPrefix(filepath.Base(name), ".wh."):
		return fmt.Errorf("%q deletes a file of a lower layer", name)
	case header.Mode&0o6000 != 0:
		return fmt.Errorf("%q is setuid or setgid", name)
	case header.Uid != 0 && header.Typeflag == tar.TypeReg:
		return fmt.Errorf("%q belongs to user %d, who could change it", name, header.Uid)
	case header.Typeflag == tar.TypeDir:
		if err := root.MkdirAll(name, 0o755); err != nil {
			return err
		}
		return root.Chmod(name, mode)
	case header.Typeflag == tar.TypeSymlink:
		return root.Symlink(header.Linkname, name)
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
