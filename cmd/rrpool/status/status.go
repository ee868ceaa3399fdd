// Package status is the command `rrpool status`: where a cluster is on its way to route
// reflectors, or back. Other commands use what it reads of the manager and the conditions.
package status

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// flags of `rrpool status`.
type flags struct {
	snapshot.Flags
	watch, wait, verbose bool
	interval, timeout    Period
	output               *iostreams.Choice
}

// New makes the command.
func New(s iostreams.Streams) *cobra.Command {
	f := &flags{
		interval: Period{Value: 2 * time.Second, Least: time.Second},
		timeout:  Period{Value: 10 * time.Minute, Least: time.Second},
		output:   iostreams.NewChoice("table", "json"),
	}
	cmd := &cobra.Command{
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
  rrpool status --wait --timeout 30m
  rrpool status -v -o json`,
		Args: iostreams.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, s) },
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.BoolVarP(&f.watch, "watch", "w", false, "show it again whenever it changes, until Ctrl-C")
	set.BoolVar(&f.wait, "wait", false, "return only when the cluster is where the object as it is now wants it")
	set.Var(&f.timeout, "timeout", "how long --wait waits")
	set.Var(&f.interval, "interval", "how often --watch and --wait look")
	set.BoolVarP(&f.verbose, "verbose", "v", false, "observe as the manager does and show everything")
	f.output.Register(cmd, "output", "o", "format: table or json")
	f.Register(set)
	CompleteNothing(cmd, "timeout", "interval")
	return cmd
}

func (f *flags) run(cmd *cobra.Command, s iostreams.Streams) error {
	if cmd.Flags().Changed("timeout") && !f.wait {
		return errors.New("--timeout: it says how long --wait waits, and --wait is missing: give both or none")
	}
	connection, err := f.Connect()
	if err != nil {
		return err
	}
	p := PhraseOf(cmd)
	p.watching = f.watch
	w := &watcher{
		Streams: s, phrase: p, render: tableOf, watch: f.watch, wait: f.wait,
		interval: f.interval.Value, timeout: f.timeout.Value, lines: f.output.Value == "json" || !s.Terminal,
		take: func(ctx context.Context) (*Facts, error) {
			return Take(ctx, connection, f.Namespace, f.verbose, s.Now())
		},
	}
	switch {
	case f.output.Value == "json":
		w.render = jsonOf
	case f.verbose:
		w.render = verboseOf
	}
	return w.run(cmd.Context())
}

// Show writes facts as a person reads them, for other commands.
func Show(s iostreams.Streams, p Phrase, f Facts) error { return show(s, newView(f, p), tableOf) }

func show(s iostreams.Streams, v view, render renderer) error {
	return s.Emit("status", "", func(s iostreams.Streams) error { return render(s, v) })
}

// CompleteNothing keeps the shell from offering files for these flags.
func CompleteNothing(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(nil, cobra.ShellCompDirectiveNoFileComp)))
	}
}

// Period is a flag for a length of time.
type Period struct{ Value, Least time.Duration }

// String implements pflag.Value.
func (p *Period) String() string { return p.Value.String() }

// Type implements pflag.Value.
func (*Period) Type() string { return "duration" }

// Set implements pflag.Value.
func (p *Period) Set(text string) error {
	value, err := time.ParseDuration(text)
	if err != nil || value < p.Least {
		return fmt.Errorf("use a time of %s or more, such as 30s, 5m or 2h", p.Least)
	}
	p.Value = value
	return nil
}

// Phrase makes commands for the user, as the user calls this program.
type Phrase struct {
	// program is how it is called, and cluster the flags that chose the cluster, with a
	// space before each.
	program, cluster string
	// kubectl has the same flags for kubectl, and namespace is the manager's.
	namespace string
	watching  bool
}

// PhraseOf takes over from a command what its next command needs.
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

// quoted is a word as a shell takes it.
func quoted(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\n'\"\\$&|;<>()*?[]{}#~`!") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Command is a command of this program, about the same cluster.
func (p Phrase) Command(words string) string {
	out := p.program + " " + words + p.cluster
	if p.namespace != snapshot.DefaultNamespace && (strings.HasPrefix(words, "status") || strings.HasPrefix(words, "migrate") || strings.HasPrefix(words, "rollback")) {
		out += " --namespace " + quoted(p.namespace)
	}
	return out
}

// Manager is the command that shows whether the manager runs.
func (p Phrase) Manager() string {
	return "kubectl" + p.cluster + " --namespace " + quoted(p.namespace) + " get deployment,pod"
}

// next is what to type next, empty for nothing.
func (p Phrase) next(f Facts, state State) string {
	switch state {
	case NoPool:
		return p.Command("plan")
	case Stale:
		return p.Manager()
	case Unknown, Degraded:
		if f.Snapshot == nil {
			return p.Command("status -v")
		}
	case Paused:
		if f.Object.Spec.Mode == v1alpha1.ModePaused {
			return p.Command("migrate") + ", or " + p.Command("rollback")
		}
	case Progressing, Deleting:
		if !p.watching {
			return p.Command("status --watch")
		}
	case Ready:
	}
	return ""
}
