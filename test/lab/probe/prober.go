//go:build linux

// Package probe measures whether pods reach each other: it sends UDP packets from each to every other at an interval, and reports which did not
// arrive, when, and during which phase. The two directions of a pair are measured separately.
//
// It does not use ICMP echo: the kernel answers for all network namespaces from one socket per processor. Answers that wait for a neighbour that
// is down, in any namespace of the machine, use up that socket's buffer, and the answers of all others are dropped. A control pair on a loopback
// device shows which probes are lost without any routing, because the machine is too busy.
package probe

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// DefaultInterval is the time between two probes of a pair.
	DefaultInterval = 10 * time.Millisecond
	// arrivalTimeout is the age from which a probe counts as lost. Probes take well below a millisecond.
	arrivalTimeout = time.Second
	// readTimeout is how long a report waits until received packets are read.
	readTimeout = 30 * time.Second
	// expectedTime is the time of probes for which a series has memory from the beginning.
	expectedTime = 5 * time.Minute
	// port receives probes. The control pair has another port, because its namespace may have an endpoint too.
	port = 30179
)

// Prober probes ordered pairs of its endpoints with addresses of one family: all, or each with a number of endpoints before it. It is safe for
// concurrent use.
type Prober struct {
	interval   time.Duration
	neighbours int // 0: all
	epoch      time.Time
	id         uint64
	// byNumber are the series. It needs no lock, because the sender must not wait for a receiver that is not scheduled.
	byNumber sync.Map

	mu        sync.Mutex
	endpoints map[string]*endpoint
	control   *endpoint // nil without one
	served    map[*socket]bool
	added     int
	series    []*series // of removed endpoints too
	phases    []Phase

	overflowed sync.Mutex
	overflows  []Outage // of receiving sockets

	stop chan struct{}
	done sync.WaitGroup
}

// endpoint is one pod: a socket in its network namespace. Probes to an endpoint without a socket are received by another prober or by Serve.
type endpoint struct {
	name    string
	number  int // in the order of Add
	address netip.Addr
	socket  *socket
	targets []*series // from here to every other
}

// New starts a prober without endpoints. An interval of 0 is DefaultInterval. Each endpoint is probed with the last so many before it, in both
// directions; 0: with all.
func New(interval time.Duration, neighbours int) *Prober {
	p := &Prober{
		interval:   cmp.Or(interval, DefaultInterval),
		neighbours: neighbours,
		epoch:      time.Now(),
		id:         rand.Uint64(), //nolint:gosec // G404: no secret
		endpoints:  map[string]*endpoint{},
		served:     map[*socket]bool{},
		stop:       make(chan struct{}),
	}
	p.done.Go(p.send)
	return p
}

