//go:build linux

package lab

import (
	"context"
	"slices"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// KillBIRD kills a node's BIRD as a crash does: peers see the connection break, and keep the routes for the graceful restart time. It stays down
// until StartBIRD.
func (l *Lab) KillBIRD(name string) error {
	return l.on(name, func(n *node) error {
		n.bird.stop(syscall.SIGKILL)
		return nil
	})
}

// StopBIRD shuts a node's BIRD down in order, as a drained or powered-off node does: peers get a NOTIFICATION, and withdraw the routes. It stays
// down until StartBIRD.
func (l *Lab) StopBIRD(name string) error {
	return l.on(name, func(n *node) error {
		if _, err := n.birdc("down"); err != nil {
			return err
		}
		n.bird.stop(syscall.SIGTERM)
		return nil
	})
}

// StartBIRD starts a node's BIRD after KillBIRD or StopBIRD, in graceful restart as calico-node does, and waits until it answers.
func (l *Lab) StartBIRD(ctx context.Context, name string) error {
	return l.on(name, func(n *node) error {
		if n.bird.running() {
			return nil
		}
		return n.startBIRD(ctx)
	})
}

// PauseAgent suspends confd and the node status reporter of a node until ResumeAgent. BIRD runs on with its current configuration.
func (l *Lab) PauseAgent(name string) error {
	return l.on(name, func(n *node) error { return n.agent.signal(syscall.SIGSTOP) })
}

// ResumeAgent undoes PauseAgent.
func (l *Lab) ResumeAgent(name string) error {
	return l.on(name, func(n *node) error { return n.agent.signal(syscall.SIGCONT) })
}

// CutLink takes the node's link down: no BGP, no pods, no apiserver. In the API the node stays Ready until SetReady changes that.
func (l *Lab) CutLink(name string) error {
	return l.on(name, func(n *node) error {
		n.pods.off.Store(true)
		return setDown(l.fabric.link, n.port())
	})
}

// RestoreLink undoes CutLink.
func (l *Lab) RestoreLink(name string) error {
	return l.on(name, func(n *node) error {
		n.pods.off.Store(false)
		return setUp(l.fabric.link, n.port())
	})
}

// SetReady writes the Ready condition of a node: what a kubelet writes or, for Unknown, what the node controller writes some 40 s after a node's last report.
func (l *Lab) SetReady(ctx context.Context, name string, status corev1.ConditionStatus) error {
	return l.on(name, func(*node) error {
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			node, err := l.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			was := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
			if node.Status.Conditions[was].Status == status {
				return nil
			}
			node.Status.Conditions[was] = readyCondition(status)
			_, err = l.kube.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
			return err
		})
	})
}

func readyCondition(status corev1.ConditionStatus) corev1.NodeCondition {
	reasons := map[corev1.ConditionStatus]string{
		corev1.ConditionTrue: "KubeletReady", corev1.ConditionFalse: "KubeletNotReady", corev1.ConditionUnknown: "NodeStatusUnknown",
	}
	now := metav1.Now()
	return corev1.NodeCondition{
		Type: corev1.NodeReady, Status: status, Reason: reasons[status], LastHeartbeatTime: now, LastTransitionTime: now,
	}
}

// Shutdown powers a node off in order, as a rolling update of workers does: BIRD ends its sessions administratively, the kubelet reports that the
// node is not Ready, and the link goes down. Its pods are still listed. PowerOn undoes it.
func (l *Lab) Shutdown(ctx context.Context, name string) error {
	return l.on(name, func(n *node) error {
		n.pods.off.Store(true)
		if n.bird.running() {
			if err := l.StopBIRD(name); err != nil {
				return err
			}
		}
		if err := l.SetReady(ctx, name, corev1.ConditionFalse); err != nil {
			return err
		}
		return l.powerOff(n)
	})
}

// Crash powers a node off without notice: peers keep its routes for the graceful restart time. In the API it stays Ready until SetReady changes
// that. PowerOn undoes it.
func (l *Lab) Crash(name string) error {
	return l.on(name, func(n *node) error {
		n.pods.off.Store(true)
		return l.powerOff(n)
	})
}

// powerOff takes the host's link down before it ends the processes, so that they send nothing more.
func (l *Lab) powerOff(n *node) error {
	err := setDown(l.fabric.link, n.port())
	n.kill()
	return err
}

// PowerOn starts a node after Shutdown or Crash. It returns when BIRD runs and the node is Ready.
func (l *Lab) PowerOn(ctx context.Context, name string) error {
	return l.on(name, func(n *node) error {
		if n.bird.running() {
			return nil
		}
		if err := setUp(l.fabric.link, n.port()); err != nil {
			return err
		}
		if err := n.boot(ctx); err != nil {
			return err
		}
		n.pods.off.Store(false)
		return l.SetReady(ctx, name, corev1.ConditionTrue)
	})
}
