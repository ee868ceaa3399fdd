package report

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

// entry is one file of the archive.
type entry struct {
	name, what string
	content    []byte
}

// pack makes the archive: the same entries give the same bytes.
func pack(folder string, entries []entry, now time.Time) ([]byte, error) {
	entries = slices.Clone(entries)
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	for _, e := range entries {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: folder + "/" + e.name, Size: int64(len(e.content)), Mode: 0o600,
			ModTime: now.UTC().Truncate(time.Second), Format: tar.FormatPAX,
		}
		if err := archive.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("packing %s: %w", e.name, err)
		}
		if _, err := archive.Write(e.content); err != nil {
			return nil, fmt.Errorf("packing %s: %w", e.name, err)
		}
	}
	if err := errors.Join(archive.Close(), zipped.Close()); err != nil {
		return nil, fmt.Errorf("packing: %w", err)
	}
	return out.Bytes(), nil
}

// probe finds out whether a file can be written, before everything is read for it.
func probe(path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("--output-file: %q is no regular file: give the name of a file", path)
	}
	temporary, err := temporaryFor(path)
	if err != nil {
		return err
	}
	return errors.Join(temporary.Close(), os.Remove(temporary.Name()))
}

func temporaryFor(path string) (*os.File, error) {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("--output-file: %q cannot be written: %w: give a folder that is there and that you may write to", path, iostreams.Reason(err))
	}
	return temporary, nil
}

// write puts the archive in place as a whole, for its owner's eyes only, or leaves what
// was there.
func write(ctx context.Context, path string, content []byte) error {
	temporary, err := temporaryFor(path)
	if err != nil {
		return err
	}
	_, err = temporary.Write(content)
	err = errors.Join(err, temporary.Sync(), temporary.Close(), ctx.Err())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err == nil {
		return nil
	}
	_ = os.Remove(temporary.Name())
	if ctx.Err() != nil {
		return iostreams.ErrInterrupted
	}
	return fmt.Errorf("--output-file: writing %q: %w", path, iostreams.Reason(err))
}
