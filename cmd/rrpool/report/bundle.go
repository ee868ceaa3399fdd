// Package report is the command that puts everything that is needed to help into one
// archive, without anybody's secrets.
package report

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
)

// flags of `rrpool report`.
type flags struct {
	snapshot.Flags
	outputFile string
	lines      iostreams.Count
}

// New makes the command.
func New(s iostreams.Streams) *cobra.Command {
	f := &flags{lines: iostreams.Count{Value: 5000, Least: 1, Most: 100000}}
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Put everything that is needed to help into one archive",
		Long: `Reads what is needed to find out why a cluster is as it is, and writes it to one archive: the RouteReflectorPool, nodes,
Calico's BGP objects, the manager with its logs, calico-node, events, versions, and what the manager would
do next. Its index.txt lists each file, and what could not be read and why. Missing rights are warnings, not errors.

Secrets are reduced to the names of their keys. What looks like a password, key or token is taken out of everything
else, and so is each value of a Secret that was read. Look into the archive before you send it to anybody: names of
nodes, addresses and labels are in it.`,
		Example: `  rrpool report
  rrpool report --output-file /tmp/report.tar.gz --log-lines 20000`,
		Args: iostreams.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, s) },
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.StringVar(&f.outputFile, "output-file", "", "write the archive here; default: rrpool-report-<time>.tar.gz in the current folder")
	set.Var(&f.lines, "log-lines", "last lines of each log")
	f.Register(set)
	return cmd
}

func (f *flags) run(cmd *cobra.Command, s iostreams.Streams) error {
	now := s.Now().UTC()
	folder := "rrpool-report-" + now.Format("20060102T150405Z")
	path := f.outputFile
	if path == "" {
		path = folder + ".tar.gz"
	}
	if err := probe(path); err != nil {
		return err
	}
	connection, err := f.Connect()
	if err != nil {
		return err
	}
	r, err := newReader(connection, f.Namespace, int64(f.lines.Value), now)
	if err != nil {
		return err
	}
	r.tell = func(text string) { _, _ = fmt.Fprintf(s.Err, "‼ %s\n", text) }
	_, _ = fmt.Fprintf(s.Err, "reading the cluster of context %q …\n", connection.Name)
	content, err := r.archive(cmd.Context(), folder)
	if err != nil {
		return err
	}
	if err := write(cmd.Context(), path, content); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(s.Err, "next: look into it before you send it to anybody: tar -xzf %s -O %s/index.txt\n", path, folder)
	_, err = fmt.Fprintln(s.Out, path)
	return err //nolint:wrapcheck // iostreams.Run says it
}

// archive reads everything and packs it. It fails when nothing could be read.
func (r *reader) archive(ctx context.Context, folder string) ([]byte, error) {
	if err := r.reach(ctx); err != nil {
		return nil, err
	}
	for _, part := range []func(context.Context){
		r.secrets, r.ours, r.nodes, r.calico, r.manager, r.calicoNode, r.events, r.clusterInfo, r.logs, r.snapshot, r.versions,
	} {
		part(ctx)
		if ctx.Err() != nil {
			return nil, iostreams.ErrInterrupted
		}
	}
	if len(r.entries) <= ownEntries && r.first != nil {
		return nil, r.first
	}
	r.index()
	return pack(folder, r.entries, r.now)
}

// ownEntries are made without the cluster: the versions of this program.
const ownEntries = 1
