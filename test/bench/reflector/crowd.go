package reflector

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// attemptsAtOnce is how many clients try to connect at a time: BIRD's backlog, so that it always finds the next one waiting, and none
	// is dropped by the kernel. Dropped ones try again after seconds, which spreads the load: this is harder on BIRD.
	attemptsAtOnce = 8
	// keepaliveEvery is a third of the hold time at most; BIRD does not get to everyone at once.
	keepaliveEvery = 50 * time.Second
	// writePatience bounds a keepalive to a BIRD that does not read.
	writePatience = time.Second
	// named is how many of those concerned an error names.
	named = 3
)

// crowd is all clients of one BIRD.
type crowd struct {
	target  netip.AddrPort
	clients []*client
	// attempts are the slots for connecting.
	attempts chan struct{}

	established *tally // clients with an Established session
	complete    *tally // clients that have every prefix
	lost        atomic.Int64

	ends    chan struct{}        // closed at the end
	members []context.CancelFunc // each ends one client
	running []*sync.WaitGroup
	ticking sync.WaitGroup
}

func newCrowd(target netip.AddrPort, n int, silent func(number int) bool) *crowd {
	c := &crowd{
		target: target, attempts: make(chan struct{}, attemptsAtOnce), ends: make(chan struct{}),
		established: newTally(n), complete: newTally(n),
		members: make([]context.CancelFunc, n), running: make([]*sync.WaitGroup, n),
	}
	for i := range n {
		c.clients = append(c.clients, &client{number: i, address: clientAddress(i), silent: silent(i), crowd: c, have: noOwners(n)})
		c.running[i] = &sync.WaitGroup{}
	}
	return c
}

// wanted is how many prefixes a client has that has every other client's.
func (c *crowd) wanted() int { return len(c.clients) - 1 }

// start lets all connect. They stay until close, even when ctx ends: what is missing then is to be seen.
func (c *crowd) start(ctx context.Context) {
	for i := range c.clients {
		c.launch(ctx, i, false)
	}
	c.ticking.Go(c.keepAlive)
}

func (c *crowd) launch(ctx context.Context, i int, restarted bool) {
	ctx, c.members[i] = context.WithCancel(context.WithoutCancel(ctx))
	c.running[i].Go(func() { c.clients[i].run(ctx, restarted) })
}

// restart ends clients as when their BIRDs are killed, waits until they are gone, and lets them connect again, from the moment that it
// returns.
func (c *crowd) restart(ctx context.Context, numbers ...int) time.Time {
	for _, i := range numbers {
		c.members[i]()
	}
	for _, i := range numbers {
		c.running[i].Wait()
	}
	began := time.Now()
	for _, i := range numbers {
		c.launch(ctx, i, true)
	}
	return began
}

// everyone lists all clients.
func (c *crowd) everyone() []int {
	var all []int
	for i := range c.clients {
		all = append(all, i)
	}
	return all
}

func (c *crowd) close() {
	close(c.ends)
	for _, end := range c.members {
		if end != nil {
			end()
		}
	}
	for _, r := range c.running {
		r.Wait()
	}
	c.ticking.Wait()
}

// keepAlive tells BIRD from time to time that everyone is there.
func (c *crowd) keepAlive() {
	ticker := time.NewTicker(keepaliveEvery)
	defer ticker.Stop()
	for {
		select {
		case <-c.ends:
			return
		case <-ticker.C:
		}
		for _, each := range c.clients {
			each.mu.Lock()
			conn := each.conn
			each.mu.Unlock()
			if conn == nil {
				continue
			}
			_ = conn.SetWriteDeadline(time.Now().Add(writePatience))
			_, _ = conn.Write(keepalive)
		}
	}
}

// routes is how many prefixes all were sent so far.
func (c *crowd) routes() int64 {
	var sum int64
	for _, each := range c.clients {
		sum += each.routes.Load()
	}
	return sum
}

// lacking says what keeps the clients from having converged.
func (c *crowd) lacking() string {
	sessions, complete := c.established.value(), c.complete.value()
	var examples []string
	for _, each := range c.clients {
		if text := each.lacking(); text != "" && len(examples) < named {
			examples = append(examples, text)
		}
	}
	return fmt.Sprintf("%d of %d sessions are Established, clients with every prefix: %d; %s",
		sessions, len(c.clients), complete, strings.Join(examples, "; "))
}

func (c *client) lacking() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.conn == nil:
		return fmt.Sprintf("%s has no session (%v)", c.address, c.last)
	case c.held == c.crowd.wanted():
		return ""
	}
	for other := range c.crowd.clients {
		if other != c.number && !c.have.has(other) {
			return fmt.Sprintf("%s has %d prefixes of %d and lacks %s", c.address, c.held, c.crowd.wanted(), block(other))
		}
	}
	return ""
}
