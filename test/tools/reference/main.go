// Command reference writes what is generated from the commands of rrpool: a page of
// Markdown, manual pages, and completions for shells. Manual pages have the month of
// SOURCE_DATE_EPOCH where that is set.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
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
	completions := flag.String("completions", "", "folder for completions")
	flag.Parse()
	if err := write(*markdown, *man, *release, *completions); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

// write makes the files that are named. Folders are emptied first: a command that is gone leaves no page behind.
func write(markdown, man, release, completions string) error {
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
		errs = append(errs, empty(man), doc.GenManTree(root, header, man))
	}
	if completions != "" {
		errs = append(errs, empty(completions), complete(root, completions))
	}
	return errors.Join(errs...)
}

// connection are the flags of every command that asks a cluster.
var connection = []string{"kubeconfig", "context", "request-timeout", "namespace"}

// page has each command with its flags.
func page(root *cobra.Command) string {
	var out strings.Builder
	shared := pflag.NewFlagSet("", pflag.ContinueOnError)
	out.WriteString("# Commands and flags\n\nGenerated from the commands; the flag `--help` of each says more, with examples. [Cluster flags](#cluster-flags) are at the end.\n")
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			continue
		}
		shells := make([]string, 0, len(c.Commands()))
		for _, shell := range c.Commands() {
			shells = append(shells, shell.Name())
		}
		use := strings.TrimSpace(c.CommandPath() + " " + strings.Join(shells, "|"))
		own := pflag.NewFlagSet("", pflag.ContinueOnError)
		own.SortFlags = false
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			switch {
			case !slices.Contains(connection, f.Name):
				own.AddFlag(f)
			case shared.Lookup(f.Name) == nil:
				shared.AddFlag(f)
			}
		})
		if c.Flags().Lookup(connection[0]) != nil {
			use += " [cluster flags]"
		}
		fmt.Fprintf(&out, "\n## %s\n\n%s.\n```text\n%s\n%s```\n", c.Name(), c.Short, use, own.FlagUsages())
	}
	fmt.Fprintf(&out, "\n## Cluster flags\n\n```text\n%s```\n", shared.FlagUsages())
	return out.String()
}

// complete writes a file for each shell, called as the shell wants it, and one that
// completes kubectl rrpool: kubectl runs it by this name, whatever the shell.
func complete(root *cobra.Command, folder string) error {
	plugin := filepath.Join(folder, "kubectl_complete-"+iostreams.Program)
	return errors.Join(
		root.GenBashCompletionFileV2(filepath.Join(folder, iostreams.Program+".bash"), true),
		root.GenZshCompletionFile(filepath.Join(folder, "_"+iostreams.Program)),
		root.GenFishCompletionFile(filepath.Join(folder, iostreams.Program+".fish"), true),
		root.GenPowerShellCompletionFileWithDesc(filepath.Join(folder, iostreams.Program+".ps1")),
		os.WriteFile(plugin, []byte("#!/bin/sh\nexec kubectl "+iostreams.Program+" __complete \"$@\"\n"), 0o755), //nolint:gosec // G306: kubectl runs it
	)
}

func empty(folder string) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	return os.MkdirAll(folder, 0o750)
}
