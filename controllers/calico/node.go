package calico

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/projectcalico/api/pkg/lib/numorstring"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Annotations of Nodes: Calico's own, and our mark.
const (
	ipv4Annotation      = "projectcalico.org/IPv4Address"
	ipv6Annotation      = "projectcalico.org/IPv6Address"
	asnAnnotation       = "projectcalico.org/ASNumber"
	clusterIDAnnotation = "projectcalico.org/RouteReflectorClusterID"
	// sinceAnnotation marks a role as given by us and says when, in RFC 3339.
	sinceAnnotation = "rrpool.io/reflector-since"
	// cordonedAnnotation marks a cordon as ours and says when, in RFC 3339.
	cordonedAnnotation = "rrpool.io/cordoned"
)

// leavingTaints say that a node is about to go, whoever decided that. The cluster
// autoscaler's DeletionCandidate is not one: it takes that back more often than not.
var leavingTaints = map[string]bool{
	corev1.TaintNodeOutOfService:                true,
	"node.cloudprovider.kubernetes.io/shutdown": true,
	"ToBeDeletedByClusterAutoscaler":            true,
	"karpenter.sh/disrupted":                    true,
}

// controlPlaneLabels mark nodes of the control plane, today and formerly.
var controlPlaneLabels = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}

// longestID is far beyond any cluster ID: what a node says of itself may be anything.
const longestID = 64

// oldZoneLabel is what clouds used before topology.kubernetes.io/zone.
const oldZoneLabel = "failure-domain.beta.kubernetes.io/zone"

// nodeOf maps a Kubernetes Node. Like Calico, it takes an address or AS number that cannot be read for one that is
// not there: such a node speaks no BGP, and must not keep all others from being served.
func nodeOf(n *corev1.Node, scope plan.Scope) plan.Node {
	out := plan.Node{
		Name: n.Name, UID: string(n.UID), Labels: n.Labels, ProviderID: n.Spec.ProviderID,
		Zone: cmp.Or(n.Labels[scope.ZoneLabel], n.Labels[oldZoneLabel]), Created: n.CreationTimestamp.Time,
		Cordoned: n.Spec.Unschedulable, Deleting: n.DeletionTimestamp != nil,
		ClusterID:    plan.Plain(n.Annotations[clusterIDAnnotation], longestID),
		Taints:       taintsOf(n),
		Leaving:      slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return leavingTaints[t.Key] }),
		ControlPlane: slices.ContainsFunc(controlPlaneLabels, func(key string) bool { return metav1.HasLabel(n.ObjectMeta, key) }),
		CordonMark:   metav1.HasAnnotation(n.ObjectMeta, cordonedAnnotation),
		Rack:         n.Labels[plan.RackLabel],
		ReadyChanged: n.CreationTimestamp.Time, // without a Ready condition it is unknown since then, not dead
	}
	out.CordonedByUs = out.CordonMark && out.Cordoned
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			out.Ready, out.ReadyChanged = c.Status == corev1.ConditionTrue, cmp.Or(c.LastTransitionTime.Time, out.Created)
		}
	}
	for _, key := range []string{ipv4Annotation, ipv6Annotation} {
		if addr, ok := addressOf(n, key); ok {
			out.Addresses = append(out.Addresses, addr)
		}
	}
	if as, err := numorstring.ASNumberFromString(n.Annotations[asnAnnotation]); err == nil {
		out.ASN = uint32(as)
	}
	out.Slot, out.RoleLabel = n.Labels[scope.RoleLabel]
	if since, ok := n.Annotations[sinceAnnotation]; ok {
		out.Marked, out.RoleSince = true, timeOf(since)
	}
	return out
}

// addressOf reads an address as Calico does: in CIDR form or bare, without a zone.
func addressOf(n *corev1.Node, key string) (netip.Addr, bool) {
	value := n.Annotations[key]
	addr, err := netip.ParseAddr(value)
	if prefix, cidr := netip.ParsePrefix(value); cidr == nil {
		addr, err = prefix.Addr(), nil
	}
	addr = addr.Unmap()
	if err != nil || addr.Zone() != "" || addr.Is4() != (key == ipv4Annotation) {
		return netip.Addr{}, false
	}
	return addr, true
}

// timeOf reads a time of ours, zero when it is none any more.
func timeOf(s string) time.Time {
	t, _ := time.Parse(time.RFC3339, s)
	return t
}

// observeNodes reads all nodes, sorted by name.
func (a *Adapter) observeNodes(ctx context.Context, scope plan.Scope) ([]plan.Node, error) {
	if err := a.readDoubted(ctx); err != nil {
		a.cfg.Log.Error(err, "what the last write to a node has done is not known") // the safety net goes on
	}
	var list corev1.NodeList
	if err := a.cfg.Nodes.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	out := make([]plan.Node, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, nodeOf(a.recent.latest(&list.Items[i]), scope))
	}
	slices.SortFunc(out, func(x, y plan.Node) int { return strings.Compare(x.Name, y.Name) })
	return out, nil
}

// taintsOf are the node's taints as ToString writes them, never nil.
func taintsOf(n *corev1.Node) []string {
	out := make([]string, 0, len(n.Spec.Taints))
	for _, t := range n.Spec.Taints {
		out = append(out, t.Key+"="+t.Value+":"+string(t.Effect))
	}
	return out
}
