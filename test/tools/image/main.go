// Command image makes the manager's image without a daemon and without a registry: it
// compiles the manager for each platform, and writes one OCI archive that skopeo, crane,
// podman, containerd and docker load take. The same sources give the same bytes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// options are the flags.
type options struct {
	root, output, name, version, base string
	platforms                         []v1.Platform
	limit                             float64 // MB
}

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	stamp, err := stampOf(ctx, o.root, o.version)
	if err != nil {
		return err
	}
	bases, err := openBase(ctx, o.base, stamp.created)
	if err != nil {
		return err
	}
	defer bases.close()
	var images []platformImage
	for _, platform := range o.platforms {
		binary, err := compile(ctx, o.root, o.output, platform, stamp)
		if err != nil {
			return err
		}
		if err := account(ctx, o.root, binary); err != nil {
			return err
		}
		image, err := assemble(o.root, binary, platform, bases, stamp)
		if err == nil {
			err = fits(image, o.limit)
		}
		if err != nil {
			return fmt.Errorf("making the image for %s: %w", platform.String(), err)
		}
		images = append(images, platformImage{platform, image})
	}
	said, err := write(o.output, o.name+":"+stamp.tag(), images, stamp.created)
	if err != nil {
		return err
	}
	fmt.Print(said)
	return nil
}

func parse(args []string) (options, error) {
	var o options
	var platforms string
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", "../../..", "folder of the main module")
	flags.StringVar(&o.output, "output", "", "archive to write; default: bin/rrpool-manager-image.tar of the main module")
	flags.StringVar(&o.name, "name", "rrpool-manager", "name of the image; a registry may be part of it")
	flags.StringVar(&o.version, "version", "", "version of the release, v1.2.3; default: none, the tag is then dev")
	flags.StringVar(&o.base, "base", "",
		"image to build on: an OCI layout (folder or tar), or a registry's image by its digest; default: one that is made here")
	flags.Float64Var(&o.limit, "limit", 60, "what an image may have, in MB compressed")
	flags.StringVar(&platforms, "platforms", "linux/"+runtime.GOARCH, "platforms, with commas between them")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: flags only", flags.Arg(0))
	}
	if o.output == "" {
		o.output = o.root + "/bin/rrpool-manager-image.tar"
	}
	var err error
	if o.root, err = filepath.Abs(o.root); err != nil {
		return o, fmt.Errorf("-root: finding %q: %w", o.root, err)
	}
	for name := range strings.SplitSeq(platforms, ",") {
		platform, err := v1.ParsePlatform(name)
		if err != nil || platform.OS != "linux" || platform.Architecture == "" {
			return o, fmt.Errorf("-platforms: %q is no platform: use for example linux/amd64,linux/s390x", name)
		}
		o.platforms = append(o.platforms, *platform)
	}
	return o, nil
}
