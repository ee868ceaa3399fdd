package importenv

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/projectcalico/api/pkg/lib/numorstring"
	"github.com/projectcalico/calico/libcalico-go/lib/selector"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/workload"
)

// looker reads a cluster.
type looker struct {
	c      *cluster.Connection
	any    dynamic.Interface
	found  *Found
	remote []corev1.Node
	// outside are the BGPPeers to routers that are no nodes.
	outside []outside
}

// outside is a BGPPeer of one node, or of those that a selector matches.
type outside struct{ node, selector string }

func (o outside) matches(n *corev1.Node) bool {
	if o.node != "" {
		return o.node == n.Name
	}
	parsed, err := selector.Parse(o.selector)
	return err == nil && parsed.Evaluate(n.Labels)
}

// Look reads what the steps depend on. What is not needed for them may be forbidden.
func Look(ctx context.Context, c *cluster.Connection) (*Found, error) {
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster of context %q: %w", c.Name, err)
	}
	l := &looker{c: c, any: client, found: &Found{Label: oldNodeLabel, ASN: 64512, Mesh: true}}
	for _, part := range []func(context.Context) error{l.readNodes, l.readPeers, l.readConfig, l.readOperators, l.settleNodes, l.readRest} {
		if err := part(ctx); err != nil {
			return nil, err
		}
	}
	return l.found, nil
}

func (l *looker) readNodes(ctx context.Context) error {
	var err error
	l.remote, err = nodesOf(ctx, l.c)
	return err
}

