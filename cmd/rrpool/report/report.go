// Package report is the command `rrpool report`. It packs what is needed to analyse a problem into one archive, without secrets.
package report

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/rrpool/snapshot"
	"github.com/rrpool/rrpool/cmd/version"
)

// flags holds the flags of `rrpool report`.
type flags struct {
	snapshot.Flags
	outputFile string
}

// New makes the command `rrpool report`.
func New(s iostreams.Streams) *cobra.Command {
	f := &flags{}
	cmd := iostreams.Command(&cobra.Command{
		Use:   "report",
		Short: "Put everything that is needed to help into one archive",
		Long: `Reads what is needed to find out why a cluster is as it is, and writes it to one archive: the RouteReflectorPool, nodes,
Calico's BGP objects, the manager with its logs, calico-node, events, versions, and what the manager would
do next. Its index.txt lists each file, and what could not be read and why. Missing rights are warnings, not errors.

Secrets are reduced to the names of their keys. What looks like a password, key or token is taken out of everything
else, and so is each value of a Secret that was read. Look into the archive before you send it: names of
nodes, addresses and labels are in it.`,
		Example: `  rrpool report
  rrpool report --output-file /tmp/report.tar.gz`,
	}, func(cmd *cobra.Command) error { return f.run(cmd, s) })
	set := cmd.Flags()
	set.StringVar(&f.outputFile, "output-file", "", "write the archive here; default: rrpool-report-<time>.tar.gz in the current folder")
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
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // G304: the file that the user names; it fails before anything is read
	if err != nil {
		return fmt.Errorf("--output-file: %q cannot be written: %w: name a file that is not there yet, in a folder that you may write to", path, iostreams.Reason(err))
	}
	written := false
	defer func() {
		if !written {
			_, _ = file.Close(), os.Remove(path)
		}
	}()
	connection, err := f.Connect()
	if err != nil {
		return err
	}
	r, err := newReader(connection, f.Namespace, now)
	if err != nil {
		return err
	}
	r.warn = func(text string) { _, _ = fmt.Fprintf(s.Err, "‼ %s\n", text) }
	_, _ = fmt.Fprintf(s.Err, "reading the cluster of context %q …\n", connection.Name)
	content, err := r.archive(cmd.Context(), folder)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("--output-file: writing %q: %w", path, iostreams.Reason(err))
	}
	written = true
	_, _ = fmt.Fprintf(s.Err, "next: look into it before you send it: tar -xzf %s -O %s/index.txt\n", path, folder)
	_, err = fmt.Fprintln(s.Out, path)
	return err //nolint:wrapcheck // iostreams.Run says it
}

// archive reads the contents of all files from the cluster and packs them. It fails if nothing could be read, or if ctx ends.
func (r *reader) archive(ctx context.Context, folder string) ([]byte, error) {
	var err error
	var unreachable *url.Error
	r.kubernetes, err = r.c.Version(ctx)
	if errors.As(err, &unreachable) || errors.Is(err, context.DeadlineExceeded) || apierrors.IsUnauthorized(err) {
		return nil, r.c.Explain(err, "get", "/version") // no further request would be answered
	}
	for _, part := range []func(context.Context){r.secrets, r.objects, r.events, r.logs, r.snapshot} {
		part(ctx)
		if ctx.Err() != nil {
			return nil, iostreams.ErrInterrupted
		}
	}
	if len(r.files) == 0 && r.first != nil {
		return nil, r.first
	}
	r.index()
	return pack(folder, r.files, r.now)
}

// index adds index.txt: the list of the files, and of what could not be read and why.
func (r *reader) index() {
	var out strings.Builder
	fmt.Fprintf(&out, "Report of %s, by %s\nCluster of context %s, %s, Kubernetes %s\n", r.now.Format(time.RFC3339), version.Get().Of(iostreams.Program),
		r.c.Name, r.c.Server, cmp.Or(r.kubernetes, "unknown"))
	var files []string
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		files = append(files, fmt.Sprintf("%s, %d bytes", name, len(r.files[name])))
	}
	section(&out, "Files", files)
	section(&out, "Not in the report", r.missing)
	fmt.Fprintf(&out, "\nOf Secrets only the names of their keys are here. Their values, and what looks like a password, key or token, are %s.\n", gone)
	r.add("index.txt", out.String())
}

func section(out *strings.Builder, title string, lines []string) {
	fmt.Fprintf(out, "\n%s\n  %s\n", title, cmp.Or(strings.Join(lines, "\n  "), "nothing"))
}

// pack makes the archive. The same arguments give the same bytes.
func pack(folder string, files map[string]string, now time.Time) ([]byte, error) {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err := archive.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: folder + "/" + name, Size: int64(len(files[name])), Mode: 0o600,
			ModTime: now.UTC().Truncate(time.Second), Format: tar.FormatPAX,
		})
		if err == nil {
			_, err = io.WriteString(archive, files[name])
		}
		if err != nil {
			return nil, fmt.Errorf("packing %s: %w", name, err)
		}
	}
	if err := errors.Join(archive.Close(), zipped.Close()); err != nil {
		return nil, fmt.Errorf("packing: %w", err)
	}
	return out.Bytes(), nil
}
