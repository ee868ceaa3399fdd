package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fenceFor is how long a look at the lease holds: much shorter than the lease.
const leaseCheckFor = time.Second

// leaseCheck keeps a manager from writing once somebody else is in the lease. Leader election
// alone does not: a leader that stood still for longer than its lease lasts (a paused
// machine), or whose lease somebody has deleted or edited, goes on for up to 10 s before
// it gives up.
type leaseCheck struct {
	reader    client.Reader
	namespace string
	host      string
	now       func() time.Time

	mu sync.Mutex
	// self is our identity in the lease, once seen.
	self string
	seen time.Time
}

func newLeaseCheck(reader client.Reader, namespace string) (*leaseCheck, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("finding our name in the lease: %w", err)
	}
	return &leaseCheck{reader: reader, namespace: namespace, host: host, now: time.Now}, nil
}

// check gives the reason why this manager may not write, nil when it may. It is asked
// only by a manager that leader election has let in.
func (f *leaseCheck) check(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	// By both clocks: on a machine that was paused, one of them has stood still.
	if !f.seen.IsZero() && now.Sub(f.seen) < leaseCheckFor && now.Round(0).Sub(f.seen.Round(0)).Abs() < leaseCheckFor {
		return nil
	}
	lease := &coordinationv1.Lease{}
	if err := f.reader.Get(ctx, client.ObjectKey{Namespace: f.namespace, Name: leaseName}, lease); err != nil {
		return fmt.Errorf("reading Lease %q in namespace %q: %w", leaseName, f.namespace, err)
	}
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	// As controller-runtime names itself: the pod, and a random part.
	if f.self == "" && strings.HasPrefix(holder, f.host+"_") {
		f.self = holder
	}
	if holder != f.self || f.self == "" {
		return fmt.Errorf("nothing is written: Lease %q in namespace %q is held by %q, not by this manager", leaseName, f.namespace, holder)
	}
	f.seen = now
	return nil
}
