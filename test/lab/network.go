//go:build linux

package lab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/lab/probe"
)

// calicoRunDir is the folder of BIRD's control sockets. Each node mounts its own folder there.
const calicoRunDir = "/var/run/calico"

// configDir is the folder of confd's output, in a node's mount namespace.
const configDir = calicoRunDir + "/config"

var (
	// nodeNetwork contains the control planes, at its first address, and the nodes, in the order of their creation: each cluster has an eighth of it.
	nodeNetwork = netip.MustParsePrefix("172.20.0.0/16")
	// The first addresses of the first cluster's ranges. Pods of the second cluster are in the next /16, its services in the one before.
	podNetworks     = netip.MustParseAddr("10.244.0.0")
	serviceNetworks = netip.MustParseAddr("10.255.0.0")
)

const (
	// firstHost is the number of the first node's address. Tests choose from those before.
	firstHost  = 10
	blockBits  = 26
	blockSize  = 1 << (32 - blockBits)
	bridgeName = "br0"
	hostDevice = "lab0"
	// Calico's BIRD configuration ignores these devices.
	podDevice, serviceDevice = "cali0", "kube-ipvs0"
)

// Nth returns the IPv4 address n after base.
func Nth(base netip.Addr, n int) netip.Addr {
	b := base.As4()
	value := binary.BigEndian.Uint32(b[:]) + uint32(n) //nolint:gosec // G115: a small number
	binary.BigEndian.PutUint32(b[:], value)
	return netip.AddrFrom4(b)
}

// V6 returns the IPv6 counterpart of an IPv4 range: see Options.DualStack.
func V6(p netip.Prefix) netip.Prefix { return netip.PrefixFrom(v6(p.Addr()), 96+p.Bits()) }

func v6(a netip.Addr) netip.Addr {
	b := [16]byte{0: 0xfd}
	copy(b[12:], a.AsSlice())
	return netip.AddrFrom16(b)
}

// fabric is the bridge that connects all hosts, in a namespace of its own, and the prober.
type fabric struct {
	*space
	host    *netlink.Handle // of this process' namespace
	prober  *probe.Prober
	mu      sync.Mutex
	labs    int
	members map[string]member // by port
}

// member is an interface that is connected to the bridge.
type member struct {
	handle  *netlink.Handle
	index   int
	address netip.Addr
	mac     net.HardwareAddr
}

func newFabric(options Options) (*fabric, error) {
	host, err := netlink.NewHandle()
	if err != nil {
		return nil, fmt.Errorf("opening netlink: %w", err)
	}
	s, err := newSpace()
	if err != nil {
		host.Close()
		return nil, err
	}
	f := &fabric{space: s, host: host, prober: probe.New(options.ProbeInterval, options.ProbeNeighbours), members: map[string]member{}}
	err = s.link.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName}})
	if err == nil {
		err = setUp(s.link, bridgeName)
	}
	if err == nil {
		err = f.plug(host, hostDevice, "control-plane", controlPlaneAddress())
	}
	if err == nil {
		err = f.prober.Control(s.enter)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making the bridge: %w", err), f.close())
	}
	return f, nil
}

// join returns the number of a new cluster.
func (f *fabric) join() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.labs++
	return f.labs - 1
}

func (f *fabric) close() error {
	errs := []error{f.prober.Stop()}
	if link, err := f.host.LinkByName(hostDevice); err == nil {
		errs = append(errs, f.host.LinkDel(link))
	}
	f.host.Close()
	f.space.close()
	return errors.Join(errs...)
}

// plug creates an interface in the namespace of into, with an address, and connects it to a port of the bridge.
func (f *fabric) plug(into *netlink.Handle, device, port string, address netip.Addr) error {
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: device}, PeerName: port, PeerNamespace: netlink.NsFd(f.ns)}
	if err := into.LinkAdd(veth); err != nil {
		return fmt.Errorf("making the cable %q: %w", port, err)
	}
	master, err := f.link.LinkByName(bridgeName)
	if err != nil {
		return fmt.Errorf("finding the bridge: %w", err)
	}
	err = errors.Join(
		change(f.link, port, func(end netlink.Link) error { return f.link.LinkSetMaster(end, master) }),
		setUp(f.link, port), setUp(into, device), addAddress(into, device, inNodeNetwork(address)),
	)
	if err != nil {
		return err
	}
	return f.introduce(into, device, port, address)
}

// introduce adds permanent neighbour entries for all pairs of members. Learned entries of some 30 nodes would overflow the kernel's neighbour
// table, which all namespaces share: it has 1,024 entries, permanent ones not counted.
func (f *fabric) introduce(handle *netlink.Handle, device, port string, address netip.Addr) error {
	link, err := handle.LinkByName(device)
	if err != nil {
		return fmt.Errorf("finding %q: %w", device, err)
	}
	added := member{handle: handle, index: link.Attrs().Index, address: address, mac: link.Attrs().HardwareAddr}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, other := range f.members {
		if err := errors.Join(added.learn(other), other.learn(added)); err != nil {
			return fmt.Errorf("introducing %s: %w", address, err)
		}
	}
	f.members[port] = added
	return nil
}

// unplug removes a member. Its interface is deleted with its namespace.
func (f *fabric) unplug(port string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.members, port)
}

