package status

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/rrpool/rrpool/cloud"
	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// renderer writes a view in some format.
type renderer func(iostreams.Streams, view) error

func jsonOf(s iostreams.Streams, v view) error { return iostreams.WriteJSON(s.Out, v) }

// tableOf renders for people, verboseOf with all that is known.
func tableOf(s iostreams.Streams, v view) error   { return page{s, v, false}.render() }
func verboseOf(s iostreams.Streams, v view) error { return page{s, v, true}.render() }

// page is a view with the terminal that it is rendered for.
type page struct {
	iostreams.Streams
	view
	verbose bool
}

// signs are the sign and colour of each state.
var signs = map[State]struct{ sign, colour string }{
	NoPool: {"-", iostreams.Yellow}, Stale: {"‼", iostreams.Red}, Unknown: {"‼", iostreams.Red}, Degraded: {"×", iostreams.Red},
	Deleting: {"…", iostreams.Yellow}, Paused: {"‼", iostreams.Yellow}, Ready: {"√", iostreams.Green}, Progressing: {"…", iostreams.Yellow},
}

func (p page) render() error {
	p.say(iostreams.Bold, "", "Route reflectors of cluster "+p.Cluster)
	p.say(signs[p.State].colour, "  ", fmt.Sprintf("%s %s: %s", signs[p.State].sign, p.State, p.Summary))
	p.say("", "", "")
	if p.State == NoPool {
		p.fact("Mesh", p.Mesh.text())
	} else {
		p.facts()
		p.zones()
		p.problems()
	}
	if p.verbose {
		p.reflectors()
		p.shortClients()
		p.workers()
		p.conditions()
	}
	p.events()
	p.section("", len(p.Unseen))
	for _, what := range p.Unseen {
		p.say(iostreams.Yellow, "  ", "‼ "+what)
	}
	if p.Next != "" {
		p.say("", "  ", "\nNext: "+p.Next)
	}
	return nil
}

// say writes a paragraph after the space that it begins with; further lines are indented.
func (p page) say(colour, indent, paragraph string) {
	words := strings.TrimLeft(paragraph, " \n")
	before := strings.TrimSuffix(paragraph, words)
	_, _ = fmt.Fprintln(p.Out, before+p.Paint(colour, p.Fold(words, indent)))
}

// section begins one that has so many lines, with an empty line and its title.
func (p page) section(title string, lines int) {
	if lines > 0 {
		_, _ = fmt.Fprintln(p.Out)
	}
	if lines > 0 && title != "" {
		p.say(iostreams.Bold, "", title)
	}
}

// fact is one line, or a paragraph beside its name.
func (p page) fact(name, text string) {
	const column = "           "
	_, _ = fmt.Fprintf(p.Out, "%-*s%s\n", len(column), name, p.Fold(text, column))
}

// table writes rows. The first columns, as many as names, are wrapped where the terminal is
// narrow; the others are numbers.
func (p page) table(names int, header table.Row, rows []table.Row) {
	if len(rows) == 0 {
		return
	}
	const number = 12
	var columns []table.ColumnConfig
	for i := range header {
		switch {
		case i >= names:
			columns = append(columns, iostreams.Right(i+1))
		case p.Width > 0:
			room := (p.Width-number*(len(header)-names))/names - len(iostreams.Gap)
			columns = append(columns, table.ColumnConfig{Number: i + 1, WidthMax: room, WidthMaxEnforcer: text.WrapText})
		}
	}
	w := iostreams.NewTable()
	w.AppendHeader(header)
	w.AppendRows(rows)
	w.SetColumnConfigs(columns)
	_, _ = fmt.Fprintf(p.Out, "\n%s\n", w.Render())
}

