package status

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/rollout"
	"github.com/rrpool/rrpool/controllers/pool"
)

// details are what -v adds.
func (p page) details() {
	p.reflectors()
	p.shortClients()
	p.workers()
	p.conditions()
}

func (p page) title(words string) { p.say("\n%s\n", p.Paint(iostreams.Bold, p.Fold(words, ""))) }

func (p page) reflectors() {
	if len(p.Reflectors) == 0 {
		return
	}
	w := iostreams.NewTable()
	w.AppendHeader(table.Row{"REFLECTOR", "ZONE", "SESSIONS", "NODE"})
	for _, r := range p.Reflectors {
		sessions := fmt.Sprintf("%d/%d", r.SessionsEstablished, r.SessionsExpected)
		if !p.SessionsObserved {
			sessions = fmt.Sprintf("?/%d", r.SessionsExpected)
		}
		w.AppendRow(table.Row{r.Node, orDash(r.Zone), sessions, r.State})
	}
	p.columns(w, 28, 1, 1, 2)
	p.say("\n%s\n", w.Render())
}

// maxShort is how many nodes short of sessions are shown; -o json has all.
const maxShort = 20

func (p page) shortClients() {
	switch {
	case p.ShortClients == nil || len(p.Reflectors) == 0 || !p.SessionsObserved:
		return
	case len(*p.ShortClients) == 0:
		p.say("\n%s\n", p.Fold("No node is short of sessions.", ""))
		return
	}
	short := *p.ShortClients
	p.title(fmt.Sprintf("Nodes short of sessions: %d", len(short)))
	for _, c := range short[:min(len(short), maxShort)] {
		line := fmt.Sprintf("%s (%s) lacks %d with %s", c.Node, orDash(c.Zone), c.Sessions, iostreams.Few(c.Lacks))
		p.say("  %s\n", p.Fold(line, "    "))
	}
	if left := len(short) - maxShort; left > 0 {
		p.say("  and %d more; -o json has all\n", left)
	}
}

// chosenNodes are the workers of a pool of existing nodes: each is its own machine.
func (p page) chosenNodes() {
	w := iostreams.NewTable()
	w.AppendHeader(table.Row{"NODE IN THE POOL", "ZONE", "READY"})
	for _, worker := range *p.Workers {
		ready := "yes"
		if worker.State != cloud.WorkerDeployed {
			ready = "no"
		}
		w.AppendRow(table.Row{worker.Node, orDash(worker.Zone), ready})
	}
	if p.Width > 0 {
		room := max(p.Width-len("READY")-12-3*len(iostreams.Gap), 16)
		w.SetColumnConfigs([]table.ColumnConfig{{Number: 1, WidthMax: room, WidthMaxEnforcer: text.WrapText}, {Number: 2, WidthMax: 12, WidthMaxEnforcer: text.WrapText}})
	}
	p.say("\n%s\n", w.Render())
}

func (p page) workers() {
	if len(p.PoolProblems) > 0 {
		p.say("\n")
	}
	for _, problem := range p.PoolProblems {
		p.say("%s\n", p.Paint(iostreams.Yellow, p.Fold("‼ the pool, as your user sees it: "+problem, "  ")))
	}
	if p.Workers == nil || len(*p.Workers) == 0 {
		return
	}
	if p.Provider == "existing" {
		p.chosenNodes()
		return
	}
	w := iostreams.NewTable()
	w.AppendHeader(table.Row{"WORKER", "NODE", "ZONE", "STATE"})
	for _, worker := range *p.Workers {
		w.AppendRow(table.Row{worker.ID, orDash(worker.Node), orDash(worker.Zone), worker.State})
	}
	var configs []table.ColumnConfig
	if p.Width > 0 {
		room := (p.Width - len("Provisioning") - 4*len(iostreams.Gap)) / 3
		for n := 1; n <= 3; n++ {
			configs = append(configs, table.ColumnConfig{Number: n, WidthMax: max(room, 8), WidthMaxEnforcer: text.WrapText})
		}
	}
	w.SetColumnConfigs(configs)
	p.say("\n%s\n", w.Render())
	for _, worker := range *p.Workers {
		if worker.Message != "" {
			p.say("%s\n", p.Fold(fmt.Sprintf("%s: %s", worker.ID, worker.Message), "  "))
		}
	}
}

func (p page) conditions() {
	if len(p.Conditions) == 0 {
		return
	}
	p.title("Conditions")
	for _, c := range p.Conditions {
		p.say("  %s\n", p.Fold(fmt.Sprintf("%s is %s: %s%s", c.Type, c.Status, c.Reason, p.since(c.since)), "    "))
		if c.Message != "" {
			p.say("    %s\n", p.Fold(strings.TrimSpace(plan.Unlinked(c.Message, c.Reason)), "    "))
		}
	}
}

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
		return out // sessions are not observed
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
