//go:build linux

package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"k8s.io/apimachinery/pkg/util/wait"
)

// birdTimeout is how long BIRD may take to answer under load.
const birdTimeout = time.Minute

// Session is a BGP session as BIRD shows it.
type Session struct {
	// Name is the name of the BIRD protocol: Mesh_172_20_0_10, Node_… or Global_….
	Name string
	Peer netip.Addr
	// State is the BGP state: Established, Active, Connect, OpenSent, Idle, …; empty while the protocol is down.
	State string
	// ProtocolState is the state of the BIRD protocol: up, start, down, or wait (Established, but exchanging nothing yet).
	ProtocolState string
	// Since is the time of day, as BIRD prints it, at which ProtocolState changed last. See Same.
	Since string
}

// Established reports whether the session is up and exchanges routes.
func (s Session) Established() bool { return s.State == "Established" && s.ProtocolState == "up" }

// Same reports whether a session was Established without interruption from one observation to another. BIRD rounds times, so Since may differ by
// a second. A session that restarts needs at least two.
func (s Session) Same(other Session) bool {
	one, err := time.Parse(time.TimeOnly, s.Since)
	two, err2 := time.Parse(time.TimeOnly, other.Since)
	return err == nil && err2 == nil && two.Sub(one).Abs() <= time.Second && s.Established() && other.Established() && s.Name == other.Name
}

// Mesh reports whether the session belongs to the node-to-node mesh.
func (s Session) Mesh() bool { return strings.HasPrefix(s.Name, "Mesh_") }

// Birdc sends a command to a node's BIRD: see Ask.
func (l *Lab) Birdc(node, command string) (string, error) {
	n, err := l.node(node)
	if err != nil {
		return "", err
	}
	return n.birdc(command)
}

// Sessions lists a node's BGP sessions in BIRD's order.
func (l *Lab) Sessions(node string) ([]Session, error) {
	answer, err := l.Birdc(node, "show protocols")
	if err != nil {
		return nil, err
	}
	return parseSessions(answer), nil
}

func (n *node) birdc(command string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), birdTimeout)
	defer cancel()
	answer, err := Ask(ctx, n.path("run/bird.ctl"), command)
	if err != nil {
		return "", fmt.Errorf("node %q: %w", n.spec.Name, err)
	}
	return answer, nil
}

// Ask sends a command to a control socket of BIRD, as birdc does, and returns the answer without reply codes. An error code is an error.
func Ask(ctx context.Context, socket, command string) (string, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return "", fmt.Errorf("reaching BIRD: %w", err)
	}
	defer conn.Close() //nolint:errcheck // nothing to do about it
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := fmt.Fprintln(conn, command); err != nil {
		return "", fmt.Errorf("asking BIRD: %w", err)
	}
	answer, code, err := readAnswer(bufio.NewScanner(conn))
	if err == nil && (code[0] == '8' || code[0] == '9') {
		err = errors.New(answer)
	}
	if err != nil {
		return "", fmt.Errorf("asking BIRD for %q: %w", command, err)
	}
	return answer, nil
}

// readAnswer reads the greeting and one answer. A line is "1002-text" (more follows), " text" (the same code) or "0000 text" (the last).
func readAnswer(lines *bufio.Scanner) (answer, code string, err error) {
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() {
		return "", "", fmt.Errorf("no greeting: %w", lines.Err())
	}
	var text strings.Builder
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, " ") {
			fmt.Fprintln(&text, line[1:])
			continue
		}
		if len(line) < 5 {
			return "", "", fmt.Errorf("unexpected line %q", line)
		}
		if rest := line[5:]; rest != "" {
			fmt.Fprintln(&text, rest)
		}
		if line[4] == ' ' {
			return text.String(), line[:4], nil
		}
	}
	return "", "", fmt.Errorf("the answer ends early: %w", lines.Err())
}

