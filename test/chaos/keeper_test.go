//go:build linux

package chaos_test

import (
	"context"
	"sync"
	"time"

	"github.com/rrpool/rrpool/test/e2e/site"
)

// keeper starts the manager again whenever it ends, as a kubelet does. It runs with leader election, as it does in a cluster: one
// that is killed leaves its lease behind.
type keeper struct {
	site *site.Site
	tell func(string, ...any)

	mu    sync.Mutex
	away  bool // on purpose
	ended int  // by itself
}

func (k *keeper) start() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.away = false
	return k.site.StartManager()
}

func (k *keeper) kill() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.away = true
	k.site.KillManager()
	return nil
}

// endings is how often the manager ended by itself.
func (k *keeper) endings() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ended
}

func (k *keeper) run(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, time.Second)
		k.revive()
	}
}

func (k *keeper) revive() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.away || !k.site.ManagerEnded() {
		return
	}
	k.ended++
	k.tell("the manager ended by itself, and is started again")
	if err := k.site.StartManager(); err != nil {
		k.tell("the manager does not start: %v", err)
	}
}
