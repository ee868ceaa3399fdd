package migrate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/test/cli"
)

// Bars are for a terminal that can draw them.
func TestWhoGetsBars(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	for name, tc := range map[string]struct {
		s    iostreams.Streams
		bars bool
	}{
		"a terminal":                       {iostreams.Streams{Terminal: true, Err: &strings.Builder{}}, true},
		"a terminal, and a log for errors": {iostreams.Streams{Terminal: true, Err: file}, false},
		"a dumb terminal":                  {iostreams.Streams{Terminal: true, Err: &strings.Builder{}, Getenv: cli.Environment("TERM", "dumb")}, false},
		"a pipe":                           {iostreams.Streams{Err: &strings.Builder{}}, false},
	} {
		_, drawn := newDisplay(cli.Defaults(tc.s)).(*bars)
		require.Equal(t, tc.bars, drawn, name)
	}
}

// screen is a terminal as far as bars use it: a cursor that goes up, lines that are
// wiped to their end, and everything below.
type screen struct {
	lines []string
	at    int
}

func (s *screen) write(text string) {
	for text != "" {
		switch {
		case strings.HasPrefix(text, "\x1b[J"):
			s.lines, text = s.lines[:min(s.at, len(s.lines))], text[3:]
		case strings.HasPrefix(text, "\x1b[K"):
			text = text[3:]
		case strings.HasPrefix(text, "\x1b["):
			end := strings.IndexByte(text, 'A')
			up := 0
			for _, digit := range text[2:end] {
				up = 10*up + int(digit-'0')
			}
			s.at, text = s.at-up, text[end+1:]
		default:
			line, rest, _ := strings.Cut(text, "\n")
			for len(s.lines) <= s.at {
				s.lines = append(s.lines, "")
			}
			s.lines[s.at], text = strings.TrimSuffix(line, "\x1b[K"), rest
			s.at++
		}
	}
}

// Whatever is drawn and said in between: every line that was said stays, once and in
// order, and below them is one picture and nothing else.
func TestThePictureIsDrawnOverItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.SampledFrom([]int{0, 40, 60, 200}).Draw(t, "width")
		var out strings.Builder
		b := &bars{Streams: cli.Defaults(iostreams.Streams{Terminal: true, Width: width, Err: &out, Getenv: cli.Environment("NO_COLOR", "1")})}
		s := &screen{}
		said, drawn := []string{}, false
		for range rapid.IntRange(1, 12).Draw(t, "turns") {
			if rapid.Bool().Draw(t, "says") {
				line := "‼ " + rapid.StringMatching(`[a-z]{1,9}( [a-z]{1,9}){0,30}`).Draw(t, "line")
				b.say("", line)
				said = append(said, strings.Split(b.Fold(line, "  "), "\n")...)
			} else {
				o := object(v1alpha1.ModeRouteReflector)
				step(o, rapid.SampledFrom([]string{"EnsurePool", "AwaitSessions"}).Draw(t, "step"), "", rapid.SliceOfN(rapid.StringMatching(`[a-z ]{0,90}`), 0, 3).Draw(t, "waits")...)
				numbers(o, rapid.IntRange(0, 9).Draw(t, "ready"), rapid.IntRange(0, 9).Draw(t, "reflectors"), rapid.IntRange(0, 99).Draw(t, "sessions"))
				b.update(progressOf(o, forth, time.Minute))
				drawn = true
			}
			s.write(out.String())
			out.Reset()
			require.GreaterOrEqual(t, len(s.lines), len(said))
			require.Equal(t, said, s.lines[:len(said)])
			if drawn {
				require.Len(t, s.lines[len(said):], 4)
				require.Contains(t, s.lines[len(said)+1], "workers     [")
			}
			for _, line := range s.lines[len(said):] {
				require.True(t, width == 0 || len([]rune(line)) < width, "a line that is broken in two shifts the picture: %q", line)
			}
		}
	})
}
