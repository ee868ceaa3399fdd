//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/rrpool/rrpool/test/lab"
)

const (
	// attemptsAtOnce is how many clients connect at a time: BIRD's backlog, so that the kernel drops no connection. A dropped one is retried
	// after seconds, which would reduce BIRD's load.
	attemptsAtOnce = 8
	// attemptTimeout is the limit from connecting to BIRD's OPEN: the time after which BIRD retries.
	attemptTimeout = 5 * time.Second
	// pause before the next attempt.
	pause = 20 * time.Millisecond
	// keepaliveEvery is less than a third of the hold time, because BIRD may read late.
	keepaliveEvery = 50 * time.Second
)

type clientSet struct {
	clients  []*client
	prefixes int           // of all clients together, each announces about as many
	attempts chan struct{} // limits concurrent attempts
	ends     context.Context
	end      context.CancelFunc
	running  sync.WaitGroup

	mu            sync.Mutex
	establishedAt time.Time // of the last session
	lost, routes  int64     // sessions that ended by themselves; received prefixes, including repeated ones
	last          error     // why an attempt or session ended
}

// client is a node: it connects, announces its blocks, and records the prefixes that it receives. The clientSet's mu guards conn and the fields after it.
type client struct {
	*clientSet
	number int
	silent bool // announces nothing
	stop   context.CancelFunc
	ended  sync.WaitGroup

	conn net.Conn // while the session is Established
	have []bool   // by the number of the prefix
	held int
}

func newClientSet(n, prefixes int, silent func(number int) bool) *clientSet {
	c := &clientSet{prefixes: prefixes, attempts: make(chan struct{}, attemptsAtOnce)}
	c.ends, c.end = context.WithCancel(context.Background())
	for i := range n {
		c.clients = append(c.clients, &client{clientSet: c, number: i, silent: silent(i), have: make([]bool, prefixes)})
	}
	return c
}

// start makes all clients connect until close.
func (c *clientSet) start() {
	for _, each := range c.clients {
		each.launch(false)
	}
	c.running.Go(func() { wait.UntilWithContext(c.ends, c.keepAlive, keepaliveEvery) })
}

// restart ends the sessions of clients as when their BIRDs are killed, and makes them connect again when all have ended, at the returned time.
func (c *clientSet) restart(clients ...*client) time.Time {
	for _, each := range clients {
		each.stop()
	}
	for _, each := range clients {
		each.ended.Wait()
	}
	began := time.Now()
	for _, each := range clients {
		each.launch(true)
	}
	return began
}

func (c *clientSet) close() {
	c.end()
	c.running.Wait()
}

// keepAlive sends a KEEPALIVE for every client.
func (c *clientSet) keepAlive(context.Context) {
	for _, each := range c.clients {
		c.mu.Lock()
		conn := each.conn
		c.mu.Unlock()
		if conn != nil {
			_ = conn.SetWriteDeadline(time.Now().Add(time.Second)) // BIRD may not read
			_, _ = conn.Write(keepalive)
		}
	}
}

// converged reports whether every client has the prefixes of all others, and how many prefixes were received so far, including repeated ones.
func (c *clientSet) converged() (all bool, routes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(c.clients, (*client).lacks), c.routes
}

// lacks reports whether a prefix of another client is missing.
func (c *client) lacks() bool { return c.held < c.prefixes-len(c.own()) }

// own returns the numbers of the prefixes that a client announces.
func (c *client) own() (numbers []int) {
	for i := c.number; i < c.prefixes; i += len(c.clients) {
		numbers = append(numbers, i)
	}
	return numbers
}

