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

// calicoNodeSelector matches calico-node's pods, whoever installs Calico: calico-node is the label of Calico alone, canal that of Canal as in
// rke2, and canal-node that of Canal in older kubespray.
const calicoNodeSelector = "k8s-app in (calico-node,canal,canal-node)"

// calicoNodeNamespaces are where Calico's manifests and its operator install calico-node. Elsewhere, anyone may run pods with the same label.
var calicoNodeNamespaces = []string{"kube-system", "calico-system"}

// calicoPods watches on which nodes calico-node's pods run and whether the pods are Ready. While the pods cannot be watched, no pod is known to
// be Ready, and pods that were failing before still count as failing for keepFailing.
type calicoPods struct {
	now     func() time.Time
	changed func()
	// settled is closed when the pods have been listed, or cannot be listed.
	settled chan struct{}
	once    sync.Once

	mu     sync.Mutex
	spaces []*namespacedPods
	// absentSince is when this process first saw that a node has no pod.
	absentSince map[string]time.Time
	// leftAt is when a pod was last removed from a node. If another pod is Ready
	// there, that proves nothing about the time before: anyone may have made that pod.
	leftAt map[string]time.Time
	// nodes are the names of the cluster's nodes, reflectors the names of the route reflectors. Changes of pods on reflectors are signalled.
	nodes, reflectors sets.Set[string]

	// configured is the backend in the ConfigMap of Calico's manifests, fromElsewhere until
	// the ConfigMap has been read. configuredAt is when the ConfigMap was last requested.
	config       typedv1.ConfigMapInterface
	configured   string
	configuredAt time.Time
}

// namespacedPods has the pods of one namespace. It is the cache.ReflectorStore of the watch of these pods.
type namespacedPods struct {
	*calicoPods
	api    typedv1.PodInterface
	listed bool
	// failing is when listing or watching the pods began to fail, zero while it succeeds.
	failing time.Time
	pods    map[string]calicoPod // by name
}

// calicoPod has what rrpool keeps of one pod.
type calicoPod struct {
	plan.CalicoNode
	daemonSet, node, backend string
	variables                map[string]string
	// changed is the latest time in the pod's status. The clocks of several machines set the times there.
	changed time.Time
}

const (
	// BackendVariable is calico-node's variable for the networking backend. BIRD runs unless its value is one of NoBIRD.
	BackendVariable = "CALICO_NETWORKING_BACKEND"
	// oldVariable overrides BackendVariable: with "false" BIRD does not run, with any other value it runs.
	oldVariable = "CALICO_NETWORKING"
	oldNone     = "none, as CALICO_NETWORKING is false"
	// inConfig stands for the backend that Calico's manifests keep in a ConfigMap: it is the ConfigMap's name and the key.
	inConfig = "calico-config/calico_backend"
	// fromElsewhere stands for a backend that is set by something that rrpool does not read.
	fromElsewhere = "?"
	// configAgain is how often the ConfigMap is read, until it says that BIRD runs.
	configAgain = time.Minute
)

// NoBIRD are the backends with which calico-node runs no BIRD.
var NoBIRD = sets.New("none", "vxlan", oldNone)

// Backend returns the variable that selects the networking backend, by the rules of rc.local in calico-node's image. If the variable has no
// value, the backend is the default, BIRD.
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

// backendOf returns the networking backend of a pod, "" for the default.
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

// routeVariables are the variables of calico-node that decide about routes. Those that
// begin with FELIX_ override FelixConfigurations, and Felix ignores case in their names.
var routeVariables = []string{programsVariable, wireguardVariable, wireguardVariable + "V6", podCIDRVariable}

const (
	programsVariable  = "FELIX_PROGRAMCLUSTERROUTES"
	wireguardVariable = "FELIX_WIREGUARDENABLED"
	// podCIDRVariable is true with the IPAM plugin host-local: nodes then announce their podCIDRs instead of BlockAffinities.
	podCIDRVariable = "USE_POD_CIDR"
)

