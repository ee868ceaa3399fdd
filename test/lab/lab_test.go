//go:build linux

package lab_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/lab"
	"github.com/rrpool/rrpool/test/lab/probe"
)

// patience is how long a wait may take on a slow machine. It guards against hanging, and says nothing about any program's speed.
const patience = 3 * time.Minute

func TestMain(m *testing.M) { lab.Main(m) }

// start makes a lab with a mesh for one test, and dumps it when the test fails.
func start(t *testing.T, options lab.Options, nodes ...lab.NodeSpec) *lab.Lab {
	t.Helper()
	began := time.Now()
	l, err := lab.Start(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			dir := filepath.Join(os.TempDir(), "rrlab-failed-"+t.Name())
			t.Logf("dumped to %s (%v)", dir, l.Dump(dir))
		}
		require.NoError(t, l.Stop())
	})
	require.NoError(t, l.AddNodes(t.Context(), nodes...))
	require.NoError(t, l.WaitMesh(t.Context()))
	t.Logf("mesh of %d nodes after %s", len(nodes), time.Since(began).Round(time.Millisecond))
	return l
}

// meshPassword is that of the mesh where there is one.
const meshPassword = "correct-horse"

// inMesh makes a lab of six workers and three dedicated nodes, in a mesh with this password or none.
func inMesh(t *testing.T, password string) *lab.Lab {
	t.Helper()
	return start(t, lab.Options{MeshPassword: password}, append(lab.Workers(6), lab.Dedicated(3)...)...)
}

// passwordRef refers to the Secret with it, unless the password is "".
func passwordRef(password string) *apiv3.BGPPassword {
	if password == "" {
		return nil
	}
	return lab.PasswordRef()
}

// watch lets the probes run for a while.
func watch(ctx context.Context, duration time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(duration):
	}
}

// requireNothingLost judges the phase that is under way, and returns what it has judged. Where the machine stood
// still for a moment, the phase goes on until that was a small part of it.
func requireNothingLost(t *testing.T, l *lab.Lab, phase string, without ...string) probe.Report {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; watch(t.Context(), time.Second) {
		report := l.Report().Phase(phase).Without(without...)
		err := report.ZeroLoss()
		if err == nil || !strings.Contains(err.Error(), "not probed often enough") || time.Now().After(end) {
			require.NoError(t, err)
			return report
		}
		t.Log(err)
	}
}

func TestASessionIsTheSameUntilItRestarts(t *testing.T) {
	was := lab.Session{Name: "Mesh_172_20_0_11", State: "Established", ProtocolState: "up", Since: "07:36:51"}
	for name, tc := range map[string]struct {
		change func(*lab.Session)
		want   bool
	}{
		"nothing has changed":              {func(*lab.Session) {}, true},
		"the other clock's second":         {func(s *lab.Session) { s.Since = "07:36:50" }, true},
		"it has restarted":                 {func(s *lab.Session) { s.Since = "07:36:53" }, false},
		"it is down":                       {func(s *lab.Session) { s.State = "Connect" }, false},
		"it is up, but exchanges nothing":  {func(s *lab.Session) { s.ProtocolState = "wait" }, false},
		"another one took its place":       {func(s *lab.Session) { s.Name = "Node_172_20_0_11" }, false},
		"there is none any more":           {func(s *lab.Session) { *s = lab.Session{} }, false},
		"BIRD says the day, after a while": {func(s *lab.Session) { s.Since = "2026-11-22" }, false},
	} {
		is := was
		tc.change(&is)
		require.Equal(t, tc.want, was.Same(is), name)
		require.Equal(t, tc.want, is.Same(was), name)
	}
}
