//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/test/controlplane"
)

// kubeletPeriod is how often the kubelets look whether a pod has to end.
const kubeletPeriod = 250 * time.Millisecond

// podSet is what runs on a host. One address stands for all of its pods in the probes, until the last one's end.
type podSet struct {
	mu      sync.Mutex
	running map[string]bool // by name
	off     atomic.Bool     // the host is cut off or has no power: its kubelet does nothing
}

// createPods makes the pods that the node has from the start, and does what the kubelet and Calico's IPAM do for them.
func (l *Lab) createPods(ctx context.Context, n *node) error {
	if n.spec.Pods == 0 {
		return nil
	}
	running := map[string]bool{}
	for i := range n.spec.Pods {
		name, err := l.createPod(ctx, n, Nth(n.podAddress(), i).String())
		if err != nil {
			return err
		}
		running[name] = true
	}
	n.pods.mu.Lock()
	defer n.pods.mu.Unlock()
	n.pods.running = running
	return l.probe(n.spec.Name, n.podAddress(), n.space.enter)
}

func (l *Lab) createPod(ctx context.Context, n *node, address string) (string, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: podPrefix + n.spec.Name + "-", Labels: map[string]string{"app": "workload"}},
		Spec:       corev1.PodSpec{NodeName: n.spec.Name, Containers: []corev1.Container{{Name: "app", Image: "workload"}}},
	}
	if n.spec.Controlled {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "workload", UID: "workload", Controller: ptr.To(true)}}
	}
	pod, err := l.kube.CoreV1().Pods(podNamespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("creating a pod: %w", err)
	}
	return pod.Name, l.report(ctx, n, pod, address, corev1.ConditionTrue)
}

// report says of a pod what the node's kubelet says.
func (l *Lab) report(ctx context.Context, n *node, pod *corev1.Pod, address string, ready corev1.ConditionStatus) error {
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: n.spec.Address.String(), PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()}},
	}
	_, err := l.kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// endDeleted does what kubelets do: it ends pods that are evicted or deleted, at once, whatever their grace period.
func (l *Lab) endDeleted(ctx context.Context) error {
	nodes, running := map[string]*node{}, map[string][]string{} // before the list: all of these are in it, if there are
	for _, n := range l.upNodes() {
		n.pods.mu.Lock()
		nodes[n.spec.Name], running[n.spec.Name] = n, slices.Collect(maps.Keys(n.pods.running))
		n.pods.mu.Unlock()
	}
	list, err := l.kube.CoreV1().Pods(podNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	stay := map[string]bool{}
	var errs []error
	for i := range list.Items {
		pod := &list.Items[i]
		stay[pod.Name] = pod.DeletionTimestamp == nil
		if n := nodes[pod.Spec.NodeName]; !stay[pod.Name] && (n == nil || !n.pods.off.Load()) {
			errs = append(errs, l.removePod(ctx, pod))
		}
	}
	for name, n := range nodes {
		errs = append(errs, l.endPods(n, slices.DeleteFunc(running[name], func(pod string) bool { return stay[pod] })...))
	}
	return errors.Join(errs...)
}

// endPods ends pods of a host at once: from here on nothing that does not reach them is lost.
func (l *Lab) endPods(n *node, pods ...string) error {
	n.pods.mu.Lock()
	defer n.pods.mu.Unlock()
	before := len(n.pods.running)
	for _, pod := range pods {
		delete(n.pods.running, pod)
	}
	if before == 0 || len(n.pods.running) > 0 {
		return nil
	}
	return l.unprobe(n.spec.Name)
}

// removePod makes a pod's object disappear at once. It may be gone already.
func (l *Lab) removePod(ctx context.Context, pod *corev1.Pod) error {
	err := l.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("removing pod %q: %w", pod.Name, err)
}

// Cordon makes a node unschedulable as a person does, with kubectl.
func (l *Lab) Cordon(ctx context.Context, name string) error {
	return l.setUnschedulable(ctx, name, "true")
}

// Uncordon undoes Cordon, as a person does.
func (l *Lab) Uncordon(ctx context.Context, name string) error {
	return l.setUnschedulable(ctx, name, "null")
}

func (l *Lab) setUnschedulable(ctx context.Context, name, value string) error {
	patch := []byte(`{"spec":{"unschedulable":` + value + `}}`)
	_, err := l.kube.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kubectl-cordon"})
	return err
}

// Pods are the names of a node's pods that are not on their way out, from the API.
func (l *Lab) Pods(ctx context.Context, node string) ([]string, error) {
	list, err := l.kube.CoreV1().Pods(podNamespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of %q: %w", node, err)
	}
	var names []string
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			names = append(names, list.Items[i].Name)
		}
	}
	return names, nil
}

