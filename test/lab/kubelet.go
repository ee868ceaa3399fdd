//go:build linux

package lab

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

// kubeletPeriod is how often all nodes' conditions are put right. Nothing is written where nothing has changed.
const kubeletPeriod = 5 * time.Second

// kubelet stands for all nodes' kubelets, and for the node controller: it keeps their Ready conditions as the lab wants them.
type kubelet struct {
	client kubernetes.Interface
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	ready map[string]corev1.ConditionStatus
}

func startKubelet(client kubernetes.Interface) *kubelet {
	ctx, cancel := context.WithCancel(context.Background())
	k := &kubelet{client: client, cancel: cancel, done: make(chan struct{}), ready: map[string]corev1.ConditionStatus{}}
	go k.run(ctx)
	return k
}

func (k *kubelet) run(ctx context.Context) {
	defer close(k.done)
	ticker := time.NewTicker(kubeletPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		// The apiserver may be down on purpose; a real kubelet tries again as well.
		nodes, err := k.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for i := range nodes.Items {
			if k.differs(&nodes.Items[i]) {
				_ = k.sync(ctx, nodes.Items[i].Name)
			}
		}
	}
}

func (k *kubelet) stop() {
	if k != nil {
		k.cancel()
		<-k.done
	}
}

func (k *kubelet) set(node string, ready corev1.ConditionStatus) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ready[node] = ready
}

func (k *kubelet) forget(node string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.ready, node)
}

func (k *kubelet) differs(node *corev1.Node) bool {
	k.mu.Lock()
	want, known := k.ready[node.Name]
	k.mu.Unlock()
	i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	return known && (i < 0 || node.Status.Conditions[i].Status != want)
}

// sync writes one node's condition when it differs.
func (k *kubelet) sync(ctx context.Context, name string) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := k.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil || !k.differs(node) {
			return err
		}
		k.mu.Lock()
		want := k.ready[name]
		k.mu.Unlock()
		node.Status.Conditions = slices.DeleteFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
		node.Status.Conditions = append(node.Status.Conditions, readyCondition(want))
		_, err = k.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("reporting node %q: %w", name, err)
	}
	return nil
}

// readyCondition is what a kubelet reports, or, for Unknown, what the node controller writes when it has not heard of one for a while.
func readyCondition(status corev1.ConditionStatus) corev1.NodeCondition {
	reasons := map[corev1.ConditionStatus]string{
		corev1.ConditionTrue: "KubeletReady", corev1.ConditionFalse: "KubeletNotReady", corev1.ConditionUnknown: "NodeStatusUnknown",
	}
	now := metav1.Now()
	return corev1.NodeCondition{
		Type: corev1.NodeReady, Status: status, Reason: reasons[status], LastHeartbeatTime: now, LastTransitionTime: now,
	}
}
