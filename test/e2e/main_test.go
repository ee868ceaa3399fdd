//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

func TestMain(m *testing.M) {
	if err := site.BuildManager(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lab.Main(m)
}

// limit is how long any one wait may take on a slow machine.
const limit = 4 * time.Minute

// start builds a site, and on failure keeps everything that explains it.
func start(t *testing.T, options site.Options) (context.Context, *site.Site) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	t.Cleanup(cancel)
	begun := time.Now()
	options.Told = func(line string) { t.Logf("%6.1fs cloud: %s", time.Since(begun).Seconds(), line) }
	s, err := site.Start(ctx, options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	t.Cleanup(func() {
		if t.Failed() {
			dir := filepath.Join(os.TempDir(), "rrpool-failures", strings.ReplaceAll(t.Name(), "/", "_"))
			t.Logf("everything about the failure is in %s (%v)", dir, s.Dump(dir))
		}
	})
	t.Cleanup(func() {
		log, err := s.ManagerLog()
		require.NoError(t, err)
		require.NotContains(t, log, site.APIKey, "the manager's log holds the API key")
	})
	return ctx, s
}

// within gives ctx a time limit.
func within(t *testing.T, ctx context.Context) context.Context { //nolint:revive // t comes first in tests
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, limit)
	t.Cleanup(cancel)
	return ctx
}