// parseSessions reads lines such as "Mesh_172_20_0_10 BGP master up 07:22:33 Established".
func parseSessions(answer string) []Session {
	var sessions []Session
	for line := range strings.Lines(answer) {
		fields := strings.Fields(line)
		if len(fields) < 5 || fields[1] != "BGP" {
			continue
		}
		_, address, _ := strings.Cut(fields[0], "_")
		address, _, _ = strings.Cut(address, "_port_")
		peer, err := netip.ParseAddr(strings.ReplaceAll(address, "_", "."))
		if err != nil {
			continue
		}
		session := Session{Name: fields[0], Peer: peer, ProtocolState: fields[3], Since: fields[4]}
		if len(fields) > 5 {
			session.State = fields[5]
		}
		sessions = append(sessions, session)
	}
	return sessions
}

// BIRDConfig returns the bird.cfg that confd has rendered for a node last.
func (l *Lab) BIRDConfig(node string) (string, error) {
	n, err := l.node(node)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(n.config("bird.cfg"))
	return string(text), err
}

// Paths counts the BGP paths of a node's BIRD by address block and by the neighbour that has sent them, which with add-path may be several.
// Unresolvable and unused paths count too.
func (l *Lab) Paths(node string) (map[netip.Prefix]map[netip.Addr]int, error) {
	answer, err := l.Birdc(node, "show route")
	if err != nil {
		return nil, err
	}
	return parsePaths(answer), nil
}

// Reaches reports whether a node's kernel has a route to another's pods.
func (l *Lab) Reaches(from, to string) (bool, error) {
	on, err := l.node(from)
	if err != nil {
		return false, err
	}
	with, err := l.node(to)
	if err != nil {
		return false, err
	}
	return on.hasRoute(with.podAddress()) == nil, nil
}

// NextHops returns the gateways of a node's kernel route to exactly this prefix, sorted: several for multipath, none without a route.
func (l *Lab) NextHops(name string, to netip.Prefix) (hops []netip.Addr, err error) {
	err = l.on(name, func(n *node) error {
		dst := &net.IPNet{IP: to.Addr().AsSlice(), Mask: net.CIDRMask(to.Bits(), to.Addr().BitLen())}
		family := netlink.FAMILY_V4
		if to.Addr().Is6() {
			family = netlink.FAMILY_V6
		}
		routes, err := n.space.link.RouteListFiltered(family, &netlink.Route{Dst: dst}, netlink.RT_FILTER_DST)
		for _, route := range routes {
			gateways := []net.IP{route.Gw}
			for _, path := range route.MultiPath {
				gateways = append(gateways, path.Gw)
			}
			for _, gateway := range gateways {
				if hop, ok := netip.AddrFromSlice(gateway); ok {
					hops = append(hops, hop.Unmap())
				}
			}
		}
		return err
	})
	slices.SortFunc(hops, netip.Addr.Compare)
	return hops, err
}

// parsePaths reads lines such as "10.244.0.64/26 via 172.20.0.11 on eth0 [Node_172_20_0_20 07:22:33 from 172.20.0.20] * (100/0) [i]". Only the
// first line of a prefix names it.
func parsePaths(answer string) map[netip.Prefix]map[netip.Addr]int {
	paths := map[netip.Prefix]map[netip.Addr]int{}
	var prefix netip.Prefix
	for line := range strings.Lines(answer) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if p, err := netip.ParsePrefix(fields[0]); err == nil {
			prefix = p
		}
		_, source, found := strings.Cut(line, "[")
		protocol, _, _ := strings.Cut(source, " ")
		kind, address, _ := strings.Cut(protocol, "_")
		address, _, _ = strings.Cut(address, "_port_")
		peer, err := netip.ParseAddr(strings.ReplaceAll(address, "_", "."))
		if !found || err != nil || kind != "Node" && kind != "Mesh" && kind != "Global" {
			continue
		}
		if paths[prefix] == nil {
			paths[prefix] = map[netip.Addr]int{}
		}
		paths[prefix][peer]++
	}
	return paths
}

