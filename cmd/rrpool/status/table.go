package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
	"github.com/rrpool/rrpool/controllers/plan/reason"
)

// page renders a status for a terminal.
type page struct {
	iostreams.Streams
	*Status
	verbose bool
}

// timeLayout is the layout of a time in sentences.
const timeLayout = "2006-01-02 15:04:05Z"

// signs are the sign and colour of each state.
var signs = map[State]struct{ sign, colour string }{
	NoPool: {"-", iostreams.Yellow}, Stale: {"‼", iostreams.Red}, Unknown: {"‼", iostreams.Red}, Degraded: {"×", iostreams.Red},
	Deleting: {"…", iostreams.Yellow}, Paused: {"‼", iostreams.Yellow}, Ready: {"√", iostreams.Green}, Progressing: {"…", iostreams.Yellow},
}

func (p page) render() {
	p.Say(iostreams.Bold, "", "Route reflectors of cluster "+p.Cluster)
	p.Say(signs[p.State].colour, "  ", fmt.Sprintf("%s %s: %s", signs[p.State].sign, p.State, p.Summary))
	p.Say("", "", "")
	p.facts()
	if p.Object != nil {
		p.zones()
		p.problems()
		if p.verbose {
			p.details()
		}
		p.events()
	}
	p.peerings()
	for i, warning := range p.Warnings {
		p.Say(iostreams.Yellow, "  ", strings.Repeat("\n", 1-min(i, 1))+"‼ "+warning)
	}
	if p.Next != "" {
		p.Say("", "  ", "\nNext: "+p.Next)
	}
}

// fact writes a name and, in a column beside it, a text.
func (p page) fact(name, text string) {
	const column = "           "
	_, _ = fmt.Fprintf(p.Out, "%-*s%s\n", len(column), name, p.Fold(text, column))
}

// table writes rows, if there are any. names is the number of columns with text, which come first; the others hold numbers.
func (p page) table(names int, rows []table.Row, header ...any) {
	if len(rows) == 0 {
		return
	}
	w := iostreams.NewTable(p.Width, names, header...)
	w.AppendRows(rows)
	_, _ = fmt.Fprintf(p.Out, "\n%s\n", w.Render())
}

func (p page) facts() {
	if p.Object == nil {
		p.fact("Mesh", p.Mesh)
		return
	}
	mode, reported := string(p.Object.Spec.Mode), p.Object.Status
	if p.Object.DeletionTimestamp != nil {
		mode += ", being deleted"
	}
	p.fact("Mode", mode)
	p.step(reported.Step)
	p.fact("Mesh", p.Mesh)
	counts, _ := CountsOf(reported)
	if counts.PoolWanted > 0 || reported.Pool != "" {
		p.fact("Pool", fmt.Sprintf("%s, %d of %d nodes Ready", cmp.Or(reported.Pool, "not there yet"), counts.PoolReady, counts.PoolWanted))
	}
	if counts.Reflectors > 0 {
		p.fact("Reflectors", fmt.Sprintf("%d, for %d nodes", counts.Reflectors, reported.Nodes))
		p.fact("Sessions", p.missing(fmt.Sprintf("%d of %d Established", counts.SessionsEstablished, counts.SessionsExpected)))
	}
	p.fact("Cost", costText(reported.Cost))
	if p.verbose {
		p.fact("Manager", strings.ToLower(string(p.Manager.Status))+": "+p.Manager.Message)
	}
}

func (p page) step(step v1alpha1.StepStatus) {
	if step.Name != "" {
		p.fact("Step", step.Name+p.since(step.Since))
	}
	if p.verbose && step.Rule != "" {
		p.fact("Rule", step.Rule)
	}
	if !strings.Contains(p.Summary, step.Reason) {
		p.fact("", step.Reason)
	}
	for i, what := range step.WaitingFor {
		p.fact([]string{"Waits for", ""}[min(i, 1)], what)
	}
}

// missing appends which reflectors lack sessions, or says that sessions are not observed.
func (p page) missing(sessions string) string {
	switch c := condition(p.Object, v1alpha1.ConditionReflectorsEstablished); c.Reason {
	case reason.TimerGate:
		return "not observed: spec.rollout.gate is Timer"
	case reason.SessionsMissing:
		return sessions + ": " + c.Message
	}
	return sessions
}

// since says how long something has lasted, and since when.
func (p page) since(at metav1.Time) string {
	if at.IsZero() {
		return ""
	}
	return fmt.Sprintf(", for %s (since %s)", p.age(at), at.UTC().Format(timeLayout))
}

// age returns how long ago a time was, never negative, as the clocks may differ.
func (p page) age(at metav1.Time) string {
	return duration.HumanDuration(max(0, p.GeneratedAt.Sub(at.Time)))
}

func costText(c *v1alpha1.CostStatus) string {
	switch {
	case c == nil:
		return "nothing extra: no worker of a pool is a node"
	case c.Monthly == "":
		return "unknown: " + cmp.Or(c.Source, "the manager does not know it")
	}
	return fmt.Sprintf("%s %s/month (%s)", c.Monthly, c.Currency, c.Source)
}