// list gives all objects of a kind. Each page may take as long as any request.
func (l *looker) list(ctx context.Context, resource schema.GroupVersionResource) ([]unstructured.Unstructured, error) {
	var out []unstructured.Unstructured
	options := metav1.ListOptions{Limit: page}
	for {
		list, err := l.any.Resource(resource).List(ctx, options)
		if err != nil {
			return nil, l.explain(err, "list", resource)
		}
		out = append(out, list.Items...)
		if options.Continue = list.GetContinue(); options.Continue == "" {
			slices.SortFunc(out, func(a, b unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
			return out, nil
		}
	}
}

func (l *looker) readPeers(ctx context.Context) error {
	peers, err := l.list(ctx, calico("bgppeers"))
	if err != nil {
		return err
	}
	for i := range peers {
		l.sortPeer(&peers[i])
	}
	return nil
}

func (l *looker) sortPeer(peer *unstructured.Unstructured) {
	f, name := l.found, peer.GetName()
	spec := func(field string) string {
		text, _, _ := unstructured.NestedString(peer.Object, "spec", field)
		return text
	}
	switch {
	case name == reflectorsPeer:
		if key, ok := strings.CutPrefix(strings.TrimSuffix(spec("peerSelector"), ")"), "has("); ok {
			f.Label = key
		}
		f.Peers = append(f.Peers, name)
	case strings.HasPrefix(name, clientPrefix):
		f.Peers = append(f.Peers, name)
		if name == clientsPeer {
			f.ClientsSelector = spec("nodeSelector")
		}
		f.Multi = f.Multi || name != clientsPeer
	case strings.HasPrefix(name, helperPrefix):
		f.Ours = append(f.Ours, name)
	case peer.GetLabels()[v1alpha1.ManagedByLabel] == v1alpha1.ManagedByValue, strings.Contains(peer.GetAnnotations()["projectcalico.org/metadata"], `"`+v1alpha1.ManagedByValue+`"`):
	case spec("peerSelector") != "" || l.isNode(spec("peerIP")):
		f.Others = append(f.Others, name)
	default:
		l.outside = append(l.outside, outside{spec("node"), spec("nodeSelector")})
	}
}

// isNode reports whether a peerIP is the address of a node.
func (l *looker) isNode(peerIP string) bool {
	addr, err := netip.ParseAddr(peerIP)
	if with, bad := netip.ParseAddrPort(peerIP); bad == nil {
		addr, err = with.Addr(), nil
	}
	return err == nil && slices.ContainsFunc(l.remote, func(n corev1.Node) bool {
		return addressOf(&n, addrAnnotation) == addr.String() || addressOf(&n, addr6Annotation) == addr.String()
	})
}

func addressOf(n *corev1.Node, annotation string) string {
	address, _, _ := strings.Cut(n.Annotations[annotation], "/")
	return address
}

func (l *looker) readConfig(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.c.Timeout)
	defer cancel()
	config, err := l.any.Resource(calico("bgpconfigurations")).Get(ctx, "default", metav1.GetOptions{})
	switch {
	case cluster.IsMissing(err):
		return nil
	case err != nil:
		return l.explain(err, "get", calico("bgpconfigurations"))
	}
	if on, ok, _ := unstructured.NestedBool(config.Object, "spec", "nodeToNodeMeshEnabled"); ok {
		l.found.Mesh = on
	}
	if asn, ok, _ := unstructured.NestedInt64(config.Object, "spec", "asNumber"); ok && asn > 0 && asn < 1<<32 {
		l.found.ASN = uint32(asn)
	}
	return nil
}

func (l *looker) readOperators(ctx context.Context) error {
	found, err := operatorsOf(ctx, l.c)
	if err != nil {
		l.miss(ctx, "the operator's Deployment", err)
		return interrupted(ctx)
	}
	for i := range found {
		object := &found[i]
		o := Operator{Namespace: object.Namespace, Name: object.Name, Wanted: 1, Running: object.Status.Replicas}
		if object.Spec.Replicas != nil {
			o.Wanted = *object.Spec.Replicas
		}
		o.Settings = len(candidates(found[i:i+1])) > 0
		l.found.Operators = append(l.found.Operators, o)
		l.found.Leftovers = append(l.found.Leftovers, fmt.Sprintf("--namespace %s deployment %s", object.Namespace, object.Name))
		l.learnLabel(object)
	}
	return nil
}

// learnLabel: the Deployment knows the label where no BGPPeer does.
func (l *looker) learnLabel(object *appsv1.Deployment) {
	if slices.Contains(l.found.Peers, reflectorsPeer) {
		return
	}
	for _, v := range candidates([]appsv1.Deployment{*object}) {
		if text, ok := v.value(nodeLabel); ok {
			l.found.Label, _, _ = strings.Cut(text, "=")
		}
	}
}

// settleNodes needs the label.
func (l *looker) settleNodes(ctx context.Context) error {
	var names []string
	for i := range l.remote {
		n := nodeOf(&l.remote[i], l.found.Label)
		if n.Address == "" {
			continue
		}
		names = append(names, n.Name)
		for _, o := range l.outside {
			switch {
			case o == outside{}:
				n.Global++
			case o.matches(&l.remote[i]):
				n.Outside++
			}
		}
		if n.ASN == 0 {
			n.ASN = l.found.ASN
		}
		l.found.Nodes = append(l.found.Nodes, n)
	}
	if len(names) == 0 {
		return errNoNodes
	}
	slices.SortFunc(l.found.Nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	counts, err := l.count(ctx, names)
	if err != nil {
		l.miss(ctx, "how many pods each node has, so all count as busy", l.c.Explain(err, "list", "pods"))
		return interrupted(ctx)
	}
	for i := range l.found.Nodes {
		l.found.Nodes[i].Pods = counts[l.found.Nodes[i].Name]
	}
	return nil
}

func nodeOf(object *corev1.Node, key string) Node {
	n := Node{Name: object.Name, Address: addressOf(object, addrAnnotation), Address6: addressOf(object, addr6Annotation), ClusterID: object.Annotations[idAnnotation], Pods: -1}
	_, n.Role = object.Labels[key]
	_, n.Marked = object.Annotations[markAnnotation]
	_, n.Helper = object.Labels[helperLabel]
	n.Ready = slices.ContainsFunc(object.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	if asn, err := numorstring.ASNumberFromString(object.Annotations[asnAnnotation]); err == nil {
		n.ASN = uint32(asn)
	}
	return n
}

func (l *looker) count(ctx context.Context, names []string) (map[string]int, error) {
	web, err := rest.HTTPClientFor(l.c.Config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster's pods: %w", err)
	}
	pods, err := workload.New(workload.Config{RestConfig: l.c.Config, HTTPClient: web})
	if err != nil {
		return nil, err
	}
	return pods.Count(ctx, names)
}
