//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
	"github.com/rrpool/rrpool/test/programs"
)

func TestMain(m *testing.M) {
	if err := programs.Build(context.Background(), os.Stderr, "manager"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lab.Main(m)
}

// limit is how long any one wait may take on a slow machine.
const limit = 6 * time.Minute

// start builds a site for one test.
func start(t *testing.T, options site.Options) (context.Context, *site.Site) {
	t.Helper()
	return site.ForTest(t, options)
}

// within gives ctx a time limit.
func within(t *testing.T, ctx context.Context) context.Context { //nolint:revive // t comes first in tests
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, limit)
	t.Cleanup(cancel)
	return ctx
}
