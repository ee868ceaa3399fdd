// Package peering decides what a ClusterPeering needs in Calico's datastore: by which objects the route reflectors of this
// cluster exchange routes with those of another one, and in which order these are written and taken away.
package peering

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/topology"
)

// Side is one cluster as the other one sees it. All lists are sorted.
type Side struct {
	ASN uint32
	// Reflectors are the BGP addresses of its route reflectors.
	Reflectors []netip.Addr
	// Pods and Services are the ranges that it advertises.
	Pods, Services []netip.Prefix
}

// CIDRs are all ranges of a side.
func (s Side) CIDRs() []netip.Prefix { return slices.Concat(s.Pods, s.Services) }

// IPPool is an IPPool of Calico's.
type IPPool struct {
	Name string
	CIDR netip.Prefix
	// Peering is the ClusterPeering that it was written for, "" for none.
	Peering string
	// Announced: it is enabled, and BGP may export its routes.
	Announced bool
}

// Filter is a BGPFilter of Calico's.
type Filter struct {
	Name, Peering string
	// Is is what it lets through, nil where its rules are not such as we write.
	Is *plan.PeeringFilter
}

// Observed is what a decision depends on.
type Observed struct {
	// Cluster is this one.
	Cluster plan.Cluster
	Filters []Filter
	Pools   []IPPool
	// Services are the ranges that Calico announces for ClusterPeerings, OtherServices all others that it announces.
	Services, OtherServices []netip.Prefix
	// Remote is the other cluster, nil while it is not known.
	Remote *Side
}

// Desired is what the user wants.
type Desired struct {
	// Name of the ClusterPeering.
	Name string
	// RoleLabel marks this cluster's route reflectors.
	RoleLabel string
	// NotReflecting is why this cluster has no route reflectors that last, "" where it has.
	NotReflecting string
	// Gone: everything of this ClusterPeering is to go.
	Gone bool
	// Pods and Services: what to advertise. ServiceCIDRs are this cluster's.
	Pods, Services bool
	ServiceCIDRs   []netip.Prefix
	// Announce are the ranges of services that any ClusterPeering advertises.
	Announce    []netip.Prefix
	Password    *plan.SecretRef
	KeepNextHop bool
}

// Step is what to do now.
type Step struct {
	// Actions in the order in which they are to be taken.
	Actions []plan.Action
	// Problem is why nothing new is written, nil for nothing. What is there stays.
	Problem *plan.Problem
	// Expected and Missing are the sessions between the reflectors of both sides.
	Expected []Session
	// Kept names what is not taken away yet, and why.
	Kept []string
	// Advertised are the ranges of this cluster that the remote one may learn.
	Advertised []netip.Prefix
}

// Session is one between a reflector here and one there.
type Session struct {
	Node        string
	Peer        netip.Addr
	Established bool
	// Received counts the prefixes that came by it, -1 where that is not known.
	Received int
}

// KindBGPFilter and KindIPPool are kinds of Calico's.
const (
	KindBGPFilter = "BGPFilter"
	KindIPPool    = "IPPool"
)

// Next decides. It changes nothing where the remote cluster is not known.
func Next(o Observed, d Desired) Step {
	if d.Gone {
		return Step{Actions: remove(o, d, nil, nil)}
	}
	if o.Remote == nil {
		return Step{}
	}
	s := Step{Expected: sessions(o), Advertised: advertised(o, d)}
	if s.Problem = problem(o, d); s.Problem != nil {
		return s
	}
	peers, pools := peers(o, d), pools(o, d)
	s.Actions = put(o, d, peers, pools)
	if len(s.Actions) > 0 {
		return s // what takes its place comes first
	}
	var stay []plan.Peer
	for _, p := range o.Cluster.Peers {
		if p.Peering == d.Name && !named(peers, p.Name) && needed(o, p) {
			stay = append(stay, p)
			s.Kept = append(s.Kept, fmt.Sprintf("BGPPeer %s: a session of it is Established, and not enough others are", p.Name))
		}
	}
	s.Actions = remove(o, d, append(peers, stay...), pools)
	return s
}

