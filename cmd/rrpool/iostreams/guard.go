package iostreams

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// guard lets pass what a person may see. What commands print has words of nodes, of the
// cloud and of whoever wrote an object in it, and a terminal would obey them: so of all
// sequences only our colours get through.
type guard struct{ to io.Writer }

// Guard makes everything that is written to w safe to look at.
func Guard(w io.Writer) io.Writer { return guard{w} }

// Unguarded is what a guarded writer writes to: for the sequences by which a picture is
// drawn over the last one. The words in it have to go through Visible.
func Unguarded(w io.Writer) io.Writer {
	if g, ok := w.(guard); ok {
		return g.to
	}
	return w
}

// Write implements io.Writer.
func (g guard) Write(content []byte) (int, error) {
	if _, err := io.WriteString(g.to, Visible(string(content))); err != nil {
		return 0, err //nolint:wrapcheck // a Writer passes on
	}
	return len(content), nil
}

// colours are the sequences that Paint writes.
var colours = []string{Bold, Dim, Red, Green, Yellow, plain}

// Visible is a text of which nothing but our colours does anything to a terminal, or
// shows it in another order than it stands. What may not pass becomes a �.
func Visible(text string) string {
	if strings.IndexFunc(text, hidden) < 0 {
		return text
	}
	var out strings.Builder
	for text != "" {
		if colour := colourOf(text); colour != "" {
			out.WriteString(colour)
			text = text[len(colour):]
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		if hidden(r) {
			r = utf8.RuneError
		}
		out.WriteRune(r)
		text = text[size:]
	}
	return out.String()
}

// colourOf is the one of our colours that a text begins with, "" for none.
func colourOf(text string) string {
	for _, colour := range colours {
		if strings.HasPrefix(text, colour) {
			return colour
		}
	}
	return ""
}

// hidden: the character does not show as itself.
func hidden(r rune) bool {
	return r != '\n' && r != '\t' && (r == utf8.RuneError || !unicode.IsGraphic(r))
}
