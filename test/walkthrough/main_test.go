//go:build linux

package walkthrough

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

const (
	// walkVariable, when set, runs the pages in the lab.
	walkVariable = "RRPOOL_WALKTHROUGH"
	// clientsVariable carries the programs' folder into the namespaces.
	clientsVariable = "RRPOOL_WALKTHROUGH_CLIENTS"
)

func TestMain(m *testing.M) {
	if os.Getenv(walkVariable) == "" {
		os.Exit(m.Run())
	}
	if err := build(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lab.Main(m)
}

// build makes everything that pages type. The namespaces have no network to do it in.
func build(ctx context.Context) error {
	if os.Getenv(clientsVariable) != "" {
		return nil
	}
	clients, err := controlplane.Clients(ctx, os.Stderr)
	if err != nil {
		return err
	}
	return errors.Join(site.BuildManager(ctx), site.BuildCommandLine(ctx), os.Setenv(clientsVariable, clients))
}

// skipWalk skips a test that needs the lab.
func skipWalk(t *testing.T) {
	t.Helper()
	if os.Getenv(walkVariable) == "" {
		t.Skipf("it takes minutes in the lab: make walkthrough runs it, with %s=1", walkVariable)
	}
}
