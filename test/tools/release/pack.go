package main

import (
	"archive/tar"
	"archive/zip"
	"compress/flate"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// entry is a file of an archive.
type entry struct {
	name    string // with slashes
	content []byte
	program bool // may be executed
}

func (e entry) mode() int64 {
	if e.program {
		return 0o755
	}
	return 0o644
}

// compression of archives; tests are in a hurry.
var compression = flate.BestCompression

// pack writes an archive that is a function of its entries and the time: whoever packs
// leaves no trace, neither by name nor by clock nor by umask. There are files only, for
// krew takes nothing else.
func pack(path string, at time.Time, entries []entry) (err error) {
	entries = slices.Clone(entries)
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	file, err := os.Create(path) //nolint:gosec // G304: the release's own folder
	if err != nil {
		return fmt.Errorf("making the archive: %w", err)
	}
	defer func() {
		if closing := file.Close(); err == nil {
			err = closing
		}
		if err != nil {
			err = fmt.Errorf("writing %q: %w", path, err)
		}
	}()
	if strings.HasSuffix(path, ".zip") {
		return zipped(file, at, entries)
	}
	return tarred(file, at, entries)
}

func tarred(to io.Writer, at time.Time, entries []entry) error {
	compressed, err := gzip.NewWriterLevel(to, compression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(compressed)
	for _, e := range entries {
		header := tar.Header{
			Typeflag: tar.TypeReg, Name: e.name, Size: int64(len(e.content)), Mode: e.mode(), ModTime: at,
			Uname: "root", Gname: "root", Format: tar.FormatUSTAR,
		}
		if err := w.WriteHeader(&header); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		if _, err := w.Write(e.content); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return compressed.Close()
}

func zipped(to io.Writer, at time.Time, entries []entry) error {
	w := zip.NewWriter(to)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(out, compression)
	})
	for _, e := range entries {
		header := zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: at}
		header.SetMode(os.FileMode(e.mode())) //nolint:gosec // G115: 0755 or 0644
		file, err := w.CreateHeader(&header)
		if err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		if _, err := file.Write(e.content); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return w.Close()
}
