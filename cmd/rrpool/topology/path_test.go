package topology

import (
	"math"
	"regexp"
	"strconv"

	"github.com/stretchr/testify/require"
)

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
