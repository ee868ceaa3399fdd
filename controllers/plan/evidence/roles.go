package evidence

import (
	"net/netip"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Roles are the nodes of a cluster by what they have to do with route reflection.
type Roles struct {
	// Clients are the Ready nodes with workloads that are no reflectors.
	Clients []plan.Node
	// Unready are workload nodes that Kubernetes calls NotReady or is deleting. Their routing may be alive: a kubelet that is down stops
	// no packet.
	Unready []plan.Node
	// Current are the nodes that have the role by our doing, or a part of it.
	Current []plan.Node
	// families counts the nodes with workloads that have an IPv4 and an IPv6 address.
	families [2]int
}

// Sort returns the roles of nodes. Dedicated ones run nothing but BGP. A node that is not Ready and has the address of one that is
// has no role: its host bears another name now, and what is heard from the address is not heard from it.
func Sort(nodes []plan.Node, dedicated func(plan.Node) bool) Roles {
	r := Roles{Clients: make([]plan.Node, 0, len(nodes))}
	taken := sync.OnceValue(func() sets.Set[netip.Addr] { // mostly all nodes are Ready
		all := sets.Set[netip.Addr]{}
		for i := range nodes {
			if plan.Usable(nodes[i]) {
				all.Insert(nodes[i].Addresses...)
			}
		}
		return all
	})
	for _, n := range nodes {
		switch {
		case n.IsOurs():
			r.Current = append(r.Current, n)
		case plan.Usable(n) && !dedicated(n):
			r.Clients = append(r.Clients, n)
		case n.SpeaksBGP() && !dedicated(n) && !taken().HasAny(n.Addresses...):
			r.Unready = append(r.Unready, n)
		}
		if !dedicated(n) {
			r.countFamilies(n)
		}
	}
	return r
}

func (r *Roles) countFamilies(n plan.Node) {
	for _, a := range n.Addresses {
		if a.Is4() {
			r.families[0]++
		} else {
			r.families[1]++
		}
	}
}

// reporting returns the clients whose own reports can be asked for.
func (r *Roles) reporting() []plan.Node { return plan.Filter(r.Clients, plan.Node.Reports) }

// isCommon reports whether two workload nodes or more have an address of this family, so that they have to reach each other in it.
func (r *Roles) isCommon(a netip.Addr) bool {
	if a.Is4() {
		return r.families[0] > 1
	}
	return r.families[1] > 1
}