func (p page) facts() {
	mode := string(p.Mode)
	if p.Deleting {
		mode += ", being deleted"
	}
	p.fact("Mode", mode)
	if p.Step.Name != "" {
		p.fact("Step", p.Step.Name+p.since(p.Step.Since))
		if p.State != Ready && p.Step.Reason != p.Summary {
			p.fact("", p.Step.Reason)
		}
	}
	for i, what := range p.Step.WaitingFor {
		p.fact([]string{"Waits for", ""}[min(i, 1)], what)
	}
	p.fact("Mesh", p.Mesh.text())
	if p.Counts.PoolWanted > 0 || p.Pool != "" {
		p.fact("Pool", p.pool())
	}
	if p.Counts.Reflectors > 0 {
		p.fact("Reflectors", fmt.Sprintf("%d, for %d nodes", p.Counts.Reflectors, p.Nodes))
		p.fact("Sessions", p.sessions())
	}
	if p.Cost != nil {
		p.fact("Cost", p.Cost.text())
	}
	if p.verbose {
		p.fact("Manager", strings.ToLower(string(p.Manager.Status))+": "+p.Manager.Message)
	}
}

// since says how long something lasts and when it began.
func (p page) since(at metav1.Time) string {
	if at.IsZero() {
		return ""
	}
	return fmt.Sprintf(", for %s (since %s)", p.age(at), at.UTC().Format("2006-01-02 15:04:05Z"))
}

// age is never negative: the clocks may differ.
func (p page) age(at metav1.Time) string {
	return duration.HumanDuration(max(0, p.GeneratedAt.Sub(at.Time)))
}

func (p page) pool() string {
	if p.Provider == "existing" {
		return fmt.Sprintf("existing nodes, %d of %d Ready", p.Counts.PoolReady, p.Counts.PoolWanted)
	}
	out := fmt.Sprintf("%s, %d of %d nodes Ready", cmp.Or(p.Pool, "not there yet"), p.Counts.PoolReady, p.Counts.PoolWanted)
	for _, c := range p.Conditions {
		if c.Type == v1alpha1.ConditionProviderReady && c.Reason == "WorkersPending" {
			out += " (" + c.Message + ")"
		}
	}
	return out
}

// sessions counts them, and names the reflectors that lack some.
func (p page) sessions() string {
	if !p.SessionsObserved {
		return fmt.Sprintf("%d expected; not observed, as spec.rollout.gate is %s", p.Counts.SessionsExpected, v1alpha1.GateTimer)
	}
	out := fmt.Sprintf("%d of %d Established", p.Counts.SessionsEstablished, p.Counts.SessionsExpected)
	var lacking []string
	for _, r := range p.Reflectors {
		if r.SessionsEstablished < r.SessionsExpected {
			lacking = append(lacking, fmt.Sprintf("%s has %d of %d", r.Node, r.SessionsEstablished, r.SessionsExpected))
		}
	}
	if len(lacking) == 0 {
		return out
	}
	out += ": " + iostreams.Few(lacking)
	if !p.verbose {
		out += "; -v names the nodes that are short"
	}
	return out
}

// established is a number of sessions of those expected.
func (p page) established(of, expected int) string {
	if !p.SessionsObserved {
		return fmt.Sprintf("?/%d", expected)
	}
	return fmt.Sprintf("%d/%d", of, expected)
}

func (c priceView) text() string {
	switch {
	case c.Certainty == cost.Unknown:
		return "unknown: " + c.Source
	case c.Monthly == "0.00":
		return "nothing extra: " + c.Source
	}
	return fmt.Sprintf("%s %s/month (%s)", c.Monthly, c.Currency, c.Source)
}

func (p page) zones() {
	var rows []table.Row
	for _, z := range p.Zones {
		nodes := fmt.Sprintf("%d/%d", z.PoolReady, z.PoolWanted)
		rows = append(rows, table.Row{cmp.Or(z.Name, "-"), nodes, z.Reflectors, p.established(z.SessionsEstablished, z.SessionsExpected)})
	}
	p.table(1, table.Row{"ZONE", "NODES", "REFLECTORS", "SESSIONS"}, rows)
}

// problems are reflectors without a Ready node, and bad conditions with their page.
func (p page) problems() {
	for _, r := range p.Reflectors {
		if is := map[string]string{nodeNotReady: "NotReady", nodeGone: "no longer in the cluster"}[r.State]; is != "" {
			p.say(iostreams.Yellow, "  ", fmt.Sprintf("\n‼ the node of route reflector %s is %s", r.Node, is))
		}
	}
	for _, problem := range p.Problems {
		p.say(iostreams.Red, "  ", fmt.Sprintf("\n‼ %s: %s%s", problem.Conditions[0], problem.Reason, p.since(problem.Since)))
		if problem.Message != p.Summary {
			p.say("", "  ", "  "+problem.Message)
		}
		_, _ = fmt.Fprintf(p.Out, "  See %s\n", problem.Page(p.Width-len("  See ")))
	}
}

