package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// sumsFile has the SHA-256 of every other file, as sha256sum reads it.
const sumsFile = "checksums.txt"

// writeSums writes the sums of all files of a folder.
func writeSums(dir string) error {
	names, err := files(dir)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, name := range names {
		if name == sumsFile {
			continue
		}
		sum, err := digest(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(&b, "%s  %s\n", sum, name)
	}
	if err := os.WriteFile(filepath.Join(dir, sumsFile), []byte(b.String()), 0o644); err != nil { //nolint:gosec // G306: for everybody
		return fmt.Errorf("writing the sums: %w", err)
	}
	return nil
}

// files are the names of a folder's files, sorted.
func files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("looking into the release: %w", err)
	}
	var out []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

func digest(path string) (string, error) {
	file, err := os.Open(path) //nolint:gosec // G304: of the release
	if err != nil {
		return "", fmt.Errorf("reading %q: %w", path, err)
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", fmt.Errorf("reading %q: %w", path, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