func (c *client) launch(restarted bool) {
	ctx, stop := context.WithCancel(c.ends)
	c.stop = stop
	c.ended.Add(1)
	c.running.Go(func() {
		defer c.ended.Done()
		for ctx.Err() == nil {
			err := c.session(ctx, restarted)
			c.mu.Lock()
			if c.conn != nil && ctx.Err() == nil {
				c.lost++
			}
			c.conn, c.have, c.held, c.last = nil, make([]bool, c.prefixes), 0, err
			c.mu.Unlock()
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	})
}

// session connects once, and follows the session until it ends.
func (c *client) session(ctx context.Context, restarted bool) error {
	conn, reader, err := c.connect(ctx, restarted)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it is over either way
	// A stopped client closes the connection without a NOTIFICATION, as a killed BIRD: its routes are kept for the restart time.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	hello := append([]byte{}, keepalive...)
	for _, i := range c.own() {
		if !c.silent {
			hello = append(hello, announce(block(i), clientAddress(c.number))...)
		}
	}
	if _, err := conn.Write(append(hello, endOfRIB...)); err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	return c.follow(conn, reader)
}

// follow processes BIRD's messages until the session ends. The session is Established with the first KEEPALIVE.
func (c *client) follow(conn net.Conn, reader *bufio.Reader) error {
	for first := true; ; first = false {
		if err := conn.SetReadDeadline(time.Now().Add(holdTime * time.Second)); err != nil {
			return fmt.Errorf("listening: %w", err)
		}
		kind, body, err := read(reader)
		switch {
		case err != nil:
			return fmt.Errorf("listening: %w", err)
		case kind == typeKeepalive && first:
			c.mu.Lock()
			c.conn, c.establishedAt = conn, time.Now()
			c.mu.Unlock()
		case kind == typeKeepalive:
		case kind == typeUpdate && !first:
			if err := c.learn(body); err != nil {
				return fmt.Errorf("reading an UPDATE: %w", err)
			}
		default:
			return unexpected(kind, body)
		}
	}
}

// connect connects and returns after BIRD's OPEN.
func (c *client) connect(ctx context.Context, restarted bool) (net.Conn, *bufio.Reader, error) {
	select {
	case c.attempts <- struct{}{}:
		defer func() { <-c.attempts }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	deadline := time.Now().Add(attemptTimeout)
	own := clientAddress(c.number)
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(own, 0)), Deadline: deadline, KeepAlive: -1}
	conn, err := dialer.DialContext(ctx, "tcp4", netip.AddrPortFrom(reflectorAddress, birdPort).String())
	if err != nil {
		return nil, nil, fmt.Errorf("connecting: %w", err)
	}
	reader := bufio.NewReaderSize(conn, 2*largestMessage)
	_ = conn.SetDeadline(deadline)
	_, err = conn.Write(open(own, restarted))
	if err == nil {
		var kind byte
		var body []byte
		if kind, body, err = read(reader); err == nil && kind != typeOpen {
			err = unexpected(kind, body)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("exchanging OPENs: %w", err), conn.Close())
	}
	return conn, reader, conn.SetDeadline(time.Time{})
}

func unexpected(kind byte, body []byte) error {
	if kind == typeNotification && len(body) >= 2 {
		return fmt.Errorf("BIRD ended the session: NOTIFICATION %d/%d", body[0], body[1])
	}
	return fmt.Errorf("an unexpected message of type %d", kind)
}

// learn records the prefixes of an UPDATE. BIRD does not send a client's own prefixes back.
func (c *client) learn(body []byte) error {
	withdrawn, announced, err := split(body)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	note := func(list []byte, has bool) error {
		return each(list, func(prefix netip.Prefix) error {
			from, err := numberOf(prefix)
			if err != nil || from >= c.prefixes || from%len(c.clients) == c.number {
				return errors.Join(err, fmt.Errorf("%s is not another client's", prefix))
			}
			if has {
				c.routes++
			}
			if c.have[from] != has {
				c.have[from] = has
				if c.held--; has {
					c.held += 2
				}
			}
			return nil
		})
	}
	return errors.Join(note(withdrawn, false), note(announced, true))
}

// lacking describes how many clients have not converged, and why a session ended last.
func (c *clientSet) lacking() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	have := slices.DeleteFunc(slices.Clone(c.clients), (*client).lacks)
	return fmt.Sprintf("%d of %d clients have every prefix (last error: %v)", len(have), len(c.clients), c.last)
}

// The clients decode only the prefixes. A library would decode every attribute of millions of routes, on the cores that BIRD runs on.

// The types of messages, RFC 4271.
const (
	typeOpen         = 1
	typeUpdate       = 2
	typeNotification = 3
	typeKeepalive    = 4
)

const (
	headerSize     = 19
	largestMessage = 4096 // without extended messages, which Calico does not enable
	holdTime       = 240  // seconds, BIRD's default; Calico sets none
	restartTime    = 120  // seconds, BIRD's default for graceful restart
	pathBytes      = 4    // size of the path ID before each prefix with ADD-PATH (RFC 7911)

	as        = 64512
	clusterID = "244.0.0.1"
	blockBits = 26
	// firstClient is the number of the first client's address.
	firstClient = 256
	// mostBlocks is the number of blocks in the network of pods.
	mostBlocks = 1 << (blockBits - 12)
)

var (
	// nodeNetwork is an address range of loopback.
	nodeNetwork      = netip.MustParsePrefix("172.20.0.0/16")
	podNetwork       = netip.MustParsePrefix("10.240.0.0/12")
	reflectorAddress = netip.MustParseAddr("172.20.0.1")

	keepalive = message(typeKeepalive, nil)
	// endOfRIB is an empty UPDATE. A restarted BIRD advertises nothing before it has received one of every neighbour.
	endOfRIB = message(typeUpdate, make([]byte, 4))
	errShort = errors.New("the message ends early")
)

func clientAddress(number int) netip.Addr { return lab.Nth(nodeNetwork.Addr(), firstClient+number) }

