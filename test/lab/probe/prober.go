//go:build linux

// Package probe proves, or disproves, that pods reach each other: it sends an ICMP echo request between every two of them, all the
// time, and says which were not answered, when, and during which phase.
package probe

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// DefaultInterval is the time between two probes of a pair.
	DefaultInterval = 10 * time.Millisecond
	// replyTimeout is when an answer comes too late to count. Answers take well below a millisecond.
	replyTimeout = time.Second
	// readTimeout is how long what has come may take to be read before a report goes without it.
	readTimeout = 30 * time.Second
	// expectedTime is how long a pair is probed before its series has to grow.
	expectedTime = 5 * time.Minute
	// receiveBuffer holds the answers of a busy second, should the reader not be scheduled.
	receiveBuffer = 4 << 20
)

// Prober probes ordered pairs of its endpoints that have addresses of one family: all, or those of each with some that were there before
// it. It is safe for concurrent use.
type Prober struct {
	interval   time.Duration
	neighbours int // 0 is all
	epoch      time.Time
	id         uint16

	mu        sync.Mutex
	endpoints map[string]*endpoint
	added     int
	series    []*series // of removed endpoints too
	phases    []Phase

	stop chan struct{}
	done sync.WaitGroup
}

// endpoint is one pod: a raw socket inside its network namespace. One without a socket only answers.
type endpoint struct {
	name    string
	number  int // in the order in which they came
	address netip.Addr
	conn    *net.IPConn
	targets []*series // from here to every other
	// from is the same by series number, without the prober's lock: the sender must never have to wait for a receiver that the kernel
	// does not let run.
	from sync.Map
}

// New starts a prober without endpoints. An interval of 0 is DefaultInterval. Each endpoint is probed with so many that came last before
// it, in both directions; 0 is with all.
func New(interval time.Duration, neighbours int) *Prober {
	p := &Prober{
		interval:   cmp.Or(interval, DefaultInterval),
		neighbours: neighbours,
		epoch:      time.Now(),
		id:         uint16(os.Getpid()), //nolint:gosec // G115: any 16 bits will do
		endpoints:  map[string]*endpoint{},
		stop:       make(chan struct{}),
	}
	p.done.Go(p.send)
	return p
}

