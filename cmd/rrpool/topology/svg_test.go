package topology

import (
	"encoding/xml"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

const docs = "../../../docs"

// The drawings in the docs are what the command draws: -update draws them anew.
func TestTheDrawingsOfTheDocs(t *testing.T) {
	for name, tc := range map[string]struct{ page, flags, spec string }{
		"topology-single":       {"topology", "--nodes 500 --zones 3 --reflectors 3", ""},
		"topology-quorum":       {"topology", "--nodes 2000 --zones 3 --topology quorum --reflectors 9", ""},
		"topology-hierarchy":    {"topology", "--nodes 5000 --zones 3 --topology hierarchy", ""},
		"topology-multicluster": {"topology", "--nodes 500 --zones 3 --topology multicluster --reflectors 3", ""},
		"concepts-mesh":         {"concepts", "--nodes 90 --zones 3 -f -", "{mode: FullMesh}"},
		"concepts-reflectors":   {"concepts", "--nodes 90 --zones 3 -f -", "{mode: RouteReflector}"},
		"topology-migrating":    {"topology", "", ""},
		"topology-migrated":     {"topology", "", ""},
		"topology-failing":      {"topology", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var drawing string
			if tc.flags == "" {
				drawing = rendered(t, networkOf(clusters(t)[strings.TrimPrefix(name, "topology-")]), "svg")
			} else {
				got := askIn(t, iostreams.Streams{In: strings.NewReader(pool(tc.spec))}, append([]string{"topology"}, strings.Fields(tc.flags)...)...)
				require.Zero(t, got.Code, got.Err)
				drawing = got.Out
			}
			path := filepath.Join(docs, "pictures", name+".svg")
			if flag.Lookup("update").Value.String() == "true" {
				require.NoError(t, os.WriteFile(path, []byte(drawing), 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err, "go test -update draws it")
			require.Equal(t, string(want), drawing)
			page, err := os.ReadFile(filepath.Join(docs, tc.page+".md"))
			require.NoError(t, err)
			require.Contains(t, string(page), "(pictures/"+name+".svg)")
			if tc.spec == "" && tc.flags != "" {
				require.Contains(t, string(page), "`rrpool topology "+tc.flags+"`")
			}
		})
	}
}

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

// area is a rectangle with the words it stands for.
type area struct {
	what                     string
	left, top, right, bottom float64
}

func (b area) overlaps(o area) bool {
	return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
}

func (b area) within(o area) bool {
	return b.left >= o.left && b.right <= o.right && b.top >= o.top && b.bottom <= o.bottom
}

func (b area) holds(p point) bool {
	return p.x > b.left && p.x < b.right && p.y > b.top && p.y < b.bottom
}

type point struct{ x, y float64 }

// texts are the boxes of all texts. A glyph reaches from its ascent to its descent.
func (s seen) texts() []area {
	var out []area
	for _, l := range s.Texts {
		out = append(out, area{l.Text, l.X, l.Y - ascent*l.Size, l.X + l.Length, l.Y + descent*l.Size})
	}
	return out
}

// faults names every text that leaves the picture, lies upon another or upon a line or
// mark, or stands over the edge of what it is in.
func (s seen) faults(t require.TestingT) []string {
	picture := area{what: "picture"}
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

func (b area) collisions(texts, boxes []area) []string {
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
func (s seen) boxes() []area {
	var out []area
	for _, r := range s.Rects {
		out = append(out, area{r.Class, r.X, r.Y, r.X + r.Width, r.Y + r.Height})
	}
	for _, c := range s.Circles {
		out = append(out, area{"mark", c.X - c.R, c.Y - c.R, c.X + c.R, c.Y + c.R})
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
	for name, o := range clusters(t) {
		s := parsed(t, rendered(t, networkOf(o), "svg"))
		require.Empty(t, s.faults(t), name)
		require.NotEmpty(t, s.Texts)
	}
}

// The check finds each fault that it is for.
func TestTheCheckOfTheGeometryFindsWhatIsWrong(t *testing.T) {
	for name, spoil := range map[string]func(*seen){
		"a text upon another":         func(s *seen) { s.Texts[1].Y = s.Texts[0].Y },
		"a text longer than its room": func(s *seen) { s.Texts[len(s.Texts)-1].Length = 1e5 },
		"a text out of the picture":   func(s *seen) { s.Texts[0].X = -1 },
		"a text behind the edge":      func(s *seen) { s.Texts[0].X = 700 },
		"a group narrower than its words": func(s *seen) {
			for i := range s.Rects {
				if s.Rects[i].Class == "group" {
					s.Rects[i].Width = 40
				}
			}
		},
		"a line through a text": func(s *seen) { s.Paths[0].D = fmt.Sprintf("M0 %gH900", s.Texts[4].Y-3) },
		"a curve through a text": func(s *seen) {
			l := s.Texts[4]
			s.Paths[0].D = fmt.Sprintf("M0 0C0 0 %[1]g %[2]g %[1]g %[2]g", l.X+5, l.Y-3)
		},
		"a mark upon a text":        func(s *seen) { s.Circles[0].X, s.Circles[0].Y = s.Texts[4].X, s.Texts[4].Y },
		"a area out of the picture": func(s *seen) { s.Rects[len(s.Rects)-1].Y = 1e4 },
	} {
		t.Run(name, func(t *testing.T) {
			s := parsed(t, rendered(t, networkOf(inZones(frankfurt, 1, 10)), "svg"))
			require.Empty(t, s.faults(t))
			spoil(&s)
			require.NotEmpty(t, s.faults(t))
		})
	}
}

// anyName is any text as a name.
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
		zone := Zone{frame: frame{
			fmt.Sprint(anyName.Draw(t, "zone"), i), rapid.SampledFrom([]frameKind{zoneFrame, rackFrame, spineFrame}).Draw(t, "kind"),
		}}
		for j := range rapid.IntRange(0, 8).Draw(t, "reflectors") {
			r := Reflector{
				Name:      fmt.Sprint(anyName.Draw(t, "reflector"), i, "-", j),
				ClusterID: rapid.SampledFrom([]string{"", "244.0.0.1", "255.255.255.255"}).Draw(t, "id"),
				Detail:    rapid.OneOf(rapid.Just(""), anyName).Draw(t, "detail"),
				Slot:      rapid.OneOf(rapid.Just(""), anyName).Draw(t, "slot"),
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

// Whatever the names, the numbers and the links are, nothing overlaps, and each text has room.
func TestAnyNetworkFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := anyNetwork(t)
		drawing := rendered(t, n, "svg")
		require.Equal(t, drawing, rendered(t, n, "svg"))
		s := parsed(t, drawing)
		require.Empty(t, s.faults(t))
		for _, l := range s.Texts {
			require.LessOrEqual(t, float64(text.StringWidth(l.Text))*glyph*l.Size, l.Length+0.01, "room for each glyph")
			require.True(t, l.Title == "" || strings.HasSuffix(l.Text, "…"), "what is shortened ends so")
			require.False(t, strings.ContainsFunc(l.Text, func(r rune) bool { return !unicode.IsGraphic(r) }))
		}
	})
}

var pathWords = regexp.MustCompile(`[A-Za-z]|-?[0-9.]+(?:e-?\d+)?`)

// walker follows a path, of which it knows the commands that we write.
type walker struct {
	words  []string
	at     point
	points []point
}

func walk(t require.TestingT, d string) []point {
	w := &walker{words: pathWords.FindAllString(d, -1)}
	for len(w.words) > 0 {
		command := w.words[0]
		w.words = w.words[1:]
		w.step(t, command)
	}
	return w.points
}

func (w *walker) step(t require.TestingT, command string) {
	switch command {
	case "M":
		w.at = w.point(t)
	case "m":
		w.at = w.further(w.point(t))
	case "H":
		w.straight(point{w.number(t), w.at.y})
	case "h":
		w.straight(w.further(point{w.number(t), 0}))
	case "V":
		w.straight(point{w.at.x, w.number(t)})
	case "l":
		w.straight(w.further(w.point(t)))
	case "C":
		w.curve(w.at, w.point(t), w.point(t), w.point(t))
	case "a":
		for range 5 {
			w.number(t)
		}
		w.straight(w.further(w.point(t)))
	case "z":
	default:
		require.Fail(t, "a command that the test does not know", command)
	}
}

func (w *walker) number(t require.TestingT) float64 {
	require.NotEmpty(t, w.words)
	value, err := strconv.ParseFloat(w.words[0], 64)
	require.NoError(t, err)
	w.words = w.words[1:]
	return value
}

func (w *walker) point(t require.TestingT) point { return point{w.number(t), w.number(t)} }

func (w *walker) further(by point) point { return point{w.at.x + by.x, w.at.y + by.y} }

func (w *walker) straight(to point) {
	steps := int(math.Max(math.Abs(to.x-w.at.x), math.Abs(to.y-w.at.y))/4) + 1
	for k := range steps + 1 {
		f := float64(k) / float64(steps)
		w.points = append(w.points, point{w.at.x + f*(to.x-w.at.x), w.at.y + f*(to.y-w.at.y)})
	}
	w.at = to
}

func (w *walker) curve(a, b, c, d point) {
	for k := range 81 {
		f := float64(k) / 80
		g := 1 - f
		w.points = append(w.points, point{
			g*g*g*a.x + 3*g*g*f*b.x + 3*g*f*f*c.x + f*f*f*d.x,
			g*g*g*a.y + 3*g*g*f*b.y + 3*g*f*f*c.y + f*f*f*d.y,
		})
	}
	w.at = d
}

// luminance of a colour such as #0a7d5a, as WCAG defines it.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	var rgb [3]int
	_, err := fmt.Sscanf(colour, "#%02x%02x%02x", &rgb[0], &rgb[1], &rgb[2])
	require.NoError(t, err)
	var out float64
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		c := float64(rgb[i]) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		out += weight * c
	}
	return out
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// On light and on dark paper: 4.5 to 1 for texts and 3 to 1 for lines and signs, as WCAG asks for.
func TestTheColoursCanBeToldFromThePaper(t *testing.T) {
	grounds := map[string][2]string{}
	for _, tone := range tones {
		if tone[1] == "fill" {
			grounds[tone[0]] = [2]string{tone[2], tone[3]}
		}
	}
	for _, ground := range []string{"paper", "zone", "group", "reflector", "pool"} {
		for i, paper := range grounds[ground] {
			for _, ink := range []string{"ink", "soft"} {
				require.GreaterOrEqual(t, contrast(t, grounds[ink][i], paper), 4.5, "%s on %s", ink, ground)
			}
			for _, l := range looks {
				colour := [2]string{l.light, l.dark}[i]
				require.GreaterOrEqual(t, contrast(t, colour, paper), 3.0, "%s on %s", l.name, ground)
			}
		}
	}
	require.Less(t, contrast(t, "#ffffff", "#eeeeee"), 3.0, "the check finds too little contrast")
}

// A reader who sees no colours can tell the states of a live cluster apart, by the lines
// and by the signs. Planned sessions are never beside them.
func TestStatesDifferInMoreThanColour(t *testing.T) {
	class := regexp.MustCompile(`(edge|fill)-[a-z]+`)
	lines, signs := map[string]state{}, map[string]state{}
	for _, s := range []state{up, partial, none, unknown, idle} {
		c := &canvas{used: map[state]bool{}}
		c.sign(s, 10, 10)
		sign := class.ReplaceAllString(c.signs.String(), "")
		require.NotContains(t, signs, sign)
		require.NotContains(t, lines, looks[s].dash)
		signs[sign], lines[looks[s].dash] = s, s
	}
	for _, o := range clusters(t) {
		require.NotContains(t, rendered(t, networkOf(o), "svg"), `"line-planned"`)
	}
}

// Every class has colours on light and on dark paper.
func TestEveryClassHasItsColours(t *testing.T) {
	classes := regexp.MustCompile(`<(?:rect|path|circle|text) class="([^"]*)"`)
	light, dark, _ := strings.Cut(style(), "@media")
	found := 0
	for name, o := range clusters(t) {
		for _, match := range classes.FindAllStringSubmatch(rendered(t, networkOf(o), "svg"), -1) {
			for class := range strings.SplitSeq(match[1], " ") {
				if class != "strong" && class != "sign" {
					require.Regexp(t, `\.`+class+`[{,]`, light, name)
					require.Regexp(t, `\.`+class+`[{,]`, dark, name)
				}
				found++
			}
		}
	}
	require.Greater(t, found, 500)
}
