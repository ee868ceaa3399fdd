// Package docs_test holds the pages to what they refer to: files, headings, tests and targets of the Makefile.
package docs_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/docs/links"
)

// repository is the texts that refer to places, by their path, and what they may refer to.
type repository struct {
	files   fs.FS
	texts   map[string]string
	anchors map[string][]string // of pages
	targets []string            // of the Makefile
}

var (
	code     = regexp.MustCompile("``.*?``|`[^`\n]*`")
	link     = regexp.MustCompile(`\]\(([^)\s]*)|<(?:a|img)\s[^>]*?\b(?:href|src)="([^"]*)"|(?m:^\[[^\]]+\]: +(\S+))`)
	noWords  = regexp.MustCompile(`!\[\s*\]\(`)
	home     = regexp.MustCompile(`https://github\.com/rrpool/rrpool/(?:blob|tree|raw)/main/?([\w./-]*)(?:#([\w-]+))?`)
	named    = regexp.MustCompile(`(?:^|[^\w./-])(docs/[\w/-]+\.md)(?:#([\w-]+))?`)
	target   = regexp.MustCompile(`(?m)^([a-z-]+):`)
	typed    = regexp.MustCompile("(?m)(?:`|^ *\\$? ?)make ([a-z][a-z -]*)")
	test     = regexp.MustCompile(`\[` + "`?" + `((?:Test|Fuzz)\w+)` + "`?" + `\]\(([\w./-]+_test\.go)\)`)
	referrer = regexp.MustCompile(`(\.(md|go|ya?ml|json|tmpl|tpl|txt|golden|svg)|Makefile|Dockerfile)$`)
)

func open(files fs.FS) (repository, error) {
	r := repository{files: files, texts: map[string]string{}, anchors: map[string][]string{}}
	return r, fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains([]string{".git", "bin", ".cache"}, name) || path.Base(path.Dir(name)) == "testdata"):
			return fs.SkipDir
		case d.IsDir(), strings.HasSuffix(name, "_test.go"), !referrer.MatchString(name):
			return nil
		}
		content, err := fs.ReadFile(files, name)
		r.texts[name] = string(content)
		if r.page(name) {
			r.anchors[name] = links.Anchors(r.texts[name])
		}
		if name == "Makefile" {
			for _, m := range target.FindAllStringSubmatch(r.texts[name], -1) {
				r.targets = append(r.targets, m[1])
			}
		}
		return err
	})
}

func (repository) page(name string) bool {
	return path.Ext(name) == ".md" && !strings.Contains(name, "testdata/")
}

// problems are the references that lead nowhere, and the pages of docs to which no link leads from README.md.
func (r repository) problems() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(r.texts)) {
		for _, problem := range slices.Concat(r.addresses(name), r.targetsOf(name), r.commands(name), r.tests(name)) {
			out = append(out, name+": "+problem)
		}
	}
	return append(out, r.orphans()...)
}

func (r repository) place(name, anchor string) []string {
	name = path.Clean(name)
	info, err := fs.Stat(r.files, name)
	if err != nil {
		return []string{"there is no " + name}
	}
	if info.IsDir() {
		name = path.Join(name, "README.md")
	}
	if anchor != "" && !slices.Contains(r.anchors[name], anchor) {
		return []string{name + " has no heading #" + anchor}
	}
	return nil
}

// addresses checks the places of the repository that a text of any kind names.
func (r repository) addresses(name string) []string {
	var out []string
	for _, m := range slices.Concat(home.FindAllStringSubmatch(r.texts[name], -1), named.FindAllStringSubmatch(r.texts[name], -1)) {
		out = append(out, r.place(strings.TrimRight(m[1], "."), m[2])...)
	}
	return out
}

// targets of the links of a page.
func (r repository) linked(name string) []string {
	var out []string
	text := code.ReplaceAllString(links.Hidden.ReplaceAllString(r.texts[name], ""), "")
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1]+m[2]+m[3])
	}
	return out
}

func (r repository) targetsOf(name string) []string {
	if !r.page(name) {
		return nil
	}
	var out []string
	for _, to := range r.linked(name) {
		file, anchor, _ := strings.Cut(to, "#")
		switch {
		case strings.HasPrefix(to, "https://"), strings.HasPrefix(to, "mailto:"):
		case strings.Contains(to, ":"), strings.HasPrefix(to, "/"), to == "":
			out = append(out, fmt.Sprintf("link %q is neither relative nor https", to))
		case file == "":
			out = append(out, r.place(name, anchor)...)
		default:
			out = append(out, r.place(path.Join(path.Dir(name), file), anchor)...)
		}
	}
	if noWords.MatchString(r.texts[name]) {
		out = append(out, "a picture has no words for those who cannot see it")
	}
	return out
}

func (r repository) commands(name string) []string {
	var out []string
	for _, m := range typed.FindAllStringSubmatch(r.texts[name], -1) {
		for _, target := range strings.Fields(m[1]) {
			if r.page(name) && !slices.Contains(r.targets, target) {
				out = append(out, "make "+target+" is no target of the Makefile")
			}
		}
	}
	return out
}

