package status

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

func jsonOf(s iostreams.Streams, v view) error { return iostreams.WriteJSON(s.Out, v) }

// page is a status on its way to a terminal.
type page struct {
	iostreams.Streams
	view
	verbose bool
}

// tableOf renders for people.
func tableOf(s iostreams.Streams, v view) error { return render(page{s, v, false}) }

// verboseOf renders all that is known.
func verboseOf(s iostreams.Streams, v view) error { return render(page{s, v, true}) }

func render(p page) error {
	p.say("%s\n%s\n", p.Paint(iostreams.Bold, p.Fold("Route reflectors of cluster "+p.Cluster, "")), p.headline())
	p.say("\n")
	if p.State != NoPool {
		p.facts()
		p.zones()
		p.troubles()
	} else {
		p.fact("Mesh", p.Mesh.text())
	}
	if p.verbose {
		p.details()
	}
	p.events()
	if len(p.Unseen) > 0 {
		p.say("\n")
	}
	for _, what := range p.Unseen {
		p.say("%s\n", p.Paint(iostreams.Yellow, p.Fold("‼ "+what, "  ")))
	}
	if p.Next != "" {
		p.say("\n%s\n", p.Fold("Next: "+p.Next, "  "))
	}
	return nil
}

func (p page) say(format string, args ...any) { _, _ = fmt.Fprintf(p.Out, format, args...) }

// looks are the sign and colour of each state.
var looks = map[State]struct{ sign, colour string }{
	NoPool: {"-", iostreams.Yellow}, Stale: {"‼", iostreams.Red}, Unknown: {"‼", iostreams.Red}, Degraded: {"×", iostreams.Red},
	Deleting: {"…", iostreams.Yellow}, Paused: {"‼", iostreams.Yellow}, Ready: {"√", iostreams.Green}, Progressing: {"…", iostreams.Yellow},
}

func (p page) headline() string {
	look := looks[p.State]
	return p.Paint(look.colour, p.Fold(fmt.Sprintf("%s %s: %s", look.sign, p.State, p.Summary), "  "))
}

// column is how wide the names of facts are.
const column = 11

// fact is one line, or a paragraph beside its name.
func (p page) fact(name, text string) {
	indent := strings.Repeat(" ", column)
	p.say("%-*s%s\n", column, name, p.Fold(text, indent))
}

func (p page) facts() {
	mode := string(p.Mode)
	if p.Deleting {
		mode += ", being deleted"
	}
	p.fact("Mode", mode)
	p.step()
	p.fact("Mesh", p.Mesh.text())
	if p.Counts.PoolWanted > 0 || p.Pool != "" {
		p.fact("Pool", p.pool())
	}
	if p.Counts.Reflectors > 0 {
		p.fact("Reflectors", fmt.Sprintf("%d, for %d nodes", p.Counts.Reflectors, p.Nodes))
		p.fact("Sessions", p.sessions())
	}
	if p.Cost != nil {
		p.fact("Cost", costText(*p.Cost))
	}
	if p.verbose {
		p.fact("Manager", strings.ToLower(string(p.Manager.Status))+": "+p.Manager.Message)
	}
}

func (p page) step() {
	if p.Step.Name == "" {
		return
	}
	p.fact("Step", p.Step.Name+p.since(p.Step.since))
	if p.State != Ready && p.Step.Reason != p.Summary {
		p.fact("", p.Step.Reason)
	}
	for i, what := range p.Step.WaitingFor {
		name := ""
		if i == 0 {
			name = "Waits for"
		}
		p.fact(name, what)
	}
}

// since says how long something lasts and when it began.
func (p page) since(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return fmt.Sprintf(", for %s (since %s)", age(p.now, at), at.UTC().Format("2006-01-02 15:04:05Z"))
}

// age is never negative, whatever the clocks say.
func age(now, at time.Time) string { return duration.HumanDuration(max(0, now.Sub(at))) }

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