// calicoNodeNamespace is where Calico's manifests install calico-node.
const calicoNodeNamespace = "kube-system"

func (n *node) calicoNodePod() string { return "calico-node-" + n.spec.Name }

// createCalicoNode makes the pod that Calico's DaemonSet has on the node. It is Ready until KillCalicoNode, whatever the other faults do
// to its processes.
func (l *Lab) createCalicoNode(ctx context.Context, n *node) error {
	pod, err := l.kube.CoreV1().Pods(calicoNodeNamespace).Create(ctx, &corev1.Pod{
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
	return l.report(ctx, n, pod, n.spec.Address.String(), corev1.ConditionTrue)
}

func (l *Lab) deleteCalicoNode(ctx context.Context, n *node) error {
	return l.kube.CoreV1().Pods(calicoNodeNamespace).Delete(ctx, n.calicoNodePod(), metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
}

// KillCalicoNode ends BIRD, confd and the reporter of a node that stays Ready, as a container's end does: peers keep the routes for the
// graceful restart time. The pod is not Ready from then on, or, evicted, it is gone. They stay down.
func (l *Lab) KillCalicoNode(ctx context.Context, name string, evicted bool) error {
	n, err := l.node(name)
	if err != nil {
		return err
	}
	n.kill()
	if evicted {
		return l.deleteCalicoNode(ctx, n)
	}
	pod, err := l.kube.CoreV1().Pods(calicoNodeNamespace).Get(ctx, n.calicoNodePod(), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("killing calico-node on %q: %w", name, err)
	}
	return l.report(ctx, n, pod, n.spec.Address.String(), corev1.ConditionFalse)
}

// ReplaceCalicoNode ends calico-node on a node as KillCalicoNode does, and starts it anew with another kubeconfig, as an upgrade of Calico
// does: BIRD comes back in graceful restart, once confd has rendered its configuration.
func (l *Lab) ReplaceCalicoNode(ctx context.Context, name, kubeconfig string) error {
	if err := l.KillCalicoNode(ctx, name, true); err != nil {
		return err
	}
	return l.on(name, func(n *node) error {
		n.agent.env = append(n.agent.env, "KUBECONFIG="+kubeconfig)
		for _, file := range n.files {
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
// folder and reloads its own BIRD, which it sees below calicoRunDir. Without IPv6 BIRD 6 is left out, and an empty configuration satisfies
// the reporter.
func writeConfdTemplates(ctx context.Context, dir string, files []string) error {
	calico, err := controlplane.CalicoSources(ctx)
	if err != nil {
		return err
	}
	source := filepath.Join(calico, "confd", "etc", "calico", "confd")
	for _, name := range files {
		name, _, _ = strings.Cut(name, ".")
		bird, _, _ := strings.Cut(name, "_")
		for file, change := range map[string]func(string) string{
			"templates/" + name + ".cfg.template": func(text string) string { return tunnelAttribute.ReplaceAllString(text, "") },
			"conf.d/" + name + ".toml": func(text string) string {
				text = destination.ReplaceAllString(checkCommand.ReplaceAllString(text, ""), `dest = "`+configDir+`/$1"`)
				return reloadCommand.ReplaceAllString(text, `reload_cmd = "birdc -s `+calicoRunDir+`/`+bird+`.ctl configure || true"`)
			},
		} {
			text, err := os.ReadFile(filepath.Join(source, file)) //nolint:gosec // G304: Calico's files
			if err != nil {
				return err
			}
			to := filepath.Join(dir, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o750), os.WriteFile(to, []byte(change(string(text))), 0o600)); err != nil {
				return err
			}
		}
	}
	return nil
}
