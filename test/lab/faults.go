//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// KillBIRD kills a node's BIRD as a crash does: peers see the connection break, and keep the routes for the graceful restart time.
// It stays down until StartBIRD.
func (l *Lab) KillBIRD(name string) error {
	n, err := l.node(name)
	if err != nil {
		return fmt.Errorf("killing BIRD: %w", err)
	}
	n.bird.stop(syscall.SIGKILL)
	return nil
}

// StopBIRD shuts a node's BIRD down in order, as a drained or powered-off node does: peers are told, and withdraw the routes.
// It stays down until StartBIRD.
func (l *Lab) StopBIRD(name string) error {
	if _, err := l.Birdc(name, "down"); err != nil {
		return fmt.Errorf("stopping BIRD: %w", err)
	}
	n, err := l.node(name)
	if err != nil {
		return fmt.Errorf("stopping BIRD: %w", err)
	}
	n.bird.stop(syscall.SIGTERM)
	return nil
}

// StartBIRD starts a node's BIRD after KillBIRD or StopBIRD, in graceful restart as calico-node does, and waits until it answers.
func (l *Lab) StartBIRD(ctx context.Context, name string) error {
	n, err := l.node(name)
	if err != nil {
		return fmt.Errorf("starting BIRD: %w", err)
	}
	if n.bird.running() {
		return nil
	}
	return n.startBIRD(ctx)
}

// StopAgent kills what calico-node runs beside BIRD, confd and the node status reporter, as one that crashes again and again: BIRD goes
// on with the configuration it has. They stay down until StartAgent.
func (l *Lab) StopAgent(name string) error {
	n, err := l.node(name)
	if err != nil {
		return fmt.Errorf("stopping confd: %w", err)
	}
	n.agent.stop(syscall.SIGKILL)
	return nil
}

// StartAgent starts confd and the reporter after StopAgent.
func (l *Lab) StartAgent(name string) error {
	n, err := l.node(name)
	if err != nil {
		return fmt.Errorf("starting confd: %w", err)
	}
	if n.agent.running() {
		return nil
	}
	return n.agent.start()
}

// PauseAgent lets confd and the reporter hang, until ResumeAgent.
func (l *Lab) PauseAgent(name string) error { return l.signalAgent(name, syscall.SIGSTOP) }

// ResumeAgent lets them go on.
func (l *Lab) ResumeAgent(name string) error { return l.signalAgent(name, syscall.SIGCONT) }

func (l *Lab) signalAgent(name string, signal syscall.Signal) error {
	n, err := l.node(name)
	if err != nil {
		return fmt.Errorf("signalling confd: %w", err)
	}
	if err := n.agent.signal(signal); err != nil {
		return fmt.Errorf("signalling confd on %q: %w", name, err)
	}
	return nil
}

// CutLink pulls the node's cable: no BGP, no pods, no apiserver. The node stays Ready for the API until SetReady or SetUnknown says
// otherwise.
func (l *Lab) CutLink(name string) error {
	n, err := l.node(name)
	if err != nil {
		return fmt.Errorf("cutting a link: %w", err)
	}
	n.pods.setOff(true)
	return setDown(l.fabric.link, n.port())
}

// RestoreLink plugs the node's cable in again.
func (l *Lab) RestoreLink(name string) error {
	n, err := l.node(name)
	if err != nil {
		return fmt.Errorf("restoring a link: %w", err)
	}
	n.pods.setOff(false)
	return setUp(l.fabric.link, n.port())
}

// SetReady makes the node Ready or not, and keeps it so. It returns when the apiserver knows.
func (l *Lab) SetReady(ctx context.Context, name string, ready bool) error {
	if ready {
		return l.setReadiness(ctx, name, corev1.ConditionTrue)
	}
	return l.setReadiness(ctx, name, corev1.ConditionFalse)
}

// SetUnknown makes the node's readiness Unknown, as the node controller does some 40 s after a node's last sign of life.
func (l *Lab) SetUnknown(ctx context.Context, name string) error {
	return l.setReadiness(ctx, name, corev1.ConditionUnknown)
}

func (l *Lab) setReadiness(ctx context.Context, name string, status corev1.ConditionStatus) error {
	if _, err := l.node(name); err != nil {
		return fmt.Errorf("setting readiness: %w", err)
	}
	l.kubelet.set(name, status)
	return l.kubelet.sync(ctx, name)
}

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
