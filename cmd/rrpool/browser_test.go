package main

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

// browser finds a Chromium; the test that needs one is skipped without it.
func browser(t *testing.T) string {
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

type seen struct {
	Charts []struct {
		Frame  place
		Labels []place
	}
	Cells []string
	Wide  float64
}

type place struct {
	What                     string
	Left, Top, Right, Bottom float64
}

var measured = regexp.MustCompile(`(?s)<pre id="measured">(.*?)</pre>`)

// chromium runs the browser without a window, at the lowest priority.
func chromium(t *testing.T, path, page string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
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

// In a real browser, in a narrow and a wide window: no label overlaps another or
// leaves its chart, no cell is too small for what is in it, and the page does not
// have to be moved sideways.
func TestThePageInABrowser(t *testing.T) {
	path := browser(t)
	all := scenes(t)
	for _, scene := range []string{"cluster-pool-mixed", "far-too-many", "own-price-book"} {
		content := ask(t, append([]string{"cost", "-o", "html"}, all[scene]...)...).out
		page := filepath.Join(t.TempDir(), "cost.html")
		require.NoError(t, os.WriteFile(page, []byte(strings.Replace(content, "<head>", "<head>"+measure, 1)), 0o600))
		for _, width := range []int{500, 1200} {
			t.Run(fmt.Sprintf("%s/%d", scene, width), func(t *testing.T) {
				s := look(t, path, page, width)
				require.Empty(t, s.faults())
				require.Empty(t, s.Cells, "cells that overflow")
				require.LessOrEqual(t, s.Wide, 0.0, "the page is wider than the window")
			})
		}
	}
	t.Run("the check sees labels that lie upon each other", func(t *testing.T) {
		page := filepath.Join(t.TempDir(), "cost.html")
		spoiled := regexp.MustCompile(`<text x="[^"]*"`).ReplaceAllString(ask(t, "cost", "--hourly-price", "0.11", "-o", "html").out, `<text x="0"`)
		require.NoError(t, os.WriteFile(page, []byte(strings.Replace(spoiled, "<head>", "<head>"+measure, 1)), 0o600))
		require.NotEmpty(t, look(t, path, page, 800).faults())
	})
	t.Run("a picture", func(t *testing.T) {
		page := filepath.Join(t.TempDir(), "cost.html")
		require.Zero(t, ask(t, "cost", "--hourly-price", "0.11", "-o", "html", "--output-file", page).code)
		picture := filepath.Join(t.TempDir(), "cost.png")
		chromium(t, path, page, "--window-size=900,1100", "--screenshot="+picture)
		require.True(t, hasInk(t, picture, 900, 1100))
		if keep := os.Getenv("RRPOOL_SCREENSHOT"); keep != "" {
			content, err := os.ReadFile(picture)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(keep, content, 0o600))
		}
	})
}

// look measures the page in a window of that width.
func look(t *testing.T, path, page string, width int) seen {
	t.Helper()
	dom := chromium(t, path, page, fmt.Sprintf("--window-size=%d,900", width), "--dump-dom")
	match := measured.FindStringSubmatch(dom)
	require.NotNil(t, match, dom)
	var s seen
	require.NoError(t, json.Unmarshal([]byte(html.UnescapeString(match[1])), &s))
	require.NotEmpty(t, s.Charts)
	return s
}

// faults names labels that the browser put upon each other or out of their chart.
func (s seen) faults() []string {
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

func (p place) within(o place) bool {
	return p.Left >= o.Left-blur && p.Right <= o.Right+blur && p.Top >= o.Top-blur && p.Bottom <= o.Bottom+blur
}

func (p place) overlaps(o place) bool {
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
