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

// findProblem returns the first reason why the two clusters cannot be peered, nil if there is none.
func findProblem(o Observed, d Desired) *plan.Problem {
	return cmp.Or(problemHere(o, d), problemRemote(o), notAllowed(o, d), reflectorInside(o, d), overlap(o, d), nameTaken(o, d), otherPeers(o, d))
}

// problemHere returns why this cluster cannot be peered with any other.
func problemHere(o Observed, d Desired) *plan.Problem {
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

// problemRemote returns why the remote cluster cannot be peered with this one.
func problemRemote(o Observed) *plan.Problem {
	switch {
	case len(o.Remote.Reflectors) == 0:
		return plan.Problemf("NoRemoteReflectors", "the remote cluster has no route reflectors: it needs a RouteReflectorPool in mode RouteReflector")
	case o.Remote.ASN == o.Cluster.BGP.ASN:
		return plan.Problemf("SameASNumber", "both clusters have AS number %d: each needs one of its own (asNumber of BGPConfiguration default)", o.Remote.ASN)
	case o.Remote.ASN > math.MaxInt32 && strings.Contains(o.Cluster.CalicoAPI, "/"):
		return plan.Problemf("ASNumberTooLarge", "the remote cluster has AS number %d, and Calico's CRD of BGPPeers takes none above %d: give it a smaller one", o.Remote.ASN, math.MaxInt32)
	case len(choosePairs(o)) == 0:
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

// notAllowed returns a problem if the remote cluster declares a range that spec.remote.allowedCIDRs does not allow.
func notAllowed(o Observed, d Desired) *plan.Problem {
	for _, theirs := range o.Remote.CIDRs() {
		holds := func(allowed netip.Prefix) bool { return allowed.Bits() <= theirs.Bits() && allowed.Overlaps(theirs) }
		if len(d.Allowed) > 0 && !slices.ContainsFunc(d.Allowed, holds) {
			return plan.Problemf("CIDRNotAllowed", "%s of the remote cluster lies in no range of spec.remote.allowedCIDRs: add it there if it is right, else see who has changed that cluster", theirs)
		}
	}
	return nil
}

// reflectorInside returns a problem if a remote reflector's address is in a range of pods or services: a pod of
// this cluster could get that address, and the sessions. Disabled IPPools do not count unless nodes have blocks
// of them: users create disabled IPPools for the nodes' network, so that packets to it are not masqueraded.
func reflectorInside(o Observed, d Desired) *plan.Problem {
	given := o
	given.Pools = slices.DeleteFunc(slices.Clone(o.Pools), func(p IPPool) bool { return !p.ForPods && p.Peering == "" })
	given.OtherServices = o.OtherClusterIPs // external IPs may be addresses of nodes
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

// overlap returns a problem if a range of the remote cluster overlaps with one of this cluster or of another ClusterPeering.
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

// inUse describes a range of pods or services that overlaps with theirs and is of this cluster or of another ClusterPeering; "" for none.
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

// overlapsWith describes anything that overlaps with a range of the remote cluster, "" for nothing.
func overlapsWith(theirs netip.Prefix, o Observed, d Desired) string {
	if with := inUse(theirs, o, d); with != "" {
		return with
	}
	if with := hostIn(theirs, o); with != "" {
		return with
	}
	for _, n := range o.Cluster.Nodes {
		for _, s := range n.Subnets { // a subnet in which pods have addresses too may contain the range
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

// hostIn describes a node or an apiserver of this cluster whose address is in a range, "" for none.
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

// nameTaken returns a problem if an object of others has the name of an object of this ClusterPeering.
func nameTaken(o Observed, d Desired) *plan.Problem {
	taken := func(kind, name string) *plan.Problem {
		return plan.Problemf("NameTaken", "%s %s exists but was not made by rrpool for this ClusterPeering: rename or delete it", kind, name)
	}
	for _, f := range o.Filters {
		if f.Name == filterName(d) && f.Peering != d.Name {
			return taken(KindBGPFilter, f.Name)
		}
	}
	want := wantedPeers(o, d, choosePairs(o))
	for _, p := range o.Cluster.Peers {
		if hasName(want, p.Name) && p.Peering != d.Name {
			return taken("BGPPeer", p.Name)
		}
	}
	for _, w := range wantedPools(o, d) {
		for _, p := range o.Pools {
			if p.Name == w.Name && p.Peering != d.Name {
				return taken(KindIPPool, p.Name)
			}
		}
	}
	return nil
}

// otherPeers returns a problem for two kinds of BGPPeers of others. One is for a remote reflector:
// a node has only one session with an address. The other is for a router and has no filters: the
// remote cluster's ranges are in IPPools here, so Calico would advertise them to the router.
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
