package status

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/pool"
)

// shortClient is a node without all of its sessions.
type shortClient struct {
	Node string `json:"node"`
	Zone string `json:"zone"`
	// Lacks names the route reflectors that do not have all sessions with it, sorted,
	// and Sessions counts what is missing: one for each reflector and address family.
	Lacks    []string `json:"lacks"`
	Sessions int      `json:"sessions"`
}

// shortClients names the nodes that are short of sessions, as the reflectors report
// them, sorted by name. The manager counts the same sessions for its status.
func shortClients(t pool.Turn) []shortClient {
	out := []shortClient{}
	if t.Desired.Timer {
		return out // nobody reports sessions
	}
	var reflectors []plan.Node
	for _, node := range t.Cluster.Nodes {
		if reflects(t, node) {
			reflectors = append(reflectors, node)
		}
	}
	for _, node := range t.Cluster.Nodes {
		idle := t.Provider == v1alpha1.ProviderIKS && node.Pooled && !reflects(t, node)
		if !node.Ready || node.Deleting || idle {
			continue
		}
		if short := shortOf(t, node, reflectors); short.Sessions > 0 {
			out = append(out, short)
		}
	}
	slices.SortFunc(out, func(a, b shortClient) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

func reflects(t pool.Turn, node plan.Node) bool {
	return slices.ContainsFunc(t.Step.Reflectors, func(r rollout.Reflector) bool { return r.Node == node.Name })
}

// shortOf adds up what the reflectors lack with one node.
func shortOf(t pool.Turn, node plan.Node, reflectors []plan.Node) shortClient {
	out := shortClient{Node: node.Name, Zone: node.Zone}
	for _, reflector := range reflectors {
		if reflector.Name == node.Name {
			continue
		}
		if missing := missingSessions(t.Cluster.Statuses[reflector.Name], reflector, node); missing > 0 {
			out.Lacks = append(out.Lacks, reflector.Name)
			out.Sessions += missing
		}
	}
	return out
}

// missingSessions counts the sessions that a reflector does not report as Established,
// of one for each address family that both nodes have.
func missingSessions(report plan.Status, reflector, node plan.Node) int {
	missing := 0
	for _, address := range node.Addresses {
		family := func(a netip.Addr) bool { return a.Is4() == address.Is4() }
		up := func(s plan.Session) bool { return s.Peer == address && s.Established && s.Kind != plan.SessionMesh }
		if slices.ContainsFunc(reflector.Addresses, family) && !slices.ContainsFunc(report.Sessions, up) {
			missing++
		}
	}
	return missing
}