func (p page) zones() {
	var rows []table.Row
	_, zones := CountsOf(p.Object.Status)
	for _, name := range slices.Sorted(maps.Keys(zones)) {
		z := zones[name]
		rows = append(rows, table.Row{
			cmp.Or(name, "-"), fmt.Sprintf("%d/%d", z.PoolReady, z.PoolWanted), z.Reflectors, p.sessions(z.SessionsEstablished, z.SessionsExpected),
		})
	}
	p.table(1, rows, "ZONE", "NODES", "REFLECTORS", "SESSIONS")
}

// sessions renders the numbers of Established and of expected sessions, the first as ? if sessions are not observed.
func (p page) sessions(established, expected int) string {
	if p.Object.Spec.Rollout.Gate == v1alpha1.GateTimer {
		return fmt.Sprintf("?/%d", expected)
	}
	return fmt.Sprintf("%d/%d", established, expected)
}

// peerings writes the ClusterPeerings, and why some are not Ready.
func (p page) peerings() {
	var rows []table.Row
	var waiting []string
	for i := range p.Peerings {
		o, established, as := &p.Peerings[i], 0, "-"
		for _, s := range o.Status.Sessions {
			if s.Established {
				established++
			}
		}
		if o.Status.Remote != nil {
			as = fmt.Sprint(o.Status.Remote.ASNumber)
		}
		ready := PeeringReady(o)
		rows = append(rows, table.Row{o.Name, ready.Reason, as, fmt.Sprintf("%d/%d", established, len(o.Status.Sessions))})
		if ready.Status != metav1.ConditionTrue {
			waiting = append(waiting, o.Name+": "+ready.Message)
		}
	}
	p.table(2, rows, "CLUSTERPEERING", "READY", "REMOTE AS", "SESSIONS")
	for _, text := range waiting {
		p.Say(iostreams.Yellow, "  ", "‼ "+text)
	}
}

// problems writes the bad conditions, each with its page.
func (p page) problems() {
	for _, c := range p.Problems {
		p.Say(iostreams.Red, "  ", fmt.Sprintf("\n‼ %s=%s: %s%s", c.Type, c.Status, c.Reason, p.since(c.LastTransitionTime)))
		if c.Message != p.Summary {
			p.Say("", "  ", "  "+c.Message)
		}
		_, _ = fmt.Fprintf(p.Out, "  See %s\n", p.Page(plan.Page(c.Reason), "  See "))
	}
}

// details writes what -v adds.
func (p page) details() {
	var rows []table.Row
	for _, r := range p.Object.Status.Reflectors {
		rows = append(rows, table.Row{r.Node, cmp.Or(r.Zone, "-"), p.sessions(int(r.SessionsEstablished), int(r.SessionsExpected))})
	}
	p.table(2, rows, "REFLECTOR", "ZONE", "SESSIONS")
	p.lacking()
	rows = nil
	for _, w := range p.Workers {
		rows = append(rows, table.Row{w.ID, cmp.Or(w.NodeName, "-"), cmp.Or(w.Zone, "-"), w.State})
	}
	p.table(4, rows, "WORKER", "NODE", "ZONE", "STATE")
	for _, w := range p.Workers {
		if w.Message != "" {
			p.Say("", "  ", w.ID+": "+w.Message)
		}
	}
	p.Say(iostreams.Bold, "", "\nConditions")
	for _, c := range p.Object.Status.Conditions {
		p.Say("", "    ", fmt.Sprintf("  %s is %s: %s%s", c.Type, c.Status, c.Reason, p.since(c.LastTransitionTime)))
		p.Say("", "    ", "    "+message(c))
	}
}

// lacking writes the first nodes that lack sessions.
func (p page) lacking() {
	const most = 20
	nodes := slices.Sorted(maps.Keys(p.Lacking))
	if len(nodes) > 0 {
		p.Say(iostreams.Bold, "", fmt.Sprintf("\nNodes short of sessions: %d", len(nodes)))
	}
	for _, node := range nodes[:min(len(nodes), most)] {
		p.Say("", "    ", fmt.Sprintf("  %s: no session with %s", node, plan.Few(p.Lacking[node])))
	}
	if left := len(nodes) - most; left > 0 {
		p.Say("", "    ", fmt.Sprintf("  and %d more; -o json has all", left))
	}
}

// fewEvents is how many events are shown without -v, and maxNote how many bytes of each note.
const (
	fewEvents = 5
	maxNote   = 160
)

func (p page) events() {
	shown := p.Events
	if !p.verbose {
		shown = shown[:min(len(shown), fewEvents)]
	}
	for i, e := range shown {
		if i == 0 {
			p.Say(iostreams.Bold, "", "\nEvents")
		}
		note, sign, colour := plan.Unlinked(e.Note, e.Reason), "", ""
		if !p.verbose {
			note = plan.Plain(note, maxNote)
		}
		if e.Count > 1 {
			note += fmt.Sprintf(" (%d times)", e.Count)
		}
		if e.Type != "Normal" {
			sign, colour = "‼ ", iostreams.Yellow
		}
		p.Say(colour, "  ", fmt.Sprintf("%s%s ago %s: %s", sign, p.age(e.Time), e.Reason, note))
	}
	if left := len(p.Events) - len(shown); left > 0 {
		p.Say("", "  ", fmt.Sprintf("and %d more; -v shows them", left))
	}
}
