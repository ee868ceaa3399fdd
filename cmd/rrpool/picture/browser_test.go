package picture

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/cli"
)

func TestShots(t *testing.T) {
	path := cli.Browser(t)
	for name, n := range scenes(t) {
		d := draw(&n)
		page := filepath.Join(t.TempDir(), "x.svg")
		require.NoError(t, os.WriteFile(page, []byte(rendered(t, n, "svg")), 0o600))
		cli.Screenshot(t, path, page, name, int(d.Width), int(d.Height))
		fmt.Println(name, d.Width, d.Height)
	}
}
