package topology

import (
	"math"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
)

// The measures of texts, in units of the viewBox. Texts get a textLength, so that they
// are as wide as computed whatever font the viewer has.
const (
	fontSize  = 12.0
	titleSize = 18.0
	// glyph is the width of a character of a monospaced font, by its size.
	glyph = 0.6
	// ascent and descent are how far a text reaches above and below its base line.
	ascent, descent = 0.95, 0.25
)

// drawing is a picture whose geometry is computed: only the words in it and where they
// are. Later parts lie upon earlier ones: back, wires, front, marks, labels.
type drawing struct {
	Title, Description string
	Width, Height      float64
	Back, Front        []shape
	Wires              []path
	Marks              []mark
	Labels             []label
}

// shape is a rectangle of a class.
type shape struct {
	X, Y, Width, Height, Round float64
	Class                      string
}

// path is a line of a state, or of another class.
type path struct {
	D, Class, Title string
}

// mark is the sign of a state; X and Y are its middle.
type mark struct {
	X, Y  float64
	State state
}

// label is a text; Y is its base line.
type label struct {
	X, Y, Width, Size float64
	// Text as shown, and Full when that is shortened.
	Text, Full string
	Class      string
}

// widthOf is the room that a text takes.
func widthOf(words string, size float64) float64 {
	return float64(text.StringWidth(clean(words))) * glyph * size
}

// fitting makes a label, and shortens what does not fit into the width.
func fitting(words string, x, y, width, size float64, class string) label {
	words = clean(words)
	l := label{X: round(x), Y: round(y), Size: size, Text: words, Class: class}
	if cells := max(int(width/(glyph*size)+0.001), 1); text.StringWidth(words) > cells {
		l.Text, l.Full = text.Snip(words, cells, "…"), words
	}
	l.Width = round(widthOf(l.Text, size))
	return l
}

// write adds a label; an empty one is none.
func (d *drawing) write(words string, x, y, width, size float64, class string) {
	if words != "" {
		d.Labels = append(d.Labels, fitting(words, x, y, width, size, class))
	}
}

// right writes up to the right edge at x.
func (d *drawing) right(words string, x, y, width, size float64, class string) {
	if words == "" {
		return
	}
	l := fitting(words, x, y, width, size, class)
	l.X = round(x - l.Width)
	d.Labels = append(d.Labels, l)
}

// paragraph writes as many lines as it takes, and gives the height of them.
func (d *drawing) paragraph(words string, x, y, width, size float64, class string) float64 {
	height := 0.0
	cells := max(int(width/(glyph*size)), 1)
	for line := range strings.SplitSeq(text.WrapSoft(clean(words), cells), "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		d.write(line, x, y+height+ascent*size, width, size, class)
		height += math.Round(1.5 * size)
	}
	return height
}

func round(x float64) float64 { return math.Round(x*100) / 100 }