// Add starts probing between a new endpoint and present ones. enter must call its argument on a thread that is inside the
// endpoint's network namespace; where it is nil the endpoint is probed, and probes nothing. A pair counts from its first answer on: a pod
// that has just appeared has no routes yet.
func (p *Prober) Add(name string, address netip.Addr, enter func(func() error) error) error {
	added := &endpoint{name: name, address: address}
	if enter != nil {
		if err := enter(func() (err error) {
			added.conn, err = listen(address)
			return err
		}); err != nil {
			return fmt.Errorf("opening the probe of %q: %w", name, err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, exists := p.endpoints[name]; exists {
		return errors.Join(fmt.Errorf("probing %q: it is already there", name), added.close())
	}
	p.added++
	added.number = p.added
	for _, other := range p.last(address) {
		p.connect(added, other)
		p.connect(other, added)
	}
	p.endpoints[name] = added
	if added.conn != nil {
		p.done.Go(func() { p.receive(added) })
	}
	return nil
}

// last are the endpoints that a new one with this address is probed with.
func (p *Prober) last(address netip.Addr) []*endpoint {
	others := slices.DeleteFunc(slices.Collect(maps.Values(p.endpoints)), func(e *endpoint) bool { return e.address.Is4() != address.Is4() })
	if p.neighbours == 0 {
		return others
	}
	slices.SortFunc(others, func(a, b *endpoint) int { return b.number - a.number })
	return others[:min(p.neighbours, len(others))]
}

func (e *endpoint) close() error {
	if e.conn == nil {
		return nil
	}
	return e.conn.Close()
}

// Remove ends all probes from and to an endpoint; what was measured stays in the report. Probes that are under way are forgotten:
// they do not count as lost.
func (p *Prober) Remove(name string) error {
	p.mu.Lock()
	removed, exists := p.endpoints[name]
	p.mu.Unlock()
	if !exists {
		return nil
	}
	p.catchUp(removed)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.endpoints[name] != removed {
		return nil // another call was faster
	}
	delete(p.endpoints, name)
	for _, s := range removed.targets {
		s.end()
	}
	for _, other := range p.endpoints {
		other.targets = slices.DeleteFunc(other.targets, func(s *series) bool {
			if s.to == name {
				s.end()
			}
			return s.to == name
		})
	}
	return removed.close()
}

// Checkpoint ends the current phase and begins one with this name. Phases of one name are reported together.
func (p *Prober) Checkpoint(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if n := len(p.phases); n > 0 {
		p.phases[n-1].Until = now
	}
	p.phases = append(p.phases, Phase{Name: name, From: now})
}

// Report says what happened until now. It waits up to a second for answers that are on their way.
func (p *Prober) Report() Report {
	until := time.Now()
	p.mu.Lock()
	all, phases := slices.Clone(p.series), slices.Clone(p.phases)
	endpoints := slices.Collect(maps.Values(p.endpoints))
	p.mu.Unlock()
	for _, s := range all {
		for s.waiting(until.Sub(p.epoch)) {
			time.Sleep(p.interval)
		}
	}
	p.catchUp(endpoints...)
	samples := make([]sample, 0, len(all))
	for _, s := range all {
		samples = append(samples, s.sample(until.Sub(p.epoch)))
	}
	if n := len(phases); n > 0 {
		phases[n-1].Until = until
	}
	return newReport(p.epoch, until, p.interval, phases, samples)
}

// catchUp waits until the answers that have come are read: a reader that has to wait for the CPU must not lose them.
func (p *Prober) catchUp(endpoints ...*endpoint) {
	for limit := time.Now().Add(readTimeout); time.Now().Before(limit); time.Sleep(p.interval) {
		if !slices.ContainsFunc(endpoints, func(e *endpoint) bool { return e.conn != nil && unread(e.conn) }) {
			return
		}
	}
}

// Stop ends all probes. Report stays usable.
func (p *Prober) Stop() error {
	p.mu.Lock()
	names := slices.Collect(maps.Keys(p.endpoints))
	p.mu.Unlock()
	var errs []error
	for _, name := range names {
		errs = append(errs, p.Remove(name))
	}
	close(p.stop)
	p.done.Wait()
	return errors.Join(errs...)
}

// connect begins a series with room for its probes: a sender that asks for memory may have to wait until the garbage collector's threads,
// which have no priority, have run.
func (p *Prober) connect(from, to *endpoint) {
	if from.conn == nil {
		return
	}
	room := int(expectedTime / p.interval)
	s := &series{
		number: uint32(len(p.series)), from: from.name, to: to.name, target: net.IPAddr{IP: to.address.AsSlice()}, //nolint:gosec // G115: few
		sent: make([]time.Duration, 0, room), answered: make([]bool, 0, room),
	}
	p.series = append(p.series, s)
	from.targets = append(from.targets, s)
	from.from.Store(s.number, s)
}

// send is the one sender of all pairs. A tick that comes late is not made up for: two probes close together would both fall into
// one gap that lasts microseconds.
func (p *Prober) send() {
	_ = raisePriority() // lab.Start says where BIRD, and so this too, may not have it
	packet := make([]byte, packetSize)
	for {
		sleep(p.interval)
		select {
		case <-p.stop:
			return
		default:
		}
		p.mu.Lock()
		for _, source := range p.endpoints {
			for _, s := range source.targets {
				sequence := s.begin(time.Since(p.epoch))
				encode(packet, p.id, s.number, sequence)
				if len(s.target.IP) == net.IPv6len {
					packet[0] = 128 // ICMPv6's echo request, for which the kernel makes the checksum
				}
				// A route that is missing shows as an error here. The probe is lost either way.
				_, _ = source.conn.WriteToIP(packet, &s.target)
			}
		}
		p.mu.Unlock()
	}
}

func (p *Prober) receive(e *endpoint) {
	buffer, control := make([]byte, 1500), make([]byte, 256)
	for {
		packet, came, err := read(e.conn, buffer, control)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an ICMP error that the kernel reports on the socket: the probe stays unanswered
		}
		id, number, sequence, ok := decode(packet)
		if !ok || id != p.id {
			continue
		}
		if s, known := e.from.Load(number); known {
			s.(*series).answer(sequence, came.Sub(p.epoch)) //nolint:forcetypeassert // nothing else is in it
		}
	}
}

// packetSize is an ICMP header and our number and sequence.
const packetSize = 16

// echoReply6 is the type of ICMPv6's. That of IPv4 is 0.
const echoReply6 = 129

// encode fills in an echo request. The kernel of the target answers with the same body.
func encode(packet []byte, id uint16, number, sequence uint32) {
	clear(packet)
	packet[0] = 8 // echo request
	binary.BigEndian.PutUint16(packet[4:], id)
	binary.BigEndian.PutUint32(packet[8:], number)
	binary.BigEndian.PutUint32(packet[12:], sequence)
	var sum uint32
	for i := 0; i < packetSize; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(packet[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(packet[2:], ^uint16(sum))
}

func decode(packet []byte) (id uint16, number, sequence uint32, ok bool) {
	if len(packet) < packetSize || packet[0] != 0 && packet[0] != echoReply6 {
		return 0, 0, 0, false
	}
	return binary.BigEndian.Uint16(packet[4:]), binary.BigEndian.Uint32(packet[8:]), binary.BigEndian.Uint32(packet[12:]), true
}

// listen opens a raw ICMP socket that receives echo replies only, in the network namespace of the calling thread.
func listen(address netip.Addr) (*net.IPConn, error) {
	network := "ip4:icmp"
	if address.Is6() {
		network = "ip6:ipv6-icmp"
	}
	conn, err := net.ListenIP(network, &net.IPAddr{IP: address.AsSlice()})
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", address, err)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	var optionErr error
	err = raw.Control(func(fd uintptr) {
		const icmpFilter, echoReplyOnly = 1, ^1
		if address.Is4() {
			optionErr = unix.SetsockoptInt(int(fd), unix.SOL_RAW, icmpFilter, echoReplyOnly)
		} else {
			var blocked unix.ICMPv6Filter
			for i := range blocked.Data {
				blocked.Data[i] = ^uint32(0)
			}
			blocked.Data[echoReply6/32] &^= 1 << (echoReply6 % 32)
			optionErr = unix.SetsockoptICMPv6Filter(int(fd), unix.IPPROTO_ICMPV6, icmpFilter, &blocked)
		}
		if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
			// Without privileges on the host: as much as it lets everyone have.
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
		}
		optionErr = errors.Join(optionErr, unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1))
	})
	if err = errors.Join(err, optionErr); err != nil {
		return nil, errors.Join(fmt.Errorf("setting up the socket: %w", err), conn.Close())
	}
	return conn, nil
}

// read waits for a packet, and says when it came, by the kernel. That may be long ago: a reader waits for the CPU like any process.
func read(conn *net.IPConn, buffer, control []byte) (packet []byte, came time.Time, err error) {
	n, controlled, _, _, err := conn.ReadMsgIP(buffer, control)
	if err != nil {
		return nil, time.Time{}, err
	}
	now := time.Now()
	came = now
	messages, err := unix.ParseSocketControlMessage(control[:controlled])
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("reading when a packet came: %w", err)
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16 {
			seconds, nanoseconds := binary.NativeEndian.Uint64(m.Data), binary.NativeEndian.Uint64(m.Data[8:])
			came = now.Add(-now.Sub(time.Unix(int64(seconds), int64(nanoseconds)))) //nolint:gosec // G115: the kernel's time
		}
	}
	header := 0
	if n > 0 && buffer[0]>>4 == 4 { // IPv6 leaves its header out
		header = int(buffer[0]&0x0f) * 4
	}
	return buffer[min(header, n):n], came, nil
}

// unread reports whether packets have come that are not read yet. Of a socket that is closed there are none.
func unread(conn *net.IPConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	waiting := 0
	err = raw.Control(func(fd uintptr) { waiting, _ = unix.IoctlGetInt(int(fd), unix.SIOCINQ) })
	return err == nil && waiting > 0
}

// sleep lets the kernel wake this very thread. A timer of Go's is seen by whichever thread looks first, and that one may have to wait
// for the CPU, which the sender's never has to.
func sleep(duration time.Duration) {
	left := unix.NsecToTimespec(int64(duration))
	for errors.Is(unix.Nanosleep(&left, &left), unix.EINTR) {
	}
}

// raisePriority keeps the calling goroutine on a thread that the kernel prefers, where it lets us: a sender that is not scheduled
// sees no loss. The thread ends with the goroutine.
func raisePriority() error {
	runtime.LockOSThread()
	return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 5}, 0)
}
