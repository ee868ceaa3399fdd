package plan

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Plain makes a text from outside safe to show in conditions, events, logs and terminals: one line of
// printable characters, no longer than `most` bytes. The result cannot forge another line or move a cursor.
func Plain(text string, most int) string {
	const more = " …"
	cut := len(text) > most
	if cut {
		end := max(0, most-len(more))
		for end > 0 && !utf8.RuneStart(text[end]) {
			end-- // do not cut within a character
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

// Named is how many items Few lists.
const Named = 3

// Few lists the first Named items and counts the rest.
func Few(items []string) string {
	if len(items) <= Named {
		return strings.Join(items, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(items[:Named], ", "), len(items)-Named)
}
