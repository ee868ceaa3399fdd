package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// module is one that a binary is made of.
type module struct {
	path, version, sum string
	licences           []string
}

// linked is what a binary says of itself.
type linked struct {
	main, version, goVersion string
	platform                 []string // variables of the build: GOOS=linux, GOARCH=amd64
	modules                  []module // Go's own library first
}

// modulesIn reads what the linker has written into a binary.
func modulesIn(binary string) (linked, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return linked{}, fmt.Errorf("reading what is in %q: %w", binary, err)
	}
	out := linked{main: info.Path, version: info.Main.Version, goVersion: info.GoVersion}
	for _, s := range info.Settings {
		if s.Key == "GOOS" || s.Key == "GOARCH" {
			out.platform = append(out.platform, s.Key+"="+s.Value)
		}
	}
	out.modules = append(out.modules, module{path: "std", version: strings.TrimPrefix(info.GoVersion, "go")})
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		out.modules = append(out.modules, module{path: m.Path, version: m.Version, sum: m.Sum})
	}
	return out, nil
}

// source is where a module's packages are that are linked.
type source struct {
	dir, version string
	packages     []string // folders
}

// folders are those of the linked packages, and the ones above them up to the module's.
func (s source) folders() []string {
	out := []string{s.dir}
	for _, p := range s.packages {
		for ; len(p) > len(s.dir); p = filepath.Dir(p) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// packagesOf are the packages that a binary is built of on its platform, by module.
func packagesOf(ctx context.Context, root string, l linked) (map[string]source, error) {
	command := l.main
	list := exec.CommandContext(ctx, "go", "list", "-deps", "-json=Dir,Standard,Module", command) //nolint:gosec // G204: of our own binary
	list.Dir = root
	list.Env = append(append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false"), l.platform...)
	var stderr bytes.Buffer
	list.Stderr = &stderr
	content, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the packages of %s: %w: %s", command, err, stderr.String())
	}
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("finding Go's own library: %w", err)
	}
	out := map[string]source{"std": {dir: strings.TrimSpace(string(goroot)), version: l.modules[0].version}}
	for decoder := json.NewDecoder(bytes.NewReader(content)); ; {
		var p struct {
			Dir      string
			Standard bool
			Module   *struct {
				Path, Version, Dir string
				Main               bool
				Replace            *struct{ Path, Version, Dir string }
			}
		}
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the packages of %s: %w", command, err)
		}
		if p.Standard || p.Module.Main {
			continue
		}
		path, version, dir := p.Module.Path, p.Module.Version, p.Module.Dir
		if r := p.Module.Replace; r != nil {
			path, version, dir = r.Path, r.Version, r.Dir
		}
		s := out[path]
		s.dir, s.version, s.packages = dir, version, append(s.packages, p.Dir)
		out[path] = s
	}
}

// sameModules: what is judged is what is linked, in these versions.
func sameModules(l linked, packages map[string]source) error {
	var faults []error
	for _, m := range l.modules {
		s, ok := packages[m.path]
		if !ok || s.version != m.version {
			faults = append(faults, fmt.Errorf("%s %s is linked, %q is in go.mod", m.path, m.version, s.version))
		}
	}
	for path := range packages {
		if !slices.ContainsFunc(l.modules, func(m module) bool { return m.path == path }) {
			faults = append(faults, fmt.Errorf("%s is needed, and not linked", path))
		}
	}
	return errors.Join(faults...)
}