// reflectors are the nodes in the role.
func reflectors(c plan.Cluster) []plan.Node {
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(n plan.Node) bool { return !n.RoleLabel || n.ClusterID == "" || !n.SpeaksBGP() })
}

// sessions are those that there should be: each reflector here with each one there, in the families of both.
func sessions(o Observed) []Session {
	var out []Session
	for _, n := range reflectors(o.Cluster) {
		st := o.Cluster.Statuses[n.Name]
		for _, peer := range o.Remote.Reflectors {
			if slices.ContainsFunc(n.Addresses, func(a netip.Addr) bool { return a.Is4() == peer.Is4() }) {
				out = append(out, Session{Node: n.Name, Peer: peer, Established: established(st, peer), Received: received(st, peer)})
			}
		}
	}
	return out
}

func established(st plan.Status, peer netip.Addr) bool {
	return slices.ContainsFunc(st.Sessions, func(s plan.Session) bool { return s.Peer == peer && s.Established })
}

func received(st plan.Status, peer netip.Addr) int {
	if !st.HasRoutes {
		return -1
	}
	n := 0
	for _, r := range st.Routes {
		if r.From == peer {
			n++
		}
	}
	return n
}

// advertised are the ranges that the filter lets out.
func advertised(o Observed, d Desired) []netip.Prefix {
	var out []netip.Prefix
	if d.Pods {
		out = append(out, ownPods(o)...)
	}
	if d.Services {
		out = append(out, d.ServiceCIDRs...)
	}
	return sorted(out)
}

// ownPods are the ranges of this cluster's pods.
func ownPods(o Observed) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range o.Pools {
		if p.Announced && p.Peering == "" {
			out = append(out, p.CIDR)
		}
	}
	return out
}

// filter lets through what is declared. What this cluster announces beside that is withheld.
func filter(o Observed, d Desired) plan.PeeringFilter {
	out := plan.PeeringFilter{Import: sorted(o.Remote.CIDRs()), Export: advertised(o, d)}
	for _, c := range slices.Concat(ownPods(o), o.Services, o.OtherServices, d.Announce) {
		if !slices.ContainsFunc(out.Export, c.Overlaps) {
			out.Withhold = append(out.Withhold, c)
		}
	}
	out.Withhold = sorted(out.Withhold)
	return out
}

// Prefix begins the names of all objects of ClusterPeerings.
const Prefix = "rrpool-peering-"

func filterName(d Desired) string { return Prefix + d.Name }

// objectName is for the object of one address or range.
func objectName(d Desired, of string) string {
	return filterName(d) + "-" + strings.NewReplacer(".", "-", ":", "-", "/", "-").Replace(of)
}

// peers are one BGPPeer for each remote reflector of a family that a reflector here has.
func peers(o Observed, d Desired) []plan.Peer {
	var out []plan.Peer
	selector := reflectorSelector(o, d)
	for _, addr := range o.Remote.Reflectors {
		if !hasFamily(o, addr) {
			continue
		}
		out = append(out, plan.Peer{
			Name: objectName(d, addr.StringExpanded()), Peering: d.Name, NodeSelector: selector, PeerIP: addr.String(),
			ASN: o.Remote.ASN, Password: d.Password, Filters: []string{filterName(d)}, KeepNextHop: d.KeepNextHop,
		})
	}
	return out
}

// reflectorSelector selects this cluster's reflectors, also while they get another label.
func reflectorSelector(o Observed, d Desired) string {
	out := []string{fmt.Sprintf("has(%s)", d.RoleLabel)}
	for _, p := range o.Cluster.Peers {
		if former := fmt.Sprintf("has(%s)", topology.RoleLabel(p, d.RoleLabel)); p.Owned && !slices.Contains(out, former) {
			out = append(out, former)
		}
	}
	return strings.Join(out, " || ")
}

func hasFamily(o Observed, addr netip.Addr) bool {
	return slices.ContainsFunc(reflectors(o.Cluster), func(n plan.Node) bool {
		return slices.ContainsFunc(n.Addresses, func(a netip.Addr) bool { return a.Is4() == addr.Is4() })
	})
}