// Add starts probing between a new endpoint and present ones. enter must call its argument on a thread that is inside the endpoint's network
// namespace; if it is nil the endpoint is only probed. A pair counts from its first arrival on, because a new pod has no routes yet.
func (p *Prober) Add(name string, address netip.Addr, enter func(func() error) error) error {
	added := &endpoint{name: name, address: address}
	if enter != nil {
		if err := enter(func() (err error) {
			added.socket, err = listen(netip.AddrPortFrom(address, port))
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
		p.connect(added, other, other.address)
		p.connect(other, added, address)
	}
	p.endpoints[name] = added
	p.receive(added.socket)
	return nil
}

// Serve receives probes in a namespace to an address that several hosts have, such as that of a service, until the prober stops or done is called.
func (p *Prober) Serve(address netip.Addr, enter func(func() error) error) (done func() error, err error) {
	var served *socket
	if err := enter(func() (err error) {
		served, err = listen(netip.AddrPortFrom(address, port))
		return err
	}); err != nil {
		return nil, fmt.Errorf("receiving the probes to %s: %w", address, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.served[served] = true
	p.receive(served)
	return func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.served, served)
		return served.Close()
	}, nil
}

// Control adds the control pair, on the loopback device of a namespace, whose probes need no routing.
func (p *Prober) Control(enter func(func() error) error) error {
	control := &endpoint{name: "control"}
	if err := enter(func() (err error) {
		control.socket, err = listen(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0))
		return err
	}); err != nil {
		return fmt.Errorf("opening the control pair: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.connect(control, control, netip.Addr{})
	control.targets[0].target = control.socket.address
	p.control = control
	p.receive(control.socket)
	return nil
}

// last returns the endpoints that a new one with this address is probed with.
func (p *Prober) last(address netip.Addr) []*endpoint {
	others := slices.DeleteFunc(slices.Collect(maps.Values(p.endpoints)), func(e *endpoint) bool { return e.address.Is4() != address.Is4() })
	if p.neighbours == 0 {
		return others
	}
	slices.SortFunc(others, func(a, b *endpoint) int { return b.number - a.number })
	return others[:min(p.neighbours, len(others))]
}

func (e *endpoint) close() error {
	if e.socket == nil {
		return nil
	}
	return e.socket.Close()
}

// Remove ends all probes from and to an endpoint; earlier results stay in the report. Probes under way do not count as lost.
func (p *Prober) Remove(name string) error {
	p.mu.Lock()
	removed, exists := p.endpoints[name]
	p.mu.Unlock()
	if !exists {
		return nil
	}
	p.catchUp(removed.socket)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.endpoints[name] != removed {
		return nil // removed by another call
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

// Checkpoint ends the current phase and begins one with a name. Phases of one name are reported together.
func (p *Prober) Checkpoint(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if n := len(p.phases); n > 0 {
		p.phases[n-1].Until = now
	}
	p.phases = append(p.phases, Phase{Name: name, From: now})
}

// Report returns the results until now. It waits up to a second for probes that are under way.
func (p *Prober) Report() Report {
	until := time.Now()
	p.mu.Lock()
	all, phases := slices.Clone(p.series), slices.Clone(p.phases)
	sockets, control := slices.Collect(maps.Keys(p.served)), p.control
	for _, e := range p.endpoints {
		sockets = append(sockets, e.socket)
	}
	p.mu.Unlock()
	if control != nil {
		sockets = append(sockets, control.socket)
	}
	for _, s := range all {
		for s.waiting(until.Sub(p.epoch)) {
			time.Sleep(p.interval)
		}
	}
	p.catchUp(sockets...)
	samples := make([]sample, 0, len(all))
	var controlled sample
	for _, s := range all {
		if control != nil && s == control.targets[0] {
			controlled = s.sample(until.Sub(p.epoch))
			continue
		}
		samples = append(samples, s.sample(until.Sub(p.epoch)))
	}
	if n := len(phases); n > 0 {
		phases[n-1].Until = until
	}
	p.overflowed.Lock()
	defer p.overflowed.Unlock()
	return newReport(p.epoch, until, p.interval, phases, samples, controlled, p.overflows)
}

// catchUp waits until received packets are read, so that those of a reader that is not scheduled do not count as lost.
func (p *Prober) catchUp(sockets ...*socket) {
	for limit := time.Now().Add(readTimeout); time.Now().Before(limit); time.Sleep(p.interval) {
		if !slices.ContainsFunc(sockets, (*socket).unread) {
			return
		}
	}
}

// Stop ends all probes. Report may still be called.
func (p *Prober) Stop() error {
	p.mu.Lock()
	names := slices.Collect(maps.Keys(p.endpoints))
	p.mu.Unlock()
	var errs []error
	for _, name := range names {
		errs = append(errs, p.Remove(name))
	}
	p.mu.Lock()
	if p.control != nil {
		errs = append(errs, p.control.close())
	}
	for served := range p.served {
		errs = append(errs, served.Close())
	}
	clear(p.served)
	p.mu.Unlock()
	close(p.stop)
	p.done.Wait()
	return errors.Join(errs...)
}

// connect begins a series and allocates memory for its probes: when a sender allocates, it may have to wait for the garbage collector's threads,
// which have no priority.
func (p *Prober) connect(from, to *endpoint, address netip.Addr) {
	if from.socket == nil {
		return
	}
	room := int(expectedTime / p.interval)
	s := &series{
		number: uint32(len(p.series)), from: from.name, to: to.name, target: netip.AddrPortFrom(address, port), //nolint:gosec // G115: few
		sent: make([]time.Duration, 0, room), arrived: make([]bool, 0, room),
	}
	p.series = append(p.series, s)
	from.targets = append(from.targets, s)
	p.byNumber.Store(s.number, s)
}

// send sends the probes of all pairs. A late tick is not made up for, because two probes close together could both be lost in one gap of microseconds.
func (p *Prober) send() {
	_ = raisePriority() // lab.Start prints a warning if it is not permitted
	buffer := make([]byte, messageSize)
	for {
		sleep(p.interval)
		select {
		case <-p.stop:
			return
		default:
		}
		p.mu.Lock()
		if p.control != nil {
			p.sendFrom(p.control, buffer)
		}
		for _, source := range p.endpoints {
			p.sendFrom(source, buffer)
		}
		p.mu.Unlock()
	}
}

func (p *Prober) sendFrom(source *endpoint, buffer []byte) {
	for _, s := range source.targets {
		now := time.Now()
		m := message{id: p.id, number: s.number, sequence: s.begin(now.Sub(p.epoch)), sent: now}
		// If a route is missing there is an error, and the probe counts as lost. With errNoRoom the probe was not sent.
		if source.socket.send(m.encode(buffer), s.target) == errNoRoom { //nolint:errorlint // made by send itself
			s.withdraw()
		}
	}
}

// receive reads packets from a socket until it is closed. It counts probes of this prober, and acknowledges those of others.
func (p *Prober) receive(on *socket) {
	if on == nil {
		return
	}
	p.done.Go(func() {
		buffer, control := make([]byte, 1500), make([]byte, 256)
		others := map[source]*arrivals{}
		last, dropped := time.Now(), uint32(0)
		for {
			got, err := on.read(buffer, control)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue
			}
			if got.dropped != dropped {
				p.overflow(Outage{From: last, Until: got.came, Lost: int(got.dropped - dropped)})
				dropped = got.dropped
			}
			last = got.came
			p.take(on, got, others)
		}
	})
}

func (p *Prober) overflow(o Outage) {
	p.overflowed.Lock()
	defer p.overflowed.Unlock()
	p.overflows = append(p.overflows, o)
}

// take processes one packet.
func (p *Prober) take(on *socket, got received, others map[source]*arrivals) {
	m, ok := decode(got.packet)
	if !ok {
		return
	}
	if m.id == p.id {
		if known, ok := p.byNumber.Load(m.number); ok {
			known.(*series).take(m, got.came.Sub(p.epoch)) //nolint:forcetypeassert // nothing else is in it
		}
		return
	}
	if m.acknowledges {
		return
	}
	key := source{m.id, m.number}
	if others[key] == nil {
		others[key] = &arrivals{}
	}
	if m.late(got.came) {
		return
	}
	m.acknowledges, m.sequence, m.window = true, others[key].add(m.sequence), others[key].window
	_ = on.send(m.encode(got.packet), got.from) // the next acknowledgement repeats it
}

// sleep makes the kernel wake the calling thread. Any thread may handle a timer of Go's, and that one may not be scheduled at once, unlike the sender's.
func sleep(duration time.Duration) {
	left := unix.NsecToTimespec(int64(duration))
	for errors.Is(unix.Nanosleep(&left, &left), unix.EINTR) {
	}
}

// raisePriority locks the calling goroutine to a thread with real-time priority, if permitted: a sender that is not scheduled detects no loss.
// The thread ends with the goroutine.
func raisePriority() error {
	runtime.LockOSThread()
	return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 5}, 0)
}
