package cost

import (
	"fmt"
	"math"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

// The measures of a chart, in units of its viewBox. Texts get a textLength, so
// that they are as wide as computed whatever font the browser has.
const (
	chartWidth  = 720.0
	labelWidth  = 200.0
	valueWidth  = 170.0
	chartGap    = 12.0
	rowHeight   = 30.0
	barHeight   = 16.0
	fontSize    = 14.0
	glyphWidth  = 0.6 * fontSize // of a monospaced font
	smallestBar = 2.0            // what is not nothing can be seen
)

// row is one bar: a name, and how long it is beside the others.
type row struct {
	name, value string
	length      float64
	strong      bool
}

// chart is a bar chart whose geometry is computed here and only drawn elsewhere.
type chart struct {
	Title  string
	Width  float64
	Height float64
	Bars   []bar
	Labels []label
}

type bar struct {
	X, Y, Width, Height float64
	Strong              bool
}

// label is a text; Y is its base line.
type label struct {
	X, Y, Width float64
	// Text as shown, and Full when that is shortened.
	Text, Full string
	Strong     bool
}

// newChart lays out rows below each other: name, bar, value.
func newChart(title string, rows []row) chart {
	c := chart{Title: title, Width: chartWidth, Height: rowHeight * float64(len(rows))}
	longest := 0.0
	for _, r := range rows {
		longest = max(longest, r.length)
	}
	room := chartWidth - labelWidth - valueWidth - 2*chartGap
	for i, r := range rows {
		middle := rowHeight * (float64(i) + 0.5)
		base := middle + 0.35*fontSize
		c.Labels = append(c.Labels, newLabel(r.name, 0, base, labelWidth, r.strong))
		x := labelWidth + chartGap
		if r.length > 0 {
			width := max(smallestBar, round(room*r.length/longest))
			c.Bars = append(c.Bars, bar{X: x, Y: middle - barHeight/2, Width: width, Height: barHeight, Strong: r.strong})
			x += width + chartGap
		}
		c.Labels = append(c.Labels, newLabel(r.value, x, base, valueWidth, r.strong))
	}
	return c
}

// newLabel shortens what does not fit into the width.
func newLabel(full string, x, y, width float64, strong bool) label {
	l := label{X: round(x), Y: round(y), Text: full, Strong: strong}
	if cells := int(width / glyphWidth); text.StringWidth(full) > cells {
		l.Text, l.Full = text.Snip(full, cells, "…"), full
	}
	l.Width = round(glyphWidth * float64(text.StringWidth(l.Text)))
	return l
}

func round(x float64) float64 { return math.Round(x*100) / 100 }

// sizesChart compares the pool with other sizes and the mesh.
func sizesChart(v view) chart {
	rows := []row{{name: "full mesh", value: "0 " + v.Currency}}
	for _, size := range v.Sizes {
		rows = append(rows, row{
			name:   iostreams.Number(size.Workers, "worker"),
			value:  least(size) + size.WholeMonthly + " " + v.Currency,
			length: size.exact.Approximate(),
			strong: size.Workers == v.Pool.Workers,
		})
	}
	return newChart(fmt.Sprintf("%s per month by size of the pool", v.Currency), rows)
}

// zonesChart shows where the pool's cost is.
func zonesChart(v view) chart {
	rows := make([]row, 0, len(v.Lines))
	for _, line := range v.Lines {
		r := row{name: strings.TrimSpace(line.Zone + " " + line.Flavor), value: "unknown", length: line.exact.Approximate()}
		if line.Monthly != "" {
			r.value = least(line.Sum) + line.Monthly + " " + v.Currency
		}
		rows = append(rows, r)
	}
	return newChart(fmt.Sprintf("%s per month by zone and flavor", v.Currency), rows)
}
