// Package report is the command that puts everything that is needed to help into one
// archive, without its secrets.
package report

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

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
	file, err := iostreams.Temporary(path) // it fails before anything is read
	if err != nil {
		return err
	}
	defer func() { _, _ = file.Close(), os.Remove(file.Name()) }()
	connection, err := f.Connect()
	if err != nil {
		return err
	}
	r, err := newReader(connection, f.Namespace, int64(f.lines.Value), now)
	if err != nil {
		return err
	}
	r.warn = func(text string) { _, _ = fmt.Fprintf(s.Err, "‼ %s\n", text) }
	_, _ = fmt.Fprintf(s.Err, "reading the cluster of context %q …\n", connection.Name)
	content, err := r.archive(cmd.Context(), folder)
	if err != nil {
		return err
	}
	if err := iostreams.Put(file, path, 0o600, content); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(s.Err, "next: look into it before you send it to anybody: tar -xzf %s -O %s/index.txt\n", path, folder)
	_, err = fmt.Fprintln(s.Out, path)
	return err //nolint:wrapcheck // iostreams.Run says it
}

// archive reads everything and packs it. It fails when nothing could be read or the reading is interrupted.
func (r *reader) archive(ctx context.Context, folder string) ([]byte, error) {
	if err := r.reach(ctx); err != nil {
		return nil, err
	}
	for _, part := range []func(context.Context){r.secrets, r.objects, r.clusterInfo, r.logs, r.snapshot, r.keepVersions} {
		part(ctx)
		if ctx.Err() != nil {
			return nil, iostreams.ErrInterrupted
		}
	}
	if len(r.entries) <= 1 && r.first != nil { // the versions alone, which need no cluster
		return nil, r.first
	}
	r.index()
	return pack(folder, r.entries, r.now)
}

// index lists each file, what could not be read and why, and what was cut.
func (r *reader) index() {
	var out strings.Builder
	fmt.Fprintf(&out, "rrpool report of %s\ncluster of context %s, %s\n\nFiles\n", r.now.Format(time.RFC3339), r.c.Name, r.c.Server)
	files := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, e := range sorted(r.entries) {
		_, _ = fmt.Fprintf(files, "  %s\t%s, %d bytes\n", e.name, e.what, len(e.content))
	}
	_ = files.Flush() // a strings.Builder takes everything
	section(&out, "Not in the report", r.missing)
	section(&out, "Cut", r.cut)
	section(&out, "Left out or made unreadable, always", []string{
		"values of Secrets: only the names of their keys are here",
		"values that look like passwords, keys or tokens, and each value of a Secret that was read, wherever else they stand: " + gone,
		"managed fields, and kubectl's copy of objects (last-applied-configuration)",
		"ConfigMap kube-system/cluster-info but for the cluster's id; kubeconfigs",
	})
	r.add("index.txt", "this list", out.String())
}

func section(out *strings.Builder, title string, lines []string) {
	fmt.Fprintf(out, "\n%s\n", title)
	if len(lines) == 0 {
		out.WriteString("  nothing\n")
	}
	for _, line := range lines {
		out.WriteString("  " + line + "\n")
	}
}

// entry is one file of the archive.
type entry struct {
	name, what string
	content    []byte
}

func sorted(entries []entry) []entry {
	return slices.SortedFunc(slices.Values(entries), func(a, b entry) int { return cmp.Compare(a.name, b.name) })
}

// pack makes the archive: the same entries give the same bytes.
func pack(folder string, entries []entry, now time.Time) ([]byte, error) {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	for _, e := range sorted(entries) {
		err := archive.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: folder + "/" + e.name, Size: int64(len(e.content)), Mode: 0o600,
			ModTime: now.UTC().Truncate(time.Second), Format: tar.FormatPAX,
		})
		if err == nil {
			_, err = archive.Write(e.content)
		}
		if err != nil {
			return nil, fmt.Errorf("packing %s: %w", e.name, err)
		}
	}
	if err := errors.Join(archive.Close(), zipped.Close()); err != nil {
		return nil, fmt.Errorf("packing: %w", err)
	}
	return out.Bytes(), nil
}
