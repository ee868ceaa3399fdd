package existing_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/providertest"
	"github.com/rrpool/rrpool/controllers/plan"
)

func TestACallThatWasAbandonedWritesNothingLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(1)
		p := s.provider(t, s.config())
		s.Inject(providertest.Hanging)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.Ensure(ctx, size(1))
		require.True(t, cloud.Is(err, cloud.Unavailable), "%v", err)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		s.Heal()
		synctest.Wait()
		require.Zero(t, s.Mutations())
		require.NotEmpty(t, ensure(t, p, size(1)).Did)
	})
}

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
		p := s.provider(t, cfg)
		for range 3 { // the first hangs, the others wait for the lock
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := p.Ensure(ctx, size(1))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancel()
		}
		require.Equal(t, 1+1, s.Requests(), "listed and counted once: no other call got as far")
		_, err := p.Observe(t.Context())
		require.NoError(t, err, "looking is still possible")
		close(held)
		synctest.Wait()
		require.Len(t, s.members(), 1, "the late write is the only one")
		require.True(t, settle(t, p, size(1)).Done)
	})
}
