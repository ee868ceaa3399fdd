// Package peering decides which objects of Calico a ClusterPeering needs, so that the route reflectors of this cluster
// exchange routes with those of another cluster. It also decides in which order these objects are written and deleted.
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

// Side is what one of the two clusters declares to the other. All lists are sorted.
type Side struct {
	ASN uint32
	// Reflectors are the BGP addresses of its route reflectors.
	Reflectors []netip.Addr
	// Pods and Services are the ranges that it advertises.
	Pods, Services []netip.Prefix
}

// CIDRs returns all ranges of a side.
func (s Side) CIDRs() []netip.Prefix { return slices.Concat(s.Pods, s.Services) }

// IPPool holds the facts about an IPPool that decisions depend on.
type IPPool struct {
	Name string
	CIDR netip.Prefix
	// Peering is the ClusterPeering that it was written for, "" for none.
	Peering string
	// ForPods: pods get addresses from the IPPool. Announced: moreover, BGP may export its routes.
	ForPods, Announced bool
	// Edited: rrpool wrote the IPPool for a ClusterPeering, and others have changed it.
	Edited bool
}

// Filter holds the facts about a BGPFilter that decisions depend on.
type Filter struct {
	Name, Peering string
	// Rules are the ranges that the filter accepts, nil if it has rules that rrpool does not write.
	Rules *plan.PeeringFilter
}

// Observed is the state that a decision depends on.
type Observed struct {
	// Cluster is this cluster.
	Cluster plan.Cluster
	Filters []Filter
	Pools   []IPPool
	// Services are the service ranges that Calico announces for ClusterPeerings. OtherServices are all other
	// service ranges that it announces, and OtherClusterIPs those of OtherServices that contain cluster IPs.
	Services, OtherServices, OtherClusterIPs []netip.Prefix
	// Apiservers are the IP addresses of this cluster's apiserver.
	Apiservers []netip.Addr
	// Unread is a range of this cluster that cannot be parsed, "" for none. Whether such a range overlaps with another is not known.
	Unread string
	// Remote is the remote cluster, nil while it is not known.
	Remote *Side
}

// Desired is what the user wants.
type Desired struct {
	// Name of the ClusterPeering.
	Name string
	// NotReflecting is why this cluster is not meant to have route reflectors, "" if it is.
	NotReflecting string
	// Deleted: all objects of this ClusterPeering are to be deleted.
	Deleted bool
	// Pods and Services say what to advertise. ServiceCIDRs are the service ranges to
	// advertise, OwnServices all service ranges that this cluster is known to have.
	Pods, Services            bool
	ServiceCIDRs, OwnServices []netip.Prefix
	// Announce are the service ranges that all ClusterPeerings together advertise.
	Announce    []netip.Prefix
	Password    *plan.SecretRef
	KeepNextHop bool
	// Allowed are the ranges that must contain those of the remote cluster. If there are none, any range is allowed.
	Allowed []netip.Prefix
}

// Decision is the result of Next.
type Decision struct {
	// Actions in the order in which they are to be taken.
	Actions []plan.Action
	// Problem is why nothing new is written, nil if there is no problem. Existing objects stay.
	Problem *plan.Problem
	// Expected are the sessions that the two clusters should have.
	Expected []Session
	// Advertised are the ranges of this cluster that are advertised to the remote one.
	Advertised []netip.Prefix
}

// Session is a session of a reflector of this cluster with one of the remote cluster.
type Session struct {
	Node        string
	Peer        netip.Addr
	Established bool
}

// KindBGPFilter and KindIPPool are the kinds of plan.DeletePeeringObject.
const (
	KindBGPFilter = "BGPFilter"
	KindIPPool    = "IPPool"
)

