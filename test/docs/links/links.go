// Package links knows the anchors of pages, as GitHub gives them to headings.
package links

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

var (
	// Hidden is what of a page has no links and no headings: blocks of code, and comments.
	Hidden  = regexp.MustCompile("(?s)(?:^|\n) *```.*?\n *```|<!--.*?-->")
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.*)$`)
	anchor  = regexp.MustCompile(`<\w+\s[^>]*\b(?:id|name)="([^"]*)"`)
)

// Anchors are those that GitHub gives to the headings of a page, and those that the page has itself.
func Anchors(text string) []string {
	var out []string
	seen := map[string]int{}
	text = Hidden.ReplaceAllString(text, "")
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsNumber(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(m[1]))
		out = append(out, slug)
		if seen[slug]++; seen[slug] > 1 {
			out[len(out)-1] += fmt.Sprintf("-%d", seen[slug]-1)
		}
	}
	for _, m := range anchor.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// Leads is an error where a page, or the heading of it that is named after a #, does not exist.
func Leads(files fs.FS, place string) error {
	name, anchor, _ := strings.Cut(place, "#")
	content, err := fs.ReadFile(files, name)
	if err != nil {
		return fmt.Errorf("reading a page: %w", err)
	}
	if anchor != "" && !slices.Contains(Anchors(string(content)), anchor) {
		return fmt.Errorf("%s has no heading #%s", name, anchor)
	}
	return nil
}
