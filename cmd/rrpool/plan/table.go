package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan"
)

// print renders for people.
func (p *Plan) print(s iostreams.Streams) {
	say := func(colour, text string) { s.Say(colour, "  ", text) }
	s.Say(iostreams.Bold, "", "What the manager will do")
	s.Say("", "", p.Subject)
	_, _ = fmt.Fprintf(s.Out, "\n%s\n\n", p.shapes(s.Width))
	if now := p.Now; now != nil && (p.Assumes != "" || len(now.WaitingFor) > 0) {
		text := fmt.Sprintf("Now: %s: %s", now.Name, now.Reason)
		if len(now.WaitingFor) > 0 {
			text += "; it waits for " + strings.Join(few(now.WaitingFor), "; ")
		}
		say("", text)
		say("", "")
	}
	if p.Assumes != "" {
		say(iostreams.Yellow, "‼ "+p.Assumes)
		say("", "")
	}
	if p.First != "" {
		say(iostreams.Yellow, "‼ First: "+p.First)
		say("", "")
	}
	for i, step := range p.Steps {
		step.print(s, i+1)
	}
	p.outcome(say)
	if len(p.Notes) > 0 {
		s.Say("", "", "\n"+strings.Join(p.Notes, " "))
	}
	if p.Next != "" {
		say("", "\nNext: "+p.Next)
	}
}

// outcome is how the steps end.
func (p *Plan) outcome(say func(colour, text string)) {
	steps, sure := len(p.Steps), p.Assumes == ""
	switch {
	case p.Problem != nil && steps > 0:
		say(iostreams.Red, fmt.Sprintf("× Then it stops: %s: %s", p.Problem.Reason, p.Problem.Message))
	case p.Problem != nil:
		say(iostreams.Red, fmt.Sprintf("× It does nothing: %s: %s", p.Problem.Reason, p.Problem.Message))
	case steps > 0:
		say("", fmt.Sprintf("%d steps, about %s.", steps, lasting(p.LastsSeconds)))
	case sure:
		say(iostreams.Green, "√ There is nothing to do.")
	default:
		say("", "Otherwise there is nothing to do.")
	}
	if len(p.LostAlready) > 0 {
		say(iostreams.Red, "× As it is, pods cannot be reached: those on "+plan.Few(p.LostAlready)+".")
	}
	if p.Settled {
		p.losses(say)
	}
}

// losses are the packets that the steps lose.
func (p *Plan) losses(say func(colour, text string)) {
	var lost []string
	for _, l := range p.Loss {
		pods := "any pods"
		if l.Pods >= 0 {
			pods = iostreams.Number(l.Pods, "pod")
		}
		lost = append(lost, fmt.Sprintf("%s on %s at %s", pods, l.Node, l.Step))
	}
	switch {
	case len(lost) > 0:
		say(iostreams.Yellow, "‼ Packets are lost: "+plan.Few(lost)+" (the reason of the step says for how long).")
	case len(p.Steps) == 0:
	case p.Assumes == "":
		say(iostreams.Green, "√ No packet between pods is lost.")
	default:
		say("", "No packet between pods is lost by these steps.")
	}
}

// shapes compares the cluster as it is with what becomes of it.
func (p *Plan) shapes(width int) string {
	w, b, a := iostreams.NewTable(width, 3, "", "NOW", "AFTER"), p.Before, p.After
	w.AppendRows([]table.Row{
		{"routes", b.routes(), a.routes()},
		{"BGP sessions", b.Sessions, a.Sessions},
		{"  of a node", b.PerClient, a.PerClient},
		{"  of a reflector", b.PerReflector, a.PerReflector},
		{"pool", b.pool(), a.pool()},
		{"cost", b.cost(), a.cost()},
	})
	return w.Render()
}

func (s Shape) routes() string {
	switch {
	case s.MeshOn && s.Reflectors > 0:
		return fmt.Sprintf("full mesh of %d nodes, %d reflectors", s.Nodes, s.Reflectors)
	case s.MeshOn:
		return fmt.Sprintf("full mesh of %d nodes", s.Nodes)
	case s.Topology == "" || s.Topology == string(v1alpha1.TopologySingle):
		return fmt.Sprintf("%d reflectors, %d nodes", s.Reflectors, s.Nodes)
	}
	return fmt.Sprintf("%d reflectors in %s, %d nodes", s.Reflectors, s.Topology, s.Nodes)
}

func (s Shape) pool() string {
	var out []string
	for _, zone := range slices.Sorted(maps.Keys(s.Zones)) {
		out = append(out, fmt.Sprintf("%d in %s", s.Zones[zone], cmp.Or(zone, "no zone")))
	}
	return cmp.Or(strings.Join(out, ", "), "-")
}

func (s Shape) cost() string {
	switch {
	case s.Cost == nil:
		return "-"
	case s.Cost.Monthly == "":
		return "unknown"
	}
	return fmt.Sprintf("%s %s/month", s.Cost.Monthly, s.Cost.Currency)
}

// print prints a step: what, why, what it writes, and what it waits for.
func (step Step) print(s iostreams.Streams, number int) {
	const indent = "   "
	if s.Width > 0 {
		s.Width = max(s.Width-len(indent), 20)
	}
	line := func(text string) { _, _ = fmt.Fprintf(s.Out, "%s%s\n", indent, s.Fold(text, indent+"  ")) }
	_, _ = fmt.Fprintf(s.Out, "%s  %s\n", s.Paint(iostreams.Bold, fmt.Sprintf("%d. %s", number, step.Name)), s.Paint(iostreams.Dim, "after "+lasting(step.BeginsSeconds)))
	line(step.Reason)
	guard, first := strings.Join(step.Guard, "; "), step.GuardFirst && len(step.Writes) > 0
	if first {
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
	_, _ = fmt.Fprintln(s.Out)
}

// lasting is a duration in words.
func lasting(seconds int) string { return (time.Duration(seconds) * time.Second).String() }
