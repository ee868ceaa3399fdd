package main

import "context"

// leads is told once this manager acts: it has the lease, or needs none.
type leads func()

// Start implements manager.Runnable.
func (l leads) Start(ctx context.Context) error {
	l()
	<-ctx.Done()
	return nil
}

// NeedLeaderElection says to wait for the lease.
func (leads) NeedLeaderElection() bool { return true }
