package migrate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/test/cli"
)

// The progress is written over itself on a terminal that can do that.
func TestOnWhatTheProgressIsWrittenOver(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	for name, tc := range map[string]struct {
		s    iostreams.Streams
		over bool
	}{
		"a terminal":                       {iostreams.Streams{Terminal: true, Err: &strings.Builder{}}, true},
		"a terminal, and a log for errors": {iostreams.Streams{Terminal: true, Err: file}, false},
		"a dumb terminal":                  {iostreams.Streams{Terminal: true, Err: &strings.Builder{}, Getenv: cli.Environment("TERM", "dumb")}, false},
		"a pipe":                           {iostreams.Streams{Err: &strings.Builder{}}, false},
	} {
		require.Equal(t, tc.over, newDisplay(cli.Defaults(tc.s)).terminal, name)
	}
}

// Whatever is shown and said in between: every line that was said stays, once and in order, and
// below them is the last progress in one line and nothing else.
func TestTheProgressIsWrittenOverItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.SampledFrom([]int{0, 40, 60, 200}).Draw(t, "width")
		var out strings.Builder
		d := newDisplay(cli.Defaults(iostreams.Streams{Terminal: true, Width: width, Err: &out, Getenv: cli.Environment("NO_COLOR", "1")}))
		var said []string
		progress := ""
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			text := rapid.StringMatching(`[a-z]{1,9}( [a-z]{1,9}){0,30}`).Draw(t, "text")
			if rapid.Bool().Draw(t, "says") {
				d.say("", text)
				said = append(said, strings.Split(d.Fold(text, "  "), "\n")...)
			} else {
				d.update(text, "; waits for more")
				progress = text[:min(len(text), 20)]
			}
		}
		var lines []string
		for line := range strings.SplitSeq(out.String(), "\n") {
			_, shown, over := strings.Cut(line[max(0, strings.LastIndex(line, "\r")):], "\x1b[K")
			if !over {
				shown = line // the rest of a folded line
			}
			lines = append(lines, shown)
		}
		last := len(lines) - 1
		require.Equal(t, append(said, lines[last]), lines)
		require.True(t, strings.HasPrefix(lines[last], progress))
		require.True(t, width == 0 || len([]rune(lines[last])) < width, "a line that is broken in two cannot be written over: %q", lines[last])
	})
}
