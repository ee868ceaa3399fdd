//go:build linux

package lab_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/lab"
)

func TestMain(m *testing.M) { lab.Main(m) }

// start makes a lab for one test, and dumps it when the test fails.
func start(t *testing.T, options lab.Options, nodes ...lab.NodeSpec) *lab.Lab {
	t.Helper()
	began := time.Now()
	options.Log = os.Stderr
	l, err := lab.Start(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			dir := filepath.Join(os.TempDir(), "rrlab-failed-"+t.Name())
			t.Logf("dumped to %s (%v)", dir, l.Dump(dir))
		}
		require.NoError(t, l.Stop())
	})
	t.Logf("control plane after %s", time.Since(began).Round(time.Millisecond))
	require.NoError(t, l.AddNodes(t.Context(), nodes...))
	t.Logf("%d nodes after %s", len(nodes), time.Since(began).Round(time.Millisecond))
	require.NoError(t, l.WaitMesh(t.Context()))
	t.Logf("mesh after %s", time.Since(began).Round(time.Millisecond))
	return l
}

// watch lets the probes run for a while.
func watch(ctx context.Context, duration time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(duration):
	}
}

func TestAMeshOfSixNodesInThreeZonesLosesNothing(t *testing.T) {
	l := start(t, lab.Options{}, lab.Workers(6)...)
	l.Checkpoint("mesh")
	watch(t.Context(), 10*time.Second)
	report := l.Report()
	t.Log("\n" + report.String())
	require.Len(t, report.Pairs, 30)
	require.NoError(t, report.Phase("mesh").ZeroLoss())
}
