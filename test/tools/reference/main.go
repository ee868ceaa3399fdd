// Command reference generates the reference of rrpool's commands: a page of Markdown, and manual pages. Manual pages have the month of
// SOURCE_DATE_EPOCH if that is set.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/rrpool/rrpool/cmd/rrpool/command"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

func main() {
	markdown := flag.String("markdown", "", "file for the page of Markdown")
	man := flag.String("man", "", "folder for manual pages")
	release := flag.String("version", "", "version that the manual pages are of")
	flag.Parse()
	if err := write(*markdown, *man, *release); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

// write writes the files. It empties the folder of manual pages first, to remove those of former commands.
func write(markdown, man, release string) error {
	root := command.New(iostreams.Program, iostreams.System())
	root.DisableAutoGenTag = true
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var errs []error
	if markdown != "" {
		errs = append(errs, os.WriteFile(markdown, []byte(page(root)), 0o600))
	}
	if man != "" {
		header := &doc.GenManHeader{Section: "1", Source: strings.TrimSpace(iostreams.Program + " " + release), Manual: "rrpool manual"}
		errs = append(errs, os.RemoveAll(man), os.MkdirAll(man, 0o750), doc.GenManTree(root, header, man))
	}
	return errors.Join(errs...)
}

// connection are the flags of every command that connects to a cluster.
var connection = []string{"kubeconfig", "context", "request-timeout", "namespace"}

func page(root *cobra.Command) string {
	var out strings.Builder
	shared := pflag.NewFlagSet("", pflag.ContinueOnError)
	out.WriteString("# Commands and flags\n\nGenerated from the commands; the flag `--help` of each says more, with examples. [Cluster flags](#cluster-flags) are at the end.\n")
	for _, c := range root.Commands() {
		if c.Name() == "help" || c.Hidden {
			continue
		}
		shells := make([]string, 0, len(c.Commands()))
		for _, shell := range c.Commands() {
			shells = append(shells, shell.Name())
		}
		use := strings.TrimSpace(c.CommandPath() + " " + strings.Join(shells, "|"))
		takes := c
		if len(shells) == 1 { // its only command has the flags
			takes = c.Commands()[0]
		}
		own := pflag.NewFlagSet("", pflag.ContinueOnError)
		own.SortFlags = false
		takes.LocalFlags().VisitAll(func(f *pflag.Flag) {
			switch {
			case !slices.Contains(connection, f.Name):
				own.AddFlag(f)
			case shared.Lookup(f.Name) == nil:
				shared.AddFlag(f)
			}
		})
		if takes.Flags().Lookup(connection[0]) != nil {
			use += " [cluster flags]"
		}
		fmt.Fprintf(&out, "\n## %s\n\n%s.\n```text\n%s\n%s```\n", c.Name(), c.Short, use, own.FlagUsages())
	}
	fmt.Fprintf(&out, "\n## Cluster flags\n\n```text\n%s```\n", shared.FlagUsages())
	return out.String()
}
