package cost

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/cli"
)

// In a real browser, in a narrow and a wide window: no label overlaps another or
// leaves its chart, no cell is too small for what is in it, and the page does not
// have to be moved sideways.
func TestThePageInABrowser(t *testing.T) {
	path := cli.Browser(t)
	all := scenes(t)
	for _, scene := range []string{"cluster-pool-mixed", "far-too-many", "own-price-book"} {
		content := ask(t, append([]string{"cost", "-o", "html"}, all[scene]...)...).Out
		page := filepath.Join(t.TempDir(), "cost.html")
		require.NoError(t, os.WriteFile(page, []byte(cli.Measured(content)), 0o600))
		for _, width := range []int{500, 1200} {
			t.Run(fmt.Sprintf("%s/%d", scene, width), func(t *testing.T) {
				s := cli.Look(t, path, page, width)
				require.Empty(t, s.Faults())
				require.Empty(t, s.Cells, "cells that overflow")
				require.LessOrEqual(t, s.Wide, 0.0, "the page is wider than the window")
			})
		}
	}
	t.Run("the check sees labels that lie upon each other", func(t *testing.T) {
		page := filepath.Join(t.TempDir(), "cost.html")
		spoiled := regexp.MustCompile(`<text x="[^"]*"`).ReplaceAllString(ask(t, "cost", "--hourly-price", "0.11", "-o", "html").Out, `<text x="0"`)
		require.NoError(t, os.WriteFile(page, []byte(cli.Measured(spoiled)), 0o600))
		require.NotEmpty(t, cli.Look(t, path, page, 800).Faults())
	})
	t.Run("a picture", func(t *testing.T) {
		page := filepath.Join(t.TempDir(), "cost.html")
		require.Zero(t, ask(t, "cost", "--hourly-price", "0.11", "-o", "html", "--output-file", page).Code)
		cli.Screenshot(t, path, page, "cost", 900, 1100)
	})
}
