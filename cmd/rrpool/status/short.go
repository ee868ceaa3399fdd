package status

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
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
	reflects := map[string]bool{}
	for _, r := range t.Step.Reflectors {
		reflects[r.Node] = true
	}
	if t.Desired.Timer {
		return out // nobody reports sessions
	}
	dedicated := t.Provider == v1alpha1.ProviderIKS
	for _, node := range t.Cluster.Nodes {
		if !node.Ready || node.Deleting || dedicated && node.Pooled && !reflects[node.Name] {
			continue
		}
		short := shortClient{Node: node.Name, Zone: node.Zone}
		for _, reflector := range t.Cluster.Nodes {
			if !reflects[reflector.Name] || reflector.Name == node.Name {
				continue
			}
			if missing := missingSessions(t.Cluster.Statuses[reflector.Name], reflector, node); missing > 0 {
				short.Lacks = append(short.Lacks, reflector.Name)
				short.Sessions += missing
			}
		}
		if short.Sessions > 0 {
			out = append(out, short)
		}
	}
	slices.SortFunc(out, func(a, b shortClient) int { return cmp.Compare(a.Node, b.Node) })
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
