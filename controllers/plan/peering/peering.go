// Package peering decides what a ClusterPeering needs in Calico's datastore: by which objects the route reflectors of this
// cluster exchange routes with those of another one, and in which order these are written and taken away.
package peering

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/rrpool/rrpool/controllers/plan"
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
	// ForPods: pods get addresses of it. Announced: BGP may export its routes as well.
	ForPods, Announced bool
	// Edited: it was written for a ClusterPeering, and is not as rrpool writes it any more.
	Edited bool
}

// Filter is a BGPFilter of Calico's.
type Filter struct {
	Name, Peering string
	// Rules is what it lets through, nil where its rules are not such as we write.
	Rules *plan.PeeringFilter
}

// Observed is what a decision depends on.
type Observed struct {
	// Cluster is this one.
	Cluster plan.Cluster
	Filters []Filter
	Pools   []IPPool
	// Services are the ranges that Calico announces for ClusterPeerings, OtherServices all others that it announces, and
	// OtherClusterIPs those of them that have cluster IPs.
	Services, OtherServices, OtherClusterIPs []netip.Prefix
	// Apiservers are the addresses of this cluster's apiserver, as far as it has any that are not names.
	Apiservers []netip.Addr
	// Unread is a range of this cluster that cannot be read, so that it is not known what overlaps; "" for none.
	Unread string
	// Remote is the other cluster, nil while it is not known.
	Remote *Side
}

// Desired is what the user wants.
type Desired struct {
	// Name of the ClusterPeering.
	Name string
	// NotReflecting is why this cluster has no route reflectors that last, "" where it has.
	NotReflecting string
	// Gone: everything of this ClusterPeering is to go.
	Gone bool
	// Pods and Services: what to advertise. ServiceCIDRs are the ranges of services to advertise, OwnServices all that this
	// cluster is known to have.
	Pods, Services            bool
	ServiceCIDRs, OwnServices []netip.Prefix
	// Announce are the ranges of services that any ClusterPeering advertises.
	Announce    []netip.Prefix
	Password    *plan.SecretRef
	KeepNextHop bool
	// Allowed are the ranges in which those of the remote cluster must lie, none for any.
	Allowed []netip.Prefix
}

// Decision is what to do now.
type Decision struct {
	// Actions in the order in which they are to be taken.
	Actions []plan.Action
	// Problem is why nothing new is written, nil for nothing. What is there stays.
	Problem *plan.Problem
	// Expected are the sessions that there should be.
	Expected []Session
	// Advertised are the ranges of this cluster that the remote one may learn.
	Advertised []netip.Prefix
}

// Session is one between a reflector here and one there.
type Session struct {
	Node        string
	Peer        netip.Addr
	Established bool
}

// KindBGPFilter and KindIPPool are kinds of Calico's.
const (
	KindBGPFilter = "BGPFilter"
	KindIPPool    = "IPPool"
)

// Next decides. Where the remote cluster is not known, or there is a problem, only a BGPPeer that is no longer needed goes.
func Next(o Observed, d Desired) Decision {
	if d.Gone {
		return takeAway(o, d)
	}
	if o.Remote == nil {
		return Decision{Actions: leave(o, d)}
	}
	with := pairs(o)
	let := filter(o, d)
	s := Decision{Expected: sessions(o, with), Advertised: slices.Concat(let.Pods, let.Services)}
	if s.Problem = problem(o, d); s.Problem != nil {
		s.Actions = leave(o, d)
		return s
	}
	peers, pools := peers(o, d, with), pools(o, d)
	s.Actions = put(o, d, let, peers, pools)
	if len(s.Actions) == 0 {
		s.Actions = change(o, peers, s.Expected)
	}
	if len(s.Actions) > 0 {
		return s // what takes its place comes first
	}
	var stay []plan.Peer
	for _, p := range o.Cluster.Peers {
		if p.Peering == d.Name && !named(peers, p.Name) && stays(o, p, s.Expected) {
			stay = append(stay, p)
		}
	}
	s.Actions = remove(o, d, append(peers, stay...), pools)
	return s
}

