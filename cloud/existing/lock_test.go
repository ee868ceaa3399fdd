package existing_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/controllers/plan"
)

// slow lets only writes hang.
type slow struct {
	*store
	held chan struct{}
}

func (s slow) SetPool(ctx context.Context, node plan.Node, pool string) error {
	<-s.held
	return s.store.SetPool(ctx, node, pool)
}

func TestAWriteThatHangsMeetsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(1)
		cfg := s.config()
		held := make(chan struct{})
		cfg.Nodes = slow{s, held}
		p := s.provider(cfg)
		first := make(chan error)
		go func() {
			_, err := p.Ensure(t.Context(), size(1))
			first <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.Ensure(ctx, size(1))
		require.ErrorIs(t, err, context.DeadlineExceeded, "it waits for the lock")
		require.Equal(t, 1+1, s.Requests(), "listed and counted once: the other call got no further")
		_, err = p.Observe(t.Context(), cloud.PoolSpec{})
		require.NoError(t, err, "looking is still possible")
		close(held)
		require.NoError(t, <-first)
		require.Len(t, s.members(), 1, "the late write is the only one")
		require.True(t, settle(t, p, size(1)).Done)
	})
}