func costText(c priceView) string {
	switch {
	case c.Certainty == cost.Unknown:
		return "unknown: " + c.Source
	case c.Monthly == "0.00":
		return "nothing extra: " + c.Source
	}
	return fmt.Sprintf("%s %s/month (%s)", c.Monthly, c.Currency, c.Source)
}

// zones is the pool and its reflectors by zone.
func (p page) zones() {
	if len(p.Zones) == 0 {
		return
	}
	w := iostreams.NewTable()
	w.AppendHeader(table.Row{"ZONE", "NODES", "REFLECTORS", "SESSIONS"})
	for _, z := range p.Zones {
		sessions := fmt.Sprintf("%d/%d", z.SessionsEstablished, z.SessionsExpected)
		if !p.SessionsObserved {
			sessions = fmt.Sprintf("?/%d", z.SessionsExpected)
		}
		w.AppendRow(table.Row{orDash(z.Name), fmt.Sprintf("%d/%d", z.PoolReady, z.PoolWanted), z.Reflectors, sessions})
	}
	p.columns(w, 34, 3, 1)
	p.say("\n%s\n", w.Render())
}

// columns sets as many columns of numbers, which follow those of names, to the right,
// and narrows names to what the terminal leaves when others is taken.
func (p page) columns(w table.Writer, others, numbers int, names ...int) {
	var configs []table.ColumnConfig
	for i := range numbers {
		configs = append(configs, iostreams.Right(len(names)+1+i))
	}
	for _, n := range names {
		if p.Width > 0 {
			room := max((p.Width-others)/len(names), 8)
			configs = append(configs, table.ColumnConfig{Number: n, WidthMax: room, WidthMaxEnforcer: text.WrapText})
		}
	}
	w.SetColumnConfigs(configs)
}

func orDash(name string) string {
	if name == "" {
		return "-"
	}
	return name
}

// troubles are the bad conditions, each with its page of the docs.
func (p page) troubles() {
	for _, r := range p.Reflectors {
		if r.State == nodeNotReady || r.State == nodeGone {
			p.say("\n%s\n", p.Paint(iostreams.Yellow, p.Fold(fmt.Sprintf("‼ the node of route reflector %s is %s", r.Node, map[string]string{
				nodeNotReady: "NotReady", nodeGone: "no longer in the cluster",
			}[r.State]), "  ")))
		}
	}
	for _, t := range p.Problems {
		title := fmt.Sprintf("%s: %s%s", t.Conditions[0], t.Reason, p.since(t.since.Time))
		p.say("\n%s\n", p.Paint(iostreams.Red, p.Fold("‼ "+title, "  ")))
		if t.Message != p.Summary {
			p.say("  %s\n", p.Fold(t.Message, "  "))
		}
		p.say("  See %s\n", t.Page(p.Width-len("  See ")))
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
	if len(shown) == 0 {
		return
	}
	p.say("\n%s\n", p.Paint(iostreams.Bold, "Events"))
	for _, e := range shown {
		note := []rune(plan.Unlinked(e.Note, e.Reason))
		if len(note) > maxNote && !p.verbose {
			note = append(note[:maxNote-1], '…')
		}
		line := fmt.Sprintf("%s ago %s: %s", age(p.now, e.at), e.Reason, string(note))
		if e.Count > 1 {
			line += fmt.Sprintf(" (%d times)", e.Count)
		}
		colour := ""
		if e.Type != "Normal" {
			line, colour = "‼ "+line, iostreams.Yellow
		}
		p.say("%s\n", p.paintIf(colour, p.Fold(line, "  ")))
	}
	if left := len(p.Events) - len(shown); left > 0 {
		p.say("and %d more; -v shows them\n", left)
	}
}

func (p page) paintIf(colour, text string) string {
	if colour == "" {
		return text
	}
	return p.Paint(colour, text)
}
