// Command release makes what a release consists of, and then does with it what a user
// does: it publishes nothing, and needs no tag and no network but for Go modules.
//
//	release [-root .] [-out bin/release] [-version v1.2.3] [-targets linux_amd64,…] [-check]
//
// Each target gives an archive with the command line, its completions, manual pages and
// licences, and an SBOM beside it. Then come the manifests of the manager, the manifest
// for krew, and the sums of all of them. The same commit gives the same bytes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// options are the flags.
type options struct {
	root, out, version string
	image              string // of the manager, without a tag
	targets            []target
	check              bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := release(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func release(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if !o.check {
		if err := assemble(ctx, o, out); err != nil {
			return err
		}
	}
	return check(ctx, o.out, filepath.Join(o.root, "docs", "install-cli.md"), out)
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", ".", "folder of the main module")
	flags.StringVar(&o.out, "out", filepath.Join("bin", "release"), "folder for the release; what is in it goes away")
	flags.StringVar(&o.version, "version", "", "version, as v1.2.3; default: one that is made of the last commit")
	flags.StringVar(&o.image, "image", "ghcr.io/rrpool/rrpool-manager", "image that the manifests name, without a tag")
	names := flags.String("targets", "", "some of the targets, as linux_amd64,darwin_arm64; default: all")
	flags.BoolVar(&o.check, "check", false, "make nothing, only check what is in the folder")
	if err := flags.Parse(args); err != nil {
		return o, fmt.Errorf("reading the flags: %w", err)
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	var err error
	if o.targets, err = targets(*names); err != nil {
		return o, fmt.Errorf("-targets: %w", err)
	}
	for _, path := range []*string{&o.root, &o.out} {
		if *path, err = filepath.Abs(*path); err != nil {
			return o, fmt.Errorf("finding %q: %w", *path, err)
		}
	}
	return o, nil
}
