//go:build linux

package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/test/controlplane"
)

// calicoNodeNamespace is where Calico's manifests install calico-node.
const calicoNodeNamespace = "kube-system"

func (n *node) calicoNodePod() string { return "calico-node-" + n.spec.Name }

// createCalicoNode makes the pod that Calico's DaemonSet has on the node. It is Ready until KillCalicoNode, whatever the other faults do
// to its processes.
func (l *Lab) createCalicoNode(ctx context.Context, n *node) error {
	pods := l.kube.CoreV1().Pods(calicoNodeNamespace)
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: n.calicoNodePod(), Labels: map[string]string{"k8s-app": "calico-node"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "DaemonSet", Name: "calico-node", UID: "calico-node", Controller: ptr.To(true),
			}},
		},
		Spec: corev1.PodSpec{
			NodeName: n.spec.Name, HostNetwork: true, Containers: []corev1.Container{{Name: "calico-node", Image: "calico/node"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating the pod of calico-node: %w", err)
	}
	return l.reportCalicoNode(ctx, n, pod, corev1.ConditionTrue)
}

func (l *Lab) reportCalicoNode(ctx context.Context, n *node, pod *corev1.Pod, ready corev1.ConditionStatus) error {
	address := n.spec.Address.String()
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: address, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()}},
	}
	if _, err := l.kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("reporting pod %q: %w", pod.Name, err)
	}
	return nil
}

func (l *Lab) deleteCalicoNode(ctx context.Context, n *node) error {
	err := l.kube.CoreV1().Pods(calicoNodeNamespace).Delete(ctx, n.calicoNodePod(), metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the pod of calico-node: %w", err)
	}
	return nil
}

// KillCalicoNode ends BIRD, confd and the reporter of a node that stays Ready, as a container's end does: peers keep the routes for the
// graceful restart time. The pod is not Ready from then on, or, evicted, it is gone. They stay down.
func (l *Lab) KillCalicoNode(ctx context.Context, name string, evicted bool) error {
	n, err := l.node(name)
	if err != nil {
		return err
	}
	for _, d := range []*daemon{n.bird, n.bird6, n.agent} {
		d.stop(syscall.SIGKILL)
	}
	if evicted {
		return l.deleteCalicoNode(ctx, n)
	}
	pod, err := l.kube.CoreV1().Pods(calicoNodeNamespace).Get(ctx, n.calicoNodePod(), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("killing calico-node on %q: %w", name, err)
	}
	return l.reportCalicoNode(ctx, n, pod, corev1.ConditionFalse)
}

// ReplaceCalicoNode ends calico-node on a node as KillCalicoNode does, and starts it anew with another kubeconfig, as an upgrade of Calico
// does: BIRD comes back in graceful restart, once confd has rendered its configuration.
func (l *Lab) ReplaceCalicoNode(ctx context.Context, name, kubeconfig string) error {
	if err := l.KillCalicoNode(ctx, name, true); err != nil {
		return err
	}
	return l.on(name, func(n *node) error {
		n.agent.env = append(n.agent.env, "KUBECONFIG="+kubeconfig)
		for _, file := range rendered {
			if err := os.Remove(n.config(file)); err != nil {
				return fmt.Errorf("removing what confd had rendered: %w", err)
			}
		}
		if err := n.boot(ctx); err != nil {
			return err
		}
		return l.createCalicoNode(ctx, n)
	})
}

var (
	// Stock BIRD does not know Calico's attribute for encapsulation; unencapsulated pools set it to nothing.
	tunnelAttribute = regexp.MustCompile(`krt_tunnel = "[^"]*";`)
	destination     = regexp.MustCompile(`(?m)^dest = ".*/([^/"]+)"$`)
	checkCommand    = regexp.MustCompile(`(?m)^check_cmd = .*\n`)
	reloadCommand   = regexp.MustCompile(`(?m)^reload_cmd = .*$`)
)

// writeConfdTemplates copies Calico's templates, made fit for stock BIRD, and its list of templates, for all nodes: each writes to its own
// folder and reloads its own BIRD, which it sees below calicoRunDir. BIRD 6 is left out: the lab has no IPv6, and an empty configuration
// satisfies the reporter.
func writeConfdTemplates(ctx context.Context, dir string) error {
	calico, err := controlplane.CalicoSources(ctx)
	if err != nil {
		return err
	}
	source := filepath.Join(calico, "confd", "etc", "calico", "confd")
	for _, name := range []string{"bird", "bird_aggr", "bird_ipam"} {
		err := rewrite(filepath.Join(source, "templates", name+".cfg.template"), filepath.Join(dir, "templates", name+".cfg.template"),
			func(text string) string { return tunnelAttribute.ReplaceAllString(text, "") })
		if err != nil {
			return err
		}
		err = rewrite(filepath.Join(source, "conf.d", name+".toml"), filepath.Join(dir, "conf.d", name+".toml"),
			func(text string) string {
				text = destination.ReplaceAllString(checkCommand.ReplaceAllString(text, ""), `dest = "`+configDir+`/$1"`)
				return reloadCommand.ReplaceAllString(text, `reload_cmd = "birdc -s `+calicoRunDir+`/bird.ctl configure || true"`)
			})
		if err != nil {
			return err
		}
	}
	return nil
}

func rewrite(from, to string, change func(string) string) error {
	text, err := os.ReadFile(from) //nolint:gosec // G304: Calico's files and ours
	if err != nil {
		return fmt.Errorf("reading a template of confd: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		return fmt.Errorf("making a folder of confd: %w", err)
	}
	if err := os.WriteFile(to, []byte(change(string(text))), 0o600); err != nil {
		return fmt.Errorf("writing a template of confd: %w", err)
	}
	return nil
}
