//go:build linux

package lab

import (
	"context"
	"errors"
	"net/netip"
	"os"
)

// Router is a host outside the cluster that runs BIRD and nothing else, as a top-of-rack switch does.
type Router struct {
	lab  *Lab
	node *node
}

// AddRouter adds one. Its address is below those of nodes.
func (l *Lab) AddRouter(ctx context.Context, name string, address netip.Addr, config string) (*Router, error) {
	n, err := l.reserve(NodeSpec{Name: name, Address: address})
	if err != nil {
		return nil, err
	}
	r := &Router{l, n}
	if err = l.wire(n); err == nil {
		err = os.WriteFile(n.config("bird.cfg"), []byte(config), 0o600)
	}
	if err == nil {
		n.bird = n.newBIRD(l.realTime)
		err = n.startBIRD(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, r.Remove())
	}
	return r, nil
}

// Ask asks it: see Ask.
func (r *Router) Ask(command string) (string, error) { return r.node.birdc(command) }

// Remove takes it away.
func (r *Router) Remove() error {
	r.lab.forget(r.node)
	r.node.destroy()
	return os.RemoveAll(r.node.dir)
}
