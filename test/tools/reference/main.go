// Command reference writes the pages that are generated from the commands of rrpool:
// Markdown, and with -man manual pages.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/spf13/cobra/doc"

	"github.com/rrpool/rrpool/cmd/rrpool/command"
	"github.com/rrpool/rrpool/cmd/rrpool/terminal"
)

func main() {
	markdown := flag.String("markdown", "", "folder for Markdown pages")
	man := flag.String("man", "", "folder for manual pages")
	flag.Parse()
	if err := write(*markdown, *man); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

// write fills the folders that are named, and empties them first: a command that is
// gone leaves no page behind.
func write(markdown, man string) error {
	root := command.New(terminal.Program, terminal.System())
	root.DisableAutoGenTag = true
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var errs []error
	if markdown != "" {
		errs = append(errs, empty(markdown), doc.GenMarkdownTree(root, markdown))
	}
	if man != "" {
		header := &doc.GenManHeader{Section: "1", Source: terminal.Program, Manual: "rrpool manual"}
		errs = append(errs, empty(man), doc.GenManTree(root, header, man))
	}
	return errors.Join(errs...)
}

func empty(folder string) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	return os.MkdirAll(folder, 0o750)
}
