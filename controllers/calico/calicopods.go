package calico

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
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
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/controllers/plan"
)

// calicoNodeSelector finds calico-node's pods, whoever installs Calico: alone, or as Canal, by rke2 and others, or as kubespray had it.
const calicoNodeSelector = "k8s-app in (calico-node,canal,canal-node)"

// calicoNodeNamespaces are where Calico's manifests and its operator install calico-node.
// Pods elsewhere may carry the label by anyone's will and say nothing.
var calicoNodeNamespaces = []string{"kube-system", "calico-system"}

// calicoPods keeps of calico-node's pods which nodes they run on and whether they are Ready. While they cannot be
// watched, none is known to be Ready; those that were failing are not forgotten for a while.
type calicoPods struct {
	now     func() time.Time
	changed func()
	// settled is closed when the pods are listed, or are known not to be listable.
	settled chan struct{}
	once    sync.Once

	mu     sync.Mutex
	spaces []*namespacedPods
	// absent is when this process first saw that a node has no pod.
	absent map[string]time.Time
	// left is when the last pod went from a node: another that is Ready there may be anyone's, and says nothing of the time before.
	left map[string]time.Time
	// nodes are those that there are, reflectors those whose pods are worth a signal.
	nodes, reflectors sets.Set[string]

	// configured is the backend in the ConfigMap of Calico's manifests, fromElsewhere until it is read, configuredAt when that was
	// asked for last.
	config       typedv1.ConfigMapInterface
	configured   string
	configuredAt time.Time
}

// namespacedPods are those of one namespace. It is the cache.ReflectorStore of their watch, with Add, Update, Delete, Replace and Resync.
type namespacedPods struct {
	*calicoPods
	api    typedv1.PodInterface
	listed bool
	// failing is since when the pods cannot be watched, zero when they can.
	failing time.Time
	pods    map[string]calicoPod // by name
}

// calicoPod is what matters of one pod.
type calicoPod struct {
	plan.CalicoNode
	daemonSet, node, backend string
	felix                    map[string]string
	// changed is when the pod changed last by its own word, from several clocks.
	changed time.Time
}

const (
	// BackendVariable tells calico-node's container who makes routes: BIRD, unless its value is one of NoBIRD.
	BackendVariable = "CALICO_NETWORKING_BACKEND"
	// oldVariable comes before it where it has a value: with "false" there is no BIRD.
	oldVariable = "CALICO_NETWORKING"
	oldNone     = "none, as CALICO_NETWORKING is false"
	// inConfig stands for a backend that is in a ConfigMap, as Calico's manifests have it: its name and the key.
	inConfig = "calico-config/calico_backend"
	// configAgain is how often the ConfigMap is read, until it says that BIRD runs.
	configAgain = time.Minute
)

// NoBIRD are the backends without BIRD.
var NoBIRD = sets.New("none", "vxlan", oldNone)

// fromElsewhere begins a backend that cannot be seen: it is in something that is not read.
const fromElsewhere = "?"

// Backend gives the variable that tells calico-node's containers who makes routes, as rc.local in its image reads them. Without a value it is
// the default, BIRD; a value of NoBIRD says that there is none.
func Backend(containers []corev1.Container) corev1.EnvVar {
	env := map[string]corev1.EnvVar{}
	for _, container := range containers {
		for _, variable := range container.Env {
			env[variable.Name] = variable
		}
	}
	switch old := env[oldVariable]; {
	case old.ValueFrom != nil:
		return old
	case old.Value == "false":
		return corev1.EnvVar{Name: oldVariable, Value: oldNone}
	case old.Value != "":
		return corev1.EnvVar{Name: oldVariable, Value: "bird"}
	}
	variable := env[BackendVariable]
	variable.Name = BackendVariable
	return variable
}

// backendOf gives the networking backend of a pod, "" where it is the default.
func backendOf(pod *corev1.Pod) string {
	variable := Backend(pod.Spec.Containers)
	switch from := variable.ValueFrom; {
	case from == nil:
		return variable.Value
	case variable.Name == BackendVariable && from.ConfigMapKeyRef != nil && from.ConfigMapKeyRef.Name+"/"+from.ConfigMapKeyRef.Key == inConfig:
		return inConfig
	}
	return fromElsewhere
}

// felixVariables are those of calico-node that come before what FelixConfigurations say of routes, of which Felix reads the names in any case,
// and podCIDRVariable.
var felixVariables = []string{programsVariable, wireguardVariable, wireguardVariable + "V6", podCIDRVariable}

