package plan

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Plain is the text of others as we pass it on, to conditions, events, logs and
// terminals: one line, of characters that show, of at most that many bytes. Nothing in it
// can forge another line, or move a cursor. A text that is plain and short stays as it is.
func Plain(text string, most int) string {
	const more = " …"
	cut := len(text) > most
	if cut {
		end := max(0, most-len(more))
		for end > 0 && !utf8.RuneStart(text[end]) {
			end-- // not half a letter
		}
		text = text[:end]
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError, !unicode.IsGraphic(r):
			return '?'
		}
		return r
	}, text)
	if cut {
		text += more
	}
	return text
}

// Named is how many items of a list Few names.
const Named = 3

// Few names the first three of a list and counts the rest.
func Few(items []string) string {
	if len(items) <= Named {
		return strings.Join(items, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(items[:Named], ", "), len(items)-Named)
}
