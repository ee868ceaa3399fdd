//go:build linux

package lab

import (
	"context"
	"net/netip"
	"os"
)

// Router is a host outside the cluster that runs BIRD and nothing else, as a top-of-rack switch does.
type Router struct{ node *node }

// AddRouter adds one. Its address is below those of nodes.
func (l *Lab) AddRouter(ctx context.Context, name string, address netip.Addr, config string) (*Router, error) {
	n, err := l.reserve(NodeSpec{Name: name, Address: address})
	if err != nil {
		return nil, err
	}
	if err := l.wire(n); err != nil {
		return nil, err
	}
	if err := os.WriteFile(n.config("bird.cfg"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	n.bird = n.newBIRD(l.realTime)
	return &Router{n}, n.startBIRD(ctx)
}

// Ask asks it: see Ask.
func (r *Router) Ask(command string) (string, error) { return r.node.birdc(command) }
