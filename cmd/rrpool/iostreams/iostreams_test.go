package iostreams

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// Text from the cluster or the cloud does nothing to the terminal that it is printed on,
// and text without control characters is printed unchanged.
func FuzzVisible(f *testing.F) {
	for _, seed := range []string{
		"node kind-worker-1 ↔ 10.0.0.7 … √", "a\tb\n", Bold + "cluster" + plain, "\x1b[2J\x1b[H", "\x1b]0;title\a", "\x1b]8;;http://x\x1b\\here",
		"\u009b2J", "\x9b2J", "\u202egnorw", "half \xe2\x88", "\r√ all is well", "\x1b[3" + Red, "\x1b\x1b[31m[2J", "\x00\x7f\ufeff\u2028", "\xe1",
		"\xe2\x80w", "\xd4\xd4\x00\x80\xff\xff", "\x86\x86ŕ\xe9w\x86\xe2\x80G", "\xec{\x15\x1b]0;/\xdd'\x00\xfd",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var out bytes.Buffer
		n, err := Guard(&out).Write([]byte(text))
		require.NoError(t, err)
		require.Equal(t, len(text), n)
		shown := out.String()
		require.Equal(t, shown, Visible(shown), "nothing is left to replace")
		require.Equal(t, strings.Count(text, "\n"), strings.Count(shown, "\n"))
		require.Equal(t, utf8.RuneCountInString(text), utf8.RuneCountInString(shown), "nothing is lost")
		if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 && utf8.ValidString(text) {
			require.Equal(t, text, shown)
		}
		for _, colour := range colours {
			shown = strings.ReplaceAll(shown, colour, "|") // a gap, so that no new sequence is formed
		}
		for _, r := range shown {
			require.True(t, r == '\n' || r == '\t' || unicode.IsGraphic(r), "%q", r)
		}
	})
}

// closedPipe fails every write.
type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestTheProgramsStreamsAreGuarded(t *testing.T) {
	require.IsType(t, guard{}, System().Out)
	require.IsType(t, guard{}, System().Err)
	_, err := Guard(closedPipe{}).Write([]byte("x"))
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

func TestOutputIsWrittenAsAWholeAndGuarded(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Streams{Out: &out}.Print("report", "table", nil, func(s Streams) { _, _ = io.WriteString(s.Out, "a\x1b[2Jb\n") }))
	require.Equal(t, "a�[2Jb\n", out.String())
	out.Reset()
	require.NoError(t, Streams{Out: &out}.Print("report", "yaml", map[string]string{"node": "a\x1b[2Jb"}, nil))
	require.YAMLEq(t, `node: "a\e[2Jb"`, out.String())
	require.ErrorContains(t, Streams{Out: &out}.Print("report", "json", func() {}, nil), "rendering the report: json: unsupported type")
	require.ErrorContains(t, Streams{Out: closedPipe{}}.Print("report", "json", 1, nil), "writing the report: ")
}
