package calico

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	libapiv3 "github.com/projectcalico/calico/libcalico-go/lib/apis/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
)

// With Calico's own etcd, each node has two objects. Calico's Node has the role label and the cluster ID, which
// Calico reads, and our mark of the role, so that all three are one write. The Kubernetes Node has the pool
// label and the cordon. Calico's kube-controllers copies labels from the Kubernetes Node to Calico's. So the
// role label is never written to the Kubernetes Node: after its removal from Calico's Node, it would come back.

// oldestInEtcd is the oldest Calico that was tested with its own etcd. If Calico is too old to have a field, an apiserver drops the field, which
// rrpool notices. etcd keeps the field, so rrpool does not notice.
var oldestInEtcd = version.MustParseGeneric("3.31.0")

// tooOldForEtcd returns the problem of a Calico older than oldestInEtcd, nil for none.
func tooOldForEtcd(calico string) *plan.Problem {
	if v, err := version.ParseGeneric(calico); err != nil || v.AtLeast(oldestInEtcd) {
		return nil
	}
	return plan.Problemf(reason.CalicoTooOld, "Calico is %s (calicoVersion of ClusterInformation %q), and with an etcd of its own rrpool needs %s or later: upgrade Calico, "+
		"or move its objects into the apiserver (rrpool rollback first, then calicoctl datastore migrate)", plan.Plain(calico, longestID), defaultConfig, oldestInEtcd)
}

// join maps Kubernetes Nodes to Calico's Nodes. It is nil with the Kubernetes datastore, where they are the same objects.
type join struct {
	// of maps names of Kubernetes Nodes to Calico's Nodes, and kube names of Calico's Nodes to names of Kubernetes Nodes.
	of   map[string]*libapiv3.Node
	kube map[string]string
	// known has all Kubernetes Nodes by name.
	known map[string]*corev1.Node
	// problem is why some of Calico's Nodes could not be joined, "" where all are.
	problem string
}

// joinNodes joins by spec.orchRefs of Calico's Nodes. A Calico Node without a reference is joined with
// the Kubernetes Node of the same name, else with the only Kubernetes Node that has its address. A Calico
// Node that refers to a node which no longer exists is ignored: Calico's kube-controllers deletes it.
func joinNodes(nodes []corev1.Node, calico map[string]*libapiv3.Node) *join {
	out := &join{of: map[string]*libapiv3.Node{}, kube: map[string]string{}, known: map[string]*corev1.Node{}}
	byAddress := map[netip.Addr][]string{}
	for i := range nodes {
		n := &nodes[i]
		out.known[n.Name] = n
		for _, addr := range internalAddresses(n) {
			byAddress[addr] = append(byAddress[addr], n.Name)
		}
	}
	rest, duplicates := out.joinByReference(calico)
	rest = out.joinBy(rest, func(n *libapiv3.Node) []string { return []string{n.Name} })
	rest = out.joinBy(rest, func(n *libapiv3.Node) (names []string) {
		for _, addr := range bgpAddresses(n) {
			names = append(names, byAddress[addr]...)
		}
		slices.Sort(names)
		return slices.Compact(names)
	})
	for name, n := range out.of {
		out.kube[n.Name] = name
	}
	var unmatched []string
	for _, n := range rest {
		if n.Spec.BGP != nil {
			unmatched = append(unmatched, n.Name)
		}
	}
	switch {
	case len(duplicates) > 0:
		out.problem = fmt.Sprintf("two of Calico's Nodes stand for one node of Kubernetes (%s): delete the one that is left over (calicoctl delete node NAME)", plan.Few(duplicates))
	case len(unmatched) > 0:
		out.problem = fmt.Sprintf("of Calico's Nodes, no node of Kubernetes is %s (spec.orchRefs, else the name, else the address): a host that is no node of Kubernetes "+
			"cannot be seen to have its sessions; delete those that are left over (calicoctl delete node NAME)", plan.Few(unmatched))
	}
	return out
}

// problems returns why nothing may be changed with an etcd of Calico's own.
func (j *join) problems(calico string) (out []plan.Problem) {
	if j == nil {
		return nil
	}
	if p := tooOldForEtcd(calico); p != nil {
		out = append(out, *p)
	}
	if j.problem != "" {
		out = append(out, plan.Problem{Reason: reason.NodesNotJoined, Message: j.problem})
	}
	return out
}