func (m member) learn(other member) error {
	return m.handle.NeighSet(&netlink.Neigh{
		LinkIndex: m.index, State: netlink.NUD_PERMANENT, IP: other.address.AsSlice(), HardwareAddr: other.mac,
	})
}

// addLocal creates a device with an address in a node. Calico's BIRD configuration must ignore the device.
func (l *Lab) addLocal(s *space, device string, address netip.Addr) error {
	peer := device + "-peer"
	if err := s.link.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: device}, PeerName: peer}); err != nil {
		return fmt.Errorf("making %s: %w", device, err)
	}
	errs := []error{setUp(s.link, peer), setUp(s.link, device)}
	for _, p := range l.Families(netip.PrefixFrom(address, 32)) {
		errs = append(errs, addAddress(s.link, device, p))
	}
	return errors.Join(errs...)
}

func inNodeNetwork(address netip.Addr) netip.Prefix {
	return netip.PrefixFrom(address, nodeNetwork.Bits())
}

func change(handle *netlink.Handle, device string, do func(netlink.Link) error) error {
	link, err := handle.LinkByName(device)
	if err == nil {
		err = do(link)
	}
	if err != nil {
		return fmt.Errorf("changing %q: %w", device, err)
	}
	return nil
}

func setUp(handle *netlink.Handle, device string) error {
	return change(handle, device, handle.LinkSetUp)
}

func setDown(handle *netlink.Handle, device string) error {
	return change(handle, device, handle.LinkSetDown)
}

func addAddress(handle *netlink.Handle, device string, address netip.Prefix) error {
	return change(handle, device, func(link netlink.Link) error {
		ip := &net.IPNet{IP: address.Addr().AsSlice(), Mask: net.CIDRMask(address.Bits(), address.Addr().BitLen())}
		// Without the flag an IPv6 address is tentative for a while and cannot be bound.
		return handle.AddrAdd(link, &netlink.Addr{IPNet: ip, Flags: unix.IFA_F_NODAD})
	})
}

// restartDelay is the delay of runit, which supervises these processes in calico-node.
const restartDelay = time.Second

// daemon is a process in a space, with its output in a file.
type daemon struct {
	space   *space
	command []string
	env     []string
	logPath string
	// restart: the process is restarted when it ends by itself.
	restart bool

	mu       sync.Mutex
	process  *controlplane.Process
	stopping bool
	watcher  sync.WaitGroup
}

func (d *daemon) start() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopping = false
	return d.launch()
}

func (d *daemon) launch() error {
	cmd := exec.Command(d.command[0], d.command[1:]...) //nolint:gosec // G204: ours
	cmd.Env = append(os.Environ(), d.env...)
	process, err := controlplane.StartProcess(cmd, d.logPath, d.space.enter)
	if err != nil {
		return err
	}
	d.process = process
	if d.restart {
		d.watcher.Go(func() {
			<-process.Done()
			d.startAgain()
		})
	}
	return nil
}

// startAgain restarts the process after restartDelay, unless it was stopped.
func (d *daemon) startAgain() {
	for {
		time.Sleep(restartDelay)
		d.mu.Lock()
		done := d.stopping || d.launch() == nil
		d.mu.Unlock()
		if done {
			return
		}
	}
}

// stop ends the process with a signal, or by SIGKILL if that has no effect, and waits for its end.
func (d *daemon) stop(signal syscall.Signal) {
	d.mu.Lock()
	d.stopping = true
	process := d.process
	d.mu.Unlock()
	_ = process.Stop(signal) // how it ended is in its log
	d.watcher.Wait()
}

func (d *daemon) signal(signal syscall.Signal) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.process.Signal(signal)
}

func (d *daemon) running() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.process.Running()
}

// space is a network and a mount namespace with one thread. Processes that the thread starts end with it.
type space struct {
	jobs chan func()
	done chan struct{}
	ns   netns.NsHandle
	link *netlink.Handle
}

func newSpace() (*space, error) {
	s := &space{jobs: make(chan func()), done: make(chan struct{})}
	go func() {
		// Never unlocked: the thread, and with it the namespaces, ends with this goroutine.
		runtime.LockOSThread()
		defer close(s.done)
		for job := range s.jobs {
			job()
		}
	}()
	if err := s.enter(s.open); err != nil {
		s.close()
		return nil, fmt.Errorf("making a network namespace: %w", err)
	}
	return s, nil
}

func (s *space) open() (err error) {
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		return err
	}
	if s.ns, err = netns.Get(); err != nil {
		return err
	}
	if s.link, err = netlink.NewHandleAt(s.ns); err != nil {
		return errors.Join(err, s.ns.Close())
	}
	return setUp(s.link, "lo")
}

// enter calls do on the thread and waits for it.
func (s *space) enter(do func() error) error {
	result := make(chan error)
	s.jobs <- func() { result <- do() }
	return <-result
}

// sysctl sets a kernel parameter of the network namespace, by its path below /proc/sys/net.
func (s *space) sysctl(path, value string) error {
	return s.enter(func() error { return os.WriteFile("/proc/sys/net/"+path, []byte(value), 0o600) })
}

// close ends the thread, and with it the namespaces.
func (s *space) close() {
	close(s.jobs)
	<-s.done
	if s.link != nil {
		s.link.Close()
		_ = s.ns.Close()
	}
}
