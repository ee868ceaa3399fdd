package links

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// tree is the repository.
type tree struct {
	files fs.FS
	pages map[string]page
	// private are files that git ignores, by their names: a user makes them.
	private []string
	// texts are the other files that may name a page, and the pages themselves.
	texts map[string]string
}

func open(files fs.FS) (tree, error) {
	t := tree{files: files, pages: map[string]page{}, texts: map[string]string{}}
	ignores, err := fs.ReadFile(files, ".gitignore")
	if err != nil {
		return t, fmt.Errorf("reading what git ignores: %w", err)
	}
	t.private = strings.Split(string(ignores), "\n")
	err = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && outside(name):
			return fs.SkipDir
		case d.IsDir(), !sends(name):
			return nil
		}
		return t.add(name)
	})
	if err != nil {
		return t, fmt.Errorf("reading the repository: %w", err)
	}
	return t, nil
}

// outside reports a folder that is no part of what is published.
func outside(name string) bool {
	return slices.Contains([]string{".git", "bin", ".cache"}, name) || strings.HasSuffix(name, "testdata/rapid") || strings.HasSuffix(name, "testdata/fuzz")
}

// kinds are the files in which somebody may be sent somewhere, by how their names end.
var kinds = []string{".md", ".go", ".yaml", ".yml", ".json", ".tmpl", ".tpl", ".txt", ".golden", ".svg", "Makefile", "Dockerfile"}

// sends reports a file that may send a person somewhere. Tests have links of their own that
// lead nowhere.
func sends(name string) bool {
	return !strings.HasSuffix(name, "_test.go") && slices.ContainsFunc(kinds, func(end string) bool { return strings.HasSuffix(name, end) })
}

func (t tree) add(name string) error {
	content, err := fs.ReadFile(t.files, name)
	if err != nil {
		return err
	}
	t.texts[name] = string(content)
	if path.Ext(name) == ".md" && !strings.Contains(name, "testdata/") {
		t.pages[name] = read(name, content)
	}
	return nil
}

// target says what is wrong with a place in the repository, nothing where it is there.
func (t tree) target(name, anchor string) string {
	name = path.Clean(name)
	if name == ".." || strings.HasPrefix(name, "../") {
		return "leaves the repository: give the address on the net"
	}
	info, err := fs.Stat(t.files, name)
	if err != nil && slices.Contains(t.private, "/"+name) {
		return ""
	}
	if err != nil {
		return "there is no " + name
	}
	if info.IsDir() {
		name = path.Join(name, "README.md")
	}
	if p, ok := t.pages[name]; anchor != "" && !p.anchors[anchor] {
		if ok {
			return fmt.Sprintf("%s has no heading #%s", name, anchor)
		}
		return name + " is no page: it has no headings"
	}
	return ""
}
