package topology

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
)

// seen is an SVG as it is delivered.
type seen struct {
	ViewBox string `xml:"viewBox,attr"`
	Rects   []struct {
		Class  string  `xml:"class,attr"`
		X      float64 `xml:"x,attr"`
		Y      float64 `xml:"y,attr"`
		Width  float64 `xml:"width,attr"`
		Height float64 `xml:"height,attr"`
	} `xml:"rect"`
	Circles []struct {
		X float64 `xml:"cx,attr"`
		Y float64 `xml:"cy,attr"`
		R float64 `xml:"r,attr"`
	} `xml:"circle"`
	Paths []struct {
		Class string `xml:"class,attr"`
		D     string `xml:"d,attr"`
	} `xml:"path"`
	Texts []struct {
		X      float64 `xml:"x,attr"`
		Y      float64 `xml:"y,attr"`
		Size   float64 `xml:"font-size,attr"`
		Length float64 `xml:"textLength,attr"`
		Title  string  `xml:"title"`
		Text   string  `xml:",chardata"`
	} `xml:"text"`
}

func parsed(t require.TestingT, source string) seen {
	var s seen
	require.NoError(t, xml.Unmarshal([]byte(source), &s))
	return s
}

// box is a rectangle with the words it stands for.
type box struct {
	what                     string
	left, top, right, bottom float64
}

func (b box) overlaps(o box) bool {
	return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
}

func (b box) within(o box) bool {
	return b.left >= o.left && b.right <= o.right && b.top >= o.top && b.bottom <= o.bottom
}

func (b box) holds(p point) bool {
	return p.x > b.left && p.x < b.right && p.y > b.top && p.y < b.bottom
}

type point struct{ x, y float64 }

// texts are the boxes of all texts. A glyph reaches from its ascent to its descent.
func (s seen) texts() []box {
	var out []box
	for _, l := range s.Texts {
		out = append(out, box{l.Text, l.X, l.Y - ascent*l.Size, l.X + l.Length, l.Y + descent*l.Size})
	}
	return out
}

// faults names every text that leaves the picture, lies upon another or upon a line or
// mark, or stands over the edge of what it is in.
func (s seen) faults(t require.TestingT) []string {
	picture := box{what: "picture"}
	_, err := fmt.Sscanf(s.ViewBox, "0 0 %g %g", &picture.right, &picture.bottom)
	require.NoError(t, err)
	var out []string
	texts, boxes, points := s.texts(), s.boxes(), s.points(t)
	for _, b := range slices.Concat(texts, boxes) {
		if !b.within(picture) {
			out = append(out, fmt.Sprintf("%q leaves the picture", b.what))
		}
	}
	for i, a := range texts {
		out = append(out, a.collisions(texts[i+1:], boxes)...)
		if k := slices.IndexFunc(points, a.holds); k >= 0 {
			out = append(out, fmt.Sprintf("%q lies upon a line at %v", a.what, points[k]))
		}
	}
	return out
}

func (b box) collisions(texts, boxes []box) []string {
	var out []string
	for _, o := range texts {
		if b.overlaps(o) {
			out = append(out, fmt.Sprintf("%q and %q overlap", b.what, o.what))
		}
	}
	for _, o := range boxes {
		if b.overlaps(o) && !b.within(o) {
			out = append(out, fmt.Sprintf("%q stands over the edge of a %s", b.what, o.what))
		}
	}
	return out
}

// boxes of everything that is drawn and is neither a text nor a line.
func (s seen) boxes() []box {
	var out []box
	for _, r := range s.Rects {
		out = append(out, box{r.Class, r.X, r.Y, r.X + r.Width, r.Y + r.Height})
	}
	for _, c := range s.Circles {
		out = append(out, box{"mark", c.X - c.R, c.Y - c.R, c.X + c.R, c.Y + c.R})
	}
	return out
}

