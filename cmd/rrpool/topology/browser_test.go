package topology

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/cli"
)

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// In a real browser, in a narrow and a wide window: no text overlaps another or leaves
// the picture, no cell is too small for what is in it, and the page does not have to be
// moved sideways.
func TestInABrowser(t *testing.T) {
	path, all := cli.Browser(t), scenes(t)
	for _, look := range []struct {
		scene, format string
		widths        []int
	}{
		{"three-reflectors", "html", []int{500}},
		{"large", "html", []int{500, 1200}},
		{"large", "svg", []int{500}},
		{"topology-hierarchy-failing", "html", []int{500, 1200}},
		{"failing", "html", []int{1200}},
		{"weird-names", "html", []int{500}},
	} {
		page := write(t, "page.html", cli.Measured(rendered(t, all[look.scene], look.format)))
		for _, width := range look.widths {
			t.Run(fmt.Sprintf("%s/%s/%d", look.scene, look.format, width), func(t *testing.T) {
				s := cli.Look(t, path, page, width)
				require.Len(t, s.Charts, 1)
				require.Len(t, s.Charts[0].Labels, len(parsed(t, rendered(t, all[look.scene], "svg")).Texts))
				require.Empty(t, s.Faults())
				if look.format == "html" {
					require.Empty(t, s.Cells, "cells that overflow")
					require.LessOrEqual(t, s.Wide, 0.0, "the page is wider than the window")
				}
			})
		}
	}
	t.Run("the check sees texts that lie upon each other", func(t *testing.T) {
		spoiled := regexp.MustCompile(`(<text [^>]*) x="[^"]*"`).ReplaceAllString(rendered(t, all["failing"], "svg"), `$1 x="30"`)
		spoiled = regexp.MustCompile(`(<text [^>]*) y="[^"]*"`).ReplaceAllString(spoiled, `$1 y="30"`)
		require.NotEqual(t, spoiled, rendered(t, all["failing"], "svg"))
		require.NotEmpty(t, cli.Look(t, path, write(t, "page.html", cli.Measured(spoiled)), 800).Faults())
	})
}

// The pictures as a person sees them; RRPOOL_SCREENSHOT keeps them.
func TestScreenshots(t *testing.T) {
	path, all := cli.Browser(t), scenes(t)
	for name := range all {
		if name != "large" && os.Getenv("RRPOOL_SCREENSHOT") == "" {
			continue
		}
		n := all[name]
		d := draw(&n)
		cli.Screenshot(t, path, write(t, "topology.svg", svg(d)), "topology-"+name, int(d.Width), int(d.Height)+100)
	}
	if os.Getenv("RRPOOL_SCREENSHOT") == "" {
		return
	}
	page := rendered(t, all["failing"], "html")
	cli.Screenshot(t, path, write(t, "topology.html", page), "topology-page", 1100, 1300)
	dark := strings.ReplaceAll(page, "@media (prefers-color-scheme:dark){", "@media all{")
	dark = strings.Replace(dark, "@media (prefers-color-scheme: dark) {", "@media all {", 1)
	cli.Screenshot(t, path, write(t, "topology.html", dark), "topology-dark", 1100, 1300)
}
