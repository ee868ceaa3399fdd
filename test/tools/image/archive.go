package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// platformImage is an image and where it runs.
type platformImage struct {
	platform v1.Platform
	image    v1.Image
}

// plain is an image and no artifact of another kind: an index need not say so.
type plain struct{ v1.Image }

// ArtifactType is asked for by the index.
func (plain) ArtifactType() (string, error) { return "", nil }

// write writes the archive: an OCI layout with one index that has an image for each
// platform. It gives what is to be told about it.
func write(output, reference string, images []platformImage, at time.Time) (string, error) {
	var index v1.ImageIndex = empty.Index
	var said strings.Builder
	for _, p := range images {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: plain{p.image}, Descriptor: v1.Descriptor{Platform: &p.platform}})
		digest, err := p.image.Digest()
		if err != nil {
			return "", fmt.Errorf("reading the digest for %s: %w", p.platform.String(), err)
		}
		size, err := compressed(p.image)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&said, "%s %s, %.1f MB compressed\n", p.platform.String(), digest, megabytes(size))
	}
	digest, err := index.Digest()
	if err != nil {
		return "", fmt.Errorf("reading the index's digest: %w", err)
	}
	fmt.Fprintf(&said, "%s %s\n%s\n", reference, digest, output)
	return said.String(), writeArchive(output, reference, index, images, at)
}

func writeArchive(output, reference string, index v1.ImageIndex, images []platformImage, at time.Time) error {
	dir, err := os.MkdirTemp("", "rrpool-image-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	to, err := layout.Write(dir, empty.Index)
	if err == nil {
		// skopeo and podman take the tag from the first, containerd the name from the second.
		err = to.AppendIndex(index, layout.WithAnnotations(map[string]string{
			"org.opencontainers.image.ref.name": reference[strings.LastIndex(reference, ":")+1:],
			"io.containerd.image.name":          fullName(reference),
		}))
	}
	if err == nil {
		err = writeDockerManifest(filepath.Join(dir, "manifest.json"), reference, images)
	}
	if err == nil {
		err = pack(dir, output, at)
	}
	if err != nil {
		return fmt.Errorf("writing %q: %w", output, err)
	}
	return nil
}

// fullName is what containerd and Docker make of a short name.
func fullName(reference string) string {
	host, rest, found := strings.Cut(reference, "/")
	switch {
	case !found:
		return "docker.io/library/" + reference
	case strings.ContainsAny(host, ".:") || host == "localhost":
		return reference
	}
	return "docker.io/" + host + "/" + rest
}

// writeDockerManifest adds what docker load reads where it does not know OCI layouts: one
// image, for this machine's platform if it is among them.
func writeDockerManifest(path, reference string, images []platformImage) error {
	chosen := images[0]
	for _, p := range images {
		if p.platform.Architecture == runtime.GOARCH {
			chosen = p
		}
	}
	manifest, err := chosen.image.Manifest()
	if err != nil {
		return err
	}
	blob := func(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }
	entry := struct {
		Config   string
		RepoTags []string
		Layers   []string
	}{Config: blob(manifest.Config.Digest), RepoTags: []string{reference}}
	for _, l := range manifest.Layers {
		entry.Layers = append(entry.Layers, blob(l.Digest))
	}
	content, err := json.Marshal([]any{entry})
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

// pack writes a folder into a tar, sorted and all of one time. The archive appears when it
// is complete.
func pack(dir, output string, at time.Time) error {
	if err := os.MkdirAll(filepath.Dir(output), 0o750); err != nil {
		return err
	}
	partial, err := os.CreateTemp(filepath.Dir(output), filepath.Base(output)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(partial.Name()) }()
	w := tar.NewWriter(partial)
	walk := func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		return packOne(w, dir, path, d.IsDir(), at)
	}
	if err := errors.Join(filepath.WalkDir(dir, walk), w.Close(), partial.Chmod(0o644), partial.Close()); err != nil {
		return err
	}
	return os.Rename(partial.Name(), output)
}

func packOne(w *tar.Writer, dir, path string, folder bool, at time.Time) error {
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	if folder {
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: at, Format: tar.FormatUSTAR})
	}
	content, err := os.ReadFile(path) //nolint:gosec // G304: what we have written
	if err != nil {
		return err
	}
	return writeEntry(w, &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o444, Size: int64(len(content)), ModTime: at, Format: tar.FormatUSTAR}, content)
}

// unpackLayout unpacks an archive with an OCI layout into a folder of its own.
func unpackLayout(archive string) (string, error) {
	in, err := os.Open(archive) //nolint:gosec // G304: whoever runs this says where it is
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Close() }()
	dir, err := os.MkdirTemp("", "rrpool-base-")
	if err != nil {
		return "", err
	}
	root, err := os.OpenRoot(dir) // no name in the archive leads out of it
	if err != nil {
		return dir, err
	}
	defer func() { _ = root.Close() }()
	for r := tar.NewReader(in); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir, nil
		}
		if err != nil {
			return dir, err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := unpackOne(root, header.Name, r); err != nil {
			return dir, fmt.Errorf("unpacking %q: %w", header.Name, err)
		}
	}
}

func unpackOne(root *os.Root, name string, content io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		return err
	}
	out, err := root.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, content)
	return errors.Join(err, out.Close())
}
