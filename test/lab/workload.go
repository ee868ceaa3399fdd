//go:build linux

package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// workloadPeriod is how often it is looked again while something cannot go on, such as a pod that fits nowhere.
const workloadPeriod = 500 * time.Millisecond

var replicaSetKind = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")

// workload stands for what manages pods: the kubelets start and end them, the ReplicaSet makes what is missing of its own, and the
// scheduler finds a node. A pod that is evicted or deleted ends at once, whatever its grace period.
type workload struct {
	lab    *Lab
	set    *appsv1.ReplicaSet
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	replicas int
}

func (l *Lab) startWorkload(ctx context.Context) error {
	labels := map[string]string{"app": "workload"}
	replicas := int32(0)
	set, err := l.kube.AppsV1().ReplicaSets(podNamespace).Create(ctx, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "workload", Labels: labels},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "workload"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating the ReplicaSet: %w", err)
	}
	background, cancel := context.WithCancel(context.Background())
	l.pods = &workload{lab: l, set: set, cancel: cancel, done: make(chan struct{})}
	go l.pods.run(background)
	return nil
}

func (w *workload) stop() {
	if w != nil {
		w.cancel()
		<-w.done
	}
}

// grow makes the ReplicaSet want more pods. They exist already.
func (w *workload) grow(ctx context.Context, by int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.replicas += by
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, w.replicas)
	_, err := w.lab.kube.AppsV1().ReplicaSets(podNamespace).Patch(ctx, w.set.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("scaling the ReplicaSet: %w", err)
	}
	return nil
}

func (w *workload) wanted() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.replicas
}

func (w *workload) run(ctx context.Context) {
	defer close(w.done)
	for ctx.Err() == nil {
		// The apiserver may be down on purpose; the real ones try again as well.
		pods, err := w.lab.kube.CoreV1().Pods(podNamespace).Watch(ctx, metav1.ListOptions{})
		if err == nil {
			w.follow(ctx, pods)
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(workloadPeriod):
		}
	}
}

// follow looks at all pods whenever one has changed, until the watch ends.
func (w *workload) follow(ctx context.Context, pods watch.Interface) {
	defer pods.Stop()
	for {
		var again <-chan time.Time
		if err := w.reconcile(ctx); err != nil {
			again = time.After(workloadPeriod)
		}
		select {
		case _, open := <-pods.ResultChan():
			if !open {
				return
			}
		case <-again:
		case <-ctx.Done():
			return
		}
		for more := true; more; { // many changes are looked at once
			select {
			case _, more = <-pods.ResultChan():
			default:
				more = false
			}
		}
	}
}

// reconcile does what is to be done for each pod. An error means that something is left to do.
func (w *workload) reconcile(ctx context.Context) error {
	wanted := w.wanted() // before the list: the pods that grow counts are in it then
	list, err := w.lab.kube.CoreV1().Pods(podNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	known := map[types.UID]bool{}
	load := map[string]int{}
	for i := range list.Items {
		known[list.Items[i].UID] = true
		load[list.Items[i].Spec.NodeName]++
	}
	replicas := 0
	var errs []error
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.DeletionTimestamp == nil && metav1.IsControlledBy(pod, w.set) {
			replicas++
		}
		errs = append(errs, w.care(ctx, pod, load))
	}
	errs = append(errs, w.endUnknown(known))
	for range wanted - replicas {
		_, err := w.lab.createPod(ctx, nil, true)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (w *workload) care(ctx context.Context, pod *corev1.Pod, load map[string]int) error {
	if pod.Spec.NodeName == "" {
		return w.schedule(ctx, pod, load)
	}
	if !w.lab.knows(pod.Spec.NodeName) {
		return w.lab.removePod(ctx, pod) // it was assigned while the host went away
	}
	n, err := w.lab.node(pod.Spec.NodeName)
	if err != nil {
		return nil //nolint:nilerr // the host is on its way in, and starts its pods itself
	}
	if pod.DeletionTimestamp == nil {
		return w.lab.startPod(ctx, n, pod)
	}
	if err := w.lab.endPod(n, pod.UID); err != nil || n.pods.isOff() {
		return err
	}
	return w.lab.removePod(ctx, pod)
}

// endUnknown ends pods whose objects have disappeared, as they do without a grace period.
func (w *workload) endUnknown(known map[types.UID]bool) error {
	var errs []error
	for _, n := range w.lab.upNodes() {
		for _, pod := range n.pods.list() {
			if !known[pod] {
				errs = append(errs, w.lab.endPod(n, pod))
			}
		}
	}
	return errors.Join(errs...)
}

// schedule puts a pod on the node with the fewest pods that takes it.
func (w *workload) schedule(ctx context.Context, pod *corev1.Pod, load map[string]int) error {
	if pod.DeletionTimestamp != nil {
		return w.lab.removePod(ctx, pod)
	}
	var fit []*node
	for _, n := range w.lab.upNodes() {
		object, err := w.lab.kube.CoreV1().Nodes().Get(ctx, n.spec.Name, metav1.GetOptions{})
		if err == nil && takesPods(object) {
			fit = append(fit, n)
		}
	}
	if len(fit) == 0 {
		return fmt.Errorf("no node takes pod %q", pod.Name)
	}
	best := slices.MinFunc(fit, func(a, b *node) int {
		return cmp.Or(cmp.Compare(load[a.spec.Name], load[b.spec.Name]), cmp.Compare(a.number, b.number))
	})
	err := w.lab.kube.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: best.spec.Name},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("assigning pod %q: %w", pod.Name, err)
	}
	load[best.spec.Name]++
	return nil
}

// takesPods is for pods that tolerate nothing.
func takesPods(node *corev1.Node) bool {
	tainted := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule })
	ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	return ready && !tainted && !node.Spec.Unschedulable
}
