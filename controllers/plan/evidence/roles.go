package evidence

import (
	"net/netip"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Roles groups the nodes of a cluster by their part in route reflection.
type Roles struct {
	// Clients are the Ready nodes that run workloads and are not reflectors.
	Clients []plan.Node
	// Unready are workload nodes that Kubernetes calls NotReady or is deleting.
	// They may still route packets, as a node does whose kubelet has stopped.
	Unready []plan.Node
	// Current are the nodes for which IsOurs holds: rrpool gave them the role, or they are nodes of the pool with a part of it.
	Current []plan.Node
	// families counts the nodes with workloads that have an IPv4 address, and those that have an IPv6 address.
	families [2]int
}

// Sort groups nodes by role. Nodes for which dedicated returns true run nothing but BGP. An unready node whose address a Ready
// node has gets no role: its host now has another name, and what is heard from the address is not about the unready node.
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
