//go:build linux

package lab

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podSet is what runs on a host. One address stands for all of its pods in the probes, from the first pod's start until the last
// one's end.
type podSet struct {
	mu      sync.Mutex
	running map[types.UID]bool
	next    int  // of the address
	block   bool // the node has an address block, and keeps it
	off     bool // the host is cut off or has no power: its kubelet does nothing
	gone    bool
}

func (s *podSet) list() []types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.running))
}

func (s *podSet) hasBlock() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.block
}

func (s *podSet) isOff() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.off
}

func (s *podSet) setOff(off bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off = off
}

// startPod does what the kubelet and Calico's IPAM do for a pod that was assigned to the node. Starting it twice is fine.
func (l *Lab) startPod(ctx context.Context, n *node, pod *corev1.Pod) error {
	n.pods.mu.Lock()
	defer n.pods.mu.Unlock()
	if n.pods.running[pod.UID] || n.pods.off || n.pods.gone {
		return nil
	}
	if !n.pods.block {
		if err := l.createBlock(ctx, n); err != nil {
			return err
		}
		if err := addPodDevice(n.space, n.podAddress()); err != nil {
			return err
		}
		n.pods.block = true
	}
	if err := l.reportRunning(ctx, n, pod); err != nil {
		return err
	}
	if len(n.pods.running) == 0 {
		if err := l.prober.Add(n.spec.Name, n.podAddress(), n.space.enter); err != nil {
			return err
		}
	}
	if n.pods.running == nil {
		n.pods.running = map[types.UID]bool{}
	}
	n.pods.running[pod.UID] = true
	return nil
}

// reportRunning gives the pod the next address of the node's block.
func (l *Lab) reportRunning(ctx context.Context, n *node, pod *corev1.Pod) error {
	if n.pods.next+2 >= blockSize {
		return fmt.Errorf("starting pod %q: the block of node %q is used up", pod.Name, n.spec.Name)
	}
	address := nth(n.podAddress(), n.pods.next).String()
	pod = pod.DeepCopy()
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: n.spec.Address.String(), PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	if _, err := l.kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("reporting pod %q: %w", pod.Name, err)
	}
	n.pods.next++
	return nil
}

// endPod ends a pod at once: from here on nothing that it does not answer is lost.
func (l *Lab) endPod(n *node, pod types.UID) error {
	n.pods.mu.Lock()
	defer n.pods.mu.Unlock()
	if !n.pods.running[pod] {
		return nil
	}
	delete(n.pods.running, pod)
	if len(n.pods.running) > 0 {
		return nil
	}
	return l.prober.Remove(n.spec.Name)
}

// endPods ends all pods of a host that goes away, and lets none start.
func (l *Lab) endPods(n *node) error {
	n.pods.mu.Lock()
	defer n.pods.mu.Unlock()
	n.pods.gone, n.pods.running = true, nil
	return l.prober.Remove(n.spec.Name)
}

// createPod makes a pod that runs on this node from the start, or, without one, wherever the scheduler puts it.
func (l *Lab) createPod(ctx context.Context, n *node, replicated bool) (*corev1.Pod, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: podPrefix, Labels: map[string]string{"app": "workload"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "workload"}}},
	}
	if n != nil {
		pod.GenerateName, pod.Spec.NodeName = podPrefix+n.spec.Name+"-", n.spec.Name
	}
	if replicated {
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(l.pods.set, replicaSetKind)}
	}
	created, err := l.kube.CoreV1().Pods(podNamespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating a pod: %w", err)
	}
	return created, nil
}

// removePod makes a pod's object disappear at once. It may be gone already.
func (l *Lab) removePod(ctx context.Context, pod *corev1.Pod) error {
	now := int64(0)
	err := l.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
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
