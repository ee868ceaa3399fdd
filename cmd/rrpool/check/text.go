package check

import (
	"fmt"
	"strings"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/controllers/plan"
)

// marks and their colours.
var (
	marks   = map[Status]string{OK: "√", Note: "·", Warning: "‼", Error: "×"}
	colours = map[Status]string{OK: iostreams.Green, Note: iostreams.Dim, Warning: iostreams.Yellow, Error: iostreams.Red}
)

func jsonOf(s iostreams.Streams, v view) error { return iostreams.WriteJSON(s.Out, v) }

// tableOf renders for people, group by group.
func tableOf(s iostreams.Streams, v view) error {
	out := func(format string, args ...any) { _, _ = fmt.Fprintf(s.Out, format, args...) }
	title := "Is this cluster fit for rrpool?"
	if v.Pre {
		title = "Can rrpool be installed in this cluster?"
	}
	out("%s\n%s\n", s.Paint(iostreams.Bold, title), s.Fold(about(v), ""))
	links := linksFor(s, v)
	for _, g := range v.Groups {
		out("\n%s\n", s.Paint(iostreams.Bold, g.Name))
		for _, c := range g.Checks {
			out("%s\n", s.Paint(colours[c.Status], marks[c.Status])+" "+s.Fold(c.Message, "  "))
			for _, detail := range c.Details {
				out("    %s\n", s.Fold(detail, "    "))
			}
			if c.Remedy != "" {
				out("  %s\n", s.Fold("→ "+c.Remedy, "    "))
			}
			if c.Link != "" {
				out("  %s\n", s.Paint(iostreams.Dim, links.of(c.Link)))
			}
		}
	}
	out("\n%s\n", s.Fold(summary(v), ""))
	if links.base != "" {
		out("%s\n", s.Paint(iostreams.Dim, links.base))
	}
	out("\n%s\n", s.Fold(nextLine(v), "  "))
	return nil
}

// shortOf renders what is not right, one to a line, and the sum of it.
func shortOf(s iostreams.Streams, v view) error {
	for _, g := range v.Groups {
		for _, c := range g.Checks {
			if c.Status != OK {
				_, _ = fmt.Fprintf(s.Out, "%s\n", s.Paint(colours[c.Status], marks[c.Status])+" "+s.Fold(c.ID+": "+c.Message, "  "))
			}
		}
	}
	_, _ = fmt.Fprintf(s.Out, "%s\n", s.Fold(summary(v), ""))
	return nil
}

func about(v view) string { return fmt.Sprintf("context %s, %s", v.Cluster, v.Server) }

// summary is the sum of it in one line.
func summary(v view) string {
	n, verdict := v.Counts, "Fit"
	switch {
	case !v.Fit:
		verdict = "Not fit"
	case n.Unchecked > 0:
		verdict = "Fit, as far as could be seen"
	}
	out := fmt.Sprintf("%s: %d ×, %d ‼, %d ·, %d √", verdict, n.Errors, n.Warnings, n.Notes, n.OK)
	if n.Unchecked > 0 {
		out += fmt.Sprintf("; %s", count(n.Unchecked, "thing could not be checked", "things could not be checked"))
	}
	return out
}

func nextLine(v view) string {
	if v.Fit {
		return "Next: " + v.Next
	}
	return "Put right what is marked ×, then: " + v.Next
}

// links are shown whole where the terminal is wide enough for all of them, as a link
// that is broken in two leads nowhere. Elsewhere what they begin with is shown once.
type links struct{ base string }

func linksFor(s iostreams.Streams, v view) links {
	for _, g := range v.Groups {
		for _, c := range g.Checks {
			if s.Width > 0 && len(c.Link)+2 > s.Width {
				return links{base: "docs/ is " + plan.Docs}
			}
		}
	}
	return links{}
}

func (l links) of(link string) string {
	if l.base == "" {
		return link
	}
	return "docs/" + strings.TrimPrefix(link, plan.Docs)
}
