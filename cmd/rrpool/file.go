package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// writeFile replaces a file as a whole: whoever opens it finds the old content or
// the new one, and a failure leaves the old one.
func writeFile(path string, content []byte) (err error) {
	if target, failed := filepath.EvalSymlinks(path); failed == nil {
		path = target
	}
	mode := os.FileMode(0o644)
	if info, failed := os.Stat(path); failed == nil {
		if !info.Mode().IsRegular() {
			return fmt.Errorf("--output-file: %q is no regular file: give the name of a file", path)
		}
		mode = info.Mode().Perm()
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("--output-file: %q cannot be written: %w: give a folder that is there and that you may write to", path, reason(err))
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("--output-file: writing %q: %w", path, err)
			_ = os.Remove(temporary.Name())
		}
	}()
	_, failed := temporary.Write(content)
	err = errors.Join(failed, temporary.Chmod(mode), temporary.Sync(), temporary.Close())
	if err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path) //nolint:wrapcheck // the deferred function wraps
}

// reason is the error without the name of the temporary file, which means nothing
// to anybody.
func reason(err error) error {
	var at *os.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