const (
	programsVariable  = "FELIX_PROGRAMCLUSTERROUTES"
	wireguardVariable = "FELIX_WIREGUARDENABLED"
	// podCIDRVariable: the IPAM is host-local, and nodes announce their podCIDRs, no BlockAffinities.
	podCIDRVariable = "USE_POD_CIDR"
)

// felixOf gives those that are set in a pod, of several the last. Of ConfigMaps as a whole, Calico's own has the apiserver's address only.
// Felix's file comes after the variables and before FelixConfigurations; the one in the image says nothing of routes.
func felixOf(pod *corev1.Pod) map[string]string {
	const elsewhere = "what sets it is not read by rrpool"
	out := map[string]string{}
	for _, container := range pod.Spec.Containers {
		file := slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool {
			return slices.Contains([]string{"/etc/calico/felix.cfg", "/etc/calico", "/etc"}, path.Clean(m.MountPath))
		})
		unread := slices.ContainsFunc(container.EnvFrom, func(from corev1.EnvFromSource) bool {
			return from.ConfigMapRef == nil || from.ConfigMapRef.Name != "kubernetes-services-endpoint"
		})
		for _, name := range felixVariables {
			if unread || file && name != podCIDRVariable {
				out[name] = elsewhere
			}
		}
		for _, variable := range container.Env {
			if name := strings.ToUpper(variable.Name); slices.Contains(felixVariables, name) {
				if out[name] = variable.Value; variable.ValueFrom != nil {
					out[name] = elsewhere
				}
			}
		}
	}
	return out
}

// felix gives what all of calico-node's pods set.
func (c *calicoPods) felix() (out map[string]string) {
	for p := range c.calicoNodes {
		if out == nil {
			out = maps.Clone(p.felix)
		}
		for _, name := range felixVariables {
			value, set := p.felix[name]
			if first, before := out[name]; set != before || value != first {
				out[name] = "it is not the same in all pods"
			}
		}
	}
	return out
}

// backends says where none of calico-node's pods runs BIRD, by their backends, and why it is not known whether one does, "" for neither.
// Nodes have BGP addresses all the same.
func (c *calicoPods) backends(ctx context.Context, log logr.Logger) (withoutBIRD, unknown string) {
	seen := sets.Set[string]{}
	for p := range c.calicoNodes {
		seen.Insert(p.backend)
	}
	if seen.Len() == 0 {
		return "", fmt.Sprintf("no pod of calico-node is seen (%s, of a DaemonSet in the host's network, in %s)", calicoNodeSelector, strings.Join(calicoNodeNamespaces, " or "))
	}
	if seen.Has(inConfig) {
		seen.Delete(inConfig).Insert(c.backendInConfig(ctx, log))
	}
	if NoBIRD.IsSuperset(seen) {
		return strings.Join(sets.List(seen), ", "), ""
	}
	if NoBIRD.Clone().Insert(fromElsewhere).IsSuperset(seen) {
		return "", fmt.Sprintf("%s of calico-node's pods is in something that rrpool does not read", BackendVariable)
	}
	return "", ""
}

