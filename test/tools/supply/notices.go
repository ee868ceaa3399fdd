package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// noticeFile is what a file is called that whoever passes a program on has to pass on too.
var noticeFile = regexp.MustCompile(`(?i)^((un)?(licen[cs]e|copying)|notice)([-._].*)?$`)

// legal is a comment that has to be passed on.
var legal = regexp.MustCompile(`(?i)copyright|licen[cs]e`)

// writeNotices writes the licences and notices of what is linked into a binary, each text
// once, below the names of the modules that have it. Most licences ask for that.
func writeNotices(out string, packages map[string]source) error {
	var order []string // of the texts
	owners := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		texts, err := notices(packages[name])
		if err != nil {
			return fmt.Errorf("collecting the notices of %s: %w", name, err)
		}
		who := strings.TrimSpace(name + " " + packages[name].version)
		for _, text := range texts {
			if owners[text] == nil {
				order = append(order, text)
			}
			owners[text] = append(owners[text], who)
		}
	}
	var b strings.Builder
	b.WriteString("This program contains the following works of others, under these licences.\n")
	for _, text := range order {
		_, _ = fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 72), strings.Join(owners[text], "\n"), text)
	}
	if err := os.WriteFile(out, []byte(b.String()), 0o600); err != nil {
		return fmt.Errorf("writing the notices: %w", err)
	}
	return nil
}

// notices are the texts in the folder of a module and in those of its packages that are
// linked. A module without any says by the headers of its files what it is under: then
// these go along.
func notices(s source) ([]string, error) {
	var out []string
	for _, folder := range s.folders() {
		texts, err := noticesIn(folder)
		if err != nil {
			return nil, err
		}
		for _, text := range texts {
			if !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	if len(out) == 0 {
		return headersOf(s)
	}
	return out, nil
}

// headersOf are the licences that stand at the top of a module's files, each once.
func headersOf(s source) ([]string, error) {
	var out []string
	for _, dir := range s.packages {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return nil, fmt.Errorf("looking for headers: %w", err)
		}
		for _, name := range files {
			text, err := headerOf(name)
			if err != nil {
				return nil, err
			}
			if text != "" && !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no text of a licence in %s, and none at the top of its files", s.dir)
	}
	return out, nil
}

// headerOf is what stands above a file's package about whose it is, and under which licence.
func headerOf(name string) (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.PackageClauseOnly|parser.ParseComments)
	if err != nil {
		return "", fmt.Errorf("reading a header: %w", err)
	}
	var out []string
	for _, comment := range file.Comments {
		if text := strings.TrimSpace(comment.Text()); legal.MatchString(text) {
			out = append(out, text)
		}
	}
	return strings.Join(out, "\n\n"), nil
}

// noticesIn are the texts in one folder.
func noticesIn(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("looking for notices: %w", err)
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() || !noticeFile.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, e.Name())) //nolint:gosec // G304: of the module cache
		if err != nil {
			return nil, fmt.Errorf("reading a notice: %w", err)
		}
		if text := strings.TrimSpace(strings.ReplaceAll(string(content), "\r\n", "\n")); text != "" {
			out = append(out, text)
		}
	}
	return out, nil
}
