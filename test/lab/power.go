//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// Shutdown powers a node off in order, as a rolling update of workers does: BIRD ends its sessions administratively, the kubelet says
// that the node is not Ready, and the host is silent. Its pods are still listed. PowerOn brings it back, RemoveNode takes it away.
func (l *Lab) Shutdown(ctx context.Context, name string) error {
	n, err := l.node(name)
	if err != nil {
		return fmt.Errorf("shutting down: %w", err)
	}
	n.pods.setOff(true)
	if n.bird.running() {
		if err := l.StopBIRD(name); err != nil {
			return fmt.Errorf("shutting down: %w", err)
		}
	}
	if err := l.SetReady(ctx, name, false); err != nil {
		return fmt.Errorf("shutting down: %w", err)
	}
	return l.powerOff(n)
}

// Crash powers a node off without a word: peers keep its routes for the graceful restart time. It stays Ready for the API until SetUnknown
// says otherwise. PowerOn brings it back, LoseNode takes it away.
func (l *Lab) Crash(name string) error {
	n, err := l.node(name)
	if err != nil {
		return fmt.Errorf("crashing: %w", err)
	}
	n.pods.setOff(true)
	return l.powerOff(n)
}

// powerOff makes the host silent before its processes can say anything.
func (l *Lab) powerOff(n *node) error {
	if err := setDown(l.fabric.link, n.port()); err != nil {
		return fmt.Errorf("powering off %q: %w", n.spec.Name, err)
	}
	for _, d := range []*daemon{n.agent, n.bird, n.bird6} {
		d.stop(syscall.SIGKILL)
	}
	return nil
}

// PowerOn starts a node after Shutdown or Crash. It returns when BIRD runs and the node is Ready.
func (l *Lab) PowerOn(ctx context.Context, name string) error {
	n, err := l.node(name)
	if err != nil {
		return fmt.Errorf("powering on: %w", err)
	}
	if n.bird.running() {
		return nil
	}
	if err := setUp(l.fabric.link, n.port()); err != nil {
		return fmt.Errorf("powering on %q: %w", name, err)
	}
	if err := n.boot(ctx); err != nil {
		return fmt.Errorf("powering on %q: %w", name, err)
	}
	n.pods.setOff(false)
	return l.SetReady(ctx, name, true)
}

// CutZone cuts all nodes of a zone off, and tells the API as the node controller does, but at once. It names them.
func (l *Lab) CutZone(ctx context.Context, zone string) ([]string, error) {
	var cut []string
	var errs []error
	for _, n := range l.upNodes() {
		if n.spec.Zone == zone {
			cut = append(cut, n.spec.Name)
			errs = append(errs, l.CutLink(n.spec.Name))
		}
	}
	if len(cut) == 0 {
		return nil, fmt.Errorf("cutting a zone: no node is in %q", zone)
	}
	for _, name := range cut {
		errs = append(errs, l.SetUnknown(ctx, name))
	}
	return cut, errors.Join(errs...)
}

// RestoreZone undoes CutZone.
func (l *Lab) RestoreZone(ctx context.Context, zone string) error {
	var errs []error
	for _, n := range l.upNodes() {
		if n.spec.Zone == zone {
			errs = append(errs, l.RestoreLink(n.spec.Name), l.SetReady(ctx, n.spec.Name, true))
		}
	}
	return errors.Join(errs...)
}