// pools are the disabled IPPools for what comes from the remote cluster: Calico passes on no other routes.
func pools(o Observed, d Desired) []IPPool {
	var out []IPPool
	for _, cidr := range sorted(o.Remote.CIDRs()) {
		out = append(out, IPPool{Name: objectName(d, cidr.Addr().StringExpanded()+"/"+fmt.Sprint(cidr.Bits())), CIDR: cidr, Peering: d.Name})
	}
	return out
}

// put writes what is missing or is not as it should be: nothing comes in before its filter is there.
func put(o Observed, d Desired, peers []plan.Peer, pools []IPPool) []plan.Action {
	var out []plan.Action
	want := filter(o, d)
	at := slices.IndexFunc(o.Filters, func(f Filter) bool { return f.Name == filterName(d) })
	if at < 0 || o.Filters[at].Is == nil || !o.Filters[at].Is.Equal(want) {
		out = append(out, plan.PutFilter{Name: filterName(d), Peering: d.Name, Filter: want})
	}
	for _, p := range pools {
		if !slices.Contains(o.Pools, p) {
			out = append(out, plan.PutIPPool{Name: p.Name, Peering: d.Name, CIDR: p.CIDR})
		}
	}
	if want := announce(o, d); !slices.Equal(o.Services, want) {
		out = append(out, plan.AnnounceServices{CIDRs: want})
	}
	for _, p := range peers {
		have := slices.IndexFunc(o.Cluster.Peers, func(h plan.Peer) bool { return h.Name == p.Name })
		if have < 0 || !plan.SamePeer(o.Cluster.Peers[have], p) {
			out = append(out, plan.PutPeer{Peer: p})
		}
	}
	return out
}

// announce gives the ranges that Calico is to announce for ClusterPeerings, beside what it announces already.
func announce(o Observed, d Desired) []netip.Prefix {
	return slices.DeleteFunc(sorted(d.Announce), func(c netip.Prefix) bool { return slices.Contains(o.OtherServices, c) })
}

// remove takes away what is of this ClusterPeering and not among what is to stay: sessions first, and what they need last.
func remove(o Observed, d Desired, peers []plan.Peer, pools []IPPool) []plan.Action {
	var out []plan.Action
	for _, p := range o.Cluster.Peers {
		if p.Peering == d.Name && !named(peers, p.Name) {
			out = append(out, plan.DeletePeer{Name: p.Name})
		}
	}
	if want := announce(o, d); d.Gone && !slices.Equal(o.Services, want) {
		out = append(out, plan.AnnounceServices{CIDRs: want})
	}
	for _, p := range o.Pools {
		if p.Peering == d.Name && !slices.Contains(pools, p) {
			out = append(out, plan.DeletePeeringObject{Kind: KindIPPool, Name: p.Name, Peering: d.Name})
		}
	}
	for _, f := range o.Filters {
		if f.Peering == d.Name && (d.Gone || f.Name != filterName(d)) {
			out = append(out, plan.DeletePeeringObject{Kind: KindBGPFilter, Name: f.Name, Peering: d.Name})
		}
	}
	return out
}

// enough is how many sessions with reflectors that stay a reflector must have before a session that is Established is ended.
const enough = 2

// needed: a reflector here has an Established session by a BGPPeer that is to go, and has not enough others.
func needed(o Observed, p plan.Peer) bool {
	gone, err := netip.ParseAddr(p.PeerIP)
	if err != nil {
		return false
	}
	others := 0
	for _, addr := range o.Remote.Reflectors {
		if addr.Is4() == gone.Is4() {
			others++
		}
	}
	for _, n := range reflectors(o.Cluster) {
		st, left := o.Cluster.Statuses[n.Name], 0
		if !n.Ready {
			continue
		}
		for _, addr := range o.Remote.Reflectors {
			if addr.Is4() == gone.Is4() && established(st, addr) {
				left++
			}
		}
		if established(st, gone) && left < min(enough, others) {
			return true
		}
	}
	return false
}

func named(peers []plan.Peer, name string) bool {
	return slices.ContainsFunc(peers, func(p plan.Peer) bool { return p.Name == name })
}

// sorted gives each range once, in order.
func sorted(cidrs []netip.Prefix) []netip.Prefix {
	out := slices.Clone(cidrs)
	slices.SortFunc(out, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	return slices.Compact(out)
}
