package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/cmd/version"
)

// versionSchema names the form of `version -o json`.
const versionSchema = "rrpool.io/version/v1"

// build is what is known about this program.
type build struct {
	SchemaVersion string `json:"schemaVersion"`
	version.Info
}

func newVersion(s iostreams.Streams) *cobra.Command {
	output := iostreams.NewChoice("text", "json")
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which version this is",
		Args:  iostreams.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			info := version.Get()
			if output.Value == "json" {
				return iostreams.WriteJSON(s.Out, build{SchemaVersion: versionSchema, Info: info})
			}
			_, err := fmt.Fprintln(s.Out, info.Of(iostreams.Program))
			return err //nolint:wrapcheck // iostreams.Run says it
		},
	}
	output.Register(cmd, "output", "o", "format: text or json")
	return cmd
}
