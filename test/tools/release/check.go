package main

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// check looks at a release as whoever gets it and reads the page: nothing is taken from how
// it was made but the names. It ends with a table of what there is.
func check(ctx context.Context, dir, page string, out io.Writer) error {
	if err := checkSums(dir); err != nil {
		return err
	}
	p, err := readPlugin(dir)
	if err != nil {
		return err
	}
	for _, one := range p.Spec.Platforms {
		if err := checkArchive(dir, p.Spec.Version, one); err != nil {
			_, name := one.target()
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := checkManifests(dir, p.Spec.Version); err != nil {
		return err
	}
	if err := checkChart(dir, p.Spec.Version); err != nil {
		return err
	}
	said, err := use(ctx, dir, page, p)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	names, err := files(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return fmt.Errorf("looking at %s: %w", name, err)
		}
		_, _ = fmt.Fprintf(w, "%s\t%d kB\n", name, (info.Size()+999)/1000)
	}
	_ = w.Flush()
	_, _ = fmt.Fprintf(out, "checked: %d files have their sums; %d archives have what they should, and licences and SBOMs of what is linked\n%s\n",
		len(names)-1, len(p.Spec.Platforms), strings.Join(said, "\n"))
	return nil
}

// checkSums compares every file with its sum; there is no file without one.
func checkSums(dir string) error {
	file, err := os.Open(filepath.Join(dir, sumsFile)) //nolint:gosec // G304: of the release
	if err != nil {
		return fmt.Errorf("reading the sums: %w", err)
	}
	defer func() { _ = file.Close() }()
	var faults []error
	var known []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		want, name, _ := strings.Cut(lines.Text(), "  ")
		sum, err := digest(filepath.Join(dir, name))
		if err == nil && sum != want {
			err = fmt.Errorf("%s has the sum %s, and %s says %s", name, sum, sumsFile, want)
		}
		faults, known = append(faults, err), append(known, name)
	}
	names, err := files(dir)
	faults = append(faults, err)
	for _, name := range names {
		if name != sumsFile && !slices.Contains(known, name) {
			faults = append(faults, fmt.Errorf("%s has no sum in %s", name, sumsFile))
		}
	}
	if len(known) == 0 {
		faults = append(faults, errors.New("no sum is there"))
	}
	return errors.Join(faults...)
}

// needed are the files of every archive but for the program; pages for man are not for
// windows.
var needed = []string{
	"LICENSE", "NOTICES.txt", "README.md",
	"completions/_rrpool", "completions/rrpool.bash", "completions/rrpool.fish", "completions/rrpool.ps1",
}

// checkArchive holds an archive to the manifest, to the list of what it has to have, and
// its SBOM to the program in it.
func checkArchive(dir, release string, p platform) error {
	t, name := p.target()
	if want := t.archive(release); name != want {
		return fmt.Errorf("the manifest for krew names it, and not %s", want)
	}
	path := filepath.Join(dir, name)
	sum, err := digest(path)
	if err != nil {
		return err
	}
	if sum != p.SHA256 {
		return fmt.Errorf("the manifest for krew has the sum %s, and it is %s", p.SHA256, sum)
	}
	inside, err := unpack(path)
	if err != nil {
		return err
	}
	want := slices.Concat(needed, []string{t.program()})
	if t.os != "windows" {
		want = append(want, "man/rrpool.1", "man/rrpool-version.1", "completions/kubectl_complete-rrpool")
	}
	for _, m := range p.Files {
		want = append(want, m.From)
	}
	for _, name := range want {
		if len(inside[name].content) == 0 {
			return fmt.Errorf("%s is not in it, or empty", name)
		}
	}
	program := inside[t.program()]
	if !program.program {
		return fmt.Errorf("%s cannot be executed", t.program())
	}
	return checkProgram(program.content, t, path+sbomSuffix, release, string(inside["NOTICES.txt"].content))
}

// unpack reads an archive. Krew takes regular files only, so it fails at anything else.
func unpack(path string) (map[string]entry, error) {
	content, err := os.ReadFile(path) //nolint:gosec // G304: of the release
	if err != nil {
		return nil, fmt.Errorf("reading the archive: %w", err)
	}
	if strings.HasSuffix(path, ".zip") {
		return unzip(content)
	}
	compressed, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("reading the archive: %w", err)
	}
	out := map[string]entry{}
	for r := tar.NewReader(compressed); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the archive: %w", err)
		}
		if header.Typeflag != tar.TypeReg {
			return nil, fmt.Errorf("%s is no regular file", header.Name)
		}
		if out[header.Name], err = entryOf(header.Name, r, header.FileInfo()); err != nil {
			return nil, err
		}
	}
}

func unzip(content []byte) (map[string]entry, error) {
	r, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return nil, fmt.Errorf("reading the archive: %w", err)
	}
	out := map[string]entry{}
	for _, f := range r.File {
		if !f.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is no regular file", f.Name)
		}
		file, err := f.Open()
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", f.Name, err)
		}
		if out[f.Name], err = entryOf(f.Name, file, f.FileInfo()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func entryOf(name string, r io.Reader, info os.FileInfo) (entry, error) {
	content, err := io.ReadAll(r)
	if err != nil {
		return entry{}, fmt.Errorf("reading %s: %w", name, err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return entry{}, fmt.Errorf("%s can be written by everybody", name)
	}
	return entry{name, content, info.Mode().Perm()&0o111 != 0}, nil
}

// checkManifests: the manager that they start is the one of the release.
func checkManifests(dir, release string) error {
	for _, overlay := range overlays {
		content, err := os.ReadFile(filepath.Join(dir, manifestName(overlay))) //nolint:gosec // G304: of the release
		if err != nil {
			return fmt.Errorf("reading the manifests: %w", err)
		}
		text := string(content)
		if strings.Count(text, "\n        image: ") != 1 || !strings.Contains(text, "/rrpool-manager:"+release+"\n") {
			return fmt.Errorf("%s does not start the manager %s", manifestName(overlay), release)
		}
	}
	return nil
}
