//go:build linux

package reflector_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/rrpool/rrpool/test/lab"
)

// impossible is why BIRD cannot be measured here.
var impossible error

// TestMain runs the tests inside private namespaces. Where that cannot be, the tests of the real BIRD say so by name: they fail, or
// with RRPOOL_LAB=skip are skipped, as those of the lab.
func TestMain(m *testing.M) {
	if impossible = lab.Isolate(context.Background(), os.Stderr); impossible != nil {
		fmt.Fprintln(os.Stderr, "bench:", impossible)
	}
	os.Exit(m.Run())
}

// needBIRD is for tests that measure.
func needBIRD(t *testing.T) {
	t.Helper()
	if impossible == nil {
		return
	}
	if os.Getenv("RRPOOL_LAB") == "skip" {
		t.Skipf("a real BIRD cannot be measured here: %v", impossible)
	}
	t.Fatalf("a real BIRD cannot be measured here: %v", impossible)
}