// Next returns what to write next for a ClusterPeering. If the remote cluster is not known, or there
// is a problem, Next only deletes BGPPeers of former reflectors and narrows the filter: see always.
func Next(o Observed, d Desired) Decision {
	if d.Deleted {
		return deleteAll(o, d)
	}
	if o.Remote == nil {
		return Decision{Actions: always(o, d)}
	}
	with := choosePairs(o)
	let := wantedFilter(o, d)
	s := Decision{Expected: expectedSessions(o, with), Advertised: slices.Concat(let.Pods, let.Services)}
	if s.Problem = findProblem(o, d); s.Problem != nil {
		s.Actions = always(o, d)
		return s
	}
	peers, pools := wantedPeers(o, d, with), wantedPools(o, d)
	s.Actions = create(o, d, let, peers, pools)
	if len(s.Actions) == 0 {
		s.Actions = update(o, peers, s.Expected)
	}
	if len(s.Actions) > 0 {
		return s // objects are deleted after their replacements are written
	}
	var stay []plan.Peer
	for _, p := range o.Cluster.Peers {
		if p.Peering == d.Name && !hasName(peers, p.Name) && mustStay(o, p, s.Expected) {
			stay = append(stay, p)
		}
	}
	s.Actions = deleteOthers(o, d, append(peers, stay...), pools)
	return s
}

// deleteAll deletes all objects of a ClusterPeering. While the datastore
// is locked, it deletes nothing, because a list may not be complete then.
func deleteAll(o Observed, d Desired) Decision {
	if o.Cluster.Locked != nil {
		return Decision{Problem: o.Cluster.Locked}
	}
	return Decision{Actions: deleteOthers(o, d, nil, nil)}
}

// Reflectors returns the reflectors that are Ready, or all reflectors if none is Ready. A reflector that is not Ready
// gets no sessions with the remote cluster, because packets between the clusters may go through that reflector.
func Reflectors(nodes []plan.Node) []plan.Node {
	all := slices.DeleteFunc(slices.Clone(nodes), func(n plan.Node) bool { return !n.HasRoleLabel || n.ClusterID == "" || !n.SpeaksBGP() })
	if ready := slices.DeleteFunc(slices.Clone(all), func(n plan.Node) bool { return !n.Ready }); len(ready) > 0 {
		return ready
	}
	return all
}

// pair is a reflector of this cluster and one of the remote cluster that should have a session.
type pair struct {
	node        plan.Node
	here, there netip.Addr
}

// mostPairs is the maximum number of sessions of two clusters in each address family. Calico advertises every path that it has: with
// n sessions a client has n paths to a prefix for each pair of reflectors of the two clusters. A full mesh would give too many paths.
const mostPairs = 3

// choosePairs returns the pairs of reflectors that should have a session. The result depends only on the addresses, so both clusters
// choose the same pairs. No reflector gets a second session before each has one, and a change of one reflector changes few other pairs.
func choosePairs(o Observed) []pair {
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

// rank returns the sort key of a pair, which is the same in both clusters.
func (p pair) rank() []byte {
	a, b := p.here.String(), p.there.String()
	sum := sha256.Sum256([]byte(min(a, b) + " " + max(a, b)))
	return sum[:]
}

// expectedSessions returns the session of each pair.
func expectedSessions(o Observed, pairs []pair) []Session {
	out := make([]Session, 0, len(pairs))
	for _, p := range pairs {
		out = append(out, Session{Node: p.node.Name, Peer: p.there, Established: established(o.Cluster, p.node.Name, p.there.String())})
	}
	slices.SortFunc(out, func(a, b Session) int { return cmp.Or(strings.Compare(a.Node, b.Node), a.Peer.Compare(b.Peer)) })
	return out
}

// established reports whether a node reports an Established session with a peer. It does not matter whether the node is Ready.
func established(c plan.Cluster, node, peer string) bool {
	return slices.ContainsFunc(c.Statuses[node].Sessions, func(s plan.Session) bool { return s.Peer.String() == peer && s.Established })
}

// ownPods returns the ranges of this cluster's pods.
func ownPods(o Observed) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range o.Pools {
		if p.Announced && p.Peering == "" {
			out = append(out, p.CIDR)
		}
	}
	return out
}