// variablesOf returns the last value of each of the routeVariables that a pod sets. If envFrom or a mounted configuration file of Felix may set a
// variable, the value is a text that is invalid on purpose, because rrpool reads neither. The ConfigMap of Calico in envFrom has only the
// apiserver's address. A variable in env overrides both.
func variablesOf(pod *corev1.Pod) map[string]string {
	const elsewhere = "what sets it is not read by rrpool"
	out := map[string]string{}
	for _, container := range pod.Spec.Containers {
		file := slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool {
			return slices.Contains([]string{"/etc/calico/felix.cfg", "/etc/calico", "/etc"}, path.Clean(m.MountPath))
		})
		unread := slices.ContainsFunc(container.EnvFrom, func(from corev1.EnvFromSource) bool {
			return from.ConfigMapRef == nil || from.ConfigMapRef.Name != "kubernetes-services-endpoint"
		})
		for _, name := range routeVariables {
			if unread || file && name != podCIDRVariable {
				out[name] = elsewhere
			}
		}
		for _, variable := range container.Env {
			if name := strings.ToUpper(variable.Name); slices.Contains(routeVariables, name) {
				if out[name] = variable.Value; variable.ValueFrom != nil {
					out[name] = elsewhere
				}
			}
		}
	}
	return out
}

// withoutBIRD returns the backends as text if BIRD runs with none of them. If it is not known whether BIRD runs on any node, unknown says why.
// The BGP addresses of nodes do not prove that BIRD runs.
func (c *calicoPods) withoutBIRD(ctx context.Context, log logr.Logger, backends sets.Set[string]) (without, unknown string) {
	if backends.Len() == 0 {
		return "", fmt.Sprintf("no pod of calico-node is seen (%s, of a DaemonSet in the host's network, in %s)", calicoNodeSelector, strings.Join(calicoNodeNamespaces, " or "))
	}
	if backends.Has(inConfig) {
		backends.Delete(inConfig).Insert(c.backendInConfig(ctx, log))
	}
	if NoBIRD.IsSuperset(backends) {
		return strings.Join(sets.List(backends), ", "), ""
	}
	if NoBIRD.Clone().Insert(fromElsewhere).IsSuperset(backends) {
		return "", fmt.Sprintf("%s of calico-node's pods is in something that rrpool does not read", BackendVariable)
	}
	return "", ""
}

// backendInConfig returns the backend in the ConfigMap, fromElsewhere until the ConfigMap has been read. It holds no lock during the request, so
// that neither the watches nor other observers wait for the answer.
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
	c := &calicoPods{now: now, changed: changed, settled: make(chan struct{}), config: core.ConfigMaps("kube-system"), configured: fromElsewhere, leftAt: map[string]time.Time{}}
	for _, namespace := range calicoNodeNamespaces {
		c.spaces = append(c.spaces, &namespacedPods{calicoPods: c, api: core.Pods(namespace), pods: map[string]calicoPod{}})
	}
	return c, nil
}

// run watches the pods until ctx ends, and logs failures.
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

// keepFailing is how long failing pods still count as failing while they cannot be
// watched. A restart of the apiserver must not make the safety net count from zero.
const keepFailing = 5 * time.Minute

// running iterates over the pods whose nodes exist: a pod may name a node that does not.
func (c *calicoPods) running(yield func(calicoPod) bool) {
	for _, of := range c.spaces {
		for _, p := range of.pods {
			if c.nodes.Has(p.node) && !yield(p) {
				return
			}
		}
	}
}

// daemonSet returns calico-node's DaemonSet: the DaemonSet with pods on the most nodes. If another
// DaemonSet has pods on at least half as many nodes, it is not known which is calico-node's. This happens
// while Calico's operator takes over from manifests, or if a tenant's DaemonSet pretends to be calico-node.
func (c *calicoPods) daemonSet() (name string, known bool) {
	nodes := map[string]sets.Set[string]{}
	for p := range c.running {
		if nodes[p.daemonSet] == nil {
			nodes[p.daemonSet] = sets.Set[string]{}
		}
		nodes[p.daemonSet].Insert(p.node)
	}
	most, second := 0, 0
	for of, on := range nodes {
		if on.Len() > most {
			name, most, second = of, on.Len(), most
		} else {
			second = max(second, on.Len())
		}
	}
	return name, most > 2*second
}

