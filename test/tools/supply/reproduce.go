package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// sources are what the product is built of, as the Dockerfile has them.
var sources = []string{"go.mod", "go.sum", "cloud", "cmd", "config", "controllers"}

// commands are the binaries.
var commands = []string{"manager", "rrpool"}

// reproduce builds each binary twice: in two folders of different names, one with what is
// in Go's cache and one with an empty cache. The bytes must be the same. As a control, the
// same without -trimpath must differ: else the two builds would not be two.
func reproduce(ctx context.Context, root string) error {
	top, err := os.MkdirTemp("", "rrpool-reproduce-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(top) }()
	here, there := filepath.Join(top, "here"), filepath.Join(top, "somewhere", "else")
	for _, dir := range []string{here, there} {
		if err := copySources(ctx, root, dir); err != nil {
			return err
		}
	}
	var faults []error
	for _, command := range commands {
		first, err := build(ctx, here, command, "", "-trimpath")
		if err != nil {
			return err
		}
		second, err := build(ctx, there, command, filepath.Join(top, "cache"), "-trimpath")
		if err != nil {
			return err
		}
		if first != second {
			faults = append(faults, fmt.Errorf("%s is %s, and built anew elsewhere %s", command, first, second))
			continue
		}
		fmt.Printf("%s: the same bytes from two folders and two caches: sha256 %s\n", command, first)
	}
	return errors.Join(append(faults, control(ctx, here, there))...)
}

// control: without -trimpath the folder is in the binary.
func control(ctx context.Context, here, there string) error {
	first, err := build(ctx, here, commands[0], "")
	if err != nil {
		return err
	}
	second, err := build(ctx, there, commands[0], "")
	if err != nil {
		return err
	}
	if first == second {
		return fmt.Errorf("%s has the same bytes without -trimpath: this check would see nothing", commands[0])
	}
	return nil
}

func copySources(ctx context.Context, root, to string) error {
	if err := os.MkdirAll(to, 0o750); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	for _, name := range sources {
		if out, err := exec.CommandContext(ctx, "cp", "-R", filepath.Join(root, name), to).CombinedOutput(); err != nil { //nolint:gosec // G204: our own names
			return fmt.Errorf("copying %s: %w: %s", name, err, out)
		}
	}
	return nil
}

// build builds as make build and the Dockerfile do, and gives the digest.
func build(ctx context.Context, dir, command, cache string, flags ...string) (string, error) {
	out := filepath.Join(dir, command+strings.Join(flags, ""))
	arguments := append([]string{"build", "-ldflags", "-s -w", "-o", out}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(arguments, "./cmd/"+command)...) //nolint:gosec // G204: our own flags
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if cache != "" {
		cmd.Env = append(cmd.Env, "GOCACHE="+cache)
	}
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s in %s: %w: %s", command, dir, err, said)
	}
	return digest(out)
}
