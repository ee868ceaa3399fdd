package recording

import (
	"bytes"
	_ "embed"
	"fmt"
	"text/template"
	"time"
	"unicode/utf8"
)

// The measures of the picture, in its own units.
const (
	fontSize   = 14
	charWidth  = 8.4 // of a font whose characters all have the same width
	lineHeight = 19
	margin     = 14
	bar        = 34 // with the title
)

//go:embed picture.svg.tmpl
var source string

var drawing = template.Must(template.New("picture").Funcs(template.FuncMap{"text": template.HTMLEscapeString}).Parse(source))

// frame is a state of the screen that begins at a part of the whole.
type frame struct {
	Percent string
	// Covered is where the screen is still empty, Up by how much it is moved.
	Covered, Up int
}

// row is a line where it is drawn.
type row struct {
	Y     int
	Width string
	Spans []Span
}

// view is what the template is given.
type view struct {
	Title, Description, Command, Note string
	Font, Margin, Bar, Rule, Right    int
	Width, Height, Outer, High        int
	Seconds                           string
	Rows                              []row
	Frames                            []frame
	Last                              frame
}

// Picture draws a recording as an SVG that moves, without scripts or anything from
// elsewhere. Where movement is not wanted (prefers-reduced-motion) it shows the last
// screen. Command is what was typed to get it, description for those who cannot see it.
func (c Cast) Picture(command, description string) ([]byte, error) {
	lines, err := c.Lines()
	if err != nil {
		return nil, err
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("%s: nothing was recorded", c.Title)
	}
	var out bytes.Buffer
	if err := drawing.Execute(&out, c.view(lines, command, description)); err != nil {
		return nil, fmt.Errorf("drawing %s: %w", c.Title, err)
	}
	return out.Bytes(), nil
}

func (c Cast) view(lines []Line, command, description string) view {
	times, whole := paced(lines)
	width, height := int(charWidth*float64(c.Width)+1), lineHeight*c.Height
	v := view{
		Title: c.Title, Description: description, Command: command,
		Note: fmt.Sprintf("a real run, %s; no pause is longer than %s", c.Begun.Format(time.DateOnly), longest),
		Font: fontSize, Margin: margin, Bar: bar, Rule: bar - 4, Right: width + margin,
		Width: width, Height: height, Outer: width + 2*margin, High: height + bar + margin,
		Seconds: fmt.Sprintf("%.2f", whole.Seconds()),
	}
	for i, line := range lines {
		if size := utf8.RuneCountInString(line.Text()); size > 0 {
			v.Rows = append(v.Rows, row{lineHeight*i + fontSize, fmt.Sprintf("%.1f", charWidth*float64(size)), line.Spans})
		}
		v.Last = frame{
			Percent: fmt.Sprintf("%.3f", 100*times[i].Seconds()/whole.Seconds()),
			Covered: lineHeight * (i + 1), Up: lineHeight * max(0, i+1-c.Height),
		}
		if n := len(v.Frames); n > 0 && v.Frames[n-1].Percent == v.Last.Percent {
			v.Frames = v.Frames[:n-1]
		}
		v.Frames = append(v.Frames, v.Last)
	}
	v.Frames[0].Percent = "0"
	return v
}
