package calico

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/rrpool/rrpool/controllers/plan"
)

// calicoNodeSelector is the label of calico-node's pods, whoever installs Calico.
const calicoNodeSelector = "k8s-app=calico-node"

// calicoNodeNamespaces are where Calico's manifests and its operator install calico-node.
// Pods elsewhere may carry the label by anyone's will and say nothing.
var calicoNodeNamespaces = []string{"kube-system", "calico-system"}

// calicoPods keeps of calico-node's pods which nodes they run on and whether they are
// Ready. While they cannot be watched, nothing is known of them.
type calicoPods struct {
	now     func() time.Time
	changed func()
	// settled is closed when the pods are listed, or are known not to be listable.
	settled chan struct{}

	mu     sync.Mutex
	spaces []*namespacedPods
	// absent is when this process first saw that a node has no pod.
	absent map[string]time.Time
	// reflectors are the nodes whose pods are worth a signal.
	reflectors sets.Set[string]
}

// namespacedPods are those of one namespace. It is the cache.ReflectorStore of their watch.
type namespacedPods struct {
	*calicoPods
	api             typedv1.PodInterface
	listed, failing bool
	pods            map[string]calicoPod // by name
}

// calicoPod is what matters of one pod.
type calicoPod struct {
	plan.CalicoNode
	node string
}

func newCalicoPods(cfg *rest.Config, now func() time.Time, changed func()) (*calicoPods, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	core, err := typedv1.NewForConfig(cfg)
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller wraps
	}
	c := &calicoPods{now: now, changed: changed, settled: make(chan struct{})}
	for _, namespace := range calicoNodeNamespaces {
		c.spaces = append(c.spaces, &namespacedPods{calicoPods: c, api: core.Pods(namespace), pods: map[string]calicoPod{}})
	}
	return c, nil
}

// run watches until ctx ends. Why it cannot is logged.
func (c *calicoPods) run(ctx context.Context, log logr.Logger) {
	ctx = klog.NewContext(ctx, log)
	var all sync.WaitGroup
	for i, of := range c.spaces {
		all.Go(func() {
			cache.NewReflectorWithOptions(of.listWatch(), &corev1.Pod{}, of, cache.ReflectorOptions{Name: "calico-node pods in " + calicoNodeNamespaces[i]}).
				RunWithContext(ctx)
		})
	}
	all.Wait()
}

// on gives what the pods show of calico-node on these nodes, and takes note of which of
// them are reflectors. Where there are no pods at all, calico-node is no pod, or Calico's
// own installation is gone with all of them: then nothing is known.
func (c *calicoPods) on(nodes []plan.Node) map[string]plan.CalicoNode {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reflectors = sets.Set[string]{}
	for _, n := range nodes {
		if n.HoldsRole() {
			c.reflectors.Insert(n.Name)
		}
	}
	out := map[string]plan.CalicoNode{}
	for _, of := range c.spaces {
		if !of.listed || of.failing {
			c.absent = nil
			return nil
		}
		for _, p := range of.pods {
			if better(p.CalicoNode, out[p.node]) {
				out[p.node] = p.CalicoNode
			}
		}
	}
	if len(out) == 0 {
		c.absent = nil
		return nil
	}
	c.addAbsent(out, nodes)
	return out
}

// addAbsent adds the nodes that have no pod.
func (c *calicoPods) addAbsent(out map[string]plan.CalicoNode, nodes []plan.Node) {
	absent := map[string]time.Time{}
	for _, n := range nodes {
		if _, has := out[n.Name]; has {
			continue
		}
		since, seen := c.absent[n.Name]
		if !seen {
			since = c.now()
		}
		absent[n.Name] = since
		out[n.Name] = plan.CalicoNode{State: plan.CalicoNodeAbsent, Since: since}
	}
	c.absent = absent
}

// settle closes settled once each namespace is listed or fails.
func (c *calicoPods) settle() {
	for _, of := range c.spaces {
		if !of.listed && !of.failing {
			return
		}
	}
	select {
	case <-c.settled:
	default:
		close(c.settled)
	}
}

