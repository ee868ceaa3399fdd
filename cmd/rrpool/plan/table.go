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

// tableOf renders for people.
func tableOf(s iostreams.Streams, v view) error {
	out := func(format string, args ...any) { _, _ = fmt.Fprintf(s.Out, format, args...) }
	out("%s\n%s\n\n", s.Paint(iostreams.Bold, s.Fold("What the manager will do", "")), s.Fold(v.Subject, ""))
	out("%s\n\n", shapes(s, v))
	caveats(s, v)
	for i, step := range v.Steps {
		steps(s, i+1, step)
	}
	outcome(s, v)
	if len(v.Notes) > 0 {
		out("\n%s\n", s.Fold(strings.Join(v.Notes, " "), ""))
	}
	if v.Next != "" {
		out("\n%s\n", s.Fold("Next: "+v.Next, "  "))
	}
	return nil
}

// caveats are what has to be known before the steps.
func caveats(s iostreams.Streams, v view) {
	say := func(colour, text string) { _, _ = fmt.Fprintf(s.Out, "%s\n\n", s.Paint(colour, s.Fold(text, "  "))) }
	if v.Now != nil && (v.Assumes != "" || len(v.Now.WaitingFor) > 0) {
		say("", fmt.Sprintf("Now: %s: %s%s", v.Now.Step, v.Now.Reason, waits(v.Now.WaitingFor)))
	}
	if v.Assumes != "" {
		say(iostreams.Yellow, "‼ "+v.Assumes)
	}
	if v.Obstacle != "" {
		say(iostreams.Yellow, "‼ First: "+v.Obstacle)
	}
}

// outcome is how the steps end, and what they cost.
func outcome(s iostreams.Streams, v view) {
	say := func(colour, text string) { _, _ = fmt.Fprintf(s.Out, "%s\n", s.Paint(colour, s.Fold(text, "  "))) }
	switch {
	case v.Problem != nil && len(v.Steps) > 0:
		say(iostreams.Red, fmt.Sprintf("× Then it stops: %s: %s", v.Problem.Reason, v.Problem.Message))
	case v.Problem != nil:
		say(iostreams.Red, fmt.Sprintf("× It does nothing: %s: %s", v.Problem.Reason, v.Problem.Message))
	case len(v.Steps) == 0 && v.Assumes != "":
		say("", "Otherwise there is nothing to do.")
	case len(v.Steps) == 0:
		say(iostreams.Green, "√ There is nothing to do.")
	default:
		say("", fmt.Sprintf("%d steps, about %s.", len(v.Steps), lasting(v.LastsSeconds)))
	}
	if len(v.LostAlready) > 0 {
		say(iostreams.Red, "× As it is, pods cannot be reached: those on "+few(v.LostAlready)+".")
	}
	if v.Settled && len(v.Steps) > 0 {
		_, _ = fmt.Fprintln(s.Out, losses(s, v))
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
	if c.Workers == 0 && c.Certainty == cost.Exact {
		return "-"
	}
	if c.Certainty == cost.Unknown {
		return "unknown"
	}
	if c.Certainty == cost.AtLeast {
		return fmt.Sprintf("≥%s %s/month", c.Monthly, c.Currency)
	}
	return fmt.Sprintf("%s %s/month", c.Monthly, c.Currency)
}

// steps prints a step: what, why, what it writes, and what it waits for.
func steps(s iostreams.Streams, number int, step Step) {
	const indent = "   "
	line := func(format string, args ...any) {
		_, _ = fmt.Fprintf(s.Out, "%s%s\n", indent, indented(s, indent).Fold(fmt.Sprintf(format, args...), indent+"  "))
	}
	head := fmt.Sprintf("%d. %s", number, step.Name)
	_, _ = fmt.Fprintf(s.Out, "%s  %s\n", s.Paint(iostreams.Bold, head), s.Paint(iostreams.Dim, "after "+lasting(step.BeginsSeconds)))
	line("%s", step.Reason)
	if step.GuardCount > 0 && step.GuardFirst && len(step.Writes) > 0 {
		line("… waits for %s", guard(step))
	}
	for _, w := range step.Writes {
		line("+ %s", w)
	}
	if step.ReportsAsked > 0 {
		line("? ask %s for a report of the sessions (CalicoNodeStatus)", iostreams.Number(step.ReportsAsked, "node"))
	}
	if step.GuardCount > 0 && (!step.GuardFirst || len(step.Writes) == 0) {
		line("… goes on after %s", guard(step))
	}
	_, _ = fmt.Fprintln(s.Out)
}

// indented is a terminal without the columns of the indent.
func indented(s iostreams.Streams, indent string) iostreams.Streams {
	if s.Width > 0 {
		s.Width = max(s.Width-len(indent), 20)
	}
	return s
}

// waits names the first few things that are waited for.
func waits(what []string) string {
	if len(what) == 0 {
		return ""
	}
	return "; it waits for " + few(what)
}

// few names the first three.
func few(what []string) string {
	const most = 3
	if len(what) <= most {
		return strings.Join(what, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(what[:most], "; "), len(what)-most)
}

// guard names the first two waits.
func guard(step Step) string {
	const few = 2
	text := strings.Join(step.Guard[:min(few, len(step.Guard))], "; ")
	if step.GuardCount > few {
		text += fmt.Sprintf("; and %d more", step.GuardCount-few)
	}
	return text
}

func losses(s iostreams.Streams, v view) string {
	if len(v.Loss) == 0 && v.Assumes != "" {
		return "No packet between pods is lost by these steps."
	}
	if len(v.Loss) == 0 {
		return s.Paint(iostreams.Green, s.Fold("√ No packet between pods is lost.", "  "))
	}
	var out []string
	for i, l := range v.Loss {
		if i == mostGuards {
			out = append(out, fmt.Sprintf("  and those on %d more nodes", len(v.Loss)-i))
			break
		}
		what := fmt.Sprintf("%s on %s", iostreams.Number(l.Pods, "pod"), l.Node)
		if l.Pods < 0 {
			what = "the pods on " + l.Node + ", if there are any"
		}
		out = append(out, s.Paint(iostreams.Yellow, s.Fold(fmt.Sprintf("‼ Packets are lost: %s, at %s (its reason says for how long).", what, l.Step), "  ")))
	}
	return strings.Join(out, "\n")
}

// lasting is a duration as people say it.
func lasting(seconds int) string {
	d := time.Duration(seconds) * time.Second
	switch {
	case seconds == 0:
		return "0 s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", seconds)
	case d < time.Hour && seconds%60 == 0:
		return fmt.Sprintf("%d min", seconds/60)
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", seconds/60, seconds%60)
	}
	return fmt.Sprintf("%d h %d min", seconds/3600, seconds/60%60)
}
