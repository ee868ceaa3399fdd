//go:build linux

package walkthrough

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/rrpool/rrpool/test/lab"
	"github.com/rrpool/rrpool/test/programs"
)

// walkVariable, when set, runs the pages in the lab.
const walkVariable = "RRPOOL_WALKTHROUGH"

func TestMain(m *testing.M) {
	if os.Getenv(walkVariable) == "" {
		os.Exit(m.Run())
	}
	if err := programs.Build(context.Background(), os.Stderr, "manager", "rrpool", "kubectl", "calicoctl"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lab.Main(m)
}

// skipWalk skips a test that needs the lab.
func skipWalk(t *testing.T) {
	t.Helper()
	if os.Getenv(walkVariable) == "" {
		t.Skipf("it takes minutes in the lab: make walkthrough runs it, with %s=1", walkVariable)
	}
}