func (p page) reflectors() {
	var rows []table.Row
	for _, r := range p.Reflectors {
		rows = append(rows, table.Row{r.Node, cmp.Or(r.Zone, "-"), r.State, p.established(r.SessionsEstablished, r.SessionsExpected)})
	}
	p.table(3, table.Row{"REFLECTOR", "ZONE", "NODE", "SESSIONS"}, rows)
}

// maxShort is how many nodes short of sessions are shown; -o json has all.
const maxShort = 20

func (p page) shortClients() {
	if p.ShortClients == nil || len(p.Reflectors) == 0 || !p.SessionsObserved {
		return
	}
	short := *p.ShortClients
	if len(short) == 0 {
		p.say("", "", "\nNo node is short of sessions.")
		return
	}
	p.say(iostreams.Bold, "", fmt.Sprintf("\nNodes short of sessions: %d", len(short)))
	for _, c := range short[:min(len(short), maxShort)] {
		p.say("", "    ", fmt.Sprintf("  %s (%s) lacks %d with %s", c.Node, cmp.Or(c.Zone, "-"), c.Sessions, iostreams.Few(c.Lacks)))
	}
	if left := len(short) - maxShort; left > 0 {
		p.say("", "    ", fmt.Sprintf("  and %d more; -o json has all", left))
	}
}

func (p page) workers() {
	p.section("", len(p.PoolProblems))
	for _, problem := range p.PoolProblems {
		p.say(iostreams.Yellow, "  ", "‼ the pool, as your user sees it: "+problem)
	}
	if p.Workers == nil {
		return
	}
	var rows []table.Row
	existing := p.Provider == "existing" // each node is its own worker
	for _, w := range *p.Workers {
		row := table.Row{w.ID, cmp.Or(w.Node, "-"), cmp.Or(w.Zone, "-"), w.State}
		if existing {
			ready := map[bool]string{true: "yes", false: "no"}[w.State == cloud.WorkerDeployed]
			row = table.Row{w.Node, cmp.Or(w.Zone, "-"), ready}
		}
		rows = append(rows, row)
	}
	header := table.Row{"WORKER", "NODE", "ZONE", "STATE"}
	if existing {
		header = table.Row{"NODE IN THE POOL", "ZONE", "READY"}
	}
	p.table(len(header), header, rows)
	for _, w := range *p.Workers {
		if w.Message != "" && !existing {
			p.say("", "  ", w.ID+": "+w.Message)
		}
	}
}

func (p page) conditions() {
	p.section("Conditions", len(p.Conditions))
	for _, c := range p.Conditions {
		p.say("", "    ", fmt.Sprintf("  %s is %s: %s%s", c.Type, c.Status, c.Reason, p.since(c.Since)))
		if c.Message != "" {
			p.say("", "    ", "    "+strings.TrimSpace(plan.Unlinked(c.Message, c.Reason)))
		}
	}
}

// The most events that are shown, and how much of each, without -v.
const (
	fewEvents = 5
	maxNote   = 160
)

func (p page) events() {
	shown := p.Events
	if !p.verbose {
		shown = shown[:min(len(shown), fewEvents)]
	}
	p.section("Events", len(shown))
	for _, e := range shown {
		note := []rune(plan.Unlinked(e.Note, e.Reason))
		if len(note) > maxNote && !p.verbose {
			note = append(note[:maxNote-1], '…')
		}
		line, colour := fmt.Sprintf("%s ago %s: %s", p.age(e.Time), e.Reason, string(note)), ""
		if e.Count > 1 {
			line += fmt.Sprintf(" (%d times)", e.Count)
		}
		if e.Type != "Normal" {
			line, colour = "‼ "+line, iostreams.Yellow
		}
		p.say(colour, "  ", line)
	}
	if left := len(p.Events) - len(shown); left > 0 {
		p.say("", "  ", fmt.Sprintf("and %d more; -v shows them", left))
	}
}