// backendInConfig is the one in the ConfigMap, fromElsewhere until it could be read. It asks without the lock: the watches of
// pods, and others that observe, do not wait for an answer.
func (c *calicoPods) backendInConfig(ctx context.Context, log logr.Logger) string {
	c.mu.Lock()
	known := c.configured
	due := (known == fromElsewhere || NoBIRD.Has(known)) && c.now().Sub(c.configuredAt) >= configAgain
	if due {
		c.configuredAt = c.now()
	}
	c.mu.Unlock()
	if !due {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // the safety net waits meanwhile
	defer cancel()
	found, err := c.config.Get(ctx, "calico-config", metav1.GetOptions{})
	if err != nil {
		log.Error(err, "whether calico-node runs BIRD is not known")
		return known
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.configured = found.Data["calico_backend"]
	return c.configured
}

func newCalicoPods(cfg *rest.Config, now func() time.Time, changed func()) (*calicoPods, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	core, err := typedv1.NewForConfig(cfg)
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller wraps
	}
	c := &calicoPods{now: now, changed: changed, settled: make(chan struct{}), config: core.ConfigMaps("kube-system"), configured: fromElsewhere, left: map[string]time.Time{}}
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

// keepFailing is how long failing pods stay so while they cannot be watched: an apiserver
// that restarts must not make the safety net wait anew.
const keepFailing = 5 * time.Minute

// running are the pods on nodes that there are: a pod may name any.
func (c *calicoPods) running(yield func(calicoPod) bool) {
	for _, of := range c.spaces {
		for _, p := range of.pods {
			if c.nodes.Has(p.node) && !yield(p) {
				return
			}
		}
	}
}

// calicoNodes are those of calico-node's DaemonSet, all where that is not known.
func (c *calicoPods) calicoNodes(yield func(calicoPod) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	main, one := c.daemonSet()
	for p := range c.running {
		if (!one || p.daemonSet == main) && !yield(p) {
			return
		}
	}
}

// daemonSet is calico-node's: the one whose pods are on the most nodes. Where another is on half as many, as while
// Calico's operator takes over from manifests, or where a tenant's pretends to be calico-node, none is known to be.
func (c *calicoPods) daemonSet() (string, bool) {
	nodes := map[string]sets.Set[string]{}
	for p := range c.running {
		if nodes[p.daemonSet] == nil {
			nodes[p.daemonSet] = sets.Set[string]{}
		}
		nodes[p.daemonSet].Insert(p.node)
	}
	first, most, second := "", 0, 0
	for name, on := range nodes {
		if on.Len() > most {
			first, most, second = name, on.Len(), most
		} else {
			second = max(second, on.Len())
		}
	}
	return first, most > 2*second
}

// on gives what the pods show of calico-node on these nodes, and takes note of which of
// them are reflectors. Where there are no pods at all, calico-node is no pod, or Calico's
// own installation is gone with all of them, or where it is not known which are its own, nothing is known.
func (c *calicoPods) on(nodes []plan.Node) map[string]plan.CalicoNode {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes, c.reflectors = sets.Set[string]{}, sets.Set[string]{}
	for _, n := range nodes {
		c.nodes.Insert(n.Name)
		if n.IsOurs() {
			c.reflectors.Insert(n.Name)
		}
	}
	out, watched := map[string]plan.CalicoNode{}, true
	main, known := c.daemonSet()
	for _, of := range c.spaces {
		watched = watched && of.failing.IsZero()
		if of.unknown() {
			c.absent = nil
			return nil
		}
		for _, p := range of.pods {
			if shows := p.of(main); shows.State != plan.CalicoNodeUnknown {
				out[p.node] = together(shows, out[p.node], c.left[p.node])
			} else if _, has := out[p.node]; !has {
				out[p.node] = shows
			}
		}
	}
	if !known {
		c.absent = nil
		return nil
	}
	c.addAbsent(out, nodes, watched)
	maps.DeleteFunc(out, func(_ string, is plan.CalicoNode) bool {
		return is.State == plan.CalicoNodeUnknown || !watched && !is.Failing()
	})
	return out
}

// of is what the pod shows where this DaemonSet is calico-node's: of another's nothing, not even that the node has none.
func (p calicoPod) of(daemonSet string) plan.CalicoNode {
	if p.daemonSet != daemonSet {
		return plan.CalicoNode{}
	}
	return p.CalicoNode
}

// unknown: nothing has been listed, or nothing can be watched for longer than is overlooked.
func (n *namespacedPods) unknown() bool {
	return !n.listed || !n.failing.IsZero() && n.now().Sub(n.failing) >= keepFailing
}

// addAbsent adds the nodes that have no pod. While pods cannot be watched, none is newly so.
func (c *calicoPods) addAbsent(out map[string]plan.CalicoNode, nodes []plan.Node, watched bool) {
	absent := map[string]time.Time{}
	for _, n := range nodes {
		_, has := out[n.Name]
		since, seen := c.absent[n.Name]
		if has || !seen && !watched {
			continue
		}
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
	if !slices.ContainsFunc(c.spaces, func(of *namespacedPods) bool { return !of.listed && of.failing.IsZero() }) {
		c.once.Do(func() { close(c.settled) })
	}
}

// together is what two pods on a node show, as while one takes over from another: one that is Ready counts, since the last change of any,
// also of one that went.
func together(a, b plan.CalicoNode, left time.Time) plan.CalicoNode {
	if b.State != plan.CalicoNodeReady {
		b.State = a.State
	}
	b.Since = slices.MaxFunc([]time.Time{a.Since, b.Since}, time.Time.Compare)
	if b.State == plan.CalicoNodeReady && left.After(b.Since) {
		b.Since = left
	}
	return b
}

// put takes in a pod, but for one that does not run on any node, has ended as an evicted
// one has, or is not of a DaemonSet in the host's network, as anyone's may be. What we see change changes now, whatever the clock of its node says; what was
// there before us cannot have changed later than that.
func (n *namespacedPods) put(pods map[string]calicoPod, pod *corev1.Pod) {
	owner := metav1.GetControllerOf(pod)
	ours := pod.Spec.HostNetwork && owner != nil && owner.Kind == "DaemonSet" && strings.HasPrefix(owner.APIVersion, "apps/")
	if !ours || pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		n.gone(pod.Name)
		delete(pods, pod.Name)
		return
	}
	state := stateOf(pod)
	p := calicoPod{state, pod.Namespace + "/" + string(owner.UID), pod.Spec.NodeName, backendOf(pod), felixOf(pod), state.Since}
	old, had := n.pods[pod.Name]
	switch now := n.now(); {
	case had && old.node == p.node && old.State == p.State && old.changed.Equal(p.changed):
		p.Since = old.Since
	case had || p.Since.After(now):
		p.Since = now
	}
	pods[pod.Name] = p
}

// stateOf is what one pod shows. A container that ends or starts begins its state anew:
// what it has reported before says nothing any more.
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
	for _, container := range pod.Status.ContainerStatuses {
		if ended := cmp.Or(container.State.Terminated, container.LastTerminationState.Terminated); ended != nil && ended.FinishedAt.After(out.Since) {
			out.Since = ended.FinishedAt.Time
		}
		if began := container.State.Running; began != nil && began.StartedAt.After(out.Since) {
			out.Since = began.StartedAt.Time
		}
	}
	return out
}

func (n *namespacedPods) listWatch() *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = calicoNodeSelector
			list, err := n.api.List(ctx, options)
			n.fail(ctx, err)
			return list, err //nolint:wrapcheck // the reflector looks at the error's type
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = calicoNodeSelector
			if !ptr.Deref(options.SendInitialEvents, false) && n.mustList() {
				return nil, apierrors.NewResourceExpired("the watch was interrupted")
			}
			w, err := n.api.Watch(ctx, options)
			n.fail(ctx, err)
			return w, err //nolint:wrapcheck // the reflector looks at the error's type
		},
	}
}

