package check

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/controllers/plan"
)

func containers(d seen[*appsv1.DaemonSet]) []corev1.Container {
	if !d.found {
		return nil
	}
	return d.value.Spec.Template.Spec.Containers
}

// passwords: what calico-node cannot read keeps sessions down.
var passwords = withCalico(func(f facts) *Result {
	var names []string
	var hidden *Result
	for _, p := range f.calico.passwords {
		what := fmt.Sprintf("Secret %s, key %s (%s)", p.Name, p.Key, p.field)
		switch {
		case p.filled.hidden != "":
			hidden = unseen("the password of the sessions, "+what+",", p.filled.hidden)
		case !p.filled.found:
			return fail("the password of the sessions is missing: %s does not exist in calico-node's namespace", what).
				do("create it there, or correct the field: sessions cannot come up without it")
		case !p.filled.value:
			return fail("the password of the sessions is missing: %s has no value", what).
				do("fill it in, or correct the field: sessions cannot come up without it")
		case p.readable.hidden != "":
			hidden = unseen("whether calico-node may read the password of the sessions, "+what+",", p.readable.hidden)
		case !p.readable.value:
			return fail("calico-node may not read the password of the sessions: %s", what).
				do("give its service account a Role to get, list and watch that Secret")
		default:
			names = append(names, what)
		}
	}
	switch {
	case hidden != nil:
		return hidden
	case len(names) == 0:
		return fine("sessions have no password")
	}
	return fine("the password of the sessions is there, and calico-node may read it: %s", strings.Join(names, ", "))
})

// asNumbers: route reflection is iBGP, so all nodes have to share one AS number.
var asNumbers = withCalico(func(f facts) *Result {
	of := map[uint32][]string{}
	for _, n := range f.snapshot.Cluster.Nodes {
		if n.SpeaksBGP() {
			as := asOf(n, f.snapshot.Cluster.BGP)
			of[as] = append(of[as], n.Name)
		}
	}
	var parts []string
	for _, as := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, fmt.Sprintf("AS %d: %s", as, iostreams.Few(of[as])))
	}
	switch len(of) {
	case 0:
		return nil
	case 1:
		return fine("all nodes have AS number %d", slices.Collect(maps.Keys(of))[0])
	}
	return fail("nodes have %d different AS numbers, and route reflectors need one for all", len(of)).also(parts...).
		reason("MixedASNumbers").do("remove the nodes' own AS numbers, or keep the mesh")
})

// reflectors of somebody else.
var reflectors = withCalico(func(f facts) *Result {
	var foreign []string
	ours := 0
	for _, n := range f.snapshot.Cluster.Nodes {
		switch {
		case n.ClusterID == "":
		case n.Marked || n.Pooled:
			ours++
		default:
			foreign = append(foreign, fmt.Sprintf("%s (cluster ID %s)", n.Name, n.ClusterID))
		}
	}
	switch {
	case len(foreign) > 0:
		return fail("%s already, and not by rrpool: %s", count(len(foreign), "node is a route reflector", "nodes are route reflectors"), iostreams.Few(foreign)).
			reason("ForeignReflector").do("remove their routeReflectorClusterID and the BGPPeers that belong to it, or keep your own reflection")
	case ours > 0:
		return fine("%s, by rrpool", count(ours, "node is a route reflector", "nodes are route reflectors"))
	}
	return fine("no node is a route reflector yet")
})

// peers of somebody else: to routers they are fine, between nodes they are not.
var peers = withCalico(func(f facts) *Result {
	var inside, outside []string
	for _, p := range f.snapshot.Cluster.Peers {
		switch {
		case p.Owned:
		case between(p, f.snapshot.Cluster.Nodes):
			inside = append(inside, p.Name)
		default:
			outside = append(outside, p.Name)
		}
	}
	switch {
	case len(inside) > 0:
		return fail("%s sessions between nodes of this cluster: %s", count(len(inside), "BGPPeer of somebody else makes", "BGPPeers of somebody else make"), iostreams.Few(inside)).
			reason("ForeignInClusterPeer").do("delete them (kubectl get bgppeers.crd.projectcalico.org), or set spec.mode: Paused and keep your own route reflection")
	case len(outside) > 0:
		return fine("%s: %s", count(len(outside), "BGPPeer of somebody else leads out of the cluster, and is left alone", "BGPPeers of somebody else lead out of the cluster, and are left alone"), iostreams.Few(outside))
	}
	return fine("no BGPPeers of somebody else")
})

// between tells a BGPPeer between nodes of the cluster, as the manager does.
func between(p plan.Peer, nodes []plan.Node) bool {
	if p.PeerSelector != "" {
		return true
	}
	addr, err := netip.ParseAddr(p.PeerIP)
	if at, atErr := netip.ParseAddrPort(p.PeerIP); err != nil && atErr == nil {
		addr, err = at.Addr(), nil
	}
	return err == nil && slices.ContainsFunc(nodes, func(n plan.Node) bool { return slices.Contains(n.Addresses, addr) })
}

// encapsulation of a pool in words.
func (p ipPool) encapsulation() string {
	on := func(mode string) bool { return mode != "" && mode != "Never" }
	switch {
	case on(p.vxlan):
		return "VXLAN " + p.vxlan
	case on(p.ipip):
		return "IP-in-IP " + p.ipip
	}
	return "not encapsulated"
}

// byFelix: Felix and not BIRD writes a pool's routes into the kernel, so that BGP does not
// matter for its pods. Felix always does so with VXLAN.
func (p ipPool) byFelix(routes string) bool {
	e := p.encapsulation()
	return strings.HasPrefix(e, "VXLAN") || strings.HasPrefix(e, "IP-in-IP") && routes == "Enabled"
}

// routes: who writes the routes to pods into the kernel.
var routes = withCalico(func(f facts) *Result {
	pools := f.calico.pools
	switch {
	case pools.hidden != "":
		return unseen("who programs the routes to pods", pools.hidden)
	case len(pools.value) == 0:
		return note("who programs the routes to pods cannot be seen: no IPPool is enabled for workloads")
	}
	var bird, felix []string
	for _, p := range pools.value {
		text := fmt.Sprintf("%s: %s", p.cidr, p.encapsulation())
		if p.byFelix(f.calico.routes.value) {
			felix = append(felix, text)
		} else {
			bird = append(bird, text)
		}
	}
	switch {
	case len(bird) == 0:
		return warn("Felix programs the routes to all pods, not BGP: route reflectors would change nothing for them").also(felix...).
			do("keep the mesh: rrpool has a use only where BGP carries routes to pods")
	case len(felix) > 0:
		return warn("Felix programs the routes to the pods of %s, not BGP: route reflectors matter for the others only", count(len(felix), "IPPool", "IPPools")).
			also(felix...).also(bird...).do("nothing, if you know that")
	case f.calico.routes.hidden != "" && encapsulated(pools.value):
		return unseen("who programs the routes to pods that are encapsulated", f.calico.routes.hidden).also(bird...)
	}
	return fine("BGP carries the routes to pods").also(bird...)
})

func encapsulated(pools []ipPool) bool {
	return slices.ContainsFunc(pools, func(p ipPool) bool { return strings.HasPrefix(p.encapsulation(), "IP-in-IP") })
}
