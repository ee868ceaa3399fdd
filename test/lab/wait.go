//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// pollTimeout bounds every wait when the context does not: confd renders a node's first configuration slowly when many come at
	// once, and BIRD tries a refused connection again after 5–30 s.
	pollTimeout  = 4 * time.Minute
	pollInterval = 100 * time.Millisecond
)

// WaitMesh waits until every two nodes with a running BIRD have an Established mesh session, seen from both sides, and WaitRoutes.
func (l *Lab) WaitMesh(ctx context.Context) error {
	return l.waitSessions(ctx, func(on, with *node, sessions map[string]Session) error {
		return mustBeEstablished(on, with, sessions, "Mesh_")
	})
}

// WaitReflected waits until every node with a running BIRD has an Established Node_ session with each of the reflectors, seen from
// both sides, and WaitRoutes.
func (l *Lab) WaitReflected(ctx context.Context, reflectors ...string) error {
	isReflector := map[string]bool{}
	for _, name := range reflectors {
		isReflector[name] = true
	}
	return l.waitSessions(ctx, func(on, with *node, sessions map[string]Session) error {
		if !isReflector[on.spec.Name] && !isReflector[with.spec.Name] {
			return nil
		}
		return mustBeEstablished(on, with, sessions, "Node_")
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

// waitSessions looks twice: where both sides have connected at once, a session may restart in its first moment.
func (l *Lab) waitSessions(ctx context.Context, check func(on, with *node, sessions map[string]Session) error) error {
	looks := 0
	err := poll(ctx, func() error {
		known := map[string]map[string]Session{}
		err := l.eachTwo(func(on, with *node) error {
			if known[on.spec.Name] == nil {
				sessions, err := l.Sessions(on.spec.Name)
				if err != nil {
					return err
				}
				byName := map[string]Session{}
				for _, session := range sessions {
					byName[session.Name] = session
				}
				known[on.spec.Name] = byName
			}
			return check(on, with, known[on.spec.Name])
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
	l.mu.Lock()
	var running []*node
	for _, n := range l.nodes {
		if n.up && n.bird.running() {
			running = append(running, n)
		}
	}
	l.mu.Unlock()
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

// hasRoute asks the node's kernel.
func (n *node) hasRoute(to netip.Addr) error {
	routes, err := n.space.link.RouteGet(net.IP(to.AsSlice()))
	if err != nil || len(routes) == 0 {
		return fmt.Errorf("%s has no route to %s: %w", n.spec.Name, to, err)
	}
	return nil
}

// poll calls try until it succeeds. When the context ends before, or the time is over, the error has that of the last try.
func poll(ctx context.Context, try func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, pollTimeout, true, func(context.Context) (bool, error) {
		last = try()
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}
