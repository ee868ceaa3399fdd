//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// kubeletPeriod is how often the kubelets look whether a pod has to end.
const kubeletPeriod = 250 * time.Millisecond

// podSet is what runs on a host. One address stands for all of its pods in the probes, until the last one's end.
type podSet struct {
	mu      sync.Mutex
	running map[string]bool // by name
	off     bool            // the host is cut off or has no power: its kubelet does nothing
}

func (s *podSet) setOff(off bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off = off
}

// createPods makes the pods that the node has from the start, and does what the kubelet and Calico's IPAM do for them.
func (l *Lab) createPods(ctx context.Context, n *node) error {
	if n.spec.Pods == 0 {
		return nil
	}
	running := map[string]bool{}
	for i := range n.spec.Pods {
		name, err := l.createPod(ctx, n, nth(n.podAddress(), i).String())
		if err != nil {
			return err
		}
		running[name] = true
	}
	n.pods.mu.Lock()
	defer n.pods.mu.Unlock()
	n.pods.running = running
	return l.fabric.prober.Add(l.endpoint(n.spec.Name), n.podAddress(), n.space.enter)
}

// createPod makes a pod that runs on this node.
func (l *Lab) createPod(ctx context.Context, n *node, address string) (string, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: podPrefix + n.spec.Name + "-", Labels: map[string]string{"app": "workload"}},
		Spec:       corev1.PodSpec{NodeName: n.spec.Name, Containers: []corev1.Container{{Name: "app", Image: "workload"}}},
	}
	if n.spec.Controlled {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "workload", UID: "workload", Controller: ptr.To(true)}}
	}
	pods := l.kube.CoreV1().Pods(podNamespace)
	pod, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("creating a pod: %w", err)
	}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: n.spec.Address.String(), PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	if _, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return "", fmt.Errorf("reporting pod %q: %w", pod.Name, err)
	}
	return pod.Name, nil
}

// runKubelets ends pods that are evicted or deleted, at once, whatever their grace period, until ctx ends. The apiserver may be down on
// purpose: the real ones try again as well.
func (l *Lab) runKubelets(ctx context.Context) {
	ticker := time.NewTicker(kubeletPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = l.endDeleted(ctx)
		}
	}
}

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
		if n := nodes[pod.Spec.NodeName]; !stay[pod.Name] && (n == nil || !n.isOff()) {
			errs = append(errs, l.removePod(ctx, pod))
		}
	}
	for name, n := range nodes {
		errs = append(errs, l.endPods(n, slices.DeleteFunc(running[name], func(pod string) bool { return stay[pod] })...))
	}
	return errors.Join(errs...)
}

func (n *node) isOff() bool {
	n.pods.mu.Lock()
	defer n.pods.mu.Unlock()
	return n.pods.off
}

// endPods ends pods of a host at once: from here on nothing that they do not answer is lost.
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
	return l.fabric.prober.Remove(l.endpoint(n.spec.Name))
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
	if err != nil {
		return fmt.Errorf("setting %q unschedulable to %s: %w", name, value, err)
	}
	return nil
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
