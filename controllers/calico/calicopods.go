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
	core    typedv1.CoreV1Interface
	// settled is closed when the pods are listed, or are known not to be listable.
	settled chan struct{}

	mu sync.Mutex
	// listed and failing are by namespace.
	listed, failing map[string]bool
	pods            map[podKey]calicoPod
	// absent is when this process first saw that a node has no pod.
	absent map[string]time.Time
	// reflectors are the nodes whose pods are worth a signal.
	reflectors map[string]bool
}

type podKey struct{ namespace, name string }

// calicoPod is what matters of one pod.
type calicoPod struct {
	node  string
	ready bool
	since time.Time
}

func newCalicoPods(cfg *rest.Config, now func() time.Time, changed func()) (*calicoPods, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	core, err := typedv1.NewForConfig(cfg)
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller wraps
	}
	return &calicoPods{
		now: now, changed: changed, core: core, settled: make(chan struct{}),
		listed: map[string]bool{}, failing: map[string]bool{}, pods: map[podKey]calicoPod{},
		absent: map[string]time.Time{}, reflectors: map[string]bool{},
	}, nil
}

// run watches until ctx ends. Why it cannot is logged.
func (c *calicoPods) run(ctx context.Context, log logr.Logger) {
	ctx = klog.NewContext(ctx, log)
	var all sync.WaitGroup
	for _, namespace := range calicoNodeNamespaces {
		of := &namespacedPods{calicoPods: c, namespace: namespace}
		all.Go(func() {
			cache.NewReflectorWithOptions(of.listWatch(), &corev1.Pod{}, of, cache.ReflectorOptions{Name: "calico-node pods in " + namespace}).
				RunWithContext(ctx)
		})
	}
	all.Wait()
}

// on gives what the pods show of calico-node on these nodes, and takes note of which of
// them are reflectors.
func (c *calicoPods) on(nodes []plan.Node) map[string]plan.CalicoNode {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.reflectors)
	for _, n := range nodes {
		if n.HoldsRole() {
			c.reflectors[n.Name] = true
		}
	}
	if !c.known() {
		clear(c.absent)
		return nil
	}
	best := map[string]plan.CalicoNode{}
	for _, p := range c.pods {
		if state := p.state(); better(state, best[p.node]) {
			best[p.node] = state
		}
	}
	absent := map[string]time.Time{}
	for _, n := range nodes {
		if _, has := best[n.Name]; has {
			continue
		}
		since, seen := c.absent[n.Name]
		if !seen {
			since = c.now()
		}
		absent[n.Name] = since
		best[n.Name] = plan.CalicoNode{State: plan.CalicoNodeAbsent, Since: since}
	}
	c.absent = absent
	return best
}

// known: all pods are listed and watched, and there are some. Where there are none,
// calico-node is no pod, or Calico's own installation is gone with all of them.
func (c *calicoPods) known() bool {
	for _, namespace := range calicoNodeNamespaces {
		if !c.listed[namespace] || c.failing[namespace] {
			return false
		}
	}
	return len(c.pods) > 0
}

func (p calicoPod) state() plan.CalicoNode {
	if p.ready {
		return plan.CalicoNode{State: plan.CalicoNodeReady, Since: p.since}
	}
	return plan.CalicoNode{State: plan.CalicoNodeNotReady, Since: p.since}
}

// better: of several pods on a node, as while one takes over from another, one that is
// Ready counts, else the younger state.
func better(a, b plan.CalicoNode) bool {
	if ready := a.State == plan.CalicoNodeReady; ready != (b.State == plan.CalicoNodeReady) {
		return ready
	}
	return b.State == plan.CalicoNodeUnknown || a.Since.After(b.Since)
}

