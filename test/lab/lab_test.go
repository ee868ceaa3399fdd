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
	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/test/lab"
	"github.com/rrpool/rrpool/test/lab/probe"
	"github.com/rrpool/rrpool/test/leaks"
)

// patience is how long a wait may take on a slow machine. It guards against hanging, and says nothing about any program's speed.
const patience = 3 * time.Minute

func TestMain(m *testing.M) { lab.Main(m, stopShared) }

// start makes a lab for one test, and dumps it when the test fails.
func start(t *testing.T, options lab.Options, nodes ...lab.NodeSpec) *lab.Lab {
	t.Helper()
	require.NoError(t, stopShared(), "one lab at a time")
	l, err := startLab(t, options, nodes...)
	t.Cleanup(func() {
		if l != nil {
			dumpFailed(t, l)
			require.NoError(t, l.Stop())
		}
	})
	require.NoError(t, err)
	return l
}

// startLab makes a lab with a mesh. It can be there when it is an error.
func startLab(t *testing.T, options lab.Options, nodes ...lab.NodeSpec) (*lab.Lab, error) {
	t.Helper()
	began := time.Now()
	l, err := lab.Start(t.Context(), options)
	if err != nil {
		return nil, err
	}
	t.Logf("control plane after %s", time.Since(began).Round(time.Millisecond))
	if err := l.AddNodes(t.Context(), nodes...); err != nil {
		return l, err
	}
	t.Logf("%d nodes after %s", len(nodes), time.Since(began).Round(time.Millisecond))
	err = l.WaitMesh(t.Context())
	t.Logf("mesh after %s", time.Since(began).Round(time.Millisecond))
	return l, err
}

func dumpFailed(t *testing.T, l *lab.Lab) {
	t.Helper()
	if t.Failed() {
		dir := filepath.Join(os.TempDir(), "rrlab-failed-"+t.Name())
		t.Logf("dumped to %s (%v)", dir, l.Dump(dir))
	}
}

// shared is the lab of all tests that can do with six workers and three dedicated nodes: to make one takes a quarter of a minute.
var shared struct {
	lab *lab.Lab
	// before are the goroutines that were there before it.
	before goleak.Option
	// password of the mesh, meshPassword or "".
	password string
}

const meshPassword = "correct-horse"

// inMesh gives a test the shared lab in the mesh, with this password or none, and all nodes well. The test may leave it migrated, with nodes
// that have failed, and with statuses: the next one puts that right. A lab in which a test has failed is used by no other.
func inMesh(t *testing.T, password string) *lab.Lab {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() && shared.lab != nil {
			dumpFailed(t, shared.lab)
			require.NoError(t, stopShared())
		}
	})
	if shared.lab == nil {
		var err error
		shared.before, shared.password = goleak.IgnoreCurrent(), ""
		shared.lab, err = startLab(t, lab.Options{}, append(lab.Workers(6), lab.Dedicated(3)...)...)
		require.NoError(t, err)
		createPassword(t, shared.lab)
	}
	l := shared.lab
	for _, name := range l.Nodes() {
		require.NoError(t, l.RestoreLink(name))
		require.NoError(t, l.StartBIRD(t.Context(), name))
	}
	statuses, err := l.Calico().CalicoNodeStatus().List(t.Context(), options.ListOptions{})
	require.NoError(t, err)
	for _, status := range statuses.Items {
		_, err := l.Calico().CalicoNodeStatus().Delete(t.Context(), status.Name, options.DeleteOptions{})
		require.NoError(t, err)
	}
	peers, err := l.Calico().BGPPeers().List(t.Context(), options.ListOptions{})
	require.NoError(t, err)
	switch {
	case len(peers.Items) > 0:
		requireReturn(t, l, password)
	case password != shared.password:
		setMesh(t, l, false, nil)
		awaitNoSession(t, l, meshPrefix)
		setMesh(t, l, true, passwordRef(password))
	}
	shared.password = password
	require.NoError(t, l.WaitMesh(t.Context()))
	return l
}

// createPassword makes the Secret of lab.PasswordRef. No object refers to it yet.
func createPassword(t *testing.T, l *lab.Lab) {
	t.Helper()
	ref := lab.PasswordRef().SecretKeyRef
	_, err := l.Kube().CoreV1().Secrets("kube-system").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: ref.Name}, StringData: map[string]string{ref.Key: meshPassword},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// passwordRef refers to that Secret, unless the password is "".
func passwordRef(password string) *apiv3.BGPPassword {
	if password == "" {
		return nil
	}
	return lab.PasswordRef()
}

// stopShared ends the shared lab, of which nothing must be left.
func stopShared() error {
	l := shared.lab
	if l == nil {
		return nil
	}
	shared.lab = nil
	if err := l.Stop(); err != nil {
		return err
	}
	return leaks.Find(shared.before)
}

// watch lets the probes run for a while.
func watch(ctx context.Context, duration time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(duration):
	}
}

// requireNothingLost judges the phase that is under way, without these nodes, and returns what it has judged. Where the machine stood
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
