package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Browser finds a Chromium; the test that needs one is skipped without it.
func Browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no chromium is installed: the page is not looked at in a browser (apt-get install chromium)")
	return ""
}

// measure runs in the page: it writes where the browser has put each text and cell,
// and whether the page is wider than the window.
const measure = `<script>addEventListener("load", () => {
  const box = e => { const r = e.getBoundingClientRect(); return {What: e.textContent, Left: r.left, Top: r.top, Right: r.right, Bottom: r.bottom} };
  const all = s => [...document.querySelectorAll(s)];
  const found = {
    Charts: all("svg").map(svg => ({Frame: box(svg), Labels: [...svg.querySelectorAll("text")].map(box)})),
    Cells: all("th, td").filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent),
    Wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  };
  const p = document.createElement("pre"); p.id = "measured"; p.textContent = JSON.stringify(found); document.body.append(p);
})</script>`

// Seen is what a browser has made of a page.
type Seen struct {
	// Charts are the pictures, with their texts.
	Charts []struct {
		Frame  Place
		Labels []Place
	}
	// Cells are those that overflow. Wide is by how much the page is wider than the window.
	Cells []string
	Wide  float64
}

// Place is where the browser has put a text, in pixels.
type Place struct {
	What                     string
	Left, Top, Right, Bottom float64
}

var measured = regexp.MustCompile(`(?s)<pre id="measured">(.*?)</pre>`)

// chromium runs the browser without a window, at the lowest priority: on a busy machine it takes
// its time.
func chromium(t *testing.T, path, page string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	args = append([]string{
		"-n", "19", path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--user-data-dir=" + t.TempDir(),
	}, args...)
	cmd := exec.CommandContext(ctx, "nice", append(args, "file://"+page)...)
	var noise strings.Builder
	cmd.Stderr = &noise
	out, err := cmd.Output()
	require.NoError(t, err, noise.String())
	return string(out)
}

// Look measures a page, which is a file, in a window of that width.
func Look(t *testing.T, browser, page string, width int) Seen {
	t.Helper()
	dom := chromium(t, browser, page, fmt.Sprintf("--window-size=%d,900", width), "--dump-dom")
	match := measured.FindStringSubmatch(dom)
	require.NotNil(t, match, dom)
	var s Seen
	require.NoError(t, json.Unmarshal([]byte(html.UnescapeString(match[1])), &s))
	require.NotEmpty(t, s.Charts)
	return s
}

// Faults names labels that the browser put upon each other or out of their chart.
func (s Seen) Faults() []string {
	var out []string
	for _, chart := range s.Charts {
		for i, a := range chart.Labels {
			if !a.within(chart.Frame) {
				out = append(out, a.What+" leaves its chart")
			}
			for _, b := range chart.Labels[i+1:] {
				if a.overlaps(b) {
					out = append(out, a.What+" overlaps "+b.What)
				}
			}
		}
	}
	return out
}

// blur is what a browser rounds by.
const blur = 0.5

func (p Place) within(o Place) bool {
	return p.Left >= o.Left-blur && p.Right <= o.Right+blur && p.Top >= o.Top-blur && p.Bottom <= o.Bottom+blur
}

func (p Place) overlaps(o Place) bool {
	return p.Left < o.Right-blur && o.Left < p.Right-blur && p.Top < o.Bottom-blur && o.Top < p.Bottom-blur
}

// hasInk says whether a picture of that size shows more than one colour.
func hasInk(t *testing.T, path string, width, height int) bool {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	picture, err := png.Decode(f)
	require.NoError(t, err)
	bounds := picture.Bounds()
	require.Equal(t, [2]int{width, height}, [2]int{bounds.Dx(), bounds.Dy()})
	colours := map[[3]uint32]int{}
	for y := 0; y < height; y += 2 {
		for x := 0; x < width; x += 2 {
			r, g, b, _ := picture.At(x, y).RGBA()
			colours[[3]uint32{r, g, b}]++
		}
	}
	return len(colours) > 10
}

// Measured is the page with the script in it that Look needs. A picture alone, an SVG,
// becomes a page first.
func Measured(page string) string {
	if strings.HasPrefix(strings.TrimSpace(page), "<svg") || strings.HasPrefix(page, "<?xml") {
		_, picture, _ := strings.Cut(page, "<svg")
		page = "<!doctype html><html><head><meta charset=\"utf-8\"></head><body style=\"margin:0\"><svg" + picture + "</body></html>"
	}
	return strings.Replace(page, "<head>", "<head>"+measure, 1)
}

// Screenshot takes a picture of a page and holds it to show something. It is kept as
// $RRPOOL_SCREENSHOT/<name>.png where that is set.
func Screenshot(t *testing.T, browser, page, name string, width, height int) {
	t.Helper()
	picture := filepath.Join(t.TempDir(), "picture.png")
	chromium(t, browser, page, fmt.Sprintf("--window-size=%d,%d", width, height), "--screenshot="+picture)
	require.True(t, hasInk(t, picture, width, height))
	if keep := os.Getenv("RRPOOL_SCREENSHOT"); keep != "" {
		content, err := os.ReadFile(picture)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(keep, name+".png"), content, 0o600))
	}
}
