package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// user is somebody who has got the archive of the machine that this runs on.
type user struct {
	home    string // holds what was unpacked, bin and store
	release string // the version that they expect
}

// use installs the archive for this machine as krew does, and as the page says, which is
// docs/install-cli.md. It gives sentences about what was done, and what could not be.
func use(ctx context.Context, dir, page string, p plugin) ([]string, error) {
	for _, one := range p.Spec.Platforms {
		if t, _ := one.target(); t == (target{runtime.GOOS, runtime.GOARCH}) {
			return useHere(ctx, dir, page, p.Spec.Version, one)
		}
	}
	return []string{fmt.Sprintf("use: NOT RUN, there is no archive for %s_%s", runtime.GOOS, runtime.GOARCH)}, nil
}

func useHere(ctx context.Context, dir, page, release string, p platform) ([]string, error) {
	t, name := p.target()
	home, err := os.MkdirTemp("", "rrpool-user-")
	if err != nil {
		return nil, fmt.Errorf("making a home: %w", err)
	}
	defer func() { _ = os.RemoveAll(home) }()
	u := user{home: home, release: release}
	if err := u.takes(filepath.Join(dir, name), p); err != nil {
		return nil, fmt.Errorf("installing %s: %w", name, err)
	}
	said, err := u.works(ctx)
	if err != nil {
		return nil, fmt.Errorf("using %s: %w", name, err)
	}
	more, err := u.reads(ctx, dir, page, t)
	if err != nil {
		return nil, fmt.Errorf("doing what %s says: %w", filepath.Base(page), err)
	}
	return append(said, more...), nil
}

func (u user) unpacked() string { return filepath.Join(u.home, "unpacked") }
func (u user) bin() string      { return filepath.Join(u.home, "bin") }

// takes unpacks the archive, and installs from it what the manifest says as krew does: into
// a store, with a link of the plugin's name in a folder of the PATH.
func (u user) takes(archive string, p platform) error {
	inside, err := unpack(archive)
	if err != nil {
		return err
	}
	for name, e := range inside {
		if err := write(filepath.Join(u.unpacked(), filepath.FromSlash(name)), e); err != nil {
			return err
		}
	}
	store := filepath.Join(u.home, "store", "rrpool", u.release)
	for _, m := range p.Files {
		to := m.To
		if to == "." {
			to = filepath.Base(m.From)
		}
		if err := write(filepath.Join(store, to), inside[m.From]); err != nil {
			return err
		}
	}
	return errors.Join(
		os.MkdirAll(u.bin(), 0o750),
		os.Symlink(filepath.Join(store, p.Bin), filepath.Join(u.bin(), "kubectl-rrpool")),
	)
}

func write(path string, e entry) error {
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, e.content, os.FileMode(e.mode()))) //nolint:gosec // G115: 0755 or 0644
}

// works tries the program by both its names, the completions and the manual.
func (u user) works(ctx context.Context) ([]string, error) {
	// What kubectl does with a plugin, for the script that completes: there may be none here.
	kubectl := "#!/bin/sh\nname=$1; shift; exec \"kubectl-$name\" \"$@\"\n"
	if err := write(filepath.Join(u.bin(), "kubectl"), entry{content: []byte(kubectl), program: true}); err != nil {
		return nil, err
	}
	steps := []struct {
		needs, does string // needs is a program that may not be here
		command     string
		wants       string
	}{
		{"", "rrpool says its version", "./rrpool version", "rrpool " + u.release + " ("},
		{"", "kubectl rrpool says its version", "kubectl-rrpool version", "rrpool " + u.release + " ("},
		{"", "kubectl rrpool knows its name", "kubectl-rrpool cost --help", "kubectl rrpool cost"},
		{"sh", "kubectl completes", "sh completions/kubectl_complete-rrpool cost -o ''", "table"},
		{"bash", "bash completes", "source completions/rrpool.bash; complete -p rrpool", " rrpool"},
		{"zsh", "zsh completes", "zsh -fc 'autoload -U compinit; compinit -D; fpath=(completions $fpath); source completions/_rrpool; echo $_comps[rrpool]'", "_rrpool"},
		{"fish", "fish completes", "fish -Nc 'source completions/rrpool.fish; complete -C \"rrpool cost -o \"'", "table"},
		{"man", "man shows the page", "man --warnings=w -l man/rrpool.1 2>&1", "rrpool"},
	}
	var said []string
	for _, s := range steps {
		if s.needs != "" && !here(s.needs) {
			said = append(said, "not run, there is no "+s.needs+" here: "+s.does)
			continue
		}
		got, err := u.types(ctx, s.command)
		if err == nil && (!strings.Contains(got, s.wants) || strings.Contains(got, "warning:")) {
			err = fmt.Errorf("it says %q, without %q", got, s.wants)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.does, err)
		}
		said = append(said, "used: "+s.does)
	}
	return said, nil
}

// types runs lines in the folder of the archive.
func (u user) types(ctx context.Context, lines string) (string, error) {
	return u.shell(ctx, u.unpacked(), u.bin(), lines)
}

// shell runs lines in a folder, with nothing of ours in the environment but the PATH.
func (u user) shell(ctx context.Context, dir, bin, lines string) (string, error) {
	cmd := exec.CommandContext(ctx, "bash", "--norc", "-euc", lines) //nolint:gosec // G204: lines of ours
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + u.home, "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "TERM=dumb", "MANPAGER=cat", "LC_ALL=C.UTF-8"}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.TrimSpace(lines), err, stderr.String())
	}
	return string(out), nil
}
