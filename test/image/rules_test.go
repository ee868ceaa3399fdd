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

// judgeFiles: everyone may read, nobody may write.
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