// podView is what the pods of calico-node's DaemonSet show at one moment. If it is not known which DaemonSet that is, all pods count.
type podView struct {
	// states are the states of pods by node. They are nil if calico-node's DaemonSet is not known, as where calico-node does not run as a pod, or
	// if the pods' states are not known.
	states   map[string]plan.CalicoNode
	backends sets.Set[string]
	// variables are the routeVariables that any pod sets. If pods differ, the value is a text that is invalid on purpose.
	variables map[string]string
}

// look returns what the pods show now, and remembers which nodes exist and which of them are reflectors.
func (c *calicoPods) look(nodes []plan.Node) podView {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes, c.reflectors = sets.Set[string]{}, sets.Set[string]{}
	for _, n := range nodes {
		c.nodes.Insert(n.Name)
		if n.IsOurs() {
			c.reflectors.Insert(n.Name)
		}
	}
	out, states := podView{backends: sets.Set[string]{}}, map[string]plan.CalicoNode{}
	daemonSet, known := c.daemonSet()
	for p := range c.running {
		if p.daemonSet == daemonSet || !known {
			out.add(p)
		}
		if p.daemonSet == daemonSet {
			states[p.node] = mergeStates(p.CalicoNode, states[p.node], c.leftAt[p.node])
		} else if _, seen := states[p.node]; !seen {
			states[p.node] = plan.CalicoNode{} // a pod of another DaemonSet may be calico-node's: the state is unknown, not absent
		}
	}
	if known && !slices.ContainsFunc(c.spaces, (*namespacedPods).unknown) {
		out.states = c.complete(states, nodes)
	} else {
		c.absentSince = nil
	}
	return out
}

// add merges the backend and the variables of another pod into the view.
func (v *podView) add(p calicoPod) {
	v.backends.Insert(p.backend)
	if v.variables == nil {
		v.variables = maps.Clone(p.variables)
	}
	for _, name := range routeVariables {
		value, set := p.variables[name]
		if first, before := v.variables[name]; set != before || value != first {
			v.variables[name] = "it is not the same in all pods"
		}
	}
}

// unknown reports whether the pods have never been listed, or have not been watchable for keepFailing.
func (n *namespacedPods) unknown() bool {
	return !n.listed || !n.failing.IsZero() && n.now().Sub(n.failing) >= keepFailing
}

// complete adds the state Absent for nodes without a pod, and removes unknown states. While pods cannot be watched, no further node becomes
// Absent, and only failing states are kept.
func (c *calicoPods) complete(states map[string]plan.CalicoNode, nodes []plan.Node) map[string]plan.CalicoNode {
	watched := !slices.ContainsFunc(c.spaces, func(of *namespacedPods) bool { return !of.failing.IsZero() })
	absent := map[string]time.Time{}
	for _, n := range nodes {
		_, has := states[n.Name]
		since, seen := c.absentSince[n.Name]
		if has || !seen && !watched {
			continue
		}
		if !seen {
			since = c.now()
		}
		absent[n.Name] = since
		states[n.Name] = plan.CalicoNode{State: plan.CalicoNodeAbsent, Since: since}
	}
	c.absentSince = absent
	maps.DeleteFunc(states, func(_ string, is plan.CalicoNode) bool {
		return is.State == plan.CalicoNodeUnknown || !watched && !is.Failing()
	})
	return states
}

// settle closes settled once each namespace has been listed or cannot be listed.
func (c *calicoPods) settle() {
	if !slices.ContainsFunc(c.spaces, func(of *namespacedPods) bool { return !of.listed && of.failing.IsZero() }) {
		c.once.Do(func() { close(c.settled) })
	}
}

// mergeStates merges the states of two pods on a node, as while one replaces the other. The result is Ready if one pod is Ready. It begins at the
// latest change of either pod. If Ready, it begins no earlier than left, when a pod was removed from the node.
func mergeStates(a, b plan.CalicoNode, left time.Time) plan.CalicoNode {
	if b.State != plan.CalicoNodeReady {
		b.State = a.State
	}
	b.Since = slices.MaxFunc([]time.Time{a.Since, b.Since}, time.Time.Compare)
	if b.State == plan.CalicoNodeReady && left.After(b.Since) {
		b.Since = left
	}
	return b
}

// runsCalicoNode returns the UID of the DaemonSet to which a pod in the host's network belongs, and whether the pod runs on a node. An evicted
// pod no longer runs, but its object stays.
func runsCalicoNode(pod *corev1.Pod) (daemonSet string, is bool) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "DaemonSet" || !strings.HasPrefix(owner.APIVersion, "apps/") || !pod.Spec.HostNetwork {
		return "", false
	}
	return string(owner.UID), pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded
}

