package iostreams

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// Nothing that anybody has written into the cluster or the cloud does anything to the
// terminal that it is shown on, and what shows as it is stays as it is.
func FuzzVisible(f *testing.F) {
	for _, seed := range []string{
		"node kind-worker-1 ↔ 10.0.0.7 … √", "a\tb\n", Bold + "cluster" + plain, "\x1b[2J\x1b[H", "\x1b]0;title\a", "\x1b]8;;http://x\x1b\\here",
		"\u009b2J", "\x9b2J", "\u202egnorw", "half \xe2\x88", "\r√ all is well", "\x1b[3" + Red, "\x1b\x1b[31m[2J", "\x00\x7f\ufeff\u2028",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var out bytes.Buffer
		n, err := Guard(&out).Write([]byte(text))
		require.NoError(t, err)
		require.Equal(t, len(text), n)
		shown := out.String()
		require.Equal(t, shown, Visible(shown), "a second look finds nothing")
		require.Equal(t, strings.Count(text, "\n"), strings.Count(shown, "\n"))
		require.Equal(t, utf8.RuneCountInString(text), utf8.RuneCountInString(shown), "nothing is lost")
		if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 && utf8.ValidString(text) {
			require.Equal(t, text, shown)
		}
		for _, colour := range colours {
			shown = strings.ReplaceAll(shown, colour, "|") // a gap: nothing grows together
		}
		for _, r := range shown {
			require.True(t, r == '\n' || r == '\t' || unicode.IsGraphic(r), "%q", r)
		}
	})
}

// broken is a pipe that nobody reads any more.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestTheProgramIsGuarded(t *testing.T) {
	require.IsType(t, guard{}, System().Out)
	require.IsType(t, guard{}, System().Err)
	var out bytes.Buffer
	require.Same(t, &out, Unguarded(Guard(&out)), "for sequences")
	require.Same(t, &out, Unguarded(&out))
	_, err := Guard(broken{}).Write([]byte("x"))
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

func TestAFileIsGuardedAsWell(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	hostile := func(s Streams) error {
		_, err := s.Out.Write([]byte("a\x1b[2Jb\n"))
		return err
	}
	require.NoError(t, Streams{}.Emit("picture", path, hostile))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "a�[2Jb\n", string(content))
}
