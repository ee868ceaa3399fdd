package reflector

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// attemptTimeout bounds one attempt from the connect to BIRD's OPEN: as long as BIRD waits before it connects again.
	attemptTimeout = 5 * time.Second
	// pause before the next attempt.
	pause = 20 * time.Millisecond
	// patience with BIRD once the session has begun: its own hold time.
	patience = holdTime * time.Second
)

// client is a node: it connects, announces its block, and keeps account of the prefixes it is sent.
type client struct {
	number  int
	address netip.Addr
	// silent: it announces nothing.
	silent bool
	crowd  *crowd

	// routes is how many prefixes it was sent since it exists, repeated ones too.
	routes atomic.Int64

	mu   sync.Mutex
	conn net.Conn // while the session is Established
	have owners   // whose prefixes it has
	held int
	last error // why the last attempt or session ended
}

// run keeps a session until ctx ends. BIRD is tried again and again, sooner than another BIRD would.
func (c *client) run(ctx context.Context, restarted bool) {
	for ctx.Err() == nil {
		err := c.session(ctx, restarted)
		c.mu.Lock()
		c.last = err
		c.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// session is one attempt, and what becomes of it.
func (c *client) session(ctx context.Context, restarted bool) error {
	conn, reader, err := c.connect(ctx, restarted)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it is over either way
	// A stopped client goes without a word, as when its BIRD is killed: BIRD keeps its routes for the restart time.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()

	hello := [][]byte{keepalive}
	if !c.silent {
		hello = append(hello, announce(block(c.number), c.address))
	}
	buffers := net.Buffers(append(hello, endOfRIB))
	if _, err := buffers.WriteTo(conn); err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	kind, body, err := listen(conn, reader)
	if err != nil {
		return err
	}
	if kind != typeKeepalive {
		return unexpected(kind, body)
	}
	c.began(conn)
	defer c.ended(ctx)
	return c.follow(conn, reader)
}

// follow takes in what BIRD sends until the session ends.
func (c *client) follow(conn net.Conn, reader *bufio.Reader) error {
	for {
		kind, body, err := listen(conn, reader)
		if err != nil {
			return err
		}
		switch kind {
		case typeKeepalive:
		case typeUpdate:
			if err := c.learn(body); err != nil {
				return fmt.Errorf("understanding an UPDATE: %w", err)
			}
		default:
			return unexpected(kind, body)
		}
	}
}

func listen(conn net.Conn, reader *bufio.Reader) (kind byte, body []byte, err error) {
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return 0, nil, fmt.Errorf("listening: %w", err)
	}
	if kind, body, err = read(reader); err != nil {
		return 0, nil, fmt.Errorf("listening: %w", err)
	}
	return kind, body, nil
}

// connect gets as far as BIRD's OPEN, when it is this client's turn.
func (c *client) connect(ctx context.Context, restarted bool) (net.Conn, *bufio.Reader, error) {
	select {
	case c.crowd.attempts <- struct{}{}:
		defer func() { <-c.crowd.attempts }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	deadline := time.Now().Add(attemptTimeout)
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.address, 0)), Deadline: deadline, KeepAlive: -1}
	conn, err := dialer.DialContext(ctx, "tcp4", c.crowd.target.String())
	if err != nil {
		return nil, nil, fmt.Errorf("connecting: %w", err)
	}
	reader := bufio.NewReaderSize(conn, 2*largestMessage)
	if err := greet(conn, reader, c.address, restarted, deadline); err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, reader, nil
}

func greet(conn net.Conn, reader *bufio.Reader, id netip.Addr, restarted bool, deadline time.Time) error {
	if err := conn.SetDeadline(deadline); err != nil {
		return fmt.Errorf("opening: %w", err)
	}
	if _, err := conn.Write(open(as, id, restarted)); err != nil {
		return fmt.Errorf("opening: %w", err)
	}
	kind, body, err := read(reader)
	if err != nil {
		return fmt.Errorf("waiting for BIRD's OPEN: %w", err)
	}
	if kind != typeOpen {
		return unexpected(kind, body)
	}
	several, err := addPath(body)
	if err != nil {
		return fmt.Errorf("understanding BIRD's OPEN: %w", err)
	}
	if !several {
		return errors.New("BIRD does not offer add paths")
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return fmt.Errorf("opening: %w", err)
	}
	return nil
}

func unexpected(kind byte, body []byte) error {
	if kind == typeNotification && len(body) >= 2 {
		return fmt.Errorf("BIRD ended the session: NOTIFICATION %d/%d", body[0], body[1])
	}
	return fmt.Errorf("a message of type %d out of turn", kind)
}

func (c *client) began(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = conn
	c.crowd.established.add(1)
}

// ended forgets everything that came by the session.
func (c *client) ended(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = nil
	if c.held == c.crowd.wanted() {
		c.crowd.complete.add(-1)
	}
	c.have, c.held = noOwners(len(c.have)*64), 0
	c.crowd.established.add(-1)
	if ctx.Err() == nil {
		c.crowd.lost.Add(1)
	}
}

// learn takes account of an UPDATE.
func (c *client) learn(body []byte) error {
	withdrawn, announced, err := split(body)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.held
	if err := each(withdrawn, func(p netip.Prefix) error { return c.note(p, false) }); err != nil {
		return err
	}
	if err := each(announced, func(p netip.Prefix) error { return c.note(p, true) }); err != nil {
		return err
	}
	switch wanted := c.crowd.wanted(); {
	case before != wanted && c.held == wanted:
		c.crowd.complete.add(1)
	case before == wanted && c.held != wanted:
		c.crowd.complete.add(-1)
	}
	return nil
}

// note records one prefix. Its own does not come back: BIRD sends no route where it has it from.
func (c *client) note(prefix netip.Prefix, announced bool) error {
	from, err := owner(prefix)
	if err != nil {
		return err
	}
	if from >= len(c.crowd.clients) || from == c.number {
		return fmt.Errorf("%s is not another client's", prefix)
	}
	switch {
	case announced:
		c.routes.Add(1)
		if !c.have.has(from) {
			c.have.add(from)
			c.held++
		}
	case c.have.has(from):
		c.have.remove(from)
		c.held--
	}
	return nil
}
