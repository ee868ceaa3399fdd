package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// The names by which the programs are stamped.
const stamped = "github.com/rrpool/rrpool/cmd/version."

// building is one making of programs and pages, in a folder of its own.
type building struct {
	root, stage string // root has the sources, and nothing else
	tools       string // folder of the programs that write pages and SBOMs
	source      source
}

// tools builds them.
func tools(ctx context.Context, root, to string) error {
	for folder, dir := range map[string]string{root: "./test/tools/reference", filepath.Join(root, "test", "tools", "supply"): "."} {
		if err := run(ctx, folder, nil, "go", "build", "-buildvcs=false", "-o", to+string(filepath.Separator), dir); err != nil {
			return fmt.Errorf("building the tools: %w", err)
		}
	}
	return nil
}

// copySources takes what a release is made of to a folder of its own, so that nobody
// changes it meanwhile.
func copySources(ctx context.Context, from, to string) error {
	if err := os.MkdirAll(to, 0o750); err != nil {
		return fmt.Errorf("copying the sources: %w", err)
	}
	for _, name := range append([]string{"LICENSE", "README.md"}, sources...) {
		if err := run(ctx, from, nil, "cp", "-R", name, to); err != nil {
			return fmt.Errorf("copying the sources: %w", err)
		}
	}
	return nil
}

// program is where a target's is.
func (b building) program(t target) string { return filepath.Join(b.stage, t.String(), t.program()) }

// pages is the folder of what is the same for all targets.
func (b building) pages() string { return filepath.Join(b.stage, "pages") }

// compile builds the command line for a target. Whatever has a say in the bytes is given
// here, and not by the environment.
func (b building) compile(ctx context.Context, t target) error {
	stamps := "-s -w -X " + stamped + "release=" + b.source.version + " -X " + stamped + "commit=" + b.source.commit + " -X " + stamped + "date=" + b.source.date()
	err := run(ctx, b.root, []string{"CGO_ENABLED=0", "GOOS=" + t.os, "GOARCH=" + t.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOPPC64=power8"},
		"go", "build", "-buildvcs=false", "-trimpath", "-ldflags", stamps, "-o", b.program(t), "./cmd/rrpool")
	if err != nil {
		return fmt.Errorf("building the command line for %s: %w", t, err)
	}
	return nil
}

// document writes manual pages and completions.
func (b building) document(ctx context.Context) error {
	err := run(ctx, b.root, []string{"SOURCE_DATE_EPOCH=" + strconv.FormatInt(b.source.at.Unix(), 10)},
		filepath.Join(b.tools, "reference"), "-version", b.source.version, "-man", filepath.Join(b.pages(), "man"), "-completions", filepath.Join(b.pages(), "completions"))
	if err != nil {
		return fmt.Errorf("writing manual pages and completions: %w", err)
	}
	return nil
}

// account writes what is in the programs: an SBOM and the licences beside each of them.
func (b building) account(ctx context.Context, targets []target) error {
	args := []string{"-root", b.root, "-version", b.source.version, "-notices"}
	for _, t := range targets {
		args = append(args, b.program(t))
	}
	if err := run(ctx, b.root, nil, filepath.Join(b.tools, "supply"), args...); err != nil {
		return fmt.Errorf("writing the SBOMs: %w", err)
	}
	return nil
}

// entries are what goes into a target's archive.
func (b building) entries(t target) ([]entry, error) {
	type file struct {
		name, path string
		program    bool
	}
	wanted := []file{
		{t.program(), b.program(t), true},
		{"LICENSE", filepath.Join(b.root, "LICENSE"), false},
		{"README.md", filepath.Join(b.root, "README.md"), false},
		{"NOTICES.txt", b.program(t) + ".notices.txt", false},
	}
	folders := []string{"completions", "man"}
	if t.os == "windows" {
		folders = folders[:1]
	}
	for _, folder := range folders {
		names, err := files(filepath.Join(b.pages(), folder))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			runs := strings.HasPrefix(name, "kubectl_complete-")
			if runs && t.os == "windows" {
				continue // it is for sh
			}
			wanted = append(wanted, file{folder + "/" + name, filepath.Join(b.pages(), folder, name), runs})
		}
	}
	var out []entry
	for _, f := range wanted {
		content, err := os.ReadFile(f.path)
		if err != nil {
			return nil, fmt.Errorf("collecting what goes into the archive: %w", err)
		}
		out = append(out, entry{f.name, content, f.program})
	}
	return out, nil
}

// run runs a program, which says something only where it fails.
func run(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // G204: our own arguments
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}
