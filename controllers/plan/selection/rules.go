// Package selection chooses route reflectors among the existing nodes. It is
// pure and deterministic: the choice does not depend on the order of the nodes.
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

// Rules say how many nodes to choose, and which.
type Rules struct {
	// PerZone is the number of nodes to choose in each of Zones. The zone "" stands for nodes without a zone. Duplicate zones count once.
	PerZone int
	Zones   []string
	// Preferred nodes are chosen first, Excluded ones never. Nil, or a selector that selects everything, has no effect.
	Preferred, Excluded labels.Selector
	// Lost reports whether a node has failed for so long that it does not count. If Lost is nil, these are the NotReady nodes.
	Lost func(plan.Node) bool

	// v4 and v6: a Ready node of the cluster has an address of the family, so reflectors must have one; see Of.
	v4, v6 bool
	// shared are the BGP addresses that several nodes have, see Of.
	shared map[netip.Addr][]string
}

// Of returns the rules for a cluster with these nodes. A reflector must have every
// address family that a Ready node has, and only BGP addresses that no other node has.
func (r Rules) Of(nodes []plan.Node) Rules {
	r.v4, r.v6, r.shared = false, false, plan.SharedAddresses(nodes, plan.Node.SpeaksBGP)
	for _, n := range nodes {
		r.v4 = r.v4 || n.Ready && slices.ContainsFunc(n.Addresses, netip.Addr.Is4)
		r.v6 = r.v6 || n.Ready && slices.ContainsFunc(n.Addresses, netip.Addr.Is6)
	}
	return r
}

// lacks returns an address family that the node must have and lacks, "" for none.
func (r Rules) lacks(n plan.Node) string {
	switch {
	case r.v4 && !slices.ContainsFunc(n.Addresses, netip.Addr.Is4):
		return "IPv4"
	case r.v6 && !slices.ContainsFunc(n.Addresses, netip.Addr.Is6):
		return "IPv6"
	}
	return ""
}

// sharesWith returns the name of another node with the same BGP address, "" for none.
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

// Total returns the number of nodes to choose in all zones.
func (r Rules) Total() int { return max(r.PerZone, 0) * len(r.zoneNames()) }

// zoneNames returns the zones sorted, without duplicates.
func (r Rules) zoneNames() []string { return slices.Compact(slices.Sorted(slices.Values(r.Zones))) }

// Unfit returns why a node can neither be chosen nor kept, "" if it can. For NotReady nodes see Lost.
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
	}
	return foreign(n)
}

// foreign returns why a node may not be taken: others use it as a reflector, or it is in another pool; "" if it may.
func foreign(n plan.Node) string {
	switch {
	case isMember(n):
		return ""
	case n.ClusterID != "":
		return "it is a route reflector that rrpool did not make"
	case n.Labels[v1alpha1.PoolLabel] != "":
		return fmt.Sprintf("its label %s says that it belongs to the pool %q", v1alpha1.PoolLabel, n.Labels[v1alpha1.PoolLabel])
	}
	return ""
}

// unusable returns why a node can be no route reflector under any rules, "" if it can.
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

// isMember reports whether the node is in the pool, or is one of rrpool's reflectors although it has lost the pool's label.
func isMember(n plan.Node) bool { return n.Pooled || n.Marked }

// Counts reports whether a node counts toward Total: it is a member, fit and not lost.
func (r Rules) Counts(n plan.Node) bool { return isMember(n) && !r.lost(n) && r.Unfit(n) == "" }

// Eligible reports whether a node may join the pool. A node whose calico-node fails may
// not: it could not be a reflector, and the rule of the fewest pods would prefer it.
func (r Rules) Eligible(n plan.Node) bool {
	return !isMember(n) && n.Ready && !n.CalicoNode.Failing() && r.Unfit(n) == ""
}

func (r Rules) lost(n plan.Node) bool {
	if r.Lost == nil {
		return !n.Ready
	}
	return r.Lost(n)
}

// compareKept compares nodes that count: current reflectors first, then those that have been Ready for longest.
func compareKept(a, b plan.Node) int {
	return cmp.Or(
		plan.TrueFirst(a.Marked && a.HasRoleLabel, b.Marked && b.HasRoleLabel),
		plan.TrueFirst(a.Marked, b.Marked),
		plan.TrueFirst(a.Ready, b.Ready),
		a.ReadyChanged.Compare(b.ReadyChanged),
		a.Created.Compare(b.Created),
		cmp.Compare(a.Name, b.Name),
	)
}

// compareJoining compares nodes that may join the pool: preferred nodes first, then the oldest.
func (r Rules) compareJoining(a, b plan.Node) int {
	return cmp.Or(
		plan.TrueFirst(r.prefers(a), r.prefers(b)),
		a.Created.Compare(b.Created),
		cmp.Compare(a.Name, b.Name),
	)
}

// compareCost compares nodes by how many pods their promotion as the first reflector would affect.
func (r Rules) compareCost(a, b plan.Node) int {
	return cmp.Or(
		plan.TrueFirst(r.prefers(a), r.prefers(b)),
		cmp.Compare(ptr.Deref(a.Pods, math.MaxInt), ptr.Deref(b.Pods, math.MaxInt)), // nodes whose pods are not counted come last
		plan.TrueFirst(a.ControlPlane, b.ControlPlane),
		r.compareJoining(a, b),
	)
}

func (r Rules) prefers(n plan.Node) bool {
	return r.Preferred != nil && !r.Preferred.Empty() && r.Preferred.Matches(labels.Set(n.Labels))
}
