//go:build linux

package site

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// patience is how long a whole test may take on a slow machine.
const patience = 20 * time.Minute

// ForTest builds a site that ends with the test, and on failure keeps everything
// that explains it. The package needs a TestMain that calls BuildManager and
// lab.Main.
func ForTest(tb testing.TB, options Options) (context.Context, *Site) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	tb.Cleanup(cancel)
	begun := time.Now()
	options.Told = func(line string) { tb.Logf("%6.1fs cloud: %s", time.Since(begun).Seconds(), line) }
	s, err := Start(ctx, options)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Stop(); err != nil {
			tb.Error(err)
		}
	})
	tb.Cleanup(func() {
		if tb.Failed() {
			dir := filepath.Join(os.TempDir(), "rrpool-failures", strings.ReplaceAll(tb.Name(), "/", "_"))
			tb.Logf("everything about the failure is in %s (%v)", dir, s.Dump(dir))
		}
	})
	tb.Cleanup(func() {
		log, err := s.ManagerLog()
		if err == nil && strings.Contains(log, APIKey) {
			tb.Error("the manager's log holds the API key")
		}
	})
	return ctx, s
}
