package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// file is one in a layer. It is root's, and nobody may write to it.
type file struct {
	content    []byte
	executable bool
}

// layer packs files, and the folders that they are in, so that the same files give the
// same bytes: sorted, all of one time, no names of users.
func layer(files map[string]file, at time.Time) (v1.Layer, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	made := map[string]bool{".": true}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := writeFolders(w, path.Dir(name), made, at); err != nil {
			return nil, fmt.Errorf("packing the folders of %q: %w", name, err)
		}
		f := files[name]
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o444, Size: int64(len(f.content)), ModTime: at, Format: tar.FormatUSTAR}
		if f.executable {
			header.Mode = 0o555
		}
		if err := writeEntry(w, header, f.content); err != nil {
			return nil, fmt.Errorf("packing %q: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("packing a layer: %w", err)
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.DefaultCompression), tarball.WithCompressedCaching)
}

// writeFolders makes a folder and those above it, each once.
func writeFolders(w *tar.Writer, name string, made map[string]bool, at time.Time) error {
	if made[name] {
		return nil
	}
	made[name] = true
	if err := writeFolders(w, path.Dir(name), made, at); err != nil {
		return err
	}
	return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: at, Format: tar.FormatUSTAR})
}

func writeEntry(w *tar.Writer, header *tar.Header, content []byte) error {
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}
