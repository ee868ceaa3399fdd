package topology

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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

// On light and on dark paper: 4.5 to 1 for texts and 3 to 1 for lines and signs, as WCAG
// asks for.
func TestTheColoursCanBeToldFromThePaper(t *testing.T) {
	grounds := map[string][2]string{}
	for _, tone := range tones {
		if tone.attribute == "fill" {
			grounds[tone.class] = [2]string{tone.light, tone.dark}
		}
	}
	for _, ground := range []string{"paper", "band", "card", "chip", "panel"} {
		for i, paper := range grounds[ground] {
			for _, ink := range []string{"ink", "soft"} {
				require.GreaterOrEqual(t, contrast(t, grounds[ink][i], paper), 4.5, "%s on %s", ink, ground)
			}
			for _, s := range states {
				colour := [2]string{looks[s].light, looks[s].dark}[i]
				require.GreaterOrEqual(t, contrast(t, colour, paper), 3.0, "%s on %s", looks[s].name, ground)
			}
		}
	}
	require.Less(t, contrast(t, "#ffffff", "#eeeeee"), 3.0, "the check bites")
}

// Whoever sees no colours can still tell the states of a live cluster apart, by the
// lines and by the signs; planned ones never stand beside them.
func TestStatesDifferInMoreThanColour(t *testing.T) {
	colours := regexp.MustCompile(`#[0-9a-f]{6}|class="[^"]*"`)
	lines, signs := map[string]state{}, map[string]state{}
	for _, s := range states {
		if s == planned {
			continue
		}
		p := &pen{}
		p.mark(mark{10, 10, s})
		sign := colours.ReplaceAllString(p.String(), "")
		require.NotContains(t, signs, sign)
		require.NotContains(t, lines, looks[s].dash)
		signs[sign], lines[looks[s].dash] = s, s
	}
	for _, n := range scenes(t) {
		live := strings.Contains(rendered(t, n, "svg"), `"wire-up"`)
		require.False(t, live && strings.Contains(rendered(t, n, "svg"), `"wire-planned"`))
	}
}

// Every part of a picture has its colour in an attribute, for programs that read no style
// sheet, and in the style sheet for dark paper.
func TestEveryClassHasItsColours(t *testing.T) {
	classes := regexp.MustCompile(`<(?:rect|path|circle|text) class="([^"]*)"([^>]*)`)
	sheet := style()
	found := 0
	for name, n := range scenes(t) {
		for _, match := range classes.FindAllStringSubmatch(rendered(t, n, "svg"), -1) {
			require.Regexp(t, `(fill|stroke)="#`, match[2], name)
			for class := range strings.SplitSeq(match[1], " ") {
				if class != "strong" {
					require.Regexp(t, `\.`+class+`[{,]`, sheet, name)
				}
				found++
			}
		}
	}
	require.Greater(t, found, 500)
}
