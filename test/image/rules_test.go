//go:build linux

package image

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// judge says what is wrong with an image that is unpacked to root.
func (c contents) judge(root string) error {
	var faults []error
	// The kubelet refuses what it cannot tell from root: runAsNonRoot needs a number.
	user, _, _ := strings.Cut(c.config.Config.User, ":")
	if uid, err := strconv.Atoi(user); err != nil || uid == 0 {
		faults = append(faults, fmt.Errorf("runs as %q: the kubelet takes that for root", c.config.Config.User))
	}
	return errors.Join(append(faults, judgeEntrypoint(root, c.config.Config.Entrypoint), judgeFiles(root))...)
}

// judgeEntrypoint: one program, for everyone, that needs nothing else.
func judgeEntrypoint(root string, entrypoint []string) error {
	if len(entrypoint) == 0 || !filepath.IsAbs(entrypoint[0]) {
		return fmt.Errorf("the entrypoint is %q, no absolute path", entrypoint)
	}
	path := filepath.Join(root, entrypoint[0])
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("the entrypoint: %w", err)
	}
	if info.Mode()&0o005 != 0o005 {
		return fmt.Errorf("%s is %s: a user that is not its owner cannot run it", entrypoint[0], info.Mode())
	}
	program, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("the entrypoint: %w", err)
	}
	defer program.Close() //nolint:errcheck // only read
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is not static: it asks for a loader", entrypoint[0])
		}
	}
	return nil
}

// judgeFiles: all users may read, none may write.
func judgeFiles(root string) error {
	var faults []error
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && (info.Mode()&0o022 != 0 || info.Mode()&0o004 == 0) {
			faults = append(faults, fmt.Errorf("%s is %s", strings.TrimPrefix(path, root), info.Mode()))
		}
		return err
	})
	return errors.Join(append(faults, err)...)
}

// Each rule refuses what breaks it. The program is bash, which needs a loader.
func TestWhatIsWrongWithAnImageIsSeen(t *testing.T) {
	bash, err := os.ReadFile("/bin/bash")
	require.NoError(t, err)
	script := []byte("#!/bin/sh\nexec /bin/true\n")
	for says, tc := range map[string]struct {
		user, entrypoint string
		mode             os.FileMode
		program          []byte
	}{
		`runs as "0"`:            {"0", "/manager", 0o555, bash},
		`runs as ""`:             {"", "/manager", 0o555, bash},
		`runs as "nonroot"`:      {"nonroot", "/manager", 0o555, bash},
		"cannot run it":          {"65532:65532", "/manager", 0o700, bash},
		"/manager is -rwxrwxrwx": {"65532:65532", "/manager", 0o777, bash},
		"no such file":           {"65532:65532", "/other", 0o555, bash},
		"no absolute path":       {"65532:65532", "manager", 0o555, bash},
		"bad magic number":       {"65532:65532", "/manager", 0o555, script},
		"asks for a loader":      {"65532:65532", "/manager", 0o555, bash},
	} {
		image, root := contents{}, t.TempDir()
		image.config.Config.User, image.config.Config.Entrypoint = tc.user, []string{tc.entrypoint}
		require.NoError(t, os.Chmod(root, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, "manager"), tc.program, 0o600))
		require.NoError(t, os.Chmod(filepath.Join(root, "manager"), tc.mode))
		require.ErrorContains(t, image.judge(root), says)
	}
}
