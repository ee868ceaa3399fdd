package links

import (
	"fmt"
	"io/fs"
	"maps"
	"net/mail"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Problems are what is wrong with the links of a repository, one sentence for each.
func Problems(files fs.FS) ([]string, error) {
	t, err := open(files)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(t.texts)) {
		for _, fault := range t.faults(name) {
			out = append(out, name+": "+fault)
		}
	}
	out = append(out, t.orphans()...)
	return append(out, t.unseen()...), nil
}

// Leads is an error where a place in the repository, such as a page and one of its headings, does not exist.
func Leads(files fs.FS, place string) error {
	name, anchor, _ := strings.Cut(place, "#")
	content, err := fs.ReadFile(files, name)
	if err != nil {
		return fmt.Errorf("reading a page: %w", err)
	}
	if anchor != "" && !read(name, content).anchors[anchor] {
		return fmt.Errorf("%s has no heading #%s", name, anchor)
	}
	return nil
}

// External are the addresses on the net that pages link, sorted, but for our own home.
func External(files fs.FS) ([]string, error) {
	t, err := open(files)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, p := range t.pages {
		for _, link := range p.links {
			if strings.HasPrefix(link, "https://") && !home.MatchString(link) {
				found[link] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

func (t tree) faults(name string) []string {
	out := t.mentions(name)
	p, ok := t.pages[name]
	if !ok {
		return out
	}
	out = append(out, p.faults...)
	for _, link := range p.links {
		if fault := t.link(name, link); fault != "" {
			out = append(out, fmt.Sprintf("link %s: %s", link, fault))
		}
	}
	for _, picture := range p.pictures {
		fault := t.link(name, picture)
		if strings.Contains(picture, "://") {
			fault = "a picture from the net tells its owner who reads: put it into the repository"
		}
		if fault != "" {
			out = append(out, fmt.Sprintf("picture %s: %s", picture, fault))
		}
	}
	return out
}

// link says what is wrong with the target of a link on a page.
func (t tree) link(from, link string) string {
	to, err := url.Parse(link)
	switch {
	case err != nil:
		return err.Error()
	case to.Scheme == "" && to.Host == "":
		return t.relative(from, to)
	case to.Scheme == "mailto":
		if _, err := mail.ParseAddress(to.Opaque); err != nil {
			return "is no address of mail: " + err.Error()
		}
		return ""
	case to.Scheme != "https":
		return "is not https"
	case !strings.Contains(to.Hostname(), ".") || to.User != nil:
		return "is no address that others can reach"
	}
	return "" // those to our own home are mentions
}

func (t tree) relative(from string, to *url.URL) string {
	switch {
	case strings.HasPrefix(to.Path, "/"):
		return "begins with a slash: give it as seen from the page"
	case to.RawQuery != "":
		return "asks something of a file"
	case to.Path == "" && to.Fragment == "":
		return "leads nowhere"
	case to.Path == "":
		return t.target(from, to.Fragment)
	}
	return t.target(path.Join(path.Dir(from), to.Path), to.Fragment)
}

// Places of the repository that are named outside of links.
var (
	// home is where the repository is on the net.
	home = regexp.MustCompile(`https://github\.com/rrpool/rrpool/(?:blob|tree|raw)/main/?([\w./-]*)(?:#([\w-]+))?`)
	// named is a page that a person is told to read.
	named = regexp.MustCompile(`(?:^|[^\w./-])(docs/[\w/-]+\.md)(?:#([\w-]+))?`)
	// file is something else on a page.
	file = regexp.MustCompile(`(?:^|[^\w./-])((?:cloud|cmd|config|controllers|docs|test)/[\w./-]*\w)`)
	// machine is a place on the computer of the one who wrote it.
	machine = regexp.MustCompile(`(?:^|[^\w./-])(/(?:work|root|home)/\S*)`)
)

// mentions says what is wrong with places that a file names, in links or not.
func (t tree) mentions(name string) []string {
	var out []string
	say := func(what, fault string) {
		if fault != "" && !slices.Contains(out, what+": "+fault) {
			out = append(out, what+": "+fault)
		}
	}
	text := t.texts[name]
	for _, m := range home.FindAllStringSubmatch(text, -1) {
		say(m[0], t.target(strings.TrimRight(m[1], "."), m[2]))
	}
	for _, m := range named.FindAllStringSubmatch(text, -1) {
		say(m[1], t.target(m[1], m[2]))
	}
	if _, ok := t.pages[name]; !ok {
		return out
	}
	for _, m := range file.FindAllStringSubmatch(text, -1) {
		say(m[1], t.target(m[1], ""))
	}
	for _, m := range machine.FindAllStringSubmatch(text, -1) {
		say(m[1], "is a place on somebody's computer")
	}
	return out
}

// unseen are the pictures of docs that no page shows or links.
func (t tree) unseen() []string {
	seen := map[string]bool{}
	for _, p := range t.pages {
		for _, link := range slices.Concat(p.links, p.pictures) {
			seen[path.Join(path.Dir(p.name), link)] = true
		}
	}
	pictures, _ := fs.Glob(t.files, "docs/pictures/*") // the pattern is fine, and that is all that is looked at
	var out []string
	for _, name := range pictures {
		if !seen[name] {
			out = append(out, name+": no page shows it")
		}
	}
	return out
}

// linked are the pages that a page links, with those that stand for a folder.
func (t tree) linked(from page) []string {
	var out []string
	for _, link := range from.links {
		to, err := url.Parse(link)
		if err != nil || to.Host != "" || to.Path == "" {
			continue
		}
		name := path.Join(path.Dir(from.name), to.Path)
		for _, name := range []string{name, path.Join(name, front)} {
			if _, ok := t.pages[name]; ok {
				out = append(out, name)
			}
		}
	}
	return out
}

// front is the page where everybody begins.
const front = "README.md"

// orphans are the pages of docs that no links lead to from the front page.
func (t tree) orphans() []string {
	seen, next := map[string]bool{front: true}, []string{front}
	for len(next) > 0 {
		from := t.pages[next[0]]
		next = next[1:]
		for _, name := range t.linked(from) {
			if !seen[name] {
				seen[name] = true
				next = append(next, name)
			}
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(t.pages)) {
		if strings.HasPrefix(name, "docs/") && !seen[name] {
			out = append(out, name+": no links lead here from "+front)
		}
	}
	return out
}
