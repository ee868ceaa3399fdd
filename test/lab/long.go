//go:build linux

package lab

import (
	"os"
	"testing"
)

// ChaosVariable names the variable that lets tests run that take minutes: `make
// lab` and `make chaos` set it.
const ChaosVariable = "RRPOOL_CHAOS"

// SkipLong skips a test that takes minutes unless ChaosVariable is set.
func SkipLong(tb testing.TB) {
	tb.Helper()
	if os.Getenv(ChaosVariable) == "" {
		tb.Skipf("it takes minutes: make lab or make chaos runs it, with %s=1", ChaosVariable)
	}
}
