package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
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
	f := &leaseCheck{reader: lease, namespace: testNamespace, self: "pod-1_x", now: func() time.Time { return now }}
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
	f := &leaseCheck{reader: lease, self: "pod-1_x", now: func() time.Time { return now }}
	require.NoError(t, f.check(t.Context()))
	lease.holder = "pod-2_y"
	now = now.Round(0).Add(time.Hour) // the wall clock alone has gone on
	require.Error(t, f.check(t.Context()))
}

// fakeLock is a lease with a holder.
type fakeLock struct {
	resourcelock.Interface
	record resourcelock.LeaderElectionRecord
}

func (*fakeLock) Identity() string { return "pod-1_x" }

func (l *fakeLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &l.record, nil, nil
}

func (l *fakeLock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	l.record = record
	return nil
}

func TestAFormerLeaderDoesNotReleaseItsSuccessorsLease(t *testing.T) {
	for holder, released := range map[string]bool{"pod-1_x": true, "pod-2_y": false} {
		lock := &fakeLock{record: resourcelock.LeaderElectionRecord{HolderIdentity: holder}}
		l := &lease{Interface: lock}
		_, _, err := l.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, released, l.Update(t.Context(), resourcelock.LeaderElectionRecord{}) == nil)
		require.Equal(t, released, lock.record.HolderIdentity == "")
	}
}