// block returns the prefix with a number.
func block(number int) netip.Prefix {
	return netip.PrefixFrom(lab.Nth(podNetwork.Addr(), number<<(32-blockBits)), blockBits)
}

// numberOf returns the number of a block.
func numberOf(prefix netip.Prefix) (int, error) {
	if prefix.Bits() != blockBits || !podNetwork.Contains(prefix.Addr()) {
		return 0, fmt.Errorf("no client announces %s", prefix)
	}
	return int(number(prefix.Addr())-number(podNetwork.Addr())) >> (32 - blockBits), nil
}

func number(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

func message(kind byte, body []byte) []byte {
	m := slices.Repeat([]byte{0xff}, 16)
	m = binary.BigEndian.AppendUint16(m, uint16(headerSize+len(body))) //nolint:gosec // G115: our own short messages
	return append(append(m, kind), body...)
}

// open returns an OPEN with the capabilities of a Calico node's BIRD, in its order. A restarted client sets the flags for restart and preserved
// forwarding state, as bird -R does.
func open(id netip.Addr, restarted bool) []byte {
	restart, forwarding := uint16(restartTime), byte(0)
	if restarted {
		restart, forwarding = restart|0x8000, 0x80
	}
	capabilities := []byte{
		1, 4, 0, 1, 0, 1, // IPv4 unicast
		2, 0, // route refresh
		64, 6, byte(restart >> 8), byte(restart), 0, 1, 1, forwarding, // graceful restart
		65, 4, 0, 0, as >> 8, as & 0xff, // AS numbers of 4 bytes
		69, 4, 0, 1, 1, 3, // ADD-PATH, send and receive
		70, 0, // enhanced route refresh
	}
	body := append([]byte{4, as >> 8, as & 0xff, 0, holdTime}, id.AsSlice()...)
	body = append(body, byte(len(capabilities)+2), 2, byte(len(capabilities))) //nolint:gosec // G115: some 40 bytes
	return message(typeOpen, append(body, capabilities...))
}

// announce returns an UPDATE with one path to a block: origin IGP, no AS path, local preference 100.
func announce(block netip.Prefix, nextHop netip.Addr) []byte {
	attributes := append([]byte{0x40, 1, 1, 0, 0x40, 2, 0, 0x40, 3, 4}, nextHop.AsSlice()...)
	attributes = append(attributes, 0x40, 5, 4, 0, 0, 0, 100)
	body := append([]byte{0, 0, 0, byte(len(attributes))}, attributes...) //nolint:gosec // G115: some 20 bytes
	body = append(body, 0, 0, 0, 1, byte(block.Bits()))                   //nolint:gosec // G115: at most 32
	return message(typeUpdate, append(body, block.Addr().AsSlice()[:(block.Bits()+7)/8]...))
}

// read returns the next message. Its body is valid until the next call. The reader's buffer must hold the largest message.
func read(r *bufio.Reader) (kind byte, body []byte, err error) {
	header, err := r.Peek(headerSize)
	if err != nil {
		return 0, nil, err
	}
	kind, size := header[18], int(binary.BigEndian.Uint16(header[16:]))
	if size < headerSize || size > largestMessage {
		return 0, nil, fmt.Errorf("a message of %d bytes", size)
	}
	whole, err := r.Peek(size)
	if err != nil {
		return 0, nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	_, err = r.Discard(size)
	return kind, whole[headerSize:], err
}

// split finds the withdrawn and the announced prefixes in an UPDATE.
func split(body []byte) (withdrawn, announced []byte, err error) {
	if withdrawn, body, err = sized(body); err != nil {
		return nil, nil, err
	}
	_, announced, err = sized(body)
	return withdrawn, announced, err
}

// sized splits off a field that begins with its length in two bytes.
func sized(body []byte) (field, rest []byte, err error) {
	if len(body) < 2 || len(body) < 2+int(binary.BigEndian.Uint16(body)) {
		return nil, nil, errShort
	}
	end := 2 + int(binary.BigEndian.Uint16(body))
	return body[2:end], body[end:], nil
}

// each calls do for every prefix of a list with path IDs.
func each(list []byte, do func(netip.Prefix) error) error {
	for len(list) > 0 {
		if len(list) < pathBytes+1 {
			return errShort
		}
		bits := int(list[pathBytes])
		end := pathBytes + 1 + (bits+7)/8
		if bits > 32 || len(list) < end {
			return fmt.Errorf("a prefix of %d bits: %w", bits, errShort)
		}
		var address [4]byte
		copy(address[:], list[pathBytes+1:end])
		if err := do(netip.PrefixFrom(netip.AddrFrom4(address), bits)); err != nil {
			return err
		}
		list = list[end:]
	}
	return nil
}
