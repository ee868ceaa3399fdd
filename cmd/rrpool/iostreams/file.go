package iostreams

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// WriteFile replaces a file as a whole: whoever opens it finds the old content or
// the new one, and a failure leaves the old one.
func WriteFile(path string, content []byte) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	mode := os.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		if !info.Mode().IsRegular() {
			return fmt.Errorf("--output-file: %q is no regular file: give the name of a file", path)
		}
		mode = info.Mode().Perm()
	}
	return replace(path, mode, content)
}

func replace(path string, mode os.FileMode, content []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("--output-file: %q cannot be written: %w: give a folder that is there and that you may write to", path, Reason(err))
	}
	_, err = temporary.Write(content)
	err = errors.Join(err, temporary.Chmod(mode), temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temporary.Name())
		return fmt.Errorf("--output-file: writing %q: %w", path, Reason(err))
	}
	return nil
}

// Reason is the error without the name of the temporary file, which means nothing
// to anybody.
func Reason(err error) error {
	var at *os.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	var moving *os.LinkError
	if errors.As(err, &moving) {
		return moving.Err
	}
	return err
}
