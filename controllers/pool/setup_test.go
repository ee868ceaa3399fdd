package pool

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type signalsForTest struct {
	changes chan struct{}
	synced  chan struct{}
}

func (s signalsForTest) Changes() <-chan struct{} { return s.changes }

func (s signalsForTest) WaitSynced(ctx context.Context) error {
	select {
	case <-s.synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestABurstOfChangesIsOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		signals := signalsForTest{changes: make(chan struct{})}
		require.NoError(t, (&signalSource{signals}).Start(ctx, queue))
		for range 100 {
			signals.changes <- struct{}{}
		}
		time.Sleep(burst)
		synctest.Wait()
		require.Equal(t, 1, queue.Len())
		item, _ := queue.Get()
		require.Equal(t, singleton, item)
		queue.Done(item)
		cancel()
		queue.ShutDown()
		synctest.Wait() // a goroutine that stays would fail the bubble
	})
}

func TestAStartWaitsForTheDatastoreButNotForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := signalsForTest{synced: make(chan struct{})}
		source := &signalSource{signals}
		began := time.Now()
		require.NoError(t, source.WaitForSync(t.Context()), "its silence is reported by the reconciler")
		require.Equal(t, firstLook, time.Since(began))

		ended, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("stop"))
		require.Error(t, source.WaitForSync(ended))

		close(signals.synced)
		require.NoError(t, source.WaitForSync(t.Context()))
		require.Equal(t, firstLook, time.Since(began))
	})
}