// put keeps a pod, or removes a pod that does not run calico-node. If a known pod changes, its state begins when the change arrives, because the
// clock of its node may be wrong. If the pod is new to us, its state begins at the time in its status, unless that is in the future.
func (n *namespacedPods) put(pods map[string]calicoPod, pod *corev1.Pod) {
	daemonSet, is := runsCalicoNode(pod)
	if !is {
		n.remove(pods, pod.Name)
		return
	}
	state := stateOf(pod)
	p := calicoPod{state, pod.Namespace + "/" + daemonSet, pod.Spec.NodeName, backendOf(pod), variablesOf(pod), state.Since}
	old, had := n.pods[pod.Name]
	switch now := n.now(); {
	case had && old.node == p.node && old.State == p.State && old.changed.Equal(p.changed):
		p.Since = old.Since
	case had || p.Since.After(now):
		p.Since = now
	}
	pods[pod.Name] = p
}

// remove forgets a pod, and remembers when it left its node. The caller holds the lock.
func (n *namespacedPods) remove(pods map[string]calicoPod, name string) {
	if p, there := n.pods[name]; there {
		n.leftAt[p.node] = n.now()
	}
	delete(pods, name)
}

// stateOf returns the state of one pod. When a container ends or starts, the
// state begins anew, because earlier reports of calico-node are then out of date.
func stateOf(pod *corev1.Pod) plan.CalicoNode {
	out := plan.CalicoNode{State: plan.CalicoNodeNotReady, Since: pod.CreationTimestamp.Time}
	if pod.DeletionTimestamp != nil {
		out.Since = pod.DeletionTimestamp.Time // the end of its grace period
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

// fail notes when listing or watching the pods began to fail. Replace clears that time after a successful list.
func (n *namespacedPods) fail(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsInvalid(err) {
		return // not a failure of the API: the reflector lists the pods again at once
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failing.IsZero() {
		n.failing = n.now()
		n.changed()
	}
	n.settle()
}

// mustList reports whether the pods must be listed before they are watched. After a failure, the events of a watch may be old.
func (n *namespacedPods) mustList() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.failing.IsZero()
}

// Transformer implements cache.TransformingStore. It removes the fields that put does not read: a list of 5,000 pods would be large.
func (n *namespacedPods) Transformer() cache.TransformFunc {
	return func(in any) (any, error) {
		if pod, ok := in.(*corev1.Pod); ok {
			pod.Labels, pod.Annotations, pod.ManagedFields = nil, nil, nil
			env := []corev1.EnvVar{{Name: BackendVariable, Value: backendOf(pod)}}
			for name, value := range variablesOf(pod) {
				env = append(env, corev1.EnvVar{Name: name, Value: value})
			}
			pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName, HostNetwork: pod.Spec.HostNetwork, Containers: []corev1.Container{{Env: env}}}
			pod.Status = corev1.PodStatus{Phase: pod.Status.Phase, Conditions: pod.Status.Conditions, ContainerStatuses: pod.Status.ContainerStatuses}
		}
		return in, nil
	}
}

// Add implements cache.ReflectorStore.
func (n *namespacedPods) Add(object any) error { return n.Update(object) }

// Update implements cache.ReflectorStore.
func (n *namespacedPods) Update(object any) error {
	n.change(object, func(pod *corev1.Pod) { n.put(n.pods, pod) })
	return nil
}

// Delete implements cache.ReflectorStore.
func (n *namespacedPods) Delete(object any) error {
	n.change(object, func(pod *corev1.Pod) { n.remove(n.pods, pod.Name) })
	return nil
}

// change updates what is known of a pod by calling do, and signals a change if the pod's node is a reflector.
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
	for name, p := range n.pods {
		if next[name].node != p.node {
			n.leftAt[p.node] = n.now()
		}
	}
	n.pods, n.listed, n.failing = next, true, time.Time{}
	n.settle()
	n.changed()
	return nil
}

// Resync implements cache.ReflectorStore.
func (n *namespacedPods) Resync() error { return nil }

var _ cache.TransformingStore = (*namespacedPods)(nil)
