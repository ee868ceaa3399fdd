// Package links finds the anchors that GitHub gives to the headings of pages.
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
	// Hidden matches code blocks and comments, which contain no links and no headings.
	Hidden  = regexp.MustCompile("(?s)(?:^|\n) *```.*?\n *```|<!--.*?-->")
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.*)$`)
	anchor  = regexp.MustCompile(`<\w+\s[^>]*\b(?:id|name)="([^"]*)"`)
)

// Anchors returns the anchors of a page's headings, and those in its HTML.
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

// Leads returns an error if a page, or its anchor after a #, does not exist.
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
