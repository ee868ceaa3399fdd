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

// kubeletPeriod is how often the lab looks for deleted pods.
const kubeletPeriod = 250 * time.Millisecond

// podSet are the pods of a host. They have one endpoint of the probes together, until the last one ends.
type podSet struct {
	mu      sync.Mutex
	running map[string]bool // by name
	off     atomic.Bool     // the host has no link or no power, so its kubelet ends no pods
}

// createPods creates the node's pods and starts their probes.
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

// report writes a pod's status as its kubelet does.
func (l *Lab) report(ctx context.Context, n *node, pod *corev1.Pod, address string, ready corev1.ConditionStatus) error {
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: n.spec.Address.String(), PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()}},
	}
	_, err := l.kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// endDeleted ends evicted and deleted pods at once, without their grace period.
func (l *Lab) endDeleted(ctx context.Context) error {
	nodes, running := map[string]*node{}, map[string][]string{} // read before the list: a pod that is not in it was deleted
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

// endPods ends pods of a host. With the last one, its probes end.
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

// removePod deletes a pod's object at once. It may be deleted already.
func (l *Lab) removePod(ctx context.Context, pod *corev1.Pod) error {
	err := l.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("removing pod %q: %w", pod.Name, err)
}

// Cordon cordons a node as kubectl does.
func (l *Lab) Cordon(ctx context.Context, name string) error {
	return l.setUnschedulable(ctx, name, "true")
}

// Uncordon uncordons a node as kubectl does.
func (l *Lab) Uncordon(ctx context.Context, name string) error {
	return l.setUnschedulable(ctx, name, "null")
}

func (l *Lab) setUnschedulable(ctx context.Context, name, value string) error {
	patch := []byte(`{"spec":{"unschedulable":` + value + `}}`)
	_, err := l.kube.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kubectl-cordon"})
	return err
}

// Pods returns the names of a node's pods in the API that are not being deleted.
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

// calicoNodeNamespace is the namespace of calico-node in Calico's manifests.
const calicoNodeNamespace = "kube-system"

func (n *node) calicoNodePod() string { return "calico-node-" + n.spec.Name }

// createCalicoNode creates the node's pod of Calico's DaemonSet. It is Ready until KillCalicoNode; other faults do not change that.
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

// KillCalicoNode ends BIRD, confd and the reporter of a node that stays Ready: peers keep the routes for the graceful restart time. The pod is
// not Ready from then on or, if evicted, deleted. The processes are not restarted.
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

// ReplaceCalicoNode restarts calico-node on a node with another kubeconfig, as an upgrade of Calico does: BIRD starts in graceful restart
// recovery once confd has rendered its configuration.
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
	// Stock BIRD does not support Calico's attribute for encapsulation, which is empty for unencapsulated pools.
	tunnelAttribute = regexp.MustCompile(`krt_tunnel = "[^"]*";`)
	destination     = regexp.MustCompile(`(?m)^dest = ".*/([^/"]+)"$`)
	checkCommand    = regexp.MustCompile(`(?m)^check_cmd = .*\n`)
	reloadCommand   = regexp.MustCompile(`(?m)^reload_cmd = .*$`)
)

// writeConfdTemplates copies Calico's templates and their configuration, changed for stock BIRD, for all nodes: each node's confd writes to
// configDir and reloads the BIRD in calicoRunDir. Without DualStack BIRD 6 gets no templates, but an empty configuration, because the reporter
// needs it to run.
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
