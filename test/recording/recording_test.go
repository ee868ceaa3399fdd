package recording

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// made is a recording of these texts, one each second.
func made(texts ...string) Cast {
	now := time.Unix(1_800_000_000, 0).UTC()
	r := NewRecorder("a title", 12, 3, func() time.Time { return now })
	for _, text := range texts {
		now = now.Add(time.Second)
		_, _ = r.Write([]byte(text))
	}
	return r.Cast()
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	cast := made("a\n", "\x1b[32m√ <b>\x1b[0m\nhalf")
	var file bytes.Buffer
	require.NoError(t, cast.Write(&file))
	require.Equal(t, `{"version":2,"width":12,"height":3,"timestamp":1800000000,"title":"a title"}
[1.000,"o","a\r\n"]
[2.000,"o","\u001b[32m√ <b>\u001b[0m\r\nhalf"]
`, file.String())
	read, err := Read(&file)
	require.NoError(t, err)
	require.Equal(t, cast, read)
}

func TestWhatIsNoRecording(t *testing.T) {
	const head = `{"version":2,"width":12,"height":3}` + "\n"
	for name, tc := range map[string]struct{ file, says string }{
		"nothing":           {"", "head"},
		"another version":   {`{"version":1,"width":12,"height":3}`, "version 1"},
		"no size":           {`{"version":2}`, "0 by 0"},
		"something typed":   {head + `[1, "i", "x"]`, `event 1 of the recording: kind "i"`},
		"half of an event":  {head + `[1, "o", "x"]` + "\n" + `[1, "o"`, "event 2"},
		"a text for a time": {head + `["1", "o", "x"]`, "event 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(strings.NewReader(tc.file))
			require.ErrorContains(t, err, tc.says)
		})
	}
	require.Error(t, made("x").Write(broken{}))
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestLinesOfTheScreen(t *testing.T) {
	for name, tc := range map[string]struct {
		texts []string
		lines []Line
	}{
		"a line at a time": {[]string{"a\n", "\n", "b\n"}, []Line{
			{time.Second, []Span{{"", "a"}}}, {2 * time.Second, nil}, {3 * time.Second, []Span{{"", "b"}}},
		}},
		"half a line, and the rest": {[]string{"a", "b\nc"}, []Line{
			{2 * time.Second, []Span{{"", "ab"}}}, {2 * time.Second, []Span{{"", "c"}}},
		}},
		"colours, over the end of a line": {[]string{"x\x1b[1mtitle\x1b[0m \x1b[33m‼ a\nb\x1b[0m\n"}, []Line{
			{time.Second, []Span{{"", "x"}, {"bold", "title"}, {"", " "}, {"yellow", "‼ a"}}}, {time.Second, []Span{{"yellow", "b"}}},
		}},
		"a line wider than the terminal": {[]string{"123456789012\n", "1234567890123\n"}, []Line{
			{time.Second, []Span{{"", "123456789012"}}}, {2 * time.Second, []Span{{"", "123456789012"}}}, {2 * time.Second, []Span{{"", "3"}}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			lines, err := made(tc.texts...).Lines()
			require.NoError(t, err)
			require.Equal(t, tc.lines, lines)
		})
	}
	for _, text := range []string{"\x1b[2Ja", "a\x1b[1A", "a\tb", "\x1b[38;5;1ma", "50%\r100%"} {
		_, err := made("fine\n", text).Lines()
		require.ErrorContains(t, err, "what was written after 2s", "%q", text)
		_, err = made(text).Picture("", "")
		require.Error(t, err, "%q", text)
	}
	_, err := made().Picture("", "")
	require.ErrorContains(t, err, "nothing was recorded")
}

func TestPace(t *testing.T) {
	line := func(at time.Duration, text string) Line { return Line{at, []Span{{"", text}}} }
	times, whole := paced([]Line{
		line(0, "begin"), line(500*time.Millisecond, "soon"), line(time.Minute, "late"),
		line(time.Minute, "at once"), line(time.Minute, ""), line(time.Minute, "$ a command"),
	})
	soon := 500 * time.Millisecond
	require.Equal(t, []time.Duration{0, soon, soon + longest, soon + longest + shortest, soon + longest + shortest, soon + longest + shortest + thought}, times)
	require.Equal(t, times[5]+last, whole)
}

func TestPicture(t *testing.T) {
	cast := made("$ <rrpool> & more\n", "\x1b[32m√ b\x1b[0m\n\n", "c\n", "d\n")
	got, err := cast.Picture("make it", "what is seen")
	require.NoError(t, err)
	picture := string(got)
	require.NoError(t, wellFormed(picture))
	for _, part := range []string{
		`<title id="title">a title</title>`, `<desc id="about">what is seen</desc>`, "make it</text>", "a real run, 2027-01-15; no pause is longer than 2s",
		`<text y="14" textLength="100.8">$ &lt;rrpool&gt; &amp;</text>`, `<tspan class="green">√ b</tspan>`,
		"#lines{transform:translateY(-57px)", "#cover{transform:translateY(114px)", "prefers-reduced-motion:reduce",
		"@keyframes lines{0%{transform:translateY(-0px)}",
	} {
		require.Contains(t, picture, part)
	}
	for _, part := range []string{"<script", "http://", "https://", "@import", "url("} {
		require.NotContains(t, strings.ReplaceAll(picture, "http://www.w3.org/2000/svg", ""), part)
	}
	require.Error(t, wellFormed(strings.Replace(picture, "&lt;", "<", 1)))
}

func wellFormed(document string) error {
	for d := xml.NewDecoder(strings.NewReader(document)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
