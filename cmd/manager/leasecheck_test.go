package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fakeLease is an apiserver with one lease.
type fakeLease struct {
	client.Reader
	holder string
	err    error
	asked  int
}

func (p *fakeLease) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	p.asked++
	o.(*coordinationv1.Lease).Spec.HolderIdentity = &p.holder
	return p.err
}

func TestOnlyTheHolderOfTheLeaseWrites(t *testing.T) {
	ctx := t.Context()
	lease := &fakeLease{holder: "pod-1_x"}
	now := time.Now()
	f := &leaseCheck{reader: lease, namespace: testNamespace, host: "pod-1", now: func() time.Time { return now }}
	require.NoError(t, f.check(ctx))
	require.NoError(t, f.check(ctx))
	require.Equal(t, 1, lease.asked, "a look holds for a second")

	lease.holder = "pod-2_y"
	now = now.Add(2 * time.Second)
	require.ErrorContains(t, f.check(ctx), `Lease "rrpool-manager" in namespace "rrpool-system" is held by "pod-2_y"`)

	// The same pod, another process: not us either.
	lease.holder = "pod-1_z"
	require.Error(t, f.check(ctx))

	lease.holder = ""
	require.Error(t, f.check(ctx))

	lease.holder = "pod-1_x"
	require.NoError(t, f.check(ctx))

	// What cannot be known does not count as ours.
	now, lease.err = now.Add(2*time.Second), errors.New("no answer")
	require.ErrorContains(t, f.check(ctx), "no answer")
}

func TestAClockThatStoodStillIsNotBelieved(t *testing.T) {
	lease := &fakeLease{holder: "pod-1_x"}
	now := time.Now()
	f := &leaseCheck{reader: lease, host: "pod-1", now: func() time.Time { return now }}
	require.NoError(t, f.check(t.Context()))
	lease.holder = "pod-2_y"
	now = now.Round(0).Add(time.Hour) // the wall clock alone has gone on
	require.Error(t, f.check(t.Context()))
}

func TestAnotherHolderIsNeverTakenForUs(t *testing.T) {
	f := &leaseCheck{reader: &fakeLease{holder: "pod-2_y"}, host: "pod-1", now: time.Now}
	require.Error(t, f.check(t.Context()))
	require.Empty(t, f.self)
}