// wantedFilter returns the ranges to import and export. All other ranges that this cluster
// announces are withheld, including a service range that contains a range to export but is larger.
func wantedFilter(o Observed, d Desired) plan.PeeringFilter {
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

// Prefix is the prefix of the names of all objects of ClusterPeerings.
const Prefix = "rrpool-peering-"

func filterName(d Desired) string { return Prefix + d.Name }

// objectName returns the name of the object for an address or range.
func objectName(d Desired, of string) string {
	return filterName(d) + "-" + strings.NewReplacer(".", "-", ":", "-", "/", "-").Replace(of)
}

// wantedPeers returns a BGPPeer for each pair.
func wantedPeers(o Observed, d Desired, pairs []pair) []plan.Peer {
	out := make([]plan.Peer, 0, len(pairs))
	for _, p := range pairs {
		out = append(out, plan.Peer{
			Name: objectName(d, p.here.StringExpanded()+"-"+p.there.StringExpanded()), Peering: d.Name, Node: p.node.Name, PeerIP: p.there.String(),
			ASN: o.Remote.ASN, Password: d.Password, Filters: []string{filterName(d)}, KeepNextHop: d.KeepNextHop,
		})
	}
	return out
}

// wantedPools returns a disabled IPPool for each range of the remote cluster that is
// not inside another: Calico's route reflectors pass on no routes outside of IPPools.
func wantedPools(o Observed, d Desired) []IPPool {
	var out []IPPool
	for _, cidr := range sorted(o.Remote.CIDRs()) {
		if len(out) > 0 && out[len(out)-1].CIDR.Overlaps(cidr) {
			continue
		}
		out = append(out, IPPool{Name: objectName(d, cidr.Addr().StringExpanded()+"/"+fmt.Sprint(cidr.Bits())), CIDR: cidr, Peering: d.Name})
	}
	return out
}

// create writes the filter if it is missing or differs, and then the other objects that are missing.
func create(o Observed, d Desired, let plan.PeeringFilter, peers []plan.Peer, pools []IPPool) []plan.Action {
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

// existing returns the BGPPeer of the same name as p, and whether there is one.
func existing(o Observed, p plan.Peer) (plan.Peer, bool) {
	i := slices.IndexFunc(o.Cluster.Peers, func(h plan.Peer) bool { return h.Name == p.Name })
	if i < 0 {
		return plan.Peer{}, false
	}
	return o.Cluster.Peers[i], true
}

// ApplyTime is how long nodes may need to apply a BGPPeer after it was written. Reports of this time may not show the effect yet.
const ApplyTime = 10 * time.Second

// update updates one BGPPeer that differs. The update restarts the BGPPeer's session. So all
// other sessions must be Established first, unless the BGPPeer's own session is down already.
func update(o Observed, peers []plan.Peer, expected []Session) []plan.Action {
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
		if ask := refresh(o.Cluster, peers); len(ask) > 0 {
			return ask
		}
		return []plan.Action{plan.PutPeer{Peer: p}}
	}
	return nil
}

// refresh requests new reports of nodes whose last report may be too old to show that a written BGPPeer has restarted a session.
func refresh(c plan.Cluster, peers []plan.Peer) []plan.Action {
	var out []plan.Action
	for _, p := range c.Peers {
		ask := plan.RefreshStatus{Node: p.Node}
		if hasName(peers, p.Name) && c.Statuses[p.Node].Updated.Before(p.Written.Add(ApplyTime)) && !slices.Contains(out, plan.Action(ask)) {
			out = append(out, ask)
		}
	}
	return out
}

// mustStay reports whether a BGPPeer that is not wanted any more must stay until the wanted sessions of its
// address family are Established. While none of these is Established, every BGPPeer stays, because the status of
// former reflectors is not known. After that, a BGPPeer stays only if its session with a current reflector of
// the remote cluster is Established: a former reflector may have failed, which BIRD notices only after minutes.
func mustStay(o Observed, p plan.Peer, expected []Session) bool {
	there, err := netip.ParseAddr(p.PeerIP)
	family := slices.DeleteFunc(slices.Clone(expected), func(s Session) bool { return s.Peer.Is4() != there.Is4() })
	lacking := missing(family)
	return err == nil && lacking > 0 && (lacking == len(family) || established(o.Cluster, p.Node, p.PeerIP) && slices.Contains(o.Remote.Reflectors, there))
}

// narrow removes ranges from the filter that contain the address of a node or apiserver of this
// cluster, for example of a new node: packets to that address would go to the remote cluster.
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

// always returns the actions for which the remote cluster need not be known, and that a problem does not
// prevent. It narrows the filter. Once a current reflector has an Established session with the remote cluster,
// it deletes the BGPPeers of former reflectors: their workers are not removed before these are deleted.
func always(o Observed, d Desired) []plan.Action {
	out := narrow(o, d)
	holds := func(name string) bool {
		return slices.ContainsFunc(o.Cluster.Nodes, func(n plan.Node) bool { return n.Name == name && n.HasRoleLabel })
	}
	serves := func(p plan.Peer) bool {
		return p.Peering == d.Name && holds(p.Node) && established(o.Cluster, p.Node, p.PeerIP)
	}
	if o.Cluster.Locked != nil || !slices.ContainsFunc(o.Cluster.Peers, serves) {
		return out
	}
	for _, p := range o.Cluster.Peers {
		if p.Peering == d.Name && !holds(p.Node) {
			out = append(out, plan.DeletePeer{Name: p.Name})
		}
	}
	return out
}

// announce makes Calico announce the service ranges of ClusterPeerings that are not announced for other reasons.
func announce(o Observed, d Desired) []plan.Action {
	want := slices.DeleteFunc(sorted(d.Announce), func(c netip.Prefix) bool { return slices.Contains(o.OtherServices, c) })
	if slices.Equal(sorted(o.Services), want) {
		return nil
	}
	return []plan.Action{plan.AnnounceServices{CIDRs: want}}
}

// deleteOthers deletes the objects of this ClusterPeering that are not in peers and pools. It deletes BGPPeers first. If the
// ClusterPeering is deleted, all other objects follow in a later call, because a session without its filter would pass all routes.
func deleteOthers(o Observed, d Desired, peers []plan.Peer, pools []IPPool) []plan.Action {
	var out []plan.Action
	for _, p := range o.Cluster.Peers {
		if p.Peering == d.Name && !hasName(peers, p.Name) {
			out = append(out, plan.DeletePeer{Name: p.Name})
		}
	}
	switch {
	case !d.Deleted:
		return append(out, deletePools(o, d, pools)...)
	case len(out) > 0:
		return out
	}
	out = slices.Concat(announce(o, d), deletePools(o, d, nil))
	for _, f := range o.Filters {
		if f.Peering == d.Name {
			out = append(out, plan.DeletePeeringObject{Kind: KindBGPFilter, Name: f.Name, Peering: d.Name})
		}
	}
	return out
}

// deletePools deletes the IPPools of this ClusterPeering that are not in stay.
func deletePools(o Observed, d Desired, stay []IPPool) []plan.Action {
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

// hasName reports whether one of the peers has this name.
func hasName(peers []plan.Peer, name string) bool {
	return slices.ContainsFunc(peers, func(p plan.Peer) bool { return p.Name == name })
}

// sorted returns the ranges sorted, without duplicates.
func sorted(cidrs []netip.Prefix) []netip.Prefix {
	out := slices.Clone(cidrs)
	slices.SortFunc(out, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	return slices.Compact(out)
}
