package topology

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// What the formats are made of, besides quoted words.
var (
	quotedWords  = regexp.MustCompile(`"(?:[^"\\\n]|\\[^\n])*"`)
	dotGrammar   = regexp.MustCompile(`^[\w\s\[\]{}=,.#-]*$`)
	mermaidWords = regexp.MustCompile(`^"(?:[ ,.:/()\-+=×…a-zA-Z0-9]|#\d+;|<br/>)*"$`)
	mermaidLines = regexp.MustCompile(`^[\w\s\[\]{}()|~:.,#-]*$`)
	svgElements  = []string{"svg", "title", "desc", "style", "rect", "path", "circle", "text"}
	openTags     = regexp.MustCompile(`<(/?[A-Za-z!][A-Za-z]*)`)
	pageTags     = []string{
		"!DOCTYPE", "html", "head", "meta", "title", "style", "body", "p", "div", "svg", "desc", "rect", "path", "circle", "text",
		"h", "table", "thead", "tbody", "tr", "th", "td",
	}
)

// Whatever nodes, zones, racks and warnings are called, no format takes a name for
// something of its own: it stays in quotes, or is text.
func FuzzPicture(f *testing.F) {
	f.Add([]byte(`a"];evil--evil[label="b`))
	f.Add([]byte("<script>alert(1)</script>\x00\x1b[2J\n\"]:::evil\nclick a \"javascript:x\""))
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		n := anyNetwork(t)
		n.Warnings = []string{anyName.Draw(t, "warning")}
		for i := range n.Zones {
			for j := range n.Zones[i].Reflectors {
				n.Zones[i].Reflectors[j].ClusterID = anyName.Draw(t, "cluster id")
			}
		}
		n.arrange()
		requireNames(t, n)
	}))
}

// requireNames holds every format to its own grammar.
func requireNames(t require.TestingT, n Network) {
	require.Regexp(t, dotGrammar, quotedWords.ReplaceAllString(rendered(t, n, "dot"), ""))

	_, chart, found := strings.Cut(rendered(t, n, "mermaid"), "\n---\n")
	require.True(t, found)
	require.Regexp(t, mermaidLines, quotedWords.ReplaceAllStringFunc(chart, func(words string) string {
		require.Regexp(t, mermaidWords, words)
		return ""
	}))

	require.True(t, json.Valid([]byte(rendered(t, n, "json"))))
	requireElements(t, rendered(t, n, "svg"))
	for _, tag := range openTags.FindAllStringSubmatch(rendered(t, n, "html"), -1) {
		require.Contains(t, pageTags, strings.TrimPrefix(tag[1], "/"))
	}
}

func requireElements(t require.TestingT, picture string) {
	for decoder := xml.NewDecoder(strings.NewReader(picture)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		require.True(t, slices.Contains(svgElements, element.Name.Local), element.Name.Local)
		for _, attribute := range element.Attr {
			require.False(t, strings.HasPrefix(attribute.Name.Local, "on") || attribute.Name.Local == "href", attribute.Name.Local)
		}
	}
}

// The check would notice.
func TestANameThatGetsOutIsNoticed(t *testing.T) {
	require.NotRegexp(t, dotGrammar, quotedWords.ReplaceAllString(`a [label="b"]; evil "`, ""))
	require.NotRegexp(t, mermaidWords, `"a"b"`)
	require.NotRegexp(t, mermaidWords, `"<script>"`)
	require.NotContains(t, pageTags, openTags.FindStringSubmatch("<script>")[1])
}
