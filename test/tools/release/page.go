package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rrpool/rrpool/test/walkthrough"
)

// reads does what a page says, block by block: in a folder with the files of the release,
// at a home where nothing is yet.
func (u user) reads(ctx context.Context, dir, page string, t target) ([]string, error) {
	if !here("sha256sum") {
		return []string{"not run, there is no sha256sum here: the blocks of " + filepath.Base(page)}, nil
	}
	content, err := os.ReadFile(page) //nolint:gosec // G304: of docs
	if err != nil {
		return nil, fmt.Errorf("reading the page: %w", err)
	}
	text, err := typed(content)
	if err != nil {
		return nil, err
	}
	script := strings.Join(text, "\n")
	for name, value := range map[string]string{"version": u.release, "target": t.String()} {
		line := regexp.MustCompile(`(?m)^` + name + `=.*$`)
		if !line.MatchString(script) {
			return nil, fmt.Errorf("it does not say %s=", name)
		}
		script = line.ReplaceAllString(script, name+"="+value)
	}
	var said []string
	if !here("man") {
		script = regexp.MustCompile(`(?m)^man .*$`).ReplaceAllString(script, "")
		said = append(said, "not run, there is no man here: man shows the page that was installed")
	}
	u.home = filepath.Join(u.home, "reader")
	downloads := filepath.Join(u.home, "Downloads")
	if err := errors.Join(os.MkdirAll(u.home, 0o750), os.CopyFS(downloads, os.DirFS(dir))); err != nil {
		return nil, fmt.Errorf("downloading the release: %w", err)
	}
	got, err := u.shell(ctx, downloads, filepath.Join(u.home, ".local", "bin"), script)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(got, "\nrrpool "+u.release+" (") {
		return nil, fmt.Errorf("it does not end with the version: %q", got)
	}
	return append(said, fmt.Sprintf("used: all %d blocks of %s that can be run here", len(text), filepath.Base(page))), nil
}

// here: this machine has the program.
func here(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// typed are the blocks of a page, but for those that it says are not run.
func typed(page []byte) ([]string, error) {
	blocks, err := walkthrough.Blocks(page)
	var out []string
	for _, b := range blocks {
		if b.Place == walkthrough.Here {
			out = append(out, b.Text)
		}
	}
	return out, err
}
