package peering

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// problem is why the two clusters cannot be joined, nil for nothing. It is found before anything is written.
func problem(o Observed, d Desired) *plan.Problem {
	return cmp.Or(unable(o, d), unsuited(o), notAllowed(o, d), reflectorInside(o, d), overlap(o, d), nameTaken(o, d), otherPeers(o, d))
}

// unable: this cluster cannot be peered with.
func unable(o Observed, d Desired) *plan.Problem {
	switch {
	case o.Cluster.Locked != nil:
		return o.Cluster.Locked
	case len(o.Cluster.Problems) > 0:
		return &o.Cluster.Problems[0]
	case d.NotReflecting != "":
		return plan.Problemf("NotReflecting", "%s", d.NotReflecting)
	case len(Reflectors(o.Cluster.Nodes)) == 0:
		return plan.Problemf("NoReflectors", "no node of this cluster is a route reflector yet")
	case o.Cluster.Routes.Plain.Unknown != "":
		return plan.Problemf("RoutesNotProgrammed", "whether BIRD may program routes without encapsulation, by which nodes use what the remote cluster announces, is not known: %s",
			o.Cluster.Routes.Plain.Unknown)
	case o.Cluster.Routes.Plain.Encapsulation != "" && !o.Cluster.Routes.Plain.BIRD:
		return plan.Problemf("RoutesNotProgrammed", "BIRD may not program routes without encapsulation, so nodes would not use what the remote cluster announces: "+
			"set programClusterRoutes of BGPConfiguration default to EnabledNoEncapOnly or Enabled")
	case d.Services && len(d.ServiceCIDRs) == 0:
		return plan.Problemf("ServiceCIDRUnknown", "the range of this cluster's services is not known: give spec.advertise.serviceCIDRs, or set spec.advertise.services to false")
	}
	return nil
}

// unsuited: the remote cluster is none for this one.
func unsuited(o Observed) *plan.Problem {
	switch {
	case len(o.Remote.Reflectors) == 0:
		return plan.Problemf("NoRemoteReflectors", "the remote cluster has no route reflectors: it needs a RouteReflectorPool in mode RouteReflector")
	case o.Remote.ASN == o.Cluster.BGP.ASN:
		return plan.Problemf("SameASNumber", "both clusters have AS number %d: each needs one of its own (asNumber of BGPConfiguration default)", o.Remote.ASN)
	case o.Remote.ASN > math.MaxInt32 && strings.Contains(o.Cluster.CalicoAPI, "/"):
		return plan.Problemf("ASNumberTooLarge", "the remote cluster has AS number %d, and Calico's CRD of BGPPeers takes none above %d: give it a smaller one", o.Remote.ASN, math.MaxInt32)
	case len(pairs(o)) == 0:
		return plan.Problemf("NoCommonFamily", "the remote reflectors have addresses such as %s, and the reflectors here have none of that family", o.Remote.Reflectors[0])
	}
	for _, n := range o.Cluster.Nodes {
		for _, a := range n.Addresses {
			if slices.Contains(o.Remote.Reflectors, a) {
				return plan.Problemf("AddressInUse", "the remote reflector %s has the address of node %s of this cluster: "+
					"both clusters must be in one network, where an address is of one node", a, n.Name)
			}
		}
	}
	return nil
}

// notAllowed: the remote cluster declares a range that it may not have.
func notAllowed(o Observed, d Desired) *plan.Problem {
	for _, theirs := range o.Remote.CIDRs() {
		holds := func(allowed netip.Prefix) bool { return allowed.Bits() <= theirs.Bits() && allowed.Overlaps(theirs) }
		if len(d.Allowed) > 0 && !slices.ContainsFunc(d.Allowed, holds) {
			return plan.Problemf("CIDRNotAllowed", "%s of the remote cluster lies in no range of spec.remote.allowedCIDRs: add it there if it is right, else see who has changed that cluster", theirs)
		}
	}
	return nil
}

// reflectorInside: a remote reflector has an address of pods or services, so a pod of this cluster could have the sessions. No pod
// has one of a disabled IPPool without blocks, such as one over the nodes' network, to which packets keep their sender by it.
func reflectorInside(o Observed, d Desired) *plan.Problem {
	given := o
	given.Pools = slices.DeleteFunc(slices.Clone(o.Pools), func(p IPPool) bool { return !p.ForPods && p.Peering == "" })
	given.OtherServices = o.OtherClusterIPs // external IPs may be those of nodes
	for _, a := range o.Remote.Reflectors {
		with := inUse(netip.PrefixFrom(a, a.BitLen()), given, d)
		for _, n := range o.Cluster.Nodes {
			if i := slices.IndexFunc(n.Blocks, func(b netip.Prefix) bool { return b.Contains(a) }); i >= 0 {
				with = cmp.Or(with, fmt.Sprintf("block %s of node %s", n.Blocks[i], n.Name))
			}
		}
		if with != "" {
			return plan.Problemf("AddressInUse", "the remote reflector %s lies in %s: its address must be that of a node of the other cluster", a, with)
		}
	}
	return nil
}