// joinByReference joins by spec.orchRefs, and returns the Nodes without a reference as rest. If two Nodes refer to the same Kubernetes Node, it
// joins the Node that has the Kubernetes Node's address, and returns the pair in duplicates.
func (j *join) joinByReference(calico map[string]*libapiv3.Node) (rest []*libapiv3.Node, duplicates []string) {
	for _, name := range slices.Sorted(maps.Keys(calico)) {
		n, of := calico[name], kubeNodeOf(calico[name])
		if of == "" {
			rest = append(rest, n)
			continue
		}
		other := j.of[of]
		switch {
		case j.known[of] == nil, other != nil && n.Spec.BGP == nil:
			continue
		case other != nil && other.Spec.BGP != nil:
			duplicates = append(duplicates, name+" and "+other.Name)
			if hasAddressOf(other, j.known[of]) {
				continue
			}
		}
		j.of[of] = n
	}
	return rest, duplicates
}

// joinBy joins a Node if namesOf returns exactly one name for it, and the Kubernetes
// Node of that name exists and is not joined yet. It returns the other Nodes.
func (j *join) joinBy(nodes []*libapiv3.Node, namesOf func(*libapiv3.Node) []string) (rest []*libapiv3.Node) {
	for _, n := range nodes {
		if names := namesOf(n); len(names) == 1 && j.known[names[0]] != nil && j.of[names[0]] == nil {
			j.of[names[0]] = n
		} else {
			rest = append(rest, n)
		}
	}
	return rest
}

func internalAddresses(n *corev1.Node) (out []netip.Addr) {
	for _, a := range n.Status.Addresses {
		if addr, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			out = append(out, addr.Unmap())
		}
	}
	return out
}

func bgpAddresses(n *libapiv3.Node) (out []netip.Addr) {
	bgp := ptr.Deref(n.Spec.BGP, libapiv3.NodeBGPSpec{})
	for _, text := range []string{bgp.IPv4Address, bgp.IPv6Address} {
		if addr, ok := parseAddress(text); ok {
			out = append(out, addr)
		}
	}
	return out
}

func hasAddressOf(n *libapiv3.Node, kube *corev1.Node) bool {
	return slices.ContainsFunc(internalAddresses(kube), func(a netip.Addr) bool { return slices.Contains(bgpAddresses(n), a) })
}

// kubeNodeOf returns the Kubernetes Node that a Calico Node refers to, "" for none.
func kubeNodeOf(n *libapiv3.Node) string {
	for _, ref := range n.Spec.OrchRefs {
		if ref.Orchestrator == "k8s" {
			return ref.NodeName
		}
	}
	return ""
}

// calicoName returns the name of a Kubernetes Node's Calico Node, "" if there is none. A name that no Kubernetes Node has is returned unchanged.
func (j *join) calicoName(node string) string {
	switch {
	case j == nil:
	case j.of[node] != nil:
		return j.of[node].Name
	case j.known[node] != nil:
		return ""
	}
	return node
}

// kubeName is the inverse: it returns the name of the Kubernetes Node. A Calico Node
// without one keeps its name, with a suffix if a Kubernetes Node has that name too.
func (j *join) kubeName(node string) string {
	switch {
	case j == nil:
	case j.kube[node] != "":
		return j.kube[node]
	case j.known[node] != nil:
		return node + " (of Calico)"
	}
	return node
}

// joinNow returns the current join. With the Kubernetes datastore it reads nothing and returns nil.
func (a *Adapter) joinNow(ctx context.Context) (*join, error) {
	if a.etcd == nil {
		return nil, nil
	}
	_, j, err := a.joinAll(ctx)
	return j, err
}

// calicoName returns the name of a node's Calico Node. If Calico has no Node for it, the error is a conflict.
func (a *Adapter) calicoName(ctx context.Context, node string) (string, error) {
	j, err := a.joinNow(ctx)
	if err != nil || node == "" {
		return node, err
	}
	if name := j.calicoName(node); name != "" {
		return name, nil
	}
	return "", changed(libapiv3.KindNode, node, "Calico has no Node for it")
}

