// Package links holds every link of the repository to lead somewhere: those of its pages
// as GitHub reads them, and those that code and manifests hand out.
package links

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// page is a file of Markdown.
type page struct {
	// name is its path in the repository.
	name string
	// links are the targets of links, pictures those of pictures, both as they are written.
	links, pictures []string
	anchors         map[string]bool
	// faults are what is wrong with the page itself.
	faults []string
}

var reader = goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser()

// read parses a page.
func read(name string, source []byte) page {
	p := page{name: name, anchors: map[string]bool{}}
	s := scanner{page: &p, source: source, headings: map[string]int{}}
	_ = ast.Walk(reader.Parse(text.NewReader(source)), s.visit) // visit has no errors
	return p
}

type scanner struct {
	*page
	source   []byte
	headings map[string]int
}

func (s *scanner) visit(n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	if n.Type() == ast.TypeInline {
		s.inline(n)
		return ast.WalkContinue, nil
	}
	switch n := n.(type) {
	case *ast.Heading:
		s.heading(words(n, s.source, true))
	case *ast.HTMLBlock:
		s.html(n.Lines().Value(s.source))
		if n.HasClosure() {
			s.html(n.ClosureLine.Value(s.source))
		}
	}
	if n.FirstChild() != nil && n.FirstChild().Type() == ast.TypeInline {
		for _, m := range undefined.FindAllString(words(n, s.source, false), -1) {
			s.fault("%s refers to nothing: no line of the page says what it is", m)
		}
	}
	return ast.WalkContinue, nil
}

func (s *scanner) inline(n ast.Node) {
	switch n := n.(type) {
	case *ast.Link:
		s.links = append(s.links, string(n.Destination))
	case *ast.AutoLink:
		s.links = append(s.links, string(n.URL(s.source)))
	case *ast.Image:
		s.pictures = append(s.pictures, string(n.Destination))
		if strings.TrimSpace(words(n, s.source, true)) == "" {
			s.fault("the picture %s has no words for those who cannot see it", n.Destination)
		}
	case *ast.RawHTML:
		s.html(n.Segments.Value(s.source))
	}
}

func (s *scanner) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// undefined is a reference that was not understood as a link, and so is shown as it is.
var undefined = regexp.MustCompile(`\[[^][]+\]\[[^][]*\]`)

// words are the text in a node, that in code type only when asked for.
func words(n ast.Node, source []byte, code bool) string {
	var out bytes.Buffer
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.CodeSpan:
			if !code {
				return ast.WalkSkipChildren, nil
			}
		case *ast.Text:
			if entering {
				out.Write(n.Value(source))
				if n.SoftLineBreak() {
					out.WriteByte(' ')
				}
			}
		case *ast.String:
			if entering {
				out.Write(n.Value)
			}
		}
		return ast.WalkContinue, nil
	})
	return out.String()
}

// heading adds the anchor that GitHub gives it.
func (s *scanner) heading(title string) {
	slug := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.In(r, unicode.L, unicode.M, unicode.N):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(title))
	before := s.headings[slug]
	s.headings[slug]++
	if before > 0 {
		slug = fmt.Sprintf("%s-%d", slug, before)
	}
	s.anchors[slug] = true
}

var (
	comment   = regexp.MustCompile(`(?s)<!--.*?-->`)
	reference = regexp.MustCompile(`<a\s[^>]*\bhref="([^"]*)"`)
	img       = regexp.MustCompile(`<(?:img|source)\s[^>]*\bsrc(?:set)?="([^"]*)"`)
	anchor    = regexp.MustCompile(`<\w+\s[^>]*\b(?:id|name)="([^"]*)"`)
)

func (s *scanner) html(source []byte) {
	visible := comment.ReplaceAllString(string(source), "")
	for _, m := range reference.FindAllStringSubmatch(visible, -1) {
		s.links = append(s.links, m[1])
	}
	for _, m := range img.FindAllStringSubmatch(visible, -1) {
		s.pictures = append(s.pictures, m[1])
		if !strings.Contains(m[0], `alt="`) && !strings.Contains(visible, `alt="`) {
			s.fault("the picture %s has no words for those who cannot see it", m[1])
		}
	}
	for _, m := range anchor.FindAllStringSubmatch(visible, -1) {
		s.anchors[m[1]] = true
	}
}
