package main

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
)

// readiness is a runnable that the manager starts once its caches are filled.
type readiness struct {
	filled  atomic.Bool
	adapter interface{ Synced() bool }
}

// Start implements manager.Runnable.
func (r *readiness) Start(ctx context.Context) error {
	r.filled.Store(true)
	<-ctx.Done()
	return nil
}

// NeedLeaderElection says that a manager in waiting is ready as well.
func (*readiness) NeedLeaderElection() bool { return false }

func (r *readiness) check(*http.Request) error {
	if !r.filled.Load() {
		return errors.New("the caches are being filled")
	}
	if !r.adapter.Synced() {
		return errors.New("not all objects of Calico have been listed yet")
	}
	return nil
}
