package controlplane

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
)

// shared is the one control plane of a test binary.
var shared struct {
	sync.Mutex
	plane *ControlPlane
	err   error
}

// ForTest returns the control plane that all tests of a binary share, with Calico's and our CRDs and AuditAll. The first call
// starts it. The package needs a TestMain that calls Main, or it is cleaned up only as far as the kernel does it. Objects are the
// test's own to name apart and to clean up; a test that stops the apiserver should Start its own.
func ForTest(tb testing.TB) *ControlPlane {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.plane == nil && shared.err == nil {
		shared.plane, shared.err = startShared(tb.Context())
	}
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.plane
}

// Main is for TestMain: it runs the tests, stops what ForTest started, and ends the process.
func Main(m *testing.M) {
	code := m.Run()
	if err := StopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// StopShared stops what ForTest started, for a TestMain that has more to do than Main.
func StopShared() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.plane == nil {
		return nil
	}
	err := shared.plane.Stop()
	shared.plane = nil
	return err
}

func startShared(ctx context.Context) (*ControlPlane, error) {
	calico, err := CalicoCRDs(ctx)
	if err != nil {
		return nil, err
	}
	return Start(ctx, Options{Log: os.Stderr, Audit: AuditAll, CRDs: []string{calico, OwnCRDs()}})
}
