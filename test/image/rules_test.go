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

// limit is what an image may have, compressed, in bytes.
const limit = 60_000_000

// compressed is what a node pulls.
func (c contents) compressed() int64 {
	size := c.size + c.manifest.Config.Size
	for _, l := range c.manifest.Layers {
		size += l.Size
	}
	return size
}

// judge says what is wrong with an image that is unpacked to root.
func (c contents) judge(root string) error {
	var faults []error
	if size := c.compressed(); size >= limit {
		faults = append(faults, fmt.Errorf("%d bytes compressed, and less than %d are allowed", size, limit))
	}
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
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sticky := d.IsDir() && info.Mode()&fs.ModeSticky != 0
		if mode := info.Mode().Perm(); mode&0o022 != 0 && !sticky || mode&0o004 == 0 {
			faults = append(faults, fmt.Errorf("%s is %s", strings.TrimPrefix(path, root), info.Mode()))
		}
		return nil
	})
	return errors.Join(append(faults, err)...)
}

// Each rule refuses what breaks it, and nothing else does.
func TestWhatIsWrongWithAnImageIsSeen(t *testing.T) {
	good := func(t *testing.T) (contents, string) {
		t.Helper()
		image, root := contents{}, t.TempDir()
		image.config.Config.User, image.config.Config.Entrypoint = "65532:65532", []string{"/manager"}
		require.NoError(t, os.Chmod(root, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, "manager"), staticProgram, 0o600))
		require.NoError(t, os.Chmod(filepath.Join(root, "manager"), 0o555))
		return image, root
	}
	mode := func(mode os.FileMode) func(*contents, string) error {
		return func(_ *contents, root string) error { return os.Chmod(filepath.Join(root, "manager"), mode) }
	}
	user := func(name string) func(*contents, string) error {
		return func(c *contents, _ string) error { c.config.Config.User = name; return nil }
	}
	for name, tc := range map[string]struct {
		breaks func(*contents, string) error
		says   string
	}{
		"nothing":                    {func(*contents, string) error { return nil }, ""},
		"root":                       {user("0"), `runs as "0"`},
		"root and a group":           {user("0:65532"), `runs as "0:65532"`},
		"no user":                    {user(""), `runs as ""`},
		"a name is no number":        {user("nonroot"), `runs as "nonroot"`},
		"cannot be run":              {mode(0o444), "cannot run it"},
		"can be run by its owner":    {mode(0o700), "cannot run it"},
		"others could change it":     {mode(0o777), "/manager is -rwxrwxrwx"},
		"no such program":            {func(c *contents, _ string) error { c.config.Config.Entrypoint[0] = "/other"; return nil }, "no such file"},
		"a program of some path":     {func(c *contents, _ string) error { c.config.Config.Entrypoint[0] = "manager"; return nil }, "no absolute path"},
		"no entrypoint":              {func(c *contents, _ string) error { c.config.Config.Entrypoint = nil; return nil }, "no absolute path"},
		"a script":                   {func(_ *contents, root string) error { return replace(root, []byte("#!/bin/sh\nexec /bin/true\n")) }, "bad magic number"},
		"needs a loader":             {func(_ *contents, root string) error { return replace(root, dynamicProgram) }, "asks for a loader"},
		"as large as it must not be": {func(c *contents, _ string) error { c.manifest.Layers = []descriptor{{Size: limit}}; return nil }, "60000000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			image, root := good(t)
			require.NoError(t, tc.breaks(&image, root))
			err := image.judge(root)
			if tc.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.says)
		})
	}
}

func replace(root string, program []byte) error {
	path := filepath.Join(root, "manager")
	if err := os.Remove(path); err != nil {
		return err
	}
	if err := os.WriteFile(path, program, 0o600); err != nil {
		return err
	}
	return os.Chmod(path, 0o555)
}