const (
	// pollTimeout bounds every wait whose context does not: confd renders the first configurations of many nodes slowly, and BIRD retries a
	// refused connection after 5–30 s.
	pollTimeout  = 4 * time.Minute
	pollInterval = 100 * time.Millisecond
)

// WaitMesh waits until every two nodes with a running BIRD, or every two of some, have an Established mesh session, seen from both sides, and WaitRoutes.
func (l *Lab) WaitMesh(ctx context.Context, some ...string) error {
	return l.waitSessions(ctx, "Mesh_", func(on, with string) bool {
		return len(some) == 0 || slices.Contains(some, on) && slices.Contains(some, with)
	})
}

// WaitReflected waits until every node with a running BIRD has an Established Node_ session with each of the reflectors, seen from both sides,
// and WaitRoutes.
func (l *Lab) WaitReflected(ctx context.Context, reflectors ...string) error {
	return l.waitSessions(ctx, "Node_", func(on, with string) bool {
		return slices.Contains(reflectors, on) || slices.Contains(reflectors, with)
	})
}

// WaitRoutes waits until every node with a running BIRD has a route to every other such node's pods.
func (l *Lab) WaitRoutes(ctx context.Context) error {
	err := poll(ctx, func() error {
		return l.eachTwo(func(on, with *node) error {
			if with.spec.Pods == 0 {
				return nil
			}
			return on.hasRoute(with.podAddress())
		})
	})
	if err != nil {
		return fmt.Errorf("waiting for routes: %w", err)
	}
	return nil
}

// waitSessions waits until the wanted sessions are Established twice in a row: if both sides connect at once, a session may restart.
func (l *Lab) waitSessions(ctx context.Context, prefix string, wanted func(on, with string) bool) error {
	looks := 0
	err := poll(ctx, func() error {
		known := map[string]map[string]Session{}
		err := l.eachTwo(func(on, with *node) error {
			if !wanted(on.spec.Name, with.spec.Name) {
				return nil
			}
			if known[on.spec.Name] == nil {
				sessions, err := l.Sessions(on.spec.Name)
				if err != nil {
					return err
				}
				byName := map[string]Session{}
				for _, session := range sessions {
					name, _, _ := strings.Cut(session.Name, "_port_") // where listenPort is set
					byName[name] = session
				}
				known[on.spec.Name] = byName
			}
			return mustBeEstablished(on, with, known[on.spec.Name], prefix)
		})
		if looks++; err != nil {
			looks = 0
		} else if looks < 2 {
			err = errors.New("all are Established, for the first moment")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("waiting for sessions: %w", err)
	}
	return l.WaitRoutes(ctx)
}

func mustBeEstablished(on, with *node, sessions map[string]Session, prefix string) error {
	session, exists := sessions[with.sessionName(prefix)]
	switch {
	case !exists:
		return fmt.Errorf("%s has no session %s with %s", on.spec.Name, with.sessionName(prefix), with.spec.Name)
	case !session.Established():
		return fmt.Errorf("%s ↔ %s (%s) is %s, protocol %s", on.spec.Name, with.spec.Name, session.Name, session.State, session.ProtocolState)
	}
	return nil
}

// eachTwo calls check for every ordered pair of nodes with a running BIRD, until it fails.
func (l *Lab) eachTwo(check func(on, with *node) error) error {
	running := slices.DeleteFunc(l.upNodes(), func(n *node) bool { return !n.bird.running() })
	for _, on := range running {
		for _, with := range running {
			if on == with {
				continue
			}
			if err := check(on, with); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *node) hasRoute(to netip.Addr) error {
	routes, err := n.space.link.RouteGet(net.IP(to.AsSlice()))
	if err != nil || len(routes) == 0 {
		return fmt.Errorf("%s has no route to %s: %w", n.spec.Name, to, err)
	}
	return nil
}

// poll calls try until it succeeds. If the context ends or the time is over before, the error includes that of the last try.
func poll(ctx context.Context, try func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, pollTimeout, true, func(context.Context) (bool, error) {
		last = try()
		return last == nil, nil
	})
	return errors.Join(err, last)
}
