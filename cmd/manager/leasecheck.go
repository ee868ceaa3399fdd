package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lease is the lock of leader election.
type lease struct {
	resourcelock.Interface
	// holder is the identity that Get has read last.
	holder string
}

func newLease(config *rest.Config, namespace string, renewDeadline time.Duration) (*lease, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("finding our name in the lease: %w", err)
	}
	identity := resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, leaseName, identity, config, renewDeadline)
	return &lease{Interface: lock}, err //nolint:wrapcheck // the caller wraps
}

// Get implements resourcelock.Interface.
func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.holder = record.HolderIdentity
	}
	return record, raw, err //nolint:wrapcheck // client-go's own
}

// Update implements resourcelock.Interface. It refuses to release a lease that another manager holds by now.
// client-go's elector tries that if it gives up late, and a third manager would lead beside the holder.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" && l.holder != l.Identity() {
		return errors.New("not released: another manager holds the lease")
	}
	return l.Interface.Update(ctx, record) //nolint:wrapcheck // client-go's own
}

// leaseCheckFor is how long a check of the lease is reused. It is much shorter than the lease.
const leaseCheckFor = time.Second

// leaseCheck keeps a manager from writing once another holds the lease. Leader election alone does not: a leader that was suspended for
// longer than its lease, or whose lease was deleted or edited, goes on for up to 10 s.
type leaseCheck struct {
	reader    client.Reader
	namespace string
	// self is our identity in the lease.
	self string
	now  func() time.Time

	mu   sync.Mutex
	seen time.Time
}

// check returns why this manager, which was elected, may not write; nil if it may.
func (l *leaseCheck) check(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	// Both the monotonic and the wall clock are compared: while the machine was suspended, one of them may have stopped.
	if !l.seen.IsZero() && now.Sub(l.seen) < leaseCheckFor && now.Round(0).Sub(l.seen.Round(0)).Abs() < leaseCheckFor {
		return nil
	}
	lease := &coordinationv1.Lease{}
	if err := l.reader.Get(ctx, client.ObjectKey{Namespace: l.namespace, Name: leaseName}, lease); err != nil {
		return fmt.Errorf("reading Lease %q in namespace %q: %w", leaseName, l.namespace, err)
	}
	if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != l.self {
		return fmt.Errorf("nothing is written: Lease %q in namespace %q is held by %q, not by this manager", leaseName, l.namespace, holder)
	}
	l.seen = now
	return nil
}
