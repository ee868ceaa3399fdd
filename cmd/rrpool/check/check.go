// Package check is the command `rrpool check`. It reports whether a cluster is fit for rrpool, and a remedy for each problem.
package check

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/controllers/plan"
)

// flags holds the flags of `rrpool check`.
type flags struct {
	snapshot.Flags
	pre      bool
	filename string
	output   string
}

// New makes the command `rrpool check`.
func New(s iostreams.Streams) *cobra.Command {
	f := &flags{}
	cmd := iostreams.Command(&cobra.Command{
		Use:   "check",
		Short: "Whether the cluster is fit, and what to do where it is not",
		Long: `Whether the cluster is fit for rrpool: Kubernetes and rights, rrpool itself, Calico, the nodes, and where route
reflectors come from. Every failure has a remedy, and a page that explains it. Nothing is changed.

√ right   · something to know   ‼ rrpool works, but look   × rrpool does not work, or refuses to

What could not be looked at is ‼, never √. With --pre, what installing rrpool brings is no failure while it is not
there yet.

Exit code 0 when there is no ×, 1 when there is one, or no answer.`,
		Example: `  rrpool check --pre
  rrpool check
  rrpool check --filename pool.yaml`,
	}, func(cmd *cobra.Command) error { return f.run(cmd, s) })
	set := cmd.Flags()
	set.BoolVar(&f.pre, "pre", false, "check whether rrpool can be installed")
	iostreams.File(cmd, &f.filename, "check for the RouteReflectorPool in this file, - for standard input, instead of the cluster's")
	iostreams.Output(cmd, &f.output)
	f.Register(set)
	return cmd
}

func (f *flags) run(cmd *cobra.Command, s iostreams.Streams) error {
	object, err := snapshot.Object(f.filename, s.In)
	if err != nil {
		return err
	}
	connection, err := f.Connect()
	if err != nil {
		return err
	}
	found, err := f.gather(cmd.Context(), connection, object, s.Now())
	if err != nil {
		return err
	}
	v := judge(found, strings.TrimSuffix(cmd.CommandPath(), " "+cmd.Name()))
	if err := s.Print("answer", f.output, v, v.print); err != nil {
		return err
	}
	if !v.Fit {
		return iostreams.ExitError(1)
	}
	return nil
}

// marks and colours give the sign and the colour of each status.
var (
	marks   = map[Status]string{OK: "√", Note: "·", Warning: "‼", Error: "×"}
	colours = map[Status]string{OK: iostreams.Green, Note: iostreams.Dim, Warning: iostreams.Yellow, Error: iostreams.Red}
)

// print renders the answer as text.
func (v view) print(s iostreams.Streams) {
	title, next := "Is this cluster fit for rrpool?", "Next: "
	if v.Pre {
		title = "Can rrpool be installed in this cluster?"
	}
	if !v.Fit {
		next = "Put right what is marked ×, then: "
	}
	s.Say(iostreams.Bold, "", title)
	s.Say("", "", fmt.Sprintf("context %s, %s", v.Cluster, v.Server))
	for _, g := range v.Groups {
		s.Say(iostreams.Bold, "", "\n"+g.Name)
		for _, c := range g.Checks {
			c.table(s)
		}
	}
	s.Say("", "", "\n"+summary(v))
	s.Say("", "  ", "\n"+next+v.Next)
}

func (r Result) table(s iostreams.Streams) {
	_, _ = fmt.Fprintf(s.Out, "%s %s\n", s.Paint(colours[r.Status], marks[r.Status]), s.Fold(r.Message, "  "))
	for _, detail := range r.Details {
		s.Say("", "    ", "    "+detail)
	}
	if r.Remedy != "" {
		s.Say("", "    ", "  → "+r.Remedy)
	}
	if page, found := strings.CutPrefix(r.Link, plan.Docs); found {
		_, _ = fmt.Fprintf(s.Out, "  %s\n", s.Paint(iostreams.Dim, s.Page(page, "  ")))
	}
}

// summary returns the line with the verdict and the counts.
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
		out += fmt.Sprintf("; %d could not be checked", n.Unchecked)
	}
	return out
}
