// Package simulate is the command that says what a topology makes of a cluster of any
// size, and which failures it survives.
package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/rrpool/rrpool/cmd/rrpool/invent"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/controllers/plan/simulate"
)

// request is what the flags ask.
type request struct {
	invent.Flags
	output  string
	compare bool
	// cluster is what they and the file come to.
	cluster invent.Cluster
}

// New makes the command.
func New(s iostreams.Streams) *cobra.Command {
	r := &request{}
	cmd := iostreams.Command(&cobra.Command{
		Use:   "simulate",
		Short: "What a topology makes of a cluster of any size, and what it survives",
		Long: `What a topology makes of a cluster of any size: how many reflectors and BGPPeers it takes, how many clients, sessions
and paths there are, how much memory BIRD needs, and whether any zone, and how many reflectors, may fail.

No cluster is asked. The manager's own planner arranges the nodes, and BGP is simulated as Calico configures BIRD.
--nodes counts the nodes that run workloads, --reflectors the pool. -f names a file with a RouteReflectorPool.

Exit codes: 0 there is an answer, 1 there is none, or the manager would refuse what was asked about.`,
		Example: `  rrpool simulate --nodes 2000 --zones 3 --topology quorum
  rrpool simulate --nodes 2000 --zones 3 --compare
  rrpool simulate --nodes 5000 --racks 10 --topology hierarchy
  rrpool simulate -f pool.yaml --nodes 500 -o json`,
	}, func(cmd *cobra.Command) error { return r.run(cmd, s) })
	r.Register(cmd, v1alpha1.TopologyAuto)
	cmd.Flags().BoolVar(&r.compare, "compare", false, "all topologies beside each other, and which one Auto takes")
	iostreams.Output(cmd, &r.output)
	cmd.MarkFlagsMutuallyExclusive("compare", "topology")
	return cmd
}

func (r *request) run(cmd *cobra.Command, s iostreams.Streams) error {
	var err error
	if r.cluster, err = r.Cluster(cmd, s); err != nil {
		return err
	}
	v, err := r.answer()
	if err != nil {
		return err
	}
	if err := s.Print("simulation", r.output, v, func(s iostreams.Streams) { printTable(s, v) }); err != nil {
		return err
	}
	if refused := v.Topologies[0].Refused; !r.compare && refused != nil {
		return errors.New(refused.Reason + ": " + refused.Message)
	}
	return nil
}

// printTable renders for people.
func printTable(s iostreams.Streams, v view) {
	s.Say(iostreams.Bold, "", v.Subject)
	if len(v.Topologies) > 1 || v.Topologies[0].Figures != nil {
		_, _ = fmt.Fprintf(s.Out, "\n%s\n", rows(v))
	}
	s.Say("", "", "")
	colours := map[string]string{"×": iostreams.Red, "‼": iostreams.Yellow, "√": iostreams.Green}
	for _, note := range notes(v) {
		symbol, _, _ := strings.Cut(note, " ")
		s.Say(colours[symbol], "  ", note)
	}
}

// rows has a row for each figure, and a column for each topology. Beside each other they
// show the most that a node has; a single one shows the mean as well.
func rows(v view) string {
	compared, header := len(v.Topologies) > 1, []any{""}
	for _, t := range v.Topologies {
		if compared && t.Type == string(v1alpha1.TopologyMultiCluster) {
			t.Type = "Multi-\nCluster"
		}
		header = append(header, t.Type)
	}
	names := len(header)
	if compared {
		names = 1
	}
	w := iostreams.NewTable(0, names, header...)
	kind := reflect.TypeFor[figures]()
	for i := range kind.NumField() {
		name := kind.Field(i).Tag.Get("row")
		row := table.Row{name}
		for _, t := range v.Topologies {
			cell := "-"
			if t.Figures != nil {
				cell = words(reflect.ValueOf(*t.Figures).Field(i).Interface(), compared)
			}
			row = append(row, cell)
		}
		w.AppendRow(row)
	}
	return w.Render()
}

// words is a figure in a cell.
func words(figure any, compared bool) string {
	switch f := figure.(type) {
	case int:
		return brief(uint64(f)) //nolint:gosec // G115: a count
	case span:
		if compared || f.Least == f.Most {
			return fmt.Sprint(f.Most)
		}
		return fmt.Sprintf("%d to %d, %d on average", f.Least, f.Most, f.Mean)
	case simulate.Count:
		if f.More {
			return "≥" + brief(f.Paths)
		}
		return brief(f.Paths)
	case []string:
		return cmp.Or(strings.Join(f, ", "), "none")
	}
	return fmt.Sprint(figure)
}

// brief is a number of at most six characters.
func brief(n uint64) string {
	value := float64(n)
	for _, unit := range []string{"k", "M", "G", "T", "P", "E"} {
		if value /= 1000; n >= 1_000_000 && value < 1000 {
			return fmt.Sprintf("%.1f%s", value, unit)
		}
	}
	return fmt.Sprint(n)
}

// notes say what the figures come to.
func notes(v view) []string {
	var out []string
	note := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, t := range slices.DeleteFunc(slices.Clone(v.Topologies), func(t topologyView) bool { return t.Refused == nil }) {
		note("× rrpool refuses %s: %s: %s", t.Type, t.Refused.Reason, t.Refused.Message)
	}
	switch {
	case len(v.Topologies) > 1 && v.Auto == "":
		return append(out, "‼ Auto takes none of them.")
	case len(v.Topologies) > 1:
		return append(out, "√ Auto takes "+v.Auto+".")
	}
	switch f := v.Topologies[0].Figures; {
	case f == nil:
	case f.SurvivesAny > 0:
		note("√ Any %s may fail: every client keeps a route to every other.", iostreams.Number(f.SurvivesAny, "reflector"))
	default:
		note("‼ The loss of one reflector can cut clients off from each other.")
	}
	return out
}
