//go:build unix

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// lock holds an exclusive lock on a file until the returned function is called, or the process ends.
func lock(ctx context.Context, path string, log io.Writer) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // G304: inside our cache folder
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for waited := false; ; waited = true {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("locking %q: %w", path, err), file.Close())
		}
		if !waited {
			fmt.Fprintf(log, "another process is building, waiting for %s\n", path)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("waiting for %q: %w", path, ctx.Err()), file.Close())
		case <-ticker.C:
		}
	}
}
