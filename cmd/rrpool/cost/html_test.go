package cost

import (
	"encoding/xml"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/test/cli"
)

// drawing is an SVG as the page has it; what is checked is what is delivered.
type drawing struct {
	ViewBox string `xml:"viewBox,attr"`
	Rects   []struct {
		X      float64 `xml:"x,attr"`
		Y      float64 `xml:"y,attr"`
		Width  float64 `xml:"width,attr"`
		Height float64 `xml:"height,attr"`
	} `xml:"rect"`
	Texts []struct {
		X      float64 `xml:"x,attr"`
		Y      float64 `xml:"y,attr"`
		Length float64 `xml:"textLength,attr"`
		Title  string  `xml:"title"`
		Text   string  `xml:",chardata"`
	} `xml:"text"`
}

// box is a rectangle with the words it stands for.
type box struct {
	what                     string
	left, top, right, bottom float64
}

func (b box) overlaps(o box) bool {
	return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
}

// boxes of all texts and bars, and the size of the picture. A glyph reaches from
// its ascent above the base line to its descent below.
func (d drawing) boxes(t require.TestingT) (all []box, width, height float64) {
	_, err := fmt.Sscanf(d.ViewBox, "0 0 %g %g", &width, &height)
	require.NoError(t, err)
	for _, r := range d.Rects {
		all = append(all, box{"bar", r.X, r.Y, r.X + r.Width, r.Y + r.Height})
	}
	for _, l := range d.Texts {
		all = append(all, box{l.Text, l.X, l.Y - 0.95*fontSize, l.X + l.Length, l.Y + 0.25*fontSize})
	}
	return all, width, height
}

// faults names every text or bar that leaves the picture or lies upon another.
func (d drawing) faults(t require.TestingT) []string {
	var out []string
	all, width, height := d.boxes(t)
	for i, a := range all {
		if a.left < 0 || a.top < 0 || a.right > width || a.bottom > height {
			out = append(out, fmt.Sprintf("%q leaves the picture", a.what))
		}
		for _, b := range all[i+1:] {
			if a.overlaps(b) {
				out = append(out, fmt.Sprintf("%q and %q overlap", a.what, b.what))
			}
		}
	}
	return out
}

var svgs = regexp.MustCompile(`(?s)<svg .*?</svg>`)

func drawings(t require.TestingT, page string) []drawing {
	var out []drawing
	for _, source := range svgs.FindAllString(page, -1) {
		var d drawing
		require.NoError(t, xml.Unmarshal([]byte(source), &d))
		out = append(out, d)
	}
	return out
}

func TestNothingInTheChartsOverlapsOrOverflows(t *testing.T) {
	drawn := 0
	for name, args := range scenes(t) {
		page := ask(t, append([]string{"cost", "-o", "html"}, args...)...).Out
		for _, d := range drawings(t, page) {
			require.Empty(t, d.faults(t), name)
			drawn += len(d.Texts)
		}
	}
	require.Greater(t, drawn, 100)
}

// The check sees what it is there for.
func TestTheCheckOfTheChartsBites(t *testing.T) {
	page := ask(t, "cost", "-o", "html", "--hourly-price", "0.11").Out
	for name, spoil := range map[string]func(*drawing){
		"a label moved onto another": func(d *drawing) { d.Texts[2].Y = d.Texts[0].Y },
		"a label longer than its room": func(d *drawing) {
			d.Texts[2].Length = labelWidth + chartGap + 1
		},
		"a label moved out of the picture": func(d *drawing) { d.Texts[0].X = -1 },
		"a value behind the edge":          func(d *drawing) { d.Texts[3].X = chartWidth - 10 },
	} {
		t.Run(name, func(t *testing.T) {
			d := drawings(t, page)[1]
			require.Empty(t, d.faults(t))
			spoil(&d)
			require.NotEmpty(t, d.faults(t))
		})
	}
}

// Whatever the names and the numbers, also those that nobody has thought of.
func TestAnyChartFits(t *testing.T) {
	anything := rapid.Custom(func(t *rapid.T) row {
		return row{
			name:   rapid.OneOf(rapid.StringOfN(rapid.RuneFrom(nil, unicode.L, unicode.N, unicode.P, unicode.S), 0, 80, -1), rapid.StringMatching(`[a-z0-9-]{1,63} [a-z0-9.]{1,63}`)).Draw(t, "name"),
			value:  rapid.OneOf(rapid.StringMatching(`≥?[0-9]{1,30}\.[0-9]{2} [A-Z]{3}`), rapid.StringMatching(`[世界a-z]{0,40}`)).Draw(t, "value"),
			length: rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1e12), rapid.Float64Range(0, 1e-9)).Draw(t, "length"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		c := newChart("", rapid.SliceOfN(anything, 0, 40).Draw(t, "rows"))
		var page strings.Builder
		require.NoError(t, costTemplate.ExecuteTemplate(&page, "chart", c))
		d := drawings(t, strings.ToValidUTF8(page.String(), ""))
		require.Len(t, d, 1)
		require.Empty(t, d[0].faults(t))
		for _, l := range c.Labels {
			require.LessOrEqual(t, float64(text.StringWidth(l.Text))*glyphWidth, l.Width+0.01, "room for each glyph")
			require.True(t, l.Full == "" || strings.HasSuffix(l.Text, "…"))
		}
	})
}

// The page can be kept, mailed and opened anywhere: nothing in it is from elsewhere,
// nothing in it runs, and what came from outside is text.
func TestThePageStandsAlone(t *testing.T) {
	evil := cli.File(t, `{version: 1, entries: [{flavor: own.1, region: any, price: "1", currency: USD, date: "2026-10-01",
		source: "javascript:alert(1)", note: "<script>alert(2)</script>"}]}`)
	page := ask(t, "cost", "-o", "html", "--flavor", "own.1", "--price-book", evil).Out
	require.Contains(t, page, "default-src 'none'")
	require.NotContains(t, page, "<script")
	require.NotContains(t, page, `href="javascript`)
	require.Contains(t, page, "&lt;script&gt;")
	page = ask(t, "cost", "-o", "html", "--region", "eu-de").Out
	loads := regexp.MustCompile(`(?i)(src=|srcset=|@import|url\()`)
	require.Empty(t, loads.FindAllString(page, -1))
	links := regexp.MustCompile(`href="([^"]*)"`).FindAllString(page, -1)
	require.Len(t, slices.Compact(links), 1, "the source of the price, to follow up, and nothing else")
}