// fail takes down since when the pods cannot be listed or watched. They can again when a
// list has arrived: see Replace.
func (n *namespacedPods) fail(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsInvalid(err) {
		return // it is listed anew at once
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failing.IsZero() {
		n.failing = n.now()
		n.changed()
	}
	n.settle()
}

// mustList: after a failure what a watch brings may have happened long ago.
func (n *namespacedPods) mustList() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.failing.IsZero()
}

// Transformer keeps what put reads: a list of 5,000 pods would be large.
func (n *namespacedPods) Transformer() cache.TransformFunc {
	return func(in any) (any, error) {
		if pod, ok := in.(*corev1.Pod); ok {
			pod.Labels, pod.Annotations, pod.ManagedFields = nil, nil, nil
			env := []corev1.EnvVar{{Name: BackendVariable, Value: backendOf(pod)}}
			for name, value := range felixOf(pod) {
				env = append(env, corev1.EnvVar{Name: name, Value: value})
			}
			pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName, HostNetwork: pod.Spec.HostNetwork, Containers: []corev1.Container{{Env: env}}}
			pod.Status = corev1.PodStatus{Phase: pod.Status.Phase, Conditions: pod.Status.Conditions, ContainerStatuses: pod.Status.ContainerStatuses}
		}
		return in, nil
	}
}

func (n *namespacedPods) Add(object any) error { return n.Update(object) }

func (n *namespacedPods) Update(object any) error {
	n.change(object, func(pod *corev1.Pod) { n.put(n.pods, pod) })
	return nil
}

func (n *namespacedPods) Delete(object any) error {
	n.change(object, func(pod *corev1.Pod) {
		n.gone(pod.Name)
		delete(n.pods, pod.Name)
	})
	return nil
}

// change signals what concerns a reflector.
func (n *namespacedPods) change(object any, do func(*corev1.Pod)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if pod, ok := object.(*corev1.Pod); ok {
		do(pod)
		if n.reflectors.Has(pod.Spec.NodeName) {
			n.changed()
		}
	}
}

func (n *namespacedPods) Replace(objects []any, _ string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	next := map[string]calicoPod{}
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			n.put(next, pod)
		}
	}
	for name, p := range n.pods {
		if next[name].node != p.node {
			n.gone(name)
		}
	}
	n.pods, n.listed, n.failing = next, true, time.Time{}
	n.settle()
	n.changed()
	return nil
}

// gone takes down that a pod goes from its node. The caller holds the lock.
func (n *namespacedPods) gone(name string) {
	if p, there := n.pods[name]; there {
		n.left[p.node] = n.now()
	}
}

// Resync has nothing to do.
func (n *namespacedPods) Resync() error { return nil }

var _ cache.TransformingStore = (*namespacedPods)(nil)
