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
	var out bytes.Buffer
	require.Same(t, &out, Unguarded(Guard(&out)))
	require.Same(t, &out, Unguarded(&out))
	_, err := Guard(closedPipe{}).Write([]byte("x"))
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

func TestAnOutputFile(t *testing.T) {
	write := func(path, text string) error {
		return Streams{}.Print("report", path, "table", nil, func(s Streams) { _, _ = io.WriteString(s.Out, text) })
	}
	content := func(path string) string {
		out, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(out)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "report")
	require.NoError(t, write(path, "a\x1b[2Jb\n"))
	require.Equal(t, "a�[2Jb\n", content(path), "it is guarded as well")

	t.Run("an existing file keeps its mode", func(t *testing.T) {
		require.NoError(t, os.Chmod(path, 0o600))
		require.NoError(t, write(path, "new"))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		require.Equal(t, "new", content(path))
	})
	t.Run("a link stays a link", func(t *testing.T) {
		link := filepath.Join(dir, "link")
		require.NoError(t, os.Symlink(path, link))
		require.NoError(t, write(link, "through the link"))
		info, err := os.Lstat(link)
		require.NoError(t, err)
		require.NotZero(t, info.Mode()&os.ModeSymlink)
		require.Equal(t, "through the link", content(path))
	})
	t.Run("output that cannot be rendered leaves the old content", func(t *testing.T) {
		require.ErrorContains(t, Streams{}.Print("report", path, "json", func() {}, nil), "rendering the report: json: unsupported type")
		require.Equal(t, "through the link", content(path))
	})
	t.Run("a folder that is not there", func(t *testing.T) {
		err := write("/nonexistent/x", "")
		require.EqualError(t, err, `--output-file: "/nonexistent/x" cannot be written: no such file or directory: give a folder that is there and that you may write to`)
	})
	t.Run("a folder instead of a file", func(t *testing.T) {
		require.EqualError(t, write("/", ""), `--output-file: "/" is no regular file: give the name of a file`)
	})
	t.Run("a failure after the first byte leaves nothing behind", func(t *testing.T) {
		taken := filepath.Join(dir, "folder")
		require.NoError(t, os.Mkdir(taken, 0o700))
		file, err := os.CreateTemp(dir, "")
		require.NoError(t, err)
		require.ErrorContains(t, Put(file, taken, 0o600, []byte("half")), "--output-file: writing")
	})
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 3, "no temporary file is left: %v", left)
}
