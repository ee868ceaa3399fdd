// Package selection chooses, among the nodes that are already there, those that become route reflectors. It is pure
// and deterministic: the same nodes and rules give the same choice, in whatever order the nodes come.
package selection

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// Rules say how many nodes are wanted, and which.
type Rules struct {
	// PerZone nodes are wanted in each of Zones; "" is the zone of nodes without
	// one. A zone that is named twice counts once.
	PerZone int
	Zones   []string
	// Preferred nodes are chosen first, Excluded ones never; nil, or a selector
	// that selects everything, for no such rule.
	Preferred, Excluded labels.Selector
	// Lost says of a node that it has been NotReady for too long; nil: any that is NotReady.
	Lost func(plan.Node) bool

	// v4 and v6: some Ready node of the cluster has the address family, and reflectors must have it; see Of.
	v4, v6 bool
	// shared are the BGP addresses that several nodes have.
	shared map[netip.Addr][]string
}

// Of gives the rules for a cluster of these nodes: a reflector that lacks an
// address family could not serve the nodes that have it.
func (r Rules) Of(nodes []plan.Node) Rules {
	r.v4, r.v6, r.shared = false, false, plan.SharedAddresses(nodes, plan.Node.SpeaksBGP)
	for _, n := range nodes {
		r.v4 = r.v4 || n.Ready && slices.ContainsFunc(n.Addresses, netip.Addr.Is4)
		r.v6 = r.v6 || n.Ready && slices.ContainsFunc(n.Addresses, netip.Addr.Is6)
	}
	return r
}

// lacks names an address family that the node should have, "" for none.
func (r Rules) lacks(n plan.Node) string {
	switch {
	case r.v4 && !slices.ContainsFunc(n.Addresses, netip.Addr.Is4):
		return "IPv4"
	case r.v6 && !slices.ContainsFunc(n.Addresses, netip.Addr.Is6):
		return "IPv6"
	}
	return ""
}

// sharesWith names another node that has a BGP address of this one, "" for none.
func (r Rules) sharesWith(n plan.Node) string {
	for _, a := range n.Addresses {
		for _, name := range r.shared[a] {
			if name != n.Name {
				return name
			}
		}
	}
	return ""
}

// Total is how many nodes are wanted in all.
func (r Rules) Total() int { return max(r.PerZone, 0) * len(r.zoneNames()) }

// zoneNames are the zones, sorted, each once.
func (r Rules) zoneNames() []string { return slices.Compact(slices.Sorted(slices.Values(r.Zones))) }

// Unfit says why a node can neither be chosen nor kept, "" when it can. Being NotReady is no such reason: see Lost.
func (r Rules) Unfit(n plan.Node) string {
	if reason := unusable(n); reason != "" {
		return reason
	}
	if family := r.lacks(n); family != "" {
		return fmt.Sprintf("it announces no %s address, and other nodes do", family)
	}
	if with := r.sharesWith(n); with != "" && !n.IsOurs() {
		return fmt.Sprintf("node %s has the same BGP address: delete the one that is no longer there", with)
	}
	switch {
	case r.Excluded != nil && !r.Excluded.Empty() && r.Excluded.Matches(labels.Set(n.Labels)):
		return "spec.provider.existingNodes.excluded selects it"
	case !slices.Contains(r.Zones, n.Zone):
		return fmt.Sprintf("its zone %q gets no route reflectors", n.Zone)
	case ours(n):
		return ""
	case n.ClusterID != "":
		return "it is a route reflector that rrpool did not make"
	case n.Labels[v1alpha1.PoolLabel] != "":
		return fmt.Sprintf("its label %s says that it belongs to the pool %q", v1alpha1.PoolLabel, n.Labels[v1alpha1.PoolLabel])
	}
	return ""
}

// unusable says why a node cannot be relied on, whatever the rules are.
func unusable(n plan.Node) string {
	switch {
	case !n.SpeaksBGP():
		return "it announces no BGP address"
	case !n.Reports():
		return "it runs Windows, whose BGP cannot reflect routes"
	case n.Deleting:
		return "it is being deleted"
	case n.Leaving:
		return "it is tainted for shutdown"
	case n.CordonedByOthers():
		return "it is cordoned"
	}
	return ""
}

// ours: the node is in the pool, or in our service although it has lost the pool's label.
func ours(n plan.Node) bool { return n.Pooled || n.Marked }

// Counts reports whether a node counts towards the size: it is in the pool or in our service, fit and not lost.
func (r Rules) Counts(n plan.Node) bool { return ours(n) && !r.lost(n) && r.Unfit(n) == "" }

// Eligible reports whether a node could join: it is no use without calico-node, and with few pods for want of it.
func (r Rules) Eligible(n plan.Node) bool {
	return !ours(n) && n.Ready && !n.CalicoNode.Failing() && r.Unfit(n) == ""
}

func (r Rules) lost(n plan.Node) bool {
	if r.Lost == nil {
		return !n.Ready
	}
	return r.Lost(n)
}

// keep orders the nodes that count: those in the role first, then those that
// have been Ready for longest, so that one that flaps goes before one that does not.
func keep(a, b plan.Node) int {
	return cmp.Or(
		plan.TrueFirst(a.Marked && a.HasRoleLabel, b.Marked && b.HasRoleLabel),
		plan.TrueFirst(a.Marked, b.Marked),
		plan.TrueFirst(a.Ready, b.Ready),
		a.ReadyChanged.Compare(b.ReadyChanged),
		a.Created.Compare(b.Created),
		cmp.Compare(a.Name, b.Name),
	)
}

// compare orders nodes that could join.
func (r Rules) compare(a, b plan.Node) int {
	return cmp.Or(
		plan.TrueFirst(r.prefers(a), r.prefers(b)),
		a.Created.Compare(b.Created),
		cmp.Compare(a.Name, b.Name),
	)
}

// cheaper orders nodes by what their promotion as the first one would disturb.
func (r Rules) cheaper(a, b plan.Node) int {
	return cmp.Or(
		plan.TrueFirst(r.prefers(a), r.prefers(b)),
		cmp.Compare(ptr.Deref(a.Pods, math.MaxInt), ptr.Deref(b.Pods, math.MaxInt)), // not counted are many
		plan.TrueFirst(a.ControlPlane, b.ControlPlane),
		r.compare(a, b),
	)
}

func (r Rules) prefers(n plan.Node) bool {
	return r.Preferred != nil && !r.Preferred.Empty() && r.Preferred.Matches(labels.Set(n.Labels))
}