// podOf is what matters of a pod, false for one that does not run on any node, or has
// ended as an evicted one has.
func (c *calicoPods) podOf(pod *corev1.Pod) (calicoPod, bool) {
	if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return calicoPod{}, false
	}
	out := calicoPod{node: pod.Spec.NodeName, since: pod.CreationTimestamp.Time}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			out.ready, out.since = condition.Status == corev1.ConditionTrue, condition.LastTransitionTime.Time
		}
	}
	if pod.DeletionTimestamp != nil {
		out.ready, out.since = false, pod.DeletionTimestamp.Time // the end of its grace: see put
	}
	return out, true
}

// put takes in a pod. No state begins after we have seen it, whatever other clocks say.
func (c *calicoPods) put(pods map[podKey]calicoPod, pod *corev1.Pod) {
	key := podKey{pod.Namespace, pod.Name}
	p, ok := c.podOf(pod)
	if !ok {
		delete(pods, key)
		return
	}
	if now := c.now(); p.since.After(now) {
		p.since = now
	}
	if old, had := c.pods[key]; had && old.node == p.node && old.ready == p.ready && old.since.Before(p.since) {
		p.since = old.since
	}
	pods[key] = p
}

// note takes down whether the pods of a namespace can be listed and watched.
func (c *calicoPods) note(ctx context.Context, namespace string, err error) {
	if ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsInvalid(err) {
		return // it is listed anew at once
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.failing[namespace]
	c.failing[namespace] = err != nil
	if was != c.failing[namespace] {
		c.changed()
	}
	c.settle()
}

// settle closes settled once each namespace is listed or fails.
func (c *calicoPods) settle() {
	for _, namespace := range calicoNodeNamespaces {
		if !c.listed[namespace] && !c.failing[namespace] {
			return
		}
	}
	select {
	case <-c.settled:
	default:
		close(c.settled)
	}
}

// namespacedPods is the cache.ReflectorStore of one namespace.
type namespacedPods struct {
	*calicoPods
	namespace string
}

func (n *namespacedPods) listWatch() *cache.ListWatch {
	pods := n.core.Pods(n.namespace)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = calicoNodeSelector
			list, err := pods.List(ctx, options)
			n.note(ctx, n.namespace, err)
			return list, err //nolint:wrapcheck // the reflector looks at the error's type
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = calicoNodeSelector
			w, err := pods.Watch(ctx, options)
			n.note(ctx, n.namespace, err)
			return w, err //nolint:wrapcheck // the reflector looks at the error's type
		},
	}
}

// Transformer keeps what podOf reads: a list of 5,000 pods would be large.
func (n *namespacedPods) Transformer() cache.TransformFunc {
	return func(in any) (any, error) {
		pod, ok := in.(*corev1.Pod)
		if !ok {
			return in, nil
		}
		slim := &corev1.Pod{Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName}, Status: corev1.PodStatus{Phase: pod.Status.Phase}}
		slim.Namespace, slim.Name, slim.ResourceVersion = pod.Namespace, pod.Name, pod.ResourceVersion
		slim.CreationTimestamp, slim.DeletionTimestamp = pod.CreationTimestamp, pod.DeletionTimestamp
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady {
				slim.Status.Conditions = []corev1.PodCondition{{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}}
			}
		}
		return slim, nil
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
		n.change(pod.Spec.NodeName, func() { delete(n.pods, podKey{pod.Namespace, pod.Name}) })
	}
	return nil
}

// change signals what concerns a reflector.
func (n *namespacedPods) change(node string, do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	do()
	if n.reflectors[node] {
		n.changed()
	}
}

// Replace implements cache.ReflectorStore.
func (n *namespacedPods) Replace(objects []any, _ string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	next := map[podKey]calicoPod{}
	for key, p := range n.pods {
		if key.namespace != n.namespace {
			next[key] = p
		}
	}
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			n.put(next, pod)
		}
	}
	n.pods, n.listed[n.namespace] = next, true
	n.settle()
	n.changed()
	return nil
}

// Resync implements cache.ReflectorStore. There is nothing to do.
func (n *namespacedPods) Resync() error { return nil }

var _ cache.TransformingStore = (*namespacedPods)(nil)
