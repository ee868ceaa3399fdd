//go:build linux

package image

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

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
		"nobody said who":            {user(""), `runs as ""`},
		"a name may be anybody's":    {user("nonroot"), `runs as "nonroot"`},
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
