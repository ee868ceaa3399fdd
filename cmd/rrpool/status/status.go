// Package status is the command `rrpool status`. It shows where a cluster is on its way to route
// reflectors, or back to the mesh. Other commands use it to read the manager's state and the conditions.
package status

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
)

// flags holds the flags of `rrpool status`.
type flags struct {
	snapshot.Flags
	watch, verbose bool
	output         string
}

// New makes the command `rrpool status`.
func New(s iostreams.Streams) *cobra.Command {
	f := &flags{}
	cmd := iostreams.Command(&cobra.Command{
		Use:   "status",
		Short: "Where the cluster is, and what it waits for",
		Long: `Where the cluster is on its way to route reflectors or back to the mesh: the mode, the step and what it waits
for, the reflectors of each zone with their sessions, bad conditions with what to do about them, the newest events,
and what the pool costs.

It shows what the manager reports, and says so when the manager does not run or has not observed the object as
it is now. With -v it observes the cluster as the manager does, and names the nodes that are short of
sessions, the workers of the pool, and all conditions.`,
		Example: `  rrpool status
  rrpool status --watch
  rrpool status -v -o json`,
	}, func(cmd *cobra.Command) error { return f.run(cmd, s) })
	set := cmd.Flags()
	set.BoolVarP(&f.watch, "watch", "w", false, "show it again whenever it changes, until Ctrl-C")
	set.BoolVarP(&f.verbose, "verbose", "v", false, "observe as the manager does and show everything")
	iostreams.Output(cmd, &f.output)
	f.Register(set)
	return cmd
}

func (f *flags) run(cmd *cobra.Command, s iostreams.Streams) error {
	connection, err := f.Connect()
	if err != nil {
		return err
	}
	p := PhraseOf(cmd)
	p.watching, p.verbose = f.watch, f.verbose
	w := &watcher{Streams: s, flags: f, take: func(ctx context.Context) (*Status, error) { return Take(ctx, connection, p, s.Now()) }}
	return w.run(cmd.Context())
}

// Phrase builds commands for the user to type. They name this program as the user calls it, and choose the same cluster.
type Phrase struct {
	// program is how the user calls this program. cluster has the flags that chose the cluster, with a space before each; kubectl knows them too.
	program, cluster string
	// namespace is the namespace of the manager.
	namespace string
	// watching and verbose are the flags of `rrpool status`.
	watching, verbose bool
}

// PhraseOf returns the Phrase of the flags of a command.
func PhraseOf(cmd *cobra.Command) Phrase {
	p := Phrase{program: cmd.Root().CommandPath(), namespace: snapshot.DefaultNamespace}
	for _, name := range []string{"kubeconfig", "context"} {
		if flag := cmd.Flags().Lookup(name); flag != nil && flag.Changed {
			p.cluster += " --" + name + " " + quoted(flag.Value.String())
		}
	}
	if flag := cmd.Flags().Lookup("namespace"); flag != nil {
		p.namespace = flag.Value.String()
	}
	return p
}

// quoted quotes a word for a shell.
func quoted(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\n'\"\\$&|;<>()*?[]{}#~`!") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Command returns words as a command of this program, for the same cluster.
func (p Phrase) Command(words string) string {
	out := p.program + " " + words + p.cluster
	if p.namespace != snapshot.DefaultNamespace {
		out += " --namespace " + quoted(p.namespace)
	}
	return out
}

// Manager returns the command that shows whether the manager runs.
func (p Phrase) Manager() string {
	return "kubectl" + p.cluster + " --namespace " + quoted(p.namespace) + " get deployment,pod"
}

// next returns the command that the user should run next, empty for none.
func (p Phrase) next(s *Status) string {
	switch {
	case s.State == NoPool:
		return p.Command("plan")
	case s.State == Stale:
		return p.Manager()
	case s.State == Paused:
		return p.Command("migrate") + ", or " + p.Command("rollback")
	case (s.State == Unknown || s.State == Degraded) && !p.verbose:
		return p.Command("status -v")
	case (s.State == Progressing || s.State == Deleting) && !p.watching:
		return p.Command("status --watch")
	}
	return ""
}

// interval is how often --watch reads the cluster.
const interval = 2 * time.Second

// watcher shows the status once, or with --watch until Ctrl-C.
type watcher struct {
	iostreams.Streams
	*flags
	take func(context.Context) (*Status, error)

	shown   Status
	problem string
}

func (w *watcher) run(ctx context.Context) error {
	s, err := w.take(ctx)
	if err != nil {
		return err
	}
	if !w.watch {
		return w.show(s)
	}
	for {
		if err := w.append(s); err != nil {
			return err
		}
		w.Sleep(interval, ctx.Done())
		fresh, err := w.take(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // Ctrl-C is how a watch ends
		case err != nil:
			w.failed(err)
		default:
			s, w.problem = fresh, ""
		}
	}
}

func (w *watcher) show(s *Status) error {
	return w.Print("status", w.output, s, func(to iostreams.Streams) { page{to, s, w.verbose}.render() })
}

// append writes the status below the previous one, if more than GeneratedAt has changed.
func (w *watcher) append(s *Status) error {
	before := w.shown
	w.shown = *s
	w.shown.GeneratedAt.Reset()
	if equality.Semantic.DeepEqual(before, w.shown) {
		return nil
	}
	switch {
	case before.SchemaVersion == "": // nothing was written before
	case w.output == "yaml":
		_, _ = fmt.Fprintln(w.Out, "---")
	default:
		_, _ = fmt.Fprintln(w.Out)
	}
	return w.show(s)
}

// failed reports that the cluster cannot be read, once for each new error.
func (w *watcher) failed(err error) {
	problem := "what is shown is old: " + iostreams.Sentence(err)
	if problem != w.problem {
		_, _ = fmt.Fprintf(w.Err, "‼ %s; trying again every %s\n", problem, interval)
	}
	w.problem = problem
}
