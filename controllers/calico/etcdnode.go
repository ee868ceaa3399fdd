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

// With Calico's own etcd a node is two objects. What Calico reads is on Calico's Node there, and our mark of the role with it, so that role,
// cluster ID and mark still are one write. The pool label and the cordon are on the Kubernetes Node. Calico's kube-controllers copies the
// labels of the second to the first: the role label is never written to the second, or it would come back.

// oldestInEtcd is the oldest Calico that was tried with its own etcd. An apiserver drops fields that an older one does not know, which is then
// seen; etcd keeps them.
var oldestInEtcd = version.MustParseGeneric("3.31.0")

func tooOldForEtcd(calico string) *plan.Problem {
	if v, err := version.ParseGeneric(calico); err != nil || v.AtLeast(oldestInEtcd) {
		return nil
	}
	return plan.Problemf(reason.CalicoTooOld, "Calico is %s (calicoVersion of ClusterInformation %q), and with an etcd of its own rrpool needs %s or later: upgrade Calico, "+
		"or move its objects into the apiserver (rrpool rollback first, then calicoctl datastore migrate)", plan.Plain(calico, longestID), defaultConfig, oldestInEtcd)
}

// join says which Calico Node stands for which Kubernetes Node. A nil one is that of the Kubernetes datastore, where they are the same.
type join struct {
	// of has Calico's Nodes by the name of the Kubernetes Node, kube the latter by the name of the former.
	of   map[string]*libapiv3.Node
	kube map[string]string
	// known are all Kubernetes Nodes.
	known map[string]*corev1.Node
	// problem is why it is not known of all, "" for nothing.
	problem string
}

// joinNodes goes by what Calico's Nodes say of the orchestrator. One that says nothing belongs to the node of its name, else to the only one that
// has its address. One whose node is no more is left over: nothing runs there, and Calico's kube-controllers deletes it.
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
	rest, twice := out.joinByReference(calico)
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
	var strangers []string
	for _, n := range rest {
		if n.Spec.BGP != nil {
			strangers = append(strangers, n.Name)
		}
	}
	switch {
	case len(twice) > 0:
		out.problem = fmt.Sprintf("two of Calico's Nodes stand for one node of Kubernetes (%s): delete the one that is left over (calicoctl delete node NAME)", plan.Few(twice))
	case len(strangers) > 0:
		out.problem = fmt.Sprintf("of Calico's Nodes, no node of Kubernetes is %s (spec.orchRefs, else the name, else the address): a host that is no node of Kubernetes "+
			"cannot be seen to have its sessions; delete those that are left over (calicoctl delete node NAME)", plan.Few(strangers))
	}
	return out
}

// problems are why nothing may be changed while Calico has an etcd of its own. A nil join is none of it.
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

// joinByReference gives those that name no node, and the pairs that name the same. Of such a pair the one with the node's address is taken.
func (j *join) joinByReference(calico map[string]*libapiv3.Node) (rest []*libapiv3.Node, twice []string) {
	for _, name := range slices.Sorted(maps.Keys(calico)) {
		n, of := calico[name], orchestrated(calico[name])
		if of == "" {
			rest = append(rest, n)
			continue
		}
		other := j.of[of]
		switch {
		case j.known[of] == nil, other != nil && n.Spec.BGP == nil:
			continue
		case other != nil && other.Spec.BGP != nil:
			twice = append(twice, name+" and "+other.Name)
			if hasAddressOf(other, j.known[of]) {
				continue
			}
		}
		j.of[of] = n
	}
	return rest, twice
}

// joinBy joins those of whose names exactly one is a node that no other has, and gives the rest.
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

// orchestrated is the name of the Kubernetes Node that a Calico Node says, "" for none.
func orchestrated(n *libapiv3.Node) string {
	for _, ref := range n.Spec.OrchRefs {
		if ref.Orchestrator == "k8s" {
			return ref.NodeName
		}
	}
	return ""
}

// calicoName is the name that Calico has for a node, "" where it has none. A node that Kubernetes does not know either has the same.
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

// kubeName is the opposite. Calico may have the name of a Kubernetes Node for something else.
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

// joinNow joins by what is known now; with the Kubernetes datastore it reads nothing.
func (a *Adapter) joinNow(ctx context.Context) (*join, error) {
	if a.etcd == nil {
		return nil, nil
	}
	_, j, err := a.joinAll(ctx)
	return j, err
}

// calicoName is the name that Calico has for a node, by what is known now. That it has none is a conflict.
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

// joined is the Kubernetes Node with what Calico's says of it. Without an etcd that is the labels that Calico keeps in an annotation: none of those that
// rrpool writes, as it could not take them away.
func (j *join) joined(n *corev1.Node, scope plan.DatastoreOptions) *corev1.Node {
	if j == nil {
		labels, _ := calicoLabels(n) // nodeOf says that they cannot be read
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
	for key, value := range calico.Labels { // selectors go by these
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

// notesOf are the annotations of nodeOf as they are on Calico's Node, or in its spec, "" for none.
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

// joinAll reads all Kubernetes Nodes, and joins Calico's to them. Their labels and whatever else they point to are the cache's: not to be changed.
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

// calicoReflectors are the nodes whose Calico Node alone has the role label.
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

// reread reads Calico's Node of a node past the watch.
func (a *Adapter) reread(ctx context.Context, name string) error {
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

// patchCalicoNode makes a change to Calico's Node, in one write, of the version that was looked at.
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

// changeCalicoNode makes the change in the object.
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

// copiedAnnotation is where Calico's kube-controllers notes which labels it has copied. It takes those away that the Kubernetes Node has no more.
const copiedAnnotation = "projectcalico.org/kube-labels"

// forgetCopied makes labels of Calico's Node our own, which kube-controllers leaves alone.
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

// dropCopied takes labels that are written on Calico's Node from the Kubernetes Node, if they are there: kube-controllers would copy them again.
// It comes first, so that it is done again until the second write has been made.
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

// setOrRemove sets fields below a path, and removes those whose value is nil.
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
	if len(at) == 0 { // to Calico an empty spec.bgp is invalid
		unstructured.RemoveNestedField(o.Object, below...)
		return nil
	}
	return unstructured.SetNestedMap(o.Object, at, below...) //nolint:wrapcheck // it names the field
}
