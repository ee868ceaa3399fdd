package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/rrpool/rrpool/cloud/cost"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// printer is a plan on its way to the terminal.
type printer struct {
	iostreams.Streams
	view
}

// say writes a paragraph; its further lines are indented.
func (p printer) say(colour, indent, text string) {
	_, _ = fmt.Fprintln(p.Out, p.Paint(colour, p.Fold(text, indent)))
}

func (p printer) caveat(colour, text string) {
	p.say(colour, hang, text)
	p.say("", "", "")
}

const hang = "  "

// tableOf renders for people.
func tableOf(s iostreams.Streams, v view) error {
	p := printer{s, v}
	p.say(iostreams.Bold, "", "What the manager will do")
	p.say("", "", v.Subject)
	_, _ = fmt.Fprintf(s.Out, "\n%s\n\n", shapes(s, v))
	p.caveats()
	for i, step := range v.Steps {
		p.step(i+1, step)
	}
	p.outcome()
	p.losses()
	if len(v.Notes) > 0 {
		p.say("", "", "")
		p.say("", "", strings.Join(v.Notes, " "))
	}
	if v.Next != "" {
		p.say("", "", "")
		p.say("", hang, "Next: "+v.Next)
	}
	return nil
}

// caveats are what has to be known before the steps.
func (p printer) caveats() {
	if now := p.view.Now; now != nil && (p.Assumes != "" || len(now.WaitingFor) > 0) {
		text := fmt.Sprintf("Now: %s: %s", now.Step, now.Reason)
		if len(now.WaitingFor) > 0 {
			text += "; it waits for " + waits(now.WaitingFor, len(now.WaitingFor))
		}
		p.caveat("", text)
	}
	if p.Assumes != "" {
		p.caveat(iostreams.Yellow, "‼ "+p.Assumes)
	}
	if p.Obstacle != "" {
		p.caveat(iostreams.Yellow, "‼ First: "+p.Obstacle)
	}
}

// outcome is how the steps end.
func (p printer) outcome() {
	switch {
	case p.Problem != nil && len(p.Steps) > 0:
		p.say(iostreams.Red, hang, fmt.Sprintf("× Then it stops: %s: %s", p.Problem.Reason, p.Problem.Message))
	case p.Problem != nil:
		p.say(iostreams.Red, hang, fmt.Sprintf("× It does nothing: %s: %s", p.Problem.Reason, p.Problem.Message))
	case len(p.Steps) == 0 && p.Assumes != "":
		p.say("", hang, "Otherwise there is nothing to do.")
	case len(p.Steps) == 0:
		p.say(iostreams.Green, hang, "√ There is nothing to do.")
	default:
		p.say("", hang, fmt.Sprintf("%d steps, about %s.", len(p.Steps), lasting(p.LastsSeconds)))
	}
	if len(p.LostAlready) > 0 {
		p.say(iostreams.Red, hang, "× As it is, pods cannot be reached: those on "+iostreams.Few(p.LostAlready)+".")
	}
}

// losses are the packets that the steps lose.
func (p printer) losses() {
	switch {
	case !p.Settled || len(p.Steps) == 0:
	case len(p.Loss) == 0 && p.Assumes != "":
		p.say("", hang, "No packet between pods is lost by these steps.")
	case len(p.Loss) == 0:
		p.say(iostreams.Green, hang, "√ No packet between pods is lost.")
	}
	if !p.Settled {
		return
	}
	for i, l := range p.Loss {
		if i == mostGuards {
			p.say("", "", fmt.Sprintf("  and those on %d more nodes", len(p.Loss)-i))
			return
		}
		what := fmt.Sprintf("%s on %s", iostreams.Number(l.Pods, "pod"), l.Node)
		if l.Pods < 0 {
			what = "the pods on " + l.Node + ", if there are any"
		}
		p.say(iostreams.Yellow, hang, fmt.Sprintf("‼ Packets are lost: %s, at %s (its reason says for how long).", what, l.Step))
	}
}

