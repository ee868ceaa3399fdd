//go:build linux

package lab

import (
	"os"
	"testing"
)

// ChaosVariable names the variable that lets tests run that take minutes: `make
// lab`, `make chaos` and `make soak` set it.
const ChaosVariable = "RRPOOL_CHAOS"

// SkipLong skips a test that takes minutes unless ChaosVariable is set.
func SkipLong(tb testing.TB) {
	tb.Helper()
	if os.Getenv(ChaosVariable) == "" {
		tb.Skipf("it takes minutes: make lab, make chaos or make soak runs it, with %s=1", ChaosVariable)
	}
}
