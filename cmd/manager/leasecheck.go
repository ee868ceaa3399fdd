package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// leaseCheckFor is how long a look at the lease holds: much shorter than the lease.
const leaseCheckFor = time.Second

// leaseCheck keeps a manager from writing once another is in the lease. Leader election
// alone does not: a leader that stood still for longer than its lease lasts (a paused
// machine), or whose lease was deleted or edited, goes on for up to 10 s before it gives up.
type leaseCheck struct {
	reader    client.Reader
	namespace string
	// host is the beginning of our identity in the lease.
	host string
	now  func() time.Time

	mu sync.Mutex
	// self is our identity in the lease, once seen.
	self string
	seen time.Time
}

// check gives the reason why this manager may not write, nil when it may. It is asked
// only by a manager that leader election has let in.
func (l *leaseCheck) check(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	// By both clocks: on a machine that was paused, one of them has stood still.
	if !l.seen.IsZero() && now.Sub(l.seen) < leaseCheckFor && now.Round(0).Sub(l.seen.Round(0)).Abs() < leaseCheckFor {
		return nil
	}
	lease := &coordinationv1.Lease{}
	if err := l.reader.Get(ctx, client.ObjectKey{Namespace: l.namespace, Name: leaseName}, lease); err != nil {
		return fmt.Errorf("reading Lease %q in namespace %q: %w", leaseName, l.namespace, err)
	}
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	// As controller-runtime names itself: the pod, and a random part.
	if l.self == "" && strings.HasPrefix(holder, l.host+"_") {
		l.self = holder
	}
	if holder != l.self || l.self == "" {
		return fmt.Errorf("nothing is written: Lease %q in namespace %q is held by %q, not by this manager", leaseName, l.namespace, holder)
	}
	l.seen = now
	return nil
}