// better: of several pods on a node, as while one takes over from another, one that is
// Ready counts, else the younger state.
func better(a, b plan.CalicoNode) bool {
	if ready := a.State == plan.CalicoNodeReady; ready != (b.State == plan.CalicoNodeReady) {
		return ready
	}
	return b.State == plan.CalicoNodeUnknown || a.Since.After(b.Since)
}

// put takes in a pod, but for one that does not run on any node, or has ended as an evicted
// one has. No state begins after we have seen it, whatever other clocks say.
func (n *namespacedPods) put(pods map[string]calicoPod, pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		delete(pods, pod.Name)
		return
	}
	p := calicoPod{stateOf(pod), pod.Spec.NodeName}
	if now := n.now(); p.Since.After(now) {
		p.Since = now
	}
	if old, had := n.pods[pod.Name]; had && old.node == p.node && old.State == p.State && old.Since.Before(p.Since) {
		p.Since = old.Since
	}
	pods[pod.Name] = p
}

// stateOf is what one pod shows.
func stateOf(pod *corev1.Pod) plan.CalicoNode {
	out := plan.CalicoNode{State: plan.CalicoNodeNotReady, Since: pod.CreationTimestamp.Time}
	if pod.DeletionTimestamp != nil {
		out.Since = pod.DeletionTimestamp.Time // the end of its grace
		return out
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			out.Since = condition.LastTransitionTime.Time
			if condition.Status == corev1.ConditionTrue {
				out.State = plan.CalicoNodeReady
			}
		}
	}
	return out
}

func (n *namespacedPods) listWatch() *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = calicoNodeSelector
			list, err := n.api.List(ctx, options)
			n.note(ctx, err)
			return list, err //nolint:wrapcheck // the reflector looks at the error's type
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = calicoNodeSelector
			w, err := n.api.Watch(ctx, options)
			n.note(ctx, err)
			return w, err //nolint:wrapcheck // the reflector looks at the error's type
		},
	}
}

// note takes down whether the pods can be listed and watched.
func (n *namespacedPods) note(ctx context.Context, err error) {
	if ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsInvalid(err) {
		return // it is listed anew at once
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failing != (err != nil) {
		n.failing = err != nil
		n.changed()
	}
	n.settle()
}

// Transformer keeps what put reads: a list of 5,000 pods would be large.
func (n *namespacedPods) Transformer() cache.TransformFunc {
	return func(in any) (any, error) {
		if pod, ok := in.(*corev1.Pod); ok {
			pod.Labels, pod.Annotations, pod.ManagedFields = nil, nil, nil
			pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName}
			pod.Status = corev1.PodStatus{Phase: pod.Status.Phase, Conditions: pod.Status.Conditions}
		}
		return in, nil
	}
}

// Add implements cache.ReflectorStore.
func (n *namespacedPods) Add(object any) error { return n.Update(object) }

// Update implements cache.ReflectorStore.
func (n *namespacedPods) Update(object any) error {
	if pod, ok := object.(*corev1.Pod); ok {
		n.change(pod.Spec.NodeName, func() { n.put(n.pods, pod) })
	}
	return nil
}

// Delete implements cache.ReflectorStore.
func (n *namespacedPods) Delete(object any) error {
	if pod, ok := object.(*corev1.Pod); ok {
		n.change(pod.Spec.NodeName, func() { delete(n.pods, pod.Name) })
	}
	return nil
}

// change signals what concerns a reflector.
func (n *namespacedPods) change(node string, do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	do()
	if n.reflectors.Has(node) {
		n.changed()
	}
}

// Replace implements cache.ReflectorStore.
func (n *namespacedPods) Replace(objects []any, _ string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	next := map[string]calicoPod{}
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			n.put(next, pod)
		}
	}
	n.pods, n.listed = next, true
	n.settle()
	n.changed()
	return nil
}

// Resync implements cache.ReflectorStore. There is nothing to do.
func (n *namespacedPods) Resync() error { return nil }

var _ cache.TransformingStore = (*namespacedPods)(nil)