// joined returns the Kubernetes Node with the labels and annotations of Calico's Node. With the Kubernetes datastore it adds the labels that
// calicoctl has set, except those that rrpool writes: rrpool cannot remove labels that calicoctl has set.
func (j *join) joined(n *corev1.Node, scope plan.DatastoreOptions) *corev1.Node {
	if j == nil {
		labels, _ := calicoLabels(n) // nodeOf reports those that cannot be read
		maps.DeleteFunc(labels, func(key, _ string) bool {
			return slices.Contains([]string{scope.RoleLabel, plan.RackLabel, v1alpha1.PoolLabel}, key)
		})
		if len(labels) == 0 {
			return n
		}
		out := *n
		out.Labels = labels
		maps.Copy(out.Labels, n.Labels)
		return &out
	}
	out := &corev1.Node{TypeMeta: n.TypeMeta, ObjectMeta: *n.ObjectMeta.DeepCopy(), Spec: n.Spec, Status: n.Status}
	delete(out.Labels, scope.RoleLabel)
	delete(out.Labels, plan.RackLabel)
	calico := cmp.Or(j.of[n.Name], libapiv3.NewNode())
	for key, value := range calico.Labels { // Calico's selectors match these labels
		if key != v1alpha1.PoolLabel {
			metav1.SetMetaDataLabel(&out.ObjectMeta, key, value)
		}
	}
	for key, value := range notesOf(calico) {
		delete(out.Annotations, key)
		if value != "" {
			metav1.SetMetaDataAnnotation(&out.ObjectMeta, key, value)
		}
	}
	return out
}

// notesOf returns the annotations that nodeOf reads, with values from Calico's Node and its spec, "" for annotations that are not set.
func notesOf(n *libapiv3.Node) map[string]string {
	bgp := ptr.Deref(n.Spec.BGP, libapiv3.NodeBGPSpec{})
	out := map[string]string{
		ipv4Annotation: bgp.IPv4Address, ipv6Annotation: bgp.IPv6Address, asnAnnotation: "",
		clusterIDAnnotation: bgp.RouteReflectorClusterID, sinceAnnotation: n.Annotations[sinceAnnotation],
	}
	if bgp.ASNumber != nil {
		out[asnAnnotation] = bgp.ASNumber.String()
	}
	return out
}

// joinAll returns all Kubernetes Nodes, and the join with Calico's. The Nodes share maps and slices with the cache, so they must not be changed.
func (a *Adapter) joinAll(ctx context.Context) ([]corev1.Node, *join, error) {
	var list corev1.NodeList
	if err := a.cfg.Nodes.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing nodes: %w", err)
	}
	for i := range list.Items {
		list.Items[i] = *a.recent.latest(&list.Items[i])
	}
	if a.etcd == nil {
		return list.Items, nil, nil
	}
	return list.Items, joinNodes(list.Items, a.store.calicoNodes()), nil
}

// calicoReflectors returns the Kubernetes names of the nodes whose Calico Node has the role label.
func (a *Adapter) calicoReflectors(ctx context.Context, role string) (out []string, err error) {
	j, err := a.joinNow(ctx)
	if err != nil || j == nil {
		return nil, err
	}
	for name, n := range j.of {
		if metav1.HasLabel(n.ObjectMeta, role) {
			out = append(out, name)
		}
	}
	return out, nil
}

// refreshCalicoNode reads a node's Calico Node and stores it, without waiting for the watch.
func (a *Adapter) refreshCalicoNode(ctx context.Context, name string) error {
	j, err := a.joinNow(ctx)
	if err != nil || j == nil || j.of[name] == nil {
		return err
	}
	live := libapiv3.NewNode()
	err = a.calico.client.Get(ctx, client.ObjectKey{Name: j.of[name].Name}, live)
	switch {
	case apierrors.IsNotFound(err):
		a.store.forget(libapiv3.KindNode, j.of[name].Name)
	case err != nil:
		return fmt.Errorf("reading Calico's Node %q: %w", j.of[name].Name, err)
	default:
		a.store.put(live)
	}
	return nil
}