// shapes compares the cluster as it is with what becomes of it.
func shapes(s iostreams.Streams, v view) string {
	w := iostreams.NewTable()
	w.AppendHeader(table.Row{"", "NOW", "AFTER"})
	b, a := v.Before, v.After
	w.AppendRows([]table.Row{
		{"routes", routing(b), routing(a)},
		{"BGP sessions", b.Sessions, a.Sessions},
		{"  of a node", b.PerClient, a.PerClient},
		{"  of a reflector", dash(b), dash(a)},
		{"pool", poolOfShape(b), poolOfShape(a)},
		{"cost", costLine(v.CostBefore), costLine(v.CostAfter)},
	})
	if s.Width > 0 {
		room := max((s.Width-len("  of a reflector")-3*len(iostreams.Gap))/2, 12)
		w.SetColumnConfigs([]table.ColumnConfig{
			{Number: 2, WidthMax: room, WidthMaxEnforcer: text.WrapSoft},
			{Number: 3, WidthMax: room, WidthMaxEnforcer: text.WrapSoft},
		})
	}
	return w.Render()
}

func routing(s Shape) string {
	switch {
	case s.MeshOn && s.Reflectors > 0:
		return fmt.Sprintf("full mesh of %d nodes, %d reflectors", s.Nodes, s.Reflectors)
	case s.MeshOn:
		return fmt.Sprintf("full mesh of %d nodes", s.Nodes)
	default:
		reflectors := fmt.Sprintf("%d reflectors", s.Reflectors)
		if s.Topology != "" && s.Topology != string(v1alpha1.TopologySingle) {
			reflectors += " in " + s.Topology
		}
		return fmt.Sprintf("%s, %d nodes", reflectors, s.Nodes)
	}
}

func dash(s Shape) string {
	if s.Reflectors == 0 {
		return "-"
	}
	return fmt.Sprint(s.PerReflector)
}

func poolOfShape(s Shape) string {
	if len(s.Zones) == 0 {
		return "-"
	}
	var out []string
	for _, z := range s.Zones {
		name := z.Name
		if name == "" {
			name = "no zone"
		}
		out = append(out, fmt.Sprintf("%d in %s", z.Nodes, name))
	}
	return strings.Join(out, ", ")
}

func costLine(c costView) string {
	monthly := fmt.Sprintf("%s %s/month", c.Monthly, c.Currency)
	switch {
	case c.Workers == 0 && c.Certainty == cost.Exact:
		return "-"
	case c.Certainty == cost.Unknown:
		return "unknown"
	case c.Certainty == cost.AtLeast:
		return "≥" + monthly
	}
	return monthly
}

// step prints a step: what, why, what it writes, and what it waits for.
func (p printer) step(number int, step Step) {
	const indent = "   "
	if p.Width > 0 {
		p.Width = max(p.Width-len(indent), 20)
	}
	line := func(text string) { _, _ = fmt.Fprintf(p.Out, "%s%s\n", indent, p.Fold(text, indent+hang)) }
	head := p.Paint(iostreams.Bold, fmt.Sprintf("%d. %s", number, step.Name))
	_, _ = fmt.Fprintf(p.Out, "%s  %s\n", head, p.Paint(iostreams.Dim, "after "+lasting(step.BeginsSeconds)))
	line(step.Reason)
	guard, first := waits(step.Guard, step.GuardCount), step.GuardFirst && len(step.Writes) > 0
	if guard != "" && first {
		line("… waits for " + guard)
	}
	for _, w := range step.Writes {
		line("+ " + w)
	}
	if step.ReportsAsked > 0 {
		line(fmt.Sprintf("? ask %s for a report of the sessions (CalicoNodeStatus)", iostreams.Number(step.ReportsAsked, "node")))
	}
	if guard != "" && !first {
		line("… goes on after " + guard)
	}
	_, _ = fmt.Fprintln(p.Out)
}

// waits names the first two of all waits.
func waits(first []string, all int) string {
	const most = 2
	text := strings.Join(first[:min(most, len(first))], "; ")
	if all > most {
		text += fmt.Sprintf("; and %d more", all-most)
	}
	return text
}

// lasting is a duration in words.
func lasting(seconds int) string { return (time.Duration(seconds) * time.Second).String() }
