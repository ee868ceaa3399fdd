//go:build linux

package site

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

const (
	// runtimePeriod is how often the Runtime reconciles.
	runtimePeriod = 200 * time.Millisecond
	// maxUnavailable is the Deployment's.
	maxUnavailable = 1
	// crashDelay is how long it waits before it restarts a manager that has ended by itself.
	crashDelay = time.Second
)

// Runtime stands in for the controllers, the scheduler and the kubelets, which a lab cluster lacks, for one Deployment: the manager's, as it was applied. It
// runs each replica as a process on a node of its own, in that node's network, with exactly the Deployment's arguments and environment, and a token of its
// service account where a pod has it. It reports the Deployment's status, and finalizes namespaces that are deleted.
//
// A changed template replaces the pods within maxUnavailable; maxSurge is not used. With Options.Pods the API has Pods for them, which can be
// listed, and whose logs can be read.
//
// It does not implement: images (the manager is that of programs.Build), the user, the read-only root, limits, affinity and spreading, probes
// other than the readiness probe, and NetworkPolicies. To the environment it adds the apiserver's address, as a kubelet does, and the address of
// the simulated cloud. A template with unknown fields is not run, and Err says why.
type Runtime struct {
	site   *Site
	cancel context.CancelFunc
	done   chan struct{}

	// These are used by the Runtime's goroutine only.
	pods     []*pod
	template string
	started  int

	mu   sync.Mutex
	last error
}

// StartRuntime runs the manager's Deployment while it exists, until Stop or the end of the site.
func (s *Site) StartRuntime() *Runtime {
	ctx, cancel := context.WithCancel(context.Background())
	r := &Runtime{site: s, cancel: cancel, done: make(chan struct{})}
	s.runtime = r
	go r.run(ctx)
	return r
}

// Stop kills the managers, and starts none any more. It may be called again.
func (r *Runtime) Stop() {
	if r == nil {
		return
	}
	r.cancel()
	<-r.done
}

// Err returns the error of the last reconciliation, nil if there was none.
func (r *Runtime) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

func (r *Runtime) run(ctx context.Context) {
	defer close(r.done)
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		err := errors.Join(r.sync(ctx), r.site.finalizeNamespaces(ctx))
		r.mu.Lock()
		defer r.mu.Unlock()
		r.last = err
	}, runtimePeriod)
	for _, p := range r.pods {
		p.kill()
	}
}

// sync starts and stops processes as the Deployment says, and writes its status.
func (r *Runtime) sync(ctx context.Context) error {
	d, err := r.site.Lab.Kube().AppsV1().Deployments(Namespace).Get(ctx, ServiceAccount, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && d.DeletionTimestamp != nil {
		r.shrink(0)
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the Deployment: %w", err)
	}
	template, err := json.Marshal(d.Spec.Template)
	if err != nil {
		return fmt.Errorf("rendering the template: %w", err)
	}
	r.template = string(template)
	r.dropEnded()
	r.replace(d)
	r.shrink(int(ptr.Deref(d.Spec.Replicas, 1)))
	return errors.Join(r.grow(ctx, d), r.report(ctx, d))
}

// replace stops a pod of an older template: one that is not ready or, if fewer than maxUnavailable are missing or not ready, any.
func (r *Runtime) replace(d *appsv1.Deployment) {
	wanted, away, old, serves := int(ptr.Deref(d.Spec.Replicas, 1)), 0, -1, false
	for i, p := range r.pods {
		ready := p.ready()
		if !ready {
			away++
		}
		if p.template != r.template && (old < 0 || !ready) {
			old, serves = i, ready
		}
	}
	if old < 0 || serves && away+wanted-len(r.pods) >= maxUnavailable {
		return
	}
	r.pods[old].stop()
	r.pods = slices.Delete(r.pods, old, old+1)
}

// dropEnded removes pods whose process ended more than crashDelay ago.
func (r *Runtime) dropEnded() {
	r.pods = slices.DeleteFunc(r.pods, func(p *pod) bool {
		over := !p.process.Running() && time.Since(p.process.Ended) > crashDelay
		if over {
			p.delete()
		}
		return over
	})
}

func (r *Runtime) shrink(to int) {
	for len(r.pods) > to {
		r.pods[len(r.pods)-1].stop()
		r.pods = r.pods[:len(r.pods)-1]
	}
}

func (r *Runtime) grow(ctx context.Context, d *appsv1.Deployment) error {
	for len(r.pods) < int(ptr.Deref(d.Spec.Replicas, 1)) {
		node, err := r.schedule(ctx, &d.Spec.Template.Spec)
		if err != nil {
			return err
		}
		r.started++
		p, err := r.start(ctx, d, node)
		if err != nil {
			return fmt.Errorf("running a pod of Deployment %q on node %q: %w", d.Name, node, err)
		}
		r.pods = append(r.pods, p)
	}
	return nil
}

// schedule returns the first node whose taints the pod tolerates and that has no pod of the Deployment.
func (r *Runtime) schedule(ctx context.Context, spec *corev1.PodSpec) (string, error) {
	nodes, err := r.site.Lab.Kube().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("listing the nodes: %w", err)
	}
	up := r.site.Lab.Nodes()
	for i := range nodes.Items {
		n := &nodes.Items[i]
		taken := slices.ContainsFunc(r.pods, func(p *pod) bool { return p.node == n.Name })
		if !taken && slices.Contains(up, n.Name) && !n.Spec.Unschedulable && tolerates(spec, n.Spec.Taints) {
			return n.Name, nil
		}
	}
	return "", fmt.Errorf("no node of %d is free for a pod of the manager", len(nodes.Items))
}