// patchCalicoNode changes Calico's Node in one write. If etcd has another version of the Node than the store, the error is a conflict.
func (a *Adapter) patchCalicoNode(ctx context.Context, node string, p nodePatch) error {
	_, j, err := a.joinAll(ctx)
	if err = errors.Join(err, a.store.writable(), a.cfg.Permit(ctx)); err != nil {
		return fmt.Errorf("writing Calico's Node of node %q: %w", node, err)
	}
	seen := j.of[node]
	if seen == nil {
		return changed(libapiv3.KindNode, node, "Calico has no Node for it")
	}
	if err := a.dropCopied(ctx, j.known[node], p); err != nil {
		return err
	}
	o := a.custom(libapiv3.KindNode, seen.Name)
	if err := a.calico.client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		return fmt.Errorf("reading Calico's Node %q: %w", seen.Name, err)
	}
	if o.GetResourceVersion() != seen.ResourceVersion {
		return changed(libapiv3.KindNode, seen.Name, "it has been written since")
	}
	if err := p.changeCalicoNode(o); err != nil {
		return err
	}
	if err := a.calico.client.Update(ctx, o); err != nil {
		return fmt.Errorf("writing Calico's Node %q: %w", seen.Name, err)
	}
	return a.take(o, libapiv3.NewNode())
}

// changeCalicoNode applies the patch to Calico's Node in memory.
func (p *nodePatch) changeCalicoNode(o *unstructured.Unstructured) error {
	err := errors.Join(setOrRemove(o, p.labels, "metadata", "labels"), forgetCopied(o, p.labels))
	for key, value := range p.annotations {
		switch key {
		case clusterIDAnnotation:
			err = errors.Join(err, setOrRemove(o, map[string]any{"routeReflectorClusterID": value}, "spec", "bgp"))
		case sinceAnnotation:
			err = errors.Join(err, setOrRemove(o, map[string]any{key: value}, "metadata", "annotations"))
		}
	}
	if err != nil {
		return fmt.Errorf("changing Calico's Node %q: %w", o.GetName(), err)
	}
	return nil
}

// copiedAnnotation has the labels that Calico's kube-controllers copied. If the Kubernetes Node no longer has one of these labels,
// kube-controllers removes the label from Calico's Node.
const copiedAnnotation = "projectcalico.org/kube-labels"

// forgetCopied removes labels from copiedAnnotation, so that kube-controllers does not remove these labels from Calico's Node.
func forgetCopied(o *unstructured.Unstructured, labels map[string]any) error {
	notes, copied := o.GetAnnotations(), map[string]string{}
	if notes[copiedAnnotation] == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(notes[copiedAnnotation]), &copied); err != nil {
		return fmt.Errorf("reading annotation %s of Calico's Node %q: %w", copiedAnnotation, o.GetName(), err)
	}
	for key := range labels {
		delete(copied, key)
	}
	text, err := json.Marshal(copied)
	notes[copiedAnnotation] = string(text)
	o.SetAnnotations(notes)
	return err //nolint:wrapcheck // strings can be rendered
}

// dropCopied removes the labels of a patch of Calico's Node from the Kubernetes Node, because kube-controllers would copy them again. It is
// called before the write to Calico's Node: if either write fails, both are repeated.
func (a *Adapter) dropCopied(ctx context.Context, node *corev1.Node, p nodePatch) error {
	gone := map[string]any{}
	for key := range p.labels {
		if metav1.HasLabel(node.ObjectMeta, key) {
			gone[key] = nil
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return a.patchKubeNode(ctx, node, nodePatch{labels: gone})
}

// setOrRemove sets fields below a path, and removes fields whose value is nil.
func setOrRemove(o *unstructured.Unstructured, fields map[string]any, below ...string) error {
	at, _, err := unstructured.NestedMap(o.Object, below...)
	if err != nil {
		return err //nolint:wrapcheck // it names the field
	}
	if at == nil {
		at = map[string]any{}
	}
	maps.Copy(at, fields)
	maps.DeleteFunc(at, func(_ string, value any) bool { return value == nil })
	if len(at) == 0 { // for Calico an empty spec.bgp is invalid
		unstructured.RemoveNestedField(o.Object, below...)
		return nil
	}
	return unstructured.SetNestedMap(o.Object, at, below...) //nolint:wrapcheck // it names the field
}