// tests checks that a test which a page names is in the file that it links.
func (r repository) tests(name string) []string {
	var out []string
	for _, m := range test.FindAllStringSubmatch(r.texts[name], -1) {
		file := path.Join(path.Dir(name), m[2])
		if content, _ := fs.ReadFile(r.files, file); !strings.Contains(string(content), "\nfunc "+m[1]+"(") { // without a file there is no test
			out = append(out, m[1]+" is not in "+file)
		}
	}
	return out
}

func (r repository) orphans() []string {
	seen, next := map[string]bool{}, []string{"README.md"}
	for ; len(next) > 0; next = next[1:] {
		name := next[0]
		if _, page := r.anchors[name]; !page || seen[name] {
			continue
		}
		seen[name] = true
		for _, to := range r.linked(name) {
			file, _, _ := strings.Cut(to, "#")
			place := path.Join(path.Dir(name), file)
			next = append(next, place, path.Join(place, "README.md"))
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(r.anchors)) {
		if strings.HasPrefix(name, "docs/") && !seen[name] {
			out = append(out, name+": no links lead here from README.md")
		}
	}
	return out
}

func TestEveryReferenceLeadsSomewhere(t *testing.T) {
	r, err := open(os.DirFS("../.."))
	require.NoError(t, err)
	require.Greater(t, len(r.anchors), 20)
	problems := r.problems()
	require.Empty(t, problems, strings.Join(problems, "\n"))
}

func TestReferences(t *testing.T) {
	for name, tc := range map[string]struct{ file, text, problem string }{
		"pages, folders and headings":            {"docs/c.md", "# Top\n[a](b.md) [b](../docs) [c](#top) [d](../README.md#home) [e](b.md#a-b-or-two) [f](b.md#more-1) [g](b.md#own)", ""},
		"what is in code type or a comment":      {"docs/c.md", "`[a](nowhere.md)`\n\n```md\n[a](nowhere.md)\n```\n<!-- [a](nowhere.md) -->", ""},
		"the network":                            {"docs/c.md", "[a](https://docs.tigera.io/calico#x) <https://kubernetes.io> [m](mailto:a@b.org)", ""},
		"a target and a test":                    {"docs/c.md", "`make test`, or they make do: [`TestA`](../cmd/a_test.go)", ""},
		"no such page":                           {"docs/c.md", "[a](d.md)", "there is no docs/d.md"},
		"a link as seen from another folder":     {"docs/c.md", "[a](docs/b.md)", "there is no docs/docs/b.md"},
		"no such heading":                        {"docs/c.md", "[a](b.md#less)", "docs/b.md has no heading #less"},
		"no such heading on the page itself":     {"docs/c.md", "# a\n[a](#b)", "docs/c.md has no heading #b"},
		"one heading more than there are":        {"docs/c.md", "[a](b.md#more-2)", "no heading"},
		"a reference":                            {"docs/c.md", "[b]\n\n[b]: d.md", "there is no docs/d.md"},
		"HTML":                                   {"docs/c.md", `<a class="b" href="d.md">`, "there is no docs/d.md"},
		"a picture":                              {"docs/c.md", "![a](b.svg)", "there is no docs/b.svg"},
		"a picture without words":                {"docs/c.md", "![](a.svg)", "has no words"},
		"a path from the root":                   {"docs/c.md", "[a](/docs/b.md)", "neither relative nor https"},
		"a link that is not encrypted":           {"docs/c.md", "[a](http://a.org)", "neither relative nor https"},
		"an address in code":                     {"cmd/a.go", `"https://github.com/rrpool/rrpool/blob/main/docs/d.md"`, "there is no docs/d.md"},
		"an alert's address":                     {"config/a.yaml", "https://github.com/rrpool/rrpool/blob/main/docs/b.md#less", "no heading #less"},
		"a page that a message names":            {"cmd/a.go", `do("install it (docs/b.md#less)")`, "no heading #less"},
		"a page that the output of a test names": {"cmd/testdata/a.golden", "see docs/d.md", "there is no docs/d.md"},
		"no such target":                         {"docs/c.md", "`make tests`", "make tests is no target"},
		"no such target in a block":              {"docs/c.md", "```sh\nmake test sok   # x\n```", "make sok is no target"},
		"no such test":                           {"docs/c.md", "[TestB](../cmd/a_test.go)", "TestB is not in cmd/a_test.go"},
		"a page to which no link leads":          {"docs/d.md", "# alone", "no links lead here"},
	} {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS{
				"README.md":      {Data: []byte("# Home\n[docs](docs/) ![words](docs/a.svg)\n")},
				"docs/README.md": {Data: []byte("# Docs\n[b](b.md) [c](c.md)\n")},
				"docs/a.svg":     {Data: []byte("<svg/>")},
				"docs/b.md":      {Data: []byte("# A `b`, or two\n## More\n## More\n<a id=\"own\"></a>\n")},
				"docs/c.md":      {Data: nil},
				"cmd/a_test.go":  {Data: []byte("package cmd\n\nfunc TestA(t *testing.T) {}\n")},
				"Makefile":       {Data: []byte("test:\n")},
			}
			files[tc.file] = &fstest.MapFile{Data: []byte(tc.text)}
			r, err := open(files)
			require.NoError(t, err)
			if tc.problem == "" {
				require.Empty(t, r.problems())
				return
			}
			require.Len(t, r.problems(), 1)
			require.Contains(t, r.problems()[0], tc.problem)
			require.Contains(t, r.problems()[0], tc.file)
		})
	}
}
