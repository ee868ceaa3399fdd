package status

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

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
		if f.Survey == nil {
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