// points of all lines, close to each other.
func (s seen) points(t require.TestingT) []point {
	var out []point
	for _, p := range s.Paths {
		out = append(out, walk(t, p.D)...)
	}
	return out
}

func TestNothingOverlapsOrOverflows(t *testing.T) {
	for name, n := range scenes(t) {
		s := parsed(t, rendered(t, n, "svg"))
		require.Empty(t, s.faults(t), name)
		require.NotEmpty(t, s.Texts)
	}
}

// The check sees what it is there for.
func TestTheCheckBites(t *testing.T) {
	for name, spoil := range map[string]func(*seen){
		"a text upon another":         func(s *seen) { s.Texts[1].Y = s.Texts[0].Y },
		"a text longer than its room": func(s *seen) { s.Texts[len(s.Texts)-1].Length = 1e5 },
		"a text out of the picture":   func(s *seen) { s.Texts[0].X = -1 },
		"a text behind the edge":      func(s *seen) { s.Texts[0].X = 700 },
		"a card narrower than its words": func(s *seen) {
			for i := range s.Rects {
				if s.Rects[i].Class == "card" {
					s.Rects[i].Width = 40
				}
			}
		},
		"a line through a text": func(s *seen) { s.Paths[0].D = fmt.Sprintf("M0 %gH900", s.Texts[4].Y-3) },
		"a curve through a text": func(s *seen) {
			l := s.Texts[4]
			s.Paths[0].D = fmt.Sprintf("M0 0C0 0 %[1]g %[2]g %[1]g %[2]g", l.X+5, l.Y-3)
		},
		"a mark upon a text":       func(s *seen) { s.Circles[0].X, s.Circles[0].Y = s.Texts[4].X, s.Texts[4].Y },
		"a box out of the picture": func(s *seen) { s.Rects[len(s.Rects)-1].Y = 1e4 },
	} {
		t.Run(name, func(t *testing.T) {
			s := parsed(t, rendered(t, live(cluster(frankfurt, 1, 10)), "svg"))
			require.Empty(t, s.faults(t))
			spoil(&s)
			require.NotEmpty(t, s.faults(t))
		})
	}
}

// anyName is a name that nobody has thought of.
var anyName = rapid.OneOf(
	rapid.StringOfN(rapid.Rune(), 0, 90, -1),
	rapid.StringMatching(`[a-z0-9.-]{1,120}`),
	rapid.StringMatching(`[世界ﷺa-z<>&"'\\]{0,30}`),
)

