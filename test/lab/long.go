//go:build linux

package lab

import (
	"os"
	"testing"
)

// ChaosVariable, when set, lets tests run that take minutes: `make chaos` sets it.
const ChaosVariable = "RRPOOL_CHAOS"

// SkipLong skips a test that takes minutes unless ChaosVariable is set.
func SkipLong(t testing.TB) {
	t.Helper()
	if os.Getenv(ChaosVariable) == "" {
		t.Skipf("it takes minutes: make chaos runs it, with %s=1", ChaosVariable)
	}
}
