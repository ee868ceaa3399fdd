package simulate

import (
	"github.com/spf13/cobra"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/test/cli"
)

// commandOf registers the flags, without running anything.
func commandOf(f *flags) *cobra.Command {
	cmd := &cobra.Command{Use: "simulate"}
	f.register(cmd)
	return cmd
}

func streams() iostreams.Streams { return cli.Defaults(iostreams.Streams{}) }