// takeAway removes everything of a ClusterPeering. What is found in a datastore that is locked may not be all.
func takeAway(o Observed, d Desired) Decision {
	if o.Cluster.Locked != nil {
		return Decision{Problem: o.Cluster.Locked}
	}
	return Decision{Actions: remove(o, d, nil, nil)}
}

// Reflectors are the nodes in the role. While one is not Ready, others have its sessions, as packets may go through it.
func Reflectors(nodes []plan.Node) []plan.Node {
	in := slices.DeleteFunc(slices.Clone(nodes), func(n plan.Node) bool { return !n.HasRoleLabel || n.ClusterID == "" || !n.SpeaksBGP() })
	if ready := slices.DeleteFunc(slices.Clone(in), func(n plan.Node) bool { return !n.Ready }); len(ready) > 0 {
		return ready
	}
	return in
}

// pair is a reflector here and one there that have a session.
type pair struct {
	node        plan.Node
	here, there netip.Addr
}

// mostPairs is how many sessions two clusters have in each address family. Calico advertises every path that it knows: with
// n sessions each client has n paths to a prefix for each reflector here and each one there, so all with all would be too many.
const mostPairs = 3

// pairs says which reflectors have sessions. Both clusters come to the same by themselves: it depends on nothing but the
// addresses. Each reflector is taken once before one is taken again, and a change concerns few others.
func pairs(o Observed) []pair {
	var all, out []pair
	for _, n := range Reflectors(o.Cluster.Nodes) {
		for _, here := range n.Addresses {
			for _, there := range o.Remote.Reflectors {
				if here.Is4() == there.Is4() {
					all = append(all, pair{n, here, there})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b pair) int { return bytes.Compare(a.rank(), b.rank()) })
	for _, four := range []bool{true, false} {
		taken, used := 0, map[netip.Addr]int{}
		left := slices.DeleteFunc(slices.Clone(all), func(p pair) bool { return p.here.Is4() != four })
		for ; taken < mostPairs && len(left) > 0; taken++ {
			next := 0
			for i, p := range left {
				if used[p.here]+used[p.there] < used[left[next].here]+used[left[next].there] {
					next = i
				}
			}
			p := left[next]
			used[p.here]++
			used[p.there]++
			out, left = append(out, p), slices.Delete(left, next, next+1)
		}
	}
	return out
}

// rank is the same whichever side computes it.
func (p pair) rank() []byte {
	a, b := p.here.String(), p.there.String()
	sum := sha256.Sum256([]byte(min(a, b) + " " + max(a, b)))
	return sum[:]
}

// sessions are those that there should be.
func sessions(o Observed, pairs []pair) []Session {
	out := make([]Session, 0, len(pairs))
	for _, p := range pairs {
		out = append(out, Session{Node: p.node.Name, Peer: p.there, Established: established(o.Cluster, p.node.Name, p.there.String())})
	}
	slices.SortFunc(out, func(a, b Session) int { return cmp.Or(strings.Compare(a.Node, b.Node), a.Peer.Compare(b.Peer)) })
	return out
}

// established says so of a node that is not Ready too: until others have its sessions, packets may come by them.
func established(c plan.Cluster, node, peer string) bool {
	return slices.ContainsFunc(c.Statuses[node].Sessions, func(s plan.Session) bool { return s.Peer.String() == peer && s.Established })
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

// filter lets through what is declared. What this cluster announces beside that is withheld: so is a range of services
// that is larger than a declared one.
func filter(o Observed, d Desired) plan.PeeringFilter {
	out := plan.PeeringFilter{Import: sorted(o.Remote.CIDRs())}
	if d.Pods {
		out.Pods = sorted(ownPods(o))
	}
	if d.Services {
		out.Services = sorted(d.ServiceCIDRs)
	}
	for _, c := range slices.Concat(ownPods(o), o.Services, o.OtherServices, d.Announce) {
		declared := func(s netip.Prefix) bool { return s.Bits() <= c.Bits() && s.Overlaps(c) }
		if !slices.ContainsFunc(out.Pods, c.Overlaps) && !slices.ContainsFunc(out.Services, declared) {
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

// peers are one BGPPeer for each pair.
func peers(o Observed, d Desired, pairs []pair) []plan.Peer {
	out := make([]plan.Peer, 0, len(pairs))
	for _, p := range pairs {
		out = append(out, plan.Peer{
			Name: objectName(d, p.here.StringExpanded()+"-"+p.there.StringExpanded()), Peering: d.Name, Node: p.node.Name, PeerIP: p.there.String(),
			ASN: o.Remote.ASN, Password: d.Password, Filters: []string{filterName(d)}, KeepNextHop: d.KeepNextHop,
		})
	}
	return out
}

// pools are the disabled IPPools for what comes from the remote cluster: Calico passes on no other routes. None lies in another.
func pools(o Observed, d Desired) []IPPool {
	var out []IPPool
	for _, cidr := range sorted(o.Remote.CIDRs()) {
		if len(out) > 0 && out[len(out)-1].CIDR.Overlaps(cidr) {
			continue
		}
		out = append(out, IPPool{Name: objectName(d, cidr.Addr().StringExpanded()+"/"+fmt.Sprint(cidr.Bits())), CIDR: cidr, Peering: d.Name})
	}
	return out
}

// put writes what is missing or is not as it should be: nothing comes in before its filter is there.
func put(o Observed, d Desired, let plan.PeeringFilter, peers []plan.Peer, pools []IPPool) []plan.Action {
	var out []plan.Action
	at := slices.IndexFunc(o.Filters, func(f Filter) bool { return f.Name == filterName(d) })
	if at < 0 || o.Filters[at].Rules == nil || !o.Filters[at].Rules.Equal(let) {
		out = append(out, plan.PutFilter{Name: filterName(d), Peering: d.Name, Filter: let})
	}
	for _, p := range pools {
		if !slices.Contains(o.Pools, p) {
			out = append(out, plan.PutIPPool{Name: p.Name, Peering: d.Name, CIDR: p.CIDR})
		}
	}
	out = append(out, announce(o, d)...)
	for _, p := range peers {
		if _, there := existing(o, p); !there {
			out = append(out, plan.PutPeer{Peer: p})
		}
	}
	return out
}

func existing(o Observed, p plan.Peer) (plan.Peer, bool) {
	i := slices.IndexFunc(o.Cluster.Peers, func(h plan.Peer) bool { return h.Name == p.Name })
	if i < 0 {
		return plan.Peer{}, false
	}
	return o.Cluster.Peers[i], true
}

// TakeOver is how long a node may need to do what a written BGPPeer says: a report from before may not show it.
const TakeOver = 10 * time.Second

// change makes one BGPPeer as it should be, while all sessions but its own are Established: a change restarts its session.
func change(o Observed, peers []plan.Peer, expected []Session) []plan.Action {
	for _, p := range peers {
		have, there := existing(o, p)
		if !there || plan.SamePeer(have, p) {
			continue
		}
		if !established(o.Cluster, p.Node, p.PeerIP) {
			return []plan.Action{plan.PutPeer{Peer: p}}
		}
		own := func(s Session) bool { return s.Node == p.Node && s.Peer.String() == p.PeerIP }
		if missing(slices.DeleteFunc(slices.Clone(expected), own)) > 0 {
			continue
		}
		if ask := unproven(o.Cluster, peers); len(ask) > 0 {
			return ask
		}
		return []plan.Action{plan.PutPeer{Peer: p}}
	}
	return nil
}

// unproven asks for new reports of the nodes whose last one may be from before a session was restarted by a write.
func unproven(c plan.Cluster, peers []plan.Peer) []plan.Action {
	var out []plan.Action
	for _, p := range c.Peers {
		ask := plan.RefreshStatus{Node: p.Node}
		if named(peers, p.Name) && c.Statuses[p.Node].Updated.Before(p.Written.Add(TakeOver)) && !slices.Contains(out, plan.Action(ask)) {
			out = append(out, ask)
		}
	}
	return out
}

// stays reports whether a BGPPeer that is no longer wanted is still needed, which it is until all sessions of its address
// family are Established. While none is, each stays: of a node that is no reflector any more it is not known. One to a
// reflector that the remote cluster has no more goes as soon as there is another session: that node may be dead, and BIRD
// would notice only after minutes.
func stays(o Observed, p plan.Peer, expected []Session) bool {
	there, err := netip.ParseAddr(p.PeerIP)
	family := slices.DeleteFunc(slices.Clone(expected), func(s Session) bool { return s.Peer.Is4() != there.Is4() })
	lacking := missing(family)
	return err == nil && lacking > 0 && (lacking == len(family) || established(o.Cluster, p.Node, p.PeerIP) && slices.Contains(o.Remote.Reflectors, there))
}

// narrow takes ranges that have an address of a node or apiserver of this cluster by now out of the filter: packets to it would go to the remote one.
func narrow(o Observed, d Desired) []plan.Action {
	at := slices.IndexFunc(o.Filters, func(f Filter) bool { return f.Name == filterName(d) && f.Peering == d.Name && f.Rules != nil })
	if at < 0 || o.Cluster.Locked != nil {
		return nil
	}
	let := *o.Filters[at].Rules
	let.Import = slices.DeleteFunc(slices.Clone(let.Import), func(c netip.Prefix) bool { return hostIn(c, o) != "" })
	if let.Equal(*o.Filters[at].Rules) {
		return nil
	}
	return []plan.Action{plan.PutFilter{Name: filterName(d), Peering: d.Name, Filter: let}}
}

// leave is all that is done while the rest may not be. It takes the BGPPeers away from nodes that are no reflectors any more, once a
// reflector has an Established session with the remote cluster: their worker waits for that.
func leave(o Observed, d Desired) []plan.Action {
	out := narrow(o, d)
	holds := func(name string) bool {
		return slices.ContainsFunc(o.Cluster.Nodes, func(n plan.Node) bool { return n.Name == name && n.HasRoleLabel })
	}
	instead := func(p plan.Peer) bool {
		return p.Peering == d.Name && holds(p.Node) && established(o.Cluster, p.Node, p.PeerIP)
	}
	if o.Cluster.Locked != nil || !slices.ContainsFunc(o.Cluster.Peers, instead) {
		return out
	}
	for _, p := range o.Cluster.Peers {
		if p.Peering == d.Name && !holds(p.Node) {
			out = append(out, plan.DeletePeer{Name: p.Name})
		}
	}
	return out
}

// announce has Calico announce what ClusterPeerings need, beside what it announces already.
func announce(o Observed, d Desired) []plan.Action {
	want := slices.DeleteFunc(sorted(d.Announce), func(c netip.Prefix) bool { return slices.Contains(o.OtherServices, c) })
	if slices.Equal(sorted(o.Services), want) {
		return nil
	}
	return []plan.Action{plan.AnnounceServices{CIDRs: want}}
}

// remove takes away what is of this ClusterPeering and not among what is to stay: sessions first. What they need may go when
// nodes have had TakeOver to end them: without their filter everything would pass.
func remove(o Observed, d Desired, peers []plan.Peer, pools []IPPool) []plan.Action {
	var out []plan.Action
	for _, p := range o.Cluster.Peers {
		if p.Peering == d.Name && !named(peers, p.Name) {
			out = append(out, plan.DeletePeer{Name: p.Name})
		}
	}
	switch {
	case !d.Gone:
		return append(out, removePools(o, d, pools)...)
	case len(out) > 0:
		return out
	}
	out = slices.Concat(announce(o, d), removePools(o, d, nil))
	for _, f := range o.Filters {
		if f.Peering == d.Name {
			out = append(out, plan.DeletePeeringObject{Kind: KindBGPFilter, Name: f.Name, Peering: d.Name})
		}
	}
	return out
}

func removePools(o Observed, d Desired, stay []IPPool) []plan.Action {
	var out []plan.Action
	for _, p := range o.Pools {
		if p.Peering == d.Name && !slices.Contains(stay, p) {
			out = append(out, plan.DeletePeeringObject{Kind: KindIPPool, Name: p.Name, Peering: d.Name})
		}
	}
	return out
}

// missing counts the sessions that are not Established.
func missing(expected []Session) int {
	n := 0
	for _, s := range expected {
		if !s.Established {
			n++
		}
	}
	return n
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