func tolerates(spec *corev1.PodSpec, taints []corev1.Taint) bool {
	return !slices.ContainsFunc(taints, func(taint corev1.Taint) bool {
		return taint.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(spec.Tolerations, func(t corev1.Toleration) bool {
			return t.ToleratesTaint(klog.Background(), &taint, false)
		})
	})
}

// report writes the Deployment's status if it has changed.
func (r *Runtime) report(ctx context.Context, d *appsv1.Deployment) error {
	var ready, updated int32
	for _, p := range r.pods {
		if p.template == r.template {
			updated++
		}
		if p.ready() {
			ready++
		}
	}
	status := appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: int32(len(r.pods)), UpdatedReplicas: updated, //nolint:gosec // G115: a handful
		ReadyReplicas: ready, AvailableReplicas: ready, UnavailableReplicas: ptr.Deref(d.Spec.Replicas, 1) - ready,
	}
	if apiequality.Semantic.DeepEqual(status, d.Status) {
		return nil
	}
	d = d.DeepCopy()
	d.Status = status
	_, err := r.site.Lab.Kube().AppsV1().Deployments(d.Namespace).UpdateStatus(ctx, d, metav1.UpdateOptions{})
	return err
}

// finalizeNamespaces does what the namespace controller does: it deletes everything in deleted namespaces, and removes their finalizers.
func (s *Site) finalizeNamespaces(ctx context.Context) error {
	list, err := s.Lab.Kube().CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the namespaces: %w", err)
	}
	for i := range list.Items {
		n := &list.Items[i]
		if n.DeletionTimestamp == nil || !slices.Contains(n.Spec.Finalizers, corev1.FinalizerKubernetes) {
			continue
		}
		if err := s.empty(ctx, n.Name); err != nil {
			return fmt.Errorf("emptying namespace %q: %w", n.Name, err)
		}
		n.Spec.Finalizers = nil
		if _, err := s.Lab.Kube().CoreV1().Namespaces().Finalize(ctx, n, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("letting namespace %q go: %w", n.Name, err)
		}
	}
	return nil
}

// empty deletes all objects in a namespace, of every kind.
func (s *Site) empty(ctx context.Context, namespace string) error {
	lists, err := s.Lab.Kube().Discovery().ServerPreferredResources()
	if err != nil {
		return fmt.Errorf("asking for the kinds: %w", err)
	}
	objects, err := dynamic.NewForConfig(s.Lab.AdminConfig())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	deletable := discovery.SupportsAllVerbs{Verbs: []string{"deletecollection"}}
	for _, list := range discovery.FilteredBy(deletable, lists) {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return fmt.Errorf("reading a group: %w", err)
		}
		for _, kind := range list.APIResources {
			if !kind.Namespaced {
				continue
			}
			if err := objects.Resource(group.WithResource(kind.Name)).Namespace(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				return fmt.Errorf("deleting the %s: %w", kind.Name, err)
			}
		}
	}
	return nil
}