// overlap: a range of the remote cluster cannot be told from what is here, or from what another ClusterPeering brings.
func overlap(o Observed, d Desired) *plan.Problem {
	if o.Unread != "" {
		return plan.Problemf("RangeUnreadable", "a range of this cluster cannot be read, so whether those of the remote cluster overlap with it is not known: %s: correct it", o.Unread)
	}
	for _, theirs := range o.Remote.CIDRs() {
		with := overlapsWith(theirs, o, d)
		if theirs.Bits() == 0 {
			with = "everything, as a default route does"
		}
		if with != "" {
			return plan.Problemf("OverlappingCIDRs", "%s of the remote cluster overlaps with %s, and packets to it could go either way: give one of them another range, or describe the remote cluster by spec.remote.static, without this one", theirs, with)
		}
	}
	return nil
}

// inUse says which range of pods or services here, or of another ClusterPeering, has a part of theirs.
func inUse(theirs netip.Prefix, o Observed, d Desired) string {
	for _, p := range o.Pools {
		if p.Peering != d.Name && p.CIDR.Overlaps(theirs) {
			return fmt.Sprintf("IPPool %s (%s)", p.Name, p.CIDR)
		}
	}
	for _, c := range slices.Concat(d.OwnServices, d.Announce, o.OtherServices) {
		if c.Overlaps(theirs) {
			return fmt.Sprintf("the services of this cluster (%s)", c)
		}
	}
	return ""
}

func overlapsWith(theirs netip.Prefix, o Observed, d Desired) string {
	if with := inUse(theirs, o, d); with != "" {
		return with
	}
	if with := hostIn(theirs, o); with != "" {
		return with
	}
	for _, n := range o.Cluster.Nodes {
		for _, s := range n.Subnets { // one that has pods is not for nodes alone
			if s.Overlaps(theirs) && !slices.ContainsFunc(o.Pools, func(p IPPool) bool { return p.ForPods && p.CIDR.Overlaps(s) }) {
				return fmt.Sprintf("the subnet of node %s (%s), where other nodes may get an address", n.Name, s)
			}
		}
	}
	for _, a := range o.Remote.Reflectors {
		if theirs.Contains(a) {
			return fmt.Sprintf("the remote reflector %s, which must be reachable without it", a)
		}
	}
	return ""
}

// hostIn names a node or an apiserver of this cluster with an address in a range, "" for none.
func hostIn(of netip.Prefix, o Observed) string {
	for _, n := range o.Cluster.Nodes {
		for _, a := range slices.Concat(n.Addresses, n.MachineAddresses) {
			if of.Contains(a) {
				return fmt.Sprintf("node %s (%s)", n.Name, a)
			}
		}
	}
	if i := slices.IndexFunc(o.Apiservers, of.Contains); i >= 0 {
		return fmt.Sprintf("the apiserver of this cluster (%s)", o.Apiservers[i])
	}
	return ""
}

// nameTaken: an object of others has a name of ours.
func nameTaken(o Observed, d Desired) *plan.Problem {
	taken := func(kind, name string) *plan.Problem {
		return plan.Problemf("NameTaken", "%s %s exists but was not made by rrpool for this ClusterPeering: rename or delete it", kind, name)
	}
	for _, f := range o.Filters {
		if f.Name == filterName(d) && f.Peering != d.Name {
			return taken(KindBGPFilter, f.Name)
		}
	}
	want := peers(o, d, pairs(o))
	for _, p := range o.Cluster.Peers {
		if named(want, p.Name) && p.Peering != d.Name {
			return taken("BGPPeer", p.Name)
		}
	}
	for _, w := range pools(o, d) {
		for _, p := range o.Pools {
			if p.Name == w.Name && p.Peering != d.Name {
				return taken(KindIPPool, p.Name)
			}
		}
	}
	return nil
}

// otherPeers: a BGPPeer of others peers with a remote reflector, and a node has one session with an address; or with a router
// to which Calico would pass on what the remote cluster announces, as it is in an IPPool here then.
func otherPeers(o Observed, d Desired) *plan.Problem {
	for _, p := range o.Cluster.Peers {
		router := simulate.PeerAddress(p.PeerIP)
		switch {
		case p.Peering == d.Name || p.Owned || !router.IsValid():
		case slices.Contains(o.Remote.Reflectors, router) && p.Peering != "":
			return plan.Problemf("AlreadyPeered", "ClusterPeering %s has sessions with %s, which this remote cluster has as a reflector too: see which of the two clusters it belongs to, "+
				"and delete or correct the other ClusterPeering (its BGPPeer %s would be written again)", p.Peering, p.PeerIP, p.Name)
		case slices.Contains(o.Remote.Reflectors, router):
			return plan.Problemf("AlreadyPeered", "BGPPeer %s has sessions with %s, a reflector of the remote cluster: delete it", p.Name, p.PeerIP)
		case p.Peering == "" && !rollout.InCluster(p, o.Cluster.Nodes) && len(p.Filters) == 0:
			return plan.Problemf("UnfilteredPeer", "BGPPeer %s has no filters, so nodes would announce the remote cluster's ranges to %s, and draw its traffic: "+
				"give it a BGPFilter that rejects them in both directions", p.Name, p.PeerIP)
		}
	}
	return nil
}
