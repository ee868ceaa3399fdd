//go:build linux

package lab

import (
	"context"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

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

// Drain cordons a node and evicts its pods once, as a person does, with kubectl --force. A pod that may not go is an error.
func (l *Lab) Drain(ctx context.Context, name string) error {
	if err := l.Cordon(ctx, name); err != nil {
		return err
	}
	pods, err := l.Pods(ctx, name)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: podNamespace}}
		if err := l.kube.PolicyV1().Evictions(podNamespace).Evict(ctx, eviction); err != nil {
			return fmt.Errorf("evicting pod %q: %w", pod, err)
		}
	}
	return nil
}