// anyNetwork is a network of any topology, also those that no version of rrpool makes.
func anyNetwork(t *rapid.T) Network {
	n := Network{
		Title: anyName.Draw(t, "title"), Subtitle: anyName.Draw(t, "subtitle"), Live: rapid.Bool().Draw(t, "live"),
		Mesh:  Mesh{On: rapid.Bool().Draw(t, "mesh"), Nodes: rapid.IntRange(0, 1e6).Draw(t, "meshed"), Sessions: rapid.IntRange(0, 1e12).Draw(t, "sessions")},
		Notes: rapid.SliceOfN(anyName, 0, 3).Draw(t, "notes"),
	}
	ends := []Link{}
	var reflectors []string
	for i := range rapid.IntRange(0, 7).Draw(t, "zones") {
		zone := Zone{Name: fmt.Sprint(anyName.Draw(t, "zone"), i), Kind: rapid.SampledFrom([]frameKind{zoneFrame, rackFrame, spineFrame}).Draw(t, "kind")}
		for j := range rapid.IntRange(0, 8).Draw(t, "reflectors") {
			r := Reflector{
				Name: fmt.Sprint(anyName.Draw(t, "reflector"), i, "-", j), Role: rapid.Bool().Draw(t, "role"),
				ClusterID: rapid.SampledFrom([]string{"", "244.0.0.1", "255.255.255.255"}).Draw(t, "id"),
				Detail:    rapid.OneOf(rapid.Just(""), anyName).Draw(t, "detail"),
				Seat:      rapid.OneOf(rapid.Just(""), anyName).Draw(t, "seat"),
				Zone:      rapid.OneOf(rapid.Just(""), anyName).Draw(t, "reflector's zone"),
			}
			zone.Reflectors = append(zone.Reflectors, r)
			reflectors = append(reflectors, r.Name)
			ends = append(ends, Link{Reflector: r.Name})
		}
		for j := range rapid.IntRange(0, 3).Draw(t, "groups") {
			number := rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(0, 1e9))
			g := Group{
				ID: fmt.Sprint(i, "/", j), All: number.Draw(t, "all"), Some: number.Draw(t, "some"), None: number.Draw(t, "none"),
				NotKnown: number.Draw(t, "unknown"), NotReady: number.Draw(t, "not ready"),
				Names: rapid.SliceOfN(anyName, 0, 2).Draw(t, "names"), Zones: rapid.SliceOfN(anyName, 0, 2).Draw(t, "group's zones"),
				Each: rapid.IntRange(0, 3).Draw(t, "each"),
			}
			g.Clients = g.All + g.Some + g.None + g.NotKnown
			zone.Groups = append(zone.Groups, g)
			ends = append(ends, Link{Group: g.ID})
		}
		n.Zones = append(n.Zones, zone)
	}
	n.Links = anyLinks(t, ends, reflectors)
	n.arrange()
	return n
}

func anyLinks(t *rapid.T, ends []Link, reflectors []string) []Link {
	var out []Link
	dense := rapid.IntRange(0, 4).Draw(t, "dense")
	for i, from := range ends {
		for j, to := range reflectors {
			if from.Reflector >= to || (i*7+j*3)%5 > dense {
				continue
			}
			if from.Reflector == "" || i < j {
				l := from
				l.To = to
				l.Expected = rapid.IntRange(1, 1e7).Draw(t, "expected")
				l.Established = rapid.IntRange(0, l.Expected).Draw(t, "established")
				l.Unknown = rapid.IntRange(0, l.Expected-l.Established).Draw(t, "unknown")
				out = append(out, l)
			}
		}
	}
	return out
}

// Whatever the names, the numbers and the links.
func TestAnyNetworkFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := anyNetwork(t)
		d := draw(&n)
		require.Empty(t, parsed(t, svg(d)).faults(t))
		for _, l := range d.Labels {
			require.LessOrEqual(t, float64(text.StringWidth(l.Text))*glyph*l.Size, l.Width+0.01, "room for each glyph")
			require.True(t, l.Full == "" || strings.HasSuffix(l.Text, "…"), "what is shortened says so")
			require.False(t, strings.ContainsFunc(l.Text, func(r rune) bool { return !unicode.IsGraphic(r) }))
		}
		page := rendered(t, n, "html")
		require.Equal(t, page, rendered(t, n, "html"), "determined")
		require.NotContains(t, page, "<script")
		require.NoError(t, xml.Unmarshal([]byte(svgs.FindString(page)), new(seen)))
	})
}

var svgs = regexp.MustCompile(`(?s)<svg .*?</svg>`)

// The picture can be kept, mailed and opened anywhere: nothing in it is from elsewhere,
// nothing in it runs, and what came from outside is text.
func TestThePictureStandsAlone(t *testing.T) {
	loads := regexp.MustCompile(`(?i)(src=|srcset=|href=|@import|url\(|<script|<foreignObject|\son[a-z]+=)`)
	for name, n := range scenes(t) {
		for _, format := range []string{"svg", "html"} {
			out := rendered(t, n, format)
			require.Empty(t, loads.FindAllString(out, -1), name)
		}
	}
	page := rendered(t, live(weird()), "html")
	require.Contains(t, page, "default-src 'none'")
	require.Contains(t, page, "&lt;script&gt;")
}
